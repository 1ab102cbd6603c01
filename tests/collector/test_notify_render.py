"""Messages as each chat gets them: golden payloads, held to what each service documents (support/chat_limits.py)."""

from __future__ import annotations

import copy
import html
import json
import os
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from chat_limits import strings, violations
from hypothesis import given, settings
from hypothesis import strategies as st
from message_samples import BASE, NIGHT, SITUATIONS, groups, hostile, state, told

from collector.host.notify.build import FindingEvent, finding_message, severity_of
from collector.host.notify.message import Message, MessageKind, Mover, Severity
from collector.host.notify.services.registry import SERVICES
from collector.host.notify.wording import headline, sparkline
from detection.verdict import Metric

GOLDEN = Path(__file__).parent / "golden" / "notify"


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("service", SERVICES)
def test_payload_is_the_golden_one(service: str, situation: str) -> None:
    """A payload changes only on purpose: set UPDATE_GOLDEN=1 and read the difference."""
    payload = SERVICES[service].render(SITUATIONS[situation]())
    path = GOLDEN / service / f"{situation}.json"
    text = json.dumps(payload, ensure_ascii=False, indent=1) + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
    assert violations(service, payload, f"{BASE}/") == []


@pytest.mark.parametrize("service", SERVICES)
def test_two_hundred_single_findings_stay_within_limits_and_say_how_many_more(service: str) -> None:
    """However many messages come at once, the payload is valid and names the gravest first."""
    payload = SERVICES[service].render(groups(200, 1))
    assert violations(service, payload, f"{BASE}/") == []
    text = json.dumps(payload, ensure_ascii=False)
    assert text.index("F-0200") < text.index("F-0199")
    assert re.search(r"and \d+ more", text) or payload.get("more")


@pytest.mark.parametrize("service", SERVICES)
def test_a_batch_of_the_stated_size_names_every_finding(service: str) -> None:
    """What the sender puts into one payload is told whole: each finding's id stands in it."""
    messages = groups(SERVICES[service].batch, 40)
    text = json.dumps(SERVICES[service].render(messages), ensure_ascii=False)
    assert all(message.finding_id in text for message in messages)


@settings(max_examples=60, deadline=None)
@given(
    names=st.lists(st.text(max_size=4000), min_size=6, max_size=6),
    many=st.integers(1, 60),
    service=st.sampled_from(sorted(SERVICES)),
)
def test_any_names_give_a_valid_payload(names: list[str], many: int, service: str) -> None:
    """No text of any length or script breaks a limit or opens markup."""
    names = [name.encode("utf-8", "replace").decode() for name in names]
    row = state(title=names[0], shape=names[1], sentence=names[2], cause=names[3], repro=names[4], owner=names[5])
    message = told(row | {"evidence": json.dumps({"members": names, "baseline": names[0]})})
    assert violations(service, SERVICES[service].render([message] * many), f"{BASE}/") == []


NEEDED = {
    "what": "Attention decode",
    "shape": "batch 16 · kv 96/210/1,020 · heads 32/8, bf16",
    "model": "NVIDIA H100 80GB HBM3",
    "unit": "GPU-3f2a",
    "host": "node-7",
    "how much, with interval": "15.2 ± 1.1 %",
    "price": "+1.55 % of production time",
    "baseline": "its 30 runs from 28 Oct to 28 Nov",
    "first run": "20261129T031000-a1",
    "last good run": "20261128T031000-9f",
    "revisions": "4e1c9a7d2b60..b77f03e5aa19",
    "cause": "binary changed with triton 3.9.0",
    "differing field": "triton: 3.8.1 → 3.9.0",
    "also moved": "SwiGLU M 16 +2.1 %",
    "confirm": "5 fresh processes: 14.9 ± 1.4 % slower",
    "command": "collector run --case 'attention_decode[bf16,kv=96/210/1020]' --replicates 5",
    "owner": "kernels@example.com",
    "picture": "▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁█",
    "finding": f"{BASE}/findings?finding=F-0001",
    "series": f"{BASE}/series?subject=subject-1",
    "compare": f"{BASE}/compare?device=GPU-3f2a",
    "acknowledge": f"{BASE}/findings?finding=F-0001&act=acknowledged&ends=",
    "snooze": "&act=snoozed&ends=",
    "expected": "&act=expected&ends=",
}
LOOK_ALIKES = str.maketrans("∗∼ˋ＜＞｜ˍ\u00a0\u202f", "*~`<>|_  ", "\u200b\\")


def as_read(payload: object) -> str:
    """The words of a payload as a person reads them: escapes undone, look-alikes for what they stand for."""
    return "\n".join(html.unescape(text).translate(LOOK_ALIKES) for text in strings(payload))


@pytest.mark.parametrize("needed", NEEDED)
@pytest.mark.parametrize("service", [name for name in SERVICES if name != "json"])
def test_one_regression_says_everything_that_is_needed_to_act(service: str, needed: str) -> None:
    """Nothing that a person has to ask for next is missing in any chat."""
    read = as_read(SERVICES[service].render(SITUATIONS["one_regression"]()))
    assert NEEDED[needed] in read, read


def test_the_picture_of_the_trend_shows_where_it_stepped() -> None:
    """The lowest block is the smallest value and the highest the largest; below three values there is none."""
    assert sparkline((1.0, 1.0, 1.0, 2.0)) == "▁▁▁█" and sparkline((3.0, 2.0, 1.0)) == "█▅▁"
    assert sparkline((1.0, 1.0, 1.0)) == "▄▄▄" and sparkline((1.0, 2.0)) == ""
    assert len(sparkline(tuple(float(i) for i in range(400)))) == 30


def broken(service: str) -> dict[str, Callable[[Any], object]]:
    """Ways to break a golden payload, each against one documented rule."""
    long = "x" * 60_000

    def fields(payload: Any) -> Any:
        return next(block for block in payload["blocks"] if "fields" in block)["fields"]

    ways: dict[str, dict[str, Callable[[Any], object]]] = {
        "slack": {
            "51 blocks": lambda p: p["blocks"].extend([p["blocks"][1]] * 50),
            "header of 151": lambda p: p["blocks"][0]["text"].update(text="x" * 151),
            "section of 3,001": lambda p: p["blocks"][1]["text"].update(text="x" * 3001),
            "11 fields": lambda p: fields(p).extend([fields(p)[0]] * 11),
            "field of 2,001": lambda p: fields(p)[0].update(text="x" * 2001),
            "an empty text": lambda p: p["blocks"][1]["text"].update(text=""),
            "a mention": lambda p: p["blocks"][1]["text"].update(text="<!channel>"),
            "a link elsewhere": lambda p: p["blocks"][1]["text"].update(text="<https://evil.example|x>"),
            "half an entity": lambda p: p["blocks"][1]["text"].update(text="&l"),
        },
        "discord": {
            "title of 257": lambda p: p["embeds"][0].update(title="x" * 257),
            "26 fields": lambda p: p["embeds"][0].update(fields=[{"name": "a", "value": "b"}] * 26),
            "value of 1,025": lambda p: p["embeds"][0]["fields"][0].update(value="x" * 1025),
            "6,001 in all": lambda p: p["embeds"][0].update(fields=[{"name": "a", "value": "x" * 1000}] * 6),
            "mentions": lambda p: p.update(allowed_mentions={"parse": ["everyone"]}),
            "a mention": lambda p: p["embeds"][0].update(description="@everyone"),
            "a link elsewhere": lambda p: p["embeds"][0].update(description="[x](<https://evil.example>)"),
        },
        "teams": {
            "28 KB": lambda p: card(p)["body"][0]["inlines"][0].update(text=long),
            "seven actions": lambda p: card(p).update(actions=card(p)["actions"][:1] * 7),
            "Markdown": lambda p: card(p)["body"][0].update(type="TextBlock"),
            "a submit": lambda p: card(p)["actions"][0].update(type="Action.Submit"),
            "a link elsewhere": lambda p: card(p)["actions"][0].update(url="https://evil.example"),
        },
        "mattermost": {
            "16,384 characters": lambda p: p["attachments"][0].update(text=long),
            "no fallback": lambda p: p["attachments"][0].update(fallback=""),
            "a mention": lambda p: p["attachments"][0].update(text="@channel"),
        },
        "google_chat": {
            "32,001 bytes": lambda p: p.update(fallbackText=long),
            "101 widgets": lambda p: widgets(p).extend([widgets(p)[0]] * 101),
            "a tag": lambda p: widgets(p)[0]["textParagraph"].update(text="<img src=x>"),
        },
        "feishu": {
            "20 KB": lambda p: p["card"]["elements"][0].update(content=long),
            "a mention": lambda p: p["card"]["elements"][0].update(content="<at id=all></at>"),
        },
        "dingtalk": {
            "20,000 bytes": lambda p: p["markdown"].update(text=long),
            "a mention": lambda p: p.update(at={"isAtAll": True}),
        },
        "wecom": {
            "4,097 bytes": lambda p: p["markdown"].update(content="é" * 2049),
            "a mention": lambda p: p["markdown"].update(content="<@all>"),
        },
        "json": {"no message": lambda p: p.update(messages=[]), "a key": lambda p: p.update(text="x")},
        "apprise": {"nothing": lambda p: p.update(body="")},
    }
    hidden: dict[str, Callable[[Any], object]] = {"a hidden character": lambda p: p.update(hidden="a\u202eb")}
    return ways["feishu" if service == "lark" else service] | ({} if service == "json" else hidden)


def card(payload: Any) -> Any:
    return payload["attachments"][0]["content"]


def widgets(payload: Any) -> Any:
    return payload["cardsV2"][0]["card"]["sections"][0]["widgets"]


@pytest.mark.parametrize("service", SERVICES)
def test_the_validator_sees_each_broken_rule(service: str) -> None:
    """A validator that says yes to everything would prove nothing: each rule is broken once, and is named."""
    fine = json.loads((GOLDEN / service / "one_regression.json").read_text(encoding="utf-8"))
    for name, way in broken(service).items():
        payload = copy.deepcopy(fine)
        way(payload)
        assert violations(service, payload, f"{BASE}/"), name


def test_message_survives_the_outbox() -> None:
    """A message read back from its JSON is the message."""
    for make in SITUATIONS.values():
        for message in make():
            assert Message.from_json(message.to_json()) == message


def test_severity_follows_price_and_falls_back_to_the_change() -> None:
    """A large change of a rarely used shape is not grave; without a weight the size decides."""
    assert severity_of(MessageKind.REGRESSED, "latency", 0.5, 0.0001) is Severity.LOW
    assert severity_of(MessageKind.REGRESSED, "latency", 0.03, 0.02) is Severity.HIGH
    assert severity_of(MessageKind.REGRESSED, "latency", 0.06, None) is Severity.MEDIUM
    assert severity_of(MessageKind.REGRESSED, "error", 0.01, None) is Severity.HIGH
    assert severity_of(MessageKind.RECOVERED, "latency", 0.5, 0.5) is Severity.LOW


@pytest.mark.parametrize("metric", [m for m in Metric if m is not Metric.SILENCE])
def test_every_metric_has_its_words(metric: Metric) -> None:
    """A headline says slower, more memory, less exact or failing: never the name of a column."""
    worse = headline(told(state(metric=str(metric))))
    better = headline(told(state(metric=str(metric), direction=-1, change=-0.1, change_low=-0.12, change_high=-0.08)))
    assert worse != better and "_" not in worse + better and str(metric) not in (worse + better).split()


def test_suspected_is_not_told() -> None:
    """Only what a second look confirmed is told."""
    with pytest.raises(ValueError, match="suspected is not told"):
        told(state(), "suspected")


def test_members_without_words_stand_for_themselves() -> None:
    """A finding of several subjects names them even where no evidence words are kept."""
    message = told(state(subject_ids=["a", "b"], evidence=""))
    assert message.members == (Mover(label="a"), Mover(label="b"))


def test_hostile_names_are_inert_in_slack() -> None:
    """Nothing a name holds is a mention, a link or a format mark of Slack's."""
    payload = SERVICES["slack"].render([hostile()])
    text = "\n".join(strings(payload))
    assert "<!channel>" not in text and "&lt;!channel&gt;" in text
    assert "<https://evil.example" not in text
    body = "\n".join(line for line in text.splitlines() if not line.startswith(("*", "```")))
    assert not re.search(r"[*~`]", body)
    assert "[U+202E]" in text and "[U+0007]" in text


def test_time_of_a_message_is_utc() -> None:
    """A naive time of the lake is read as UTC."""
    event = FindingEvent(event_id="e", finding_id="F-1", event="confirmed", at=NIGHT.replace(tzinfo=None))
    assert finding_message(state(), event).at - NIGHT == timedelta(0)
