"""From raw rows to messages, nothing between them planted: imported, ingested, judged and told over real HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from planted_findings import config_of
from webhook_receiver import Receiver, receivers

from collector.host.judge import judge
from collector.host.notify.clock import FakeClock
from collector.host.notify.routes import AlertConfig
from collector.host.notify.sender import notify
from collector.host.policies import load_policy
from store.exchange.imported_runs import import_runs
from store.exchange.long_csv import read_long_csv
from store.lake.lake import Lake

START = datetime(2026, 9, 1, 2, 0, tzinfo=UTC)
HEAD = "run_id,started_at,host,gpu,case,metric,unit,sample,value,status,revision,driver"
SAMPLES, NOISE = 3, 0.008


@dataclass(frozen=True, kw_only=True)
class Cause:
    """What moves on one machine from a night on: so many cases of an operator by so much; others there stay."""

    host: str
    gpu: str
    operator: str
    moved: int
    factor: float


@pytest.fixture
def receiving() -> Iterator[Callable[..., Receiver]]:
    with receivers() as start:
        yield start


class Site:
    """A store that gets one file a night, is judged, and tells."""

    def __init__(self, folder: Path, receiver: Receiver) -> None:
        self.lake = Lake.create(folder / "store")
        self.receiver = receiver
        self._folder = folder
        self._config: AlertConfig = config_of(receiver.url)

    def nights(self, first: int, last: int, lines: Callable[[int], list[str]]) -> None:
        """Raw rows of nights `first` to `last - 1`: one file, ingested and judged whole, then told on the last one."""
        path = self._folder / f"nights-{first}.csv"
        path.write_text("\n".join([HEAD, *(line for night in range(first, last) for line in lines(night))]) + "\n")
        import_runs(read_long_csv(path), self.lake.inbox)
        self.lake.ingest(check_clock=False)
        judge(self.lake, policy=load_policy(), at_run_time=True)
        clock = FakeClock(at=START + timedelta(days=last - 1, hours=1))
        assert notify(self.lake, self._config, clock=clock, patience_s=60).waiting == 0

    def kinds(self) -> list[str]:
        return [message["kind"] for body in self.receiver.accepted for message in body["messages"]]


def rows(night: int, host: str, gpu: str, cases: dict[str, float], *, changed: bool) -> list[str]:
    """The samples of one machine's night: case -> factor on its level."""
    rng = np.random.default_rng([night, len(host), sum(host.encode())])
    when = (START + timedelta(days=night)).isoformat()
    revision = "bbb222" if changed else "aaa111"
    return [
        f'{host}-n{night:03d},{when},{host},{gpu},"{case}",latency,ms,{sample},'
        f"{(1 + number % 7) * factor * np.exp(rng.normal(0, NOISE)):.6g},ok,{revision},580.1"
        for number, (case, factor) in enumerate(cases.items())
        for sample in range(SAMPLES)
    ]


FIVE = (
    Cause(host="node-1", gpu="NVIDIA H100 80GB HBM3", operator="gemm", moved=200, factor=1.20),
    Cause(host="node-1", gpu="NVIDIA H100 80GB HBM3", operator="attention_decode", moved=120, factor=1.12),
    Cause(host="node-2", gpu="AMD Instinct MI300X", operator="softmax", moved=150, factor=1.30),
    Cause(host="node-3", gpu="NVIDIA L40S", operator="swiglu", moved=100, factor=1.15),
    Cause(host="node-4", gpu="NVIDIA A100-SXM4-80GB", operator="rms_norm", moved=66, factor=1.18),
)
STEADY_NIGHTS, BAD_NIGHTS = 9, 4


def five_causes(night: int, share: float) -> list[str]:
    """All machines' rows of a night, `share` of the cases of the whole."""
    bad = night >= STEADY_NIGHTS
    said = []
    for host, gpu in dict.fromkeys((cause.host, cause.gpu) for cause in FIVE):
        cases: dict[str, float] = {}
        for cause in (cause for cause in FIVE if cause.host == host):
            moved = max(3, round(cause.moved * share))
            cases |= {f"{cause.operator}[bf16,M={n}]": cause.factor if bad else 1.0 for n in range(moved)}
            cases |= {f"layer_norm[bf16,{cause.operator}={n}]": 1.0 for n in range(round(moved * 1.3) + 4)}
        said += rows(night, host, gpu, cases, changed=bad)
    return said


@pytest.mark.parametrize(("share", "raw"), [(0.06, 38), pytest.param(1.0, 636, marks=pytest.mark.long)])
def test_many_raw_rows_of_five_causes_become_five_messages(
    tmp_path: Path, receiving: Callable[..., Receiver], share: float, raw: int
) -> None:
    """Each bad night has hundreds of slower rows on four machines; five things happened, and five are told."""
    site = Site(tmp_path, receiving())
    site.nights(0, STEADY_NIGHTS, lambda night: five_causes(night, share))
    assert site.receiver.accepted == []
    for night in range(STEADY_NIGHTS, STEADY_NIGHTS + BAD_NIGHTS):
        site.nights(night, night + 1, lambda night: five_causes(night, share))
    count = "SELECT count(*) AS n FROM results WHERE run_id LIKE '%-n009' AND operator <> 'layer_norm'"
    assert site.lake.sql(count).to_pylist() == [{"n": raw}]
    messages = [message for body in site.receiver.accepted for message in body["messages"]]
    assert [m["kind"] for m in messages] == ["regressed"] * 5, [m["headline"] for m in messages]
    told = {(m["operator"], m["member_count"]) for m in messages}
    assert told == {(cause.operator, max(3, round(cause.moved * share))) for cause in FIVE}
    assert sum(m["member_count"] for m in messages) == raw
    for message in messages:
        factor = next(cause.factor for cause in FIVE if cause.operator == message["operator"])
        assert message["change_low"] <= factor - 1 <= message["change_high"] and message["finding_class"] == "code"
        assert (message["revision_good"], message["revision_bad"]) == ("aaa111", "bbb222")


LONG_STAY = ((0, 16), (16, 17), (17, 19), (19, 26), (26, 33), (33, 40), (40, 47), (47, 54), (54, 56))
"""Nights that are told together: at most seven, so that no call looks back too little."""
GONE, BACK = 56, 64


def step(night: int) -> list[str]:
    """One case that is 25 % slower from night 16 to 55 and again from night 64; eleven beside it that are not."""
    slow = 16 <= night < GONE or night >= BACK
    cases = {"gemm[bf16,M=8]": 1.25 if slow else 1.0} | {f"gemm[bf16,N={n}]": 1.0 for n in range(11)}
    return rows(night, "node-1", "NVIDIA H100 80GB HBM3", cases, changed=False)


def test_a_step_that_stays_forty_nights_goes_and_comes_back_is_three_messages(
    tmp_path: Path, receiving: Callable[..., Receiver]
) -> None:
    """Told when it is confirmed, when it is gone, and when it is back; on no other of seventy nights."""
    site = Site(tmp_path, receiving())
    for first, last in LONG_STAY:
        site.nights(first, last, step)
    assert site.kinds() == ["regressed"]
    for night in range(GONE, BACK, 4):
        site.nights(night, night + 4, step)
    assert site.kinds() == ["regressed", "recovered"]
    for night in range(BACK, BACK + 6, 3):
        site.nights(night, night + 3, step)
    assert site.kinds() == ["regressed", "recovered", "reopened"]
    assert len(set(site.receiver.ids())) == 1
