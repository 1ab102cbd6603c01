"""The words of a message, before any chat's markup: headline, facts in order of use, notes, links.

Numbers are written as the dashboard writes them: U+2212 minus, U+00A0 around ±, U+202F before a unit; a change in a
sentence has no sign, since the word carries it. A 95 % interval is meant unless said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from collector.host.notify.clip import fit
from collector.host.notify.escape import Escape
from collector.host.notify.message import Message, MessageKind, Mover
from detection.act_links import SNOOZE_DAYS

MINUS, NARROW, HARD = "\u2212", "\u202f", "\u00a0"

NO_LINKS = "No links: set base_url in alerts.toml to the address of your dashboard."

_WORSE_BETTER = {
    "latency": ("slower", "faster"),
    "latency_ratio": ("slower", "faster"),
    "latency_p99": ("slower in the tail (p99)", "faster in the tail (p99)"),
    "flop_rate": ("slower a FLOP", "faster a FLOP"),
    "bandwidth": ("slower a byte", "faster a byte"),
    "peak_memory": ("more memory", "less memory"),
    "error": ("less exact", "more exact"),
}

_LEAD = {
    MessageKind.REGRESSED: "",
    MessageKind.IMPROVED: "",
    MessageKind.ESCALATED: "Worse than told",
    MessageKind.REOPENED: "Back again",
    MessageKind.RECOVERED: "Recovered",
    MessageKind.REFUTED: "Withdrawn",
    MessageKind.HOST_SHIFTED: "Host shifted",
    MessageKind.SILENT_DEVICE: "",
    MessageKind.QUARANTINE: "Set aside",
    MessageKind.DIGEST: "Digest",
    MessageKind.TEST: "Test",
}

_NO_SHAPE = frozenset(
    {MessageKind.DIGEST, MessageKind.TEST, MessageKind.SILENT_DEVICE, MessageKind.QUARANTINE, MessageKind.HOST_SHIFTED}
)

_KIND_WORDS = {
    MessageKind.REGRESSED: "worse",
    MessageKind.IMPROVED: "better",
    MessageKind.ESCALATED: "worse than told",
    MessageKind.REOPENED: "back again",
    MessageKind.RECOVERED: "recovered",
    MessageKind.REFUTED: "withdrawn",
    MessageKind.HOST_SHIFTED: "hosts shifted",
    MessageKind.SILENT_DEVICE: "silent",
    MessageKind.QUARANTINE: "set aside",
    MessageKind.DIGEST: "digests",
    MessageKind.TEST: "tests",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A label and its value, both raw text."""

    label: str
    value: str


def percent(fraction: float, digits: int = 1) -> str:
    """0.0741 -> "7.4 %", -0.058 -> "−5.8 %"; a rounded zero has no sign."""
    text = f"{abs(fraction) * 100:.{digits}f}"
    sign = MINUS if fraction < 0 and float(text) != 0.0 else ""
    return f"{sign}{text}{NARROW}%"


def signed_percent(fraction: float, digits: int = 1) -> str:
    text = percent(fraction, digits)
    return text if fraction <= 0 or float(f"{fraction * 100:.{digits}f}") == 0.0 else f"+{text}"


def change_text(change: float, low: float | None, high: float | None) -> str:
    """The size of a change with its interval, no sign: "7.4 ± 0.9 %", or "(6.1 to 9.0 %)" where it is lopsided."""
    size = abs(change)
    if low is None or high is None:
        return percent(size)
    near, far = sorted((abs(low), abs(high))) if low * high >= 0 else (low, high)
    below, above = size - near, far - size
    if low * high >= 0 and abs(above - below) <= 0.2 * max(above, below, 1e-12):
        half = (far - near) / 2
        return f"{size * 100:.1f}{HARD}±{HARD}{half * 100:.1f}{NARROW}%"
    if low * high < 0:
        return f"{percent(size)} (interval {signed_percent(low)} to {signed_percent(high)})"
    return f"{percent(size)} (interval {near * 100:.1f} to {far * 100:.1f}{NARROW}%)"


def change_words(message: Message) -> str:
    """ "7.4 ± 0.9 % slower", or "" where there is no figure."""
    if message.metric == "status":
        return "failing" if message.direction >= 0 else "running again"
    if message.change is None:
        return ""
    worse, better = _WORSE_BETTER.get(message.metric, (f"more {message.metric}".strip(), f"less {message.metric}"))
    direction = message.direction or (1 if message.change > 0 else -1)
    size = change_text(message.change, message.change_low, message.change_high)
    return f"{size} {worse if direction > 0 else better}"


def headline(message: Message) -> str:
    """One line that says what, how much and where."""
    if message.kind is MessageKind.RECOVERED and message.metric == "silence":
        return f"Reporting again: {message.device_unit or message.host}"
    lead = _LEAD[message.kind]
    figure = "" if message.kind is MessageKind.RECOVERED else change_words(message)
    where = message.device_model or message.host
    body = " ".join(part for part in (message.title, figure) if part)
    if where and message.kind not in (MessageKind.DIGEST, MessageKind.TEST, MessageKind.SILENT_DEVICE):
        body = f"{body} on {where}"
    which = f"{message.member_count:,} series" if message.member_count > 1 else message.shape
    told = f"{lead}: {body}" if lead else body
    return f"{told} ({which})" if which and message.kind not in _NO_SHAPE else told


def summary(messages: Sequence[Message]) -> str:
    """The headline of several messages: "5 findings: 4 worse, 1 recovered"."""
    if len(messages) == 1:
        return headline(messages[0])
    counts = Counter(_KIND_WORDS[message.kind] for message in messages)
    noun = (
        "findings"
        if len({message.finding_id for message in messages if message.finding_id}) == len(messages)
        else "messages"
    )
    return f"{len(messages):,} {noun}: " + ", ".join(f"{n:,} {words}" for words, n in counts.most_common())


def moment(at: datetime) -> str:
    return f"{at.day} {at:%b %Y %H:%M} UTC"


def price_text(price: float) -> str:
    return f"{signed_percent(price, 2)} of production time"


def facts(message: Message) -> tuple[Fact, ...]:
    """What a reader needs to act, in the order of use; a fact without a value is left out."""
    pairs = (
        ("Shape", message.shape),
        ("Device", device_text(message)),
        ("Price", "" if message.price is None else price_text(message.price)),
        ("Against", message.baseline),
        ("Since", since_text(message)),
        ("Class", message.finding_class),
        ("Probable cause", message.cause),
        ("Confirmed by", message.confirm),
        ("Trend, oldest first", sparkline(message.trend)),
        ("Owner", " · ".join(part for part in (message.owner, message.team) if part)),
    )
    return tuple(Fact(label=label, value=value) for label, value in pairs if value)


def sparkline(values: Sequence[float]) -> str:
    """A small picture that needs no file and no host: the last values as block characters; "" below three."""
    kept = values[-30:]
    if len(kept) < 3:
        return ""
    low, high = min(kept), max(kept)
    if high <= low:
        return "▄" * len(kept)
    return "".join("▁▂▃▄▅▆▇█"[min(7, int((value - low) / (high - low) * 8))] for value in kept)


def device_text(message: Message) -> str:
    return " · ".join(part for part in (message.device_model, message.device_unit, message.host) if part)


def since_text(message: Message) -> str:
    parts = []
    if message.since_at is not None:
        parts.append(moment(message.since_at))
    if message.since_run_id:
        parts.append(f"run {message.since_run_id}")
    if message.revision_bad:
        before = message.revision_good[:12]
        parts.append(
            f"revision {before}..{message.revision_bad[:12]}" if before else f"revision {message.revision_bad[:12]}"
        )
    if message.last_good_run_id:
        parts.append(f"last good run {message.last_good_run_id}")
    return " · ".join(parts)


def about(message: Message) -> str:
    """Of a finding in a list: its price, its class and since when."""
    price = "" if message.price is None else price_text(message.price)
    return " · ".join(part for part in (price, message.finding_class, since_text(message)) if part)


def differences(message: Message) -> tuple[str, ...]:
    return tuple(f"{item.field}: {item.good or 'absent'} → {item.bad or 'absent'}" for item in message.differing)


def mover_text(mover: Mover) -> str:
    return mover.label if mover.change is None else f"{mover.label} {signed_percent(mover.change)}"


def link_list(message: Message) -> tuple[tuple[str, str], ...]:
    """(words, address) of each link that there is, what one needs to act first."""
    links = message.links
    named = (
        ("Finding", links.finding),
        ("Acknowledge", links.acknowledge),
        (f"Snooze {SNOOZE_DAYS} days", links.snooze),
        ("Expected", links.expected),
        ("Series", links.series),
        ("Compare", links.compare),
        ("First bad run", links.run),
        ("Overview", links.overview),
    )
    return tuple((words, address) for words, address in named if address)


def gravest_first(messages: Sequence[Message]) -> list[Message]:
    """By severity, then price, then size of change; equal ones stay in order."""
    return sorted(messages, key=lambda m: (m.severity.rank, -(m.price or 0.0), -abs(m.change or 0.0)))


def plain_lines(messages: Sequence[Message], escape: Escape) -> list[str]:
    """One line a message: headline, id and where to look, the gravest first."""
    lines = []
    for message in gravest_first(messages):
        identity = fit(message.finding_id or message.message_id, 80, escape)
        link = message.links.finding or message.links.overview
        parts = [fit(headline(message), 300, escape), identity, link]
        lines.append(" · ".join(part for part in parts if part))
    return lines
