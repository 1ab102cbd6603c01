"""What is told about a finding, complete and free of any chat's markup: the record that the outbox keeps."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

import msgspec


class MessageKind(StrEnum):
    """Why a message is sent."""

    REGRESSED = "regressed"
    """A confirmed finding: slower, hungrier or less exact."""
    IMPROVED = "improved"
    """A confirmed change to the better."""
    ESCALATED = "escalated"
    """An open finding that grew or spread."""
    REOPENED = "reopened"
    """A resolved finding that came back."""
    RECOVERED = "recovered"
    """An open finding that went away."""
    REFUTED = "refuted"
    """A finding that was told and did not stand a second look: never withdrawn silently."""
    HOST_SHIFTED = "host_shifted"
    """Everything on one device or node moved together."""
    SILENT_DEVICE = "silent_device"
    """A device that should have measured has sent nothing."""
    QUARANTINE = "quarantine"
    """A bundle or a device was set aside."""
    DIGEST = "digest"
    """Several findings in one message."""
    TEST = "test"
    """Asked for by a person to see whether a route works."""


class Severity(StrEnum):
    """How loud: decides routes and order. The rule is `collector.host.notify.build.severity_of`."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"

    @property
    def rank(self) -> int:
        """0 is the gravest."""
        return ("high", "medium", "low").index(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A field of the environment or the revision that differs between the last good and the first bad run."""

    field: str
    good: str
    bad: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mover:
    """Another series of the same group, or one that moved at the same time."""

    label: str
    change: float | None = None
    """Relative: +0.15 is 15 % more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Where to look; empty where no `base_url` is configured."""

    finding: str = ""
    series: str = ""
    compare: str = ""
    """The runs or revisions on both sides of the change."""
    run: str = ""
    """The first bad run."""
    overview: str = ""
    acknowledge: str = ""
    """Signed, like the next two: put in when the message is sent, never kept (`collector.host.notify.links`)."""
    snooze: str = ""
    expected: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One thing told. Fractions are relative changes, times are UTC, text is raw: the services escape it."""

    message_id: str
    """The id of the finding event that is told; with the route it makes the delivery's id."""
    finding_id: str
    kind: MessageKind
    severity: Severity
    at: datetime
    title: str
    """In words: "Attention decode"."""
    sentence: str
    """One sentence with the numbers."""
    shape: str = ""
    operator: str = ""
    metric: str = ""
    direction: int = 0
    """+1 slower or more, -1 faster or less."""
    device_model: str = ""
    device_unit: str = ""
    host: str = ""
    change: float | None = None
    change_low: float | None = None
    change_high: float | None = None
    """The 95 % interval of `change`."""
    price: float | None = None
    """Share of production time lost; None where no weight is known."""
    baseline: str = ""
    """In words: against which runs."""
    since_run_id: str = ""
    since_at: datetime | None = None
    last_good_run_id: str = ""
    revision_good: str = ""
    revision_bad: str = ""
    finding_class: str = ""
    cause: str = ""
    differing: tuple[Difference, ...] = ()
    members: tuple[Mover, ...] = ()
    """The series of this finding, largest change first; the record may hold fewer than `member_count`."""
    member_count: int = 0
    co_movers: tuple[Mover, ...] = ()
    """What else moved at the same time without belonging to the finding."""
    co_mover_count: int = 0
    confirm: str = ""
    """What the confirm run showed."""
    repro: str = ""
    """The command that measures it alone."""
    owner: str = ""
    team: str = ""
    links: Links = Links()
    trend: tuple[float, ...] = ()
    """Recent values of the judged series relative to the baseline, oldest first, for a small picture."""
    entries: tuple[DigestEntry, ...] = ()

    def to_json(self) -> str:
        return msgspec.json.encode(self).decode()

    @staticmethod
    def from_json(text: str) -> Message:
        return msgspec.json.decode(text.encode(), type=Message)


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestEntry:
    """One line of a digest."""

    finding_id: str
    kind: MessageKind
    severity: Severity
    headline: str
    price: float | None = None
    link: str = ""
