"""Messages of every kind as a night gives them, hostile ones included: what renderers and pictures are shown with."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from collector.host.notify.build import FindingEvent, finding_message
from collector.host.notify.digest import digest_message
from collector.host.notify.hours import parse_digest
from collector.host.notify.links import with_acts
from collector.host.notify.message import Message
from collector.host.notify.notices import quarantine_messages
from collector.host.notify.routes import Route
from collector.host.notify.secrets import Reference, Secret

NIGHT = datetime(2026, 11, 29, 3, 10, tzinfo=UTC)
BASE = "https://observatory.example.com"
LINK_SECRET = Secret("a secret of the host and its dashboard")
TREND = (1.0, 1.01, 0.99, 1.0, 1.0, 0.995, 1.01, 1.005, 1.0, 0.99, 1.0, 1.01, 1.0, 1.004, 0.997)
HOSTILE = (
    "<!channel>",
    "@everyone",
    "<img src=x onerror=alert(1)>",
    "attn\u202egnp.exe\u202c",
    "bell\x07 null\x00 escape\x1b[31m line\nbreak",
    "[click me](https://evil.example)",
    "<https://evil.example|your bank>",
    "*bold* _italic_ ~gone~ `code` ```fence``` ||spoiler||",
    "<@U123> <#C123> <at>all</at> <users/all>",
    "# heading\n> quote\n- item",
)


def state(number: int = 1, **changed: Any) -> dict[str, Any]:
    """A row of findings_state as the host folds it."""
    row: dict[str, Any] = {
        "finding_id": f"F-{number:04d}",
        "state": "confirmed",
        "finding_class": "code",
        "direction": 1,
        "metric": "latency_ratio",
        "operator": "attention_decode",
        "family": "Attention",
        "title": "Attention decode",
        "shape": "batch 16 · kv 96/210/1,020 · heads 32/8, bf16",
        "case_id": "attention_decode[bf16,kv=96/210/1020]",
        "arm": "candidate",
        "subject_id": f"subject-{number}",
        "subject_ids": [f"subject-{number}"],
        "device_model": "NVIDIA H100 80GB HBM3",
        "device_unit": "GPU-3f2a",
        "host": "node-7",
        "change": 0.152,
        "change_low": 0.141,
        "change_high": 0.163,
        "price": 0.0155,
        "since_run_id": "20261129T031000-a1",
        "since_at": NIGHT,
        "last_good_run_id": "20261128T031000-9f",
        "confirm_run_id": "20261129T034200-c3",
        "revision_good": "4e1c9a7d2b60",
        "revision_bad": "b77f03e5aa19",
        "differing": json.dumps({"triton": ["3.8.1", "3.9.0"], "kernel_hash": ["9ac1", "77e0"]}),
        "cause": "The kernel's binary changed with triton 3.9.0; clocks and driver are the same.",
        "sentence": "Attention decode is 15.2\u00a0±\u00a01.1\u202f% slower than in its 30 runs before.",
        "evidence": json.dumps(
            {
                "baseline": "its 30 runs from 28 Oct to 28 Nov",
                "confirm": "5 fresh processes: 14.9 ± 1.4 % slower",
                "co_movers": [{"label": "SwiGLU M 16", "change": 0.021}],
                "trend": [*TREND, 1.152],
            }
        ),
        "owner": "kernels@example.com",
        "repro": "collector run --case 'attention_decode[bf16,kv=96/210/1020]' --replicates 5",
    }
    return row | changed


def told(row: dict[str, Any], event: str = "confirmed", base_url: str = BASE) -> Message:
    """The message of an event of that finding."""
    number = row["finding_id"].removeprefix("F-")
    made = FindingEvent(event_id=f"event-{number}-{event}", finding_id=row["finding_id"], event=event, at=NIGHT)
    return with_acts(finding_message(row, made, base_url=base_url), base_url, LINK_SECRET, NIGHT)


def groups(count: int, each: int) -> list[Message]:
    """`count` findings of `each` series: what a night with so many regressions becomes."""
    messages = []
    for number in range(1, count + 1):
        members = [
            {"label": f"GEMM M {8 * i} · N 28,672 · K 4,096", "change": 0.05 + i / 1000} for i in range(1, each + 1)
        ]
        evidence = json.dumps({"baseline": "its 30 runs before", "members": members})
        ids = [f"subject-{number}-{i}" for i in range(each)]
        messages.append(told(state(number, price=0.001 * number, subject_ids=ids, evidence=evidence)))
    return messages


def hostile() -> Message:
    """Every text of a finding is a name that somebody else chose."""
    names = dict(enumerate(HOSTILE))
    text = " ".join(HOSTILE)
    row = state(
        title=names[0] + names[1],
        shape=names[2],
        device_model=names[3],
        device_unit=names[4],
        host=names[5],
        cause=text,
        sentence=text,
        owner=names[8],
        repro=f"collector run --case '{names[7]}'",
        finding_class=names[6],
        differing=json.dumps({names[9]: [names[5], names[6]]}),
        evidence=json.dumps(
            {"baseline": names[7], "confirm": names[4], "members": list(HOSTILE), "co_movers": list(HOSTILE)}
        ),
    )
    return told(row)


def digest(rhythm: str = "daily") -> Message:
    """How things stand on a morning with twelve open findings and one device that is late."""
    url = Reference(source="env:WEBHOOK", secret=Secret("https://hooks.example.com/x"))
    times = parse_digest(rhythm, "08:00", "monday", ZoneInfo("UTC"))
    route = Route(name="team", service_name="json", url=url, digest=times)
    devices = [{"latest": NIGHT}, {"latest": NIGHT - timedelta(days=3)}]
    counts = {"confirmed": 4, "resolved": 2}
    return digest_message(route, NIGHT.replace(hour=8), groups(12, 3), counts, devices, BASE)


def silence() -> Message:
    """A device that used to measure every night."""
    words = "GPU-3f2a on node-7 has sent nothing for 50 h; it used to measure every 24 h."
    return told(
        state(
            metric="silence",
            finding_class="host",
            title="GPU-3f2a is silent",
            shape="",
            sentence=words,
            change=None,
            change_low=None,
            change_high=None,
            price=None,
            cause="",
            differing="",
            evidence="",
            repro="",
        )
    )


SITUATIONS: dict[str, Callable[[], list[Message]]] = {
    "one_regression": lambda: [told(state())],
    "no_base_url": lambda: [told(state(), base_url="")],
    "200_in_5_groups": lambda: groups(5, 40),
    "one_group_of_200": lambda: groups(1, 200),
    "recovery": lambda: [told(state(), "resolved")],
    "refuted": lambda: [told(state(), "refuted")],
    "escalated": lambda: [told(state(change=0.31, change_low=0.29, change_high=0.33, price=0.03), "moved")],
    "reopened": lambda: [told(state(), "reopened")],
    "host_shifted": lambda: [told(state(finding_class="host"))],
    "silent_device": lambda: [silence()],
    "quarantine": lambda: quarantine_messages(
        [("run-20261129-a1.tar", "results.parquet: sha256 is 9c1f, the manifest says 77e0")], NIGHT, base_url=BASE
    ),
    "digest": lambda: [digest()],
    "weekly_digest": lambda: [digest("weekly")],
    "hostile_names": lambda: [hostile()],
    "hostile_list": lambda: [hostile(), hostile()],
}
