"""A finding is what its events say: never lost, never doubled, never withdrawn silently.

The host appends events; people append triage events; `fold` computes the state from both. Saying an event twice is
saying it once (its id is a hash of what it says), and the order of arrival does not matter (events are folded in the
order of their times). So late runs, replays and restarts add events and rewrite none.

    suspected --> confirmed --> resolved --> reopened
        |             |
        +--> refuted  +-- a person may say: acknowledged, expected, snoozed (until), resolved
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

import msgspec

from detection.classify import Difference, FindingClass
from detection.shape_rule import ShapeCase, ShapeRule
from detection.verdict import Metric


class FindingState(StrEnum):
    """Where a finding is in its life."""

    SUSPECTED = "suspected"
    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    ACKNOWLEDGED = "acknowledged"
    EXPECTED = "expected"
    SNOOZED = "snoozed"
    RESOLVED = "resolved"
    REOPENED = "reopened"

    @property
    def open(self) -> bool:
        """Whether the change still stands: the series is judged against the level from before it."""
        return self not in (FindingState.REFUTED, FindingState.EXPECTED, FindingState.RESOLVED)


class EventKind(StrEnum):
    """What the host says of a finding."""

    SUSPECTED = "suspected"
    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    MOVED = "moved"
    """Its size or its members are not what they were."""
    RESOLVED = "resolved"
    """Measured back at the level from before."""
    REOPENED = "reopened"


class TriageKind(StrEnum):
    """What a person says of a finding."""

    ACKNOWLEDGED = "acknowledged"
    ASSIGNED = "assigned"
    EXPECTED = "expected"
    """The new level is the level: the baseline moves, by this act."""
    SNOOZED = "snoozed"
    RESOLVED = "resolved"
    NOTE = "note"
    LINKED = "linked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One witness: what was compared, the change with its interval, and the words under it."""

    label: str
    change: float | None
    low: float | None
    high: float | None
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A series of the group, or a sibling that did not move."""

    subject_id: str
    label: str
    """In words: title, shape and arm."""
    case_id: str
    arm: str
    change: float | None
    low: float | None
    high: float | None
    weight: float | None
    since_run_id: str = ""
    """Its own first bad run: units of a model run at different times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a person needs to believe or refuse a finding."""

    baseline: str = ""
    """In words: what it was compared with."""
    confirm: str = ""
    """In words: the second witness."""
    tiles: tuple[Tile, ...] = ()
    members: tuple[Member, ...] = ()
    """The group, dearest first."""
    co_movers: tuple[Member, ...] = ()
    """Other series that moved in the same run, not of the group."""
    not_moved: tuple[Member, ...] = ()
    """Siblings by operator that did not."""
    scatter: float = 1.0
    """How many times wider than expected the night scattered that raised it."""
    trend: tuple[float, ...] = ()
    """Values of the first member, oldest first, the bad run last."""
    other_causes: tuple[str, ...] = ()
    """What else differs that could have caused it, the more probable first."""
    cases: tuple[ShapeCase, ...] = ()
    """The judged cases of its operator and arm in shape space: those that moved, and those that surely did not."""
    shape_rule: ShapeRule | None = None
    """The border between them, where one holds on held-out cases ..."""
    shape_words: str = ""
    """... and it, or why there is none, in a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of a finding when an event is written; the columns of `findings_state` that measuring gives."""

    group: str
    """The cause it stands for, in words that do not depend on the night: device model, operator, arm."""
    finding_class: FindingClass
    direction: int
    """+1 slower, more, less exact, failing; -1 the other way."""
    metric: Metric
    operator: str
    family: str
    title: str
    shape: str
    case_id: str
    """Of its first member by price."""
    arm: str
    subject_id: str
    subject_ids: tuple[str, ...]
    device_model: str
    device_unit: str
    host: str
    change: float | None
    change_low: float | None
    change_high: float | None
    price: float | None
    since_run_id: str
    since_at: datetime
    last_good_run_id: str | None
    confirm_run_id: str | None = None
    revision_good: str | None = None
    revision_bad: str | None = None
    differing: tuple[Difference, ...] = ()
    cause: str = ""
    sentence: str = ""
    evidence: Evidence = Evidence()
    repro: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingEvent:
    """One row of `findings`."""

    event_id: str
    finding_id: str
    event: EventKind
    at: datetime
    as_of_seq: int
    actor: str
    run_id: str
    facts: Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class TriageNote:
    """One row of `triage`."""

    event_id: str
    finding_id: str
    event: TriageKind
    at: datetime
    actor: str
    until: datetime | None = None
    owner: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The state of a finding: one row of `findings_state`."""

    finding_id: str
    state: FindingState
    facts: Facts
    owner: str | None
    snoozed_until: datetime | None
    opened_at: datetime
    updated_at: datetime
    confirmed: bool
    """Whether a second witness ever spoke for it."""
    opened_run_id: str
    """The run with which it was first said; a lasting shift may be located in an earlier one."""
    settled_run_id: str
    """The run of the newest event that measuring gave."""


def finding_id(group: str, metric: Metric, direction: int, since_run_id: str) -> str:
    """The identity of a finding: the same step of the same group is the same finding, whoever looks and whenever."""
    return "F-" + _digest(group, metric.value, str(direction), since_run_id)[:8]


def event_id(finding: str, event: EventKind, run_id: str) -> str:
    """The identity of an event: one run says one thing of one finding once."""
    return _digest(finding, event.value, run_id)[:16]


def _digest(*parts: str) -> str:
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()


def make_event(
    event: EventKind, facts: Facts, *, at: datetime, as_of_seq: int, run_id: str, actor: str = "judge"
) -> FindingEvent:
    """An event with its ids."""
    finding = finding_id(facts.group, facts.metric, facts.direction, facts.since_run_id)
    return FindingEvent(
        event_id=event_id(finding, event, run_id),
        finding_id=finding,
        event=event,
        at=at,
        as_of_seq=as_of_seq,
        actor=actor,
        run_id=run_id,
        facts=facts,
    )


def facts_to_json(facts: Facts) -> str:
    """The payload of an event. A number that is not finite becomes null: JSON has no infinity."""
    return msgspec.json.encode(facts).decode()


def facts_from_json(payload: str) -> Facts:
    """The facts of a payload; msgspec.ValidationError where it is not one."""
    return msgspec.json.decode(payload, type=Facts)


def evidence_from_json(text: str) -> Evidence:
    """The evidence of a row of `findings_state`; msgspec.ValidationError where it is not one."""
    return msgspec.json.decode(text, type=Evidence)


def part_to_json(part: Evidence | Sequence[Difference]) -> str:
    """Evidence, or differing fields as an object field -> [good, bad], for a column of `findings_state`."""
    if isinstance(part, Evidence):
        return msgspec.json.encode(part).decode()
    return msgspec.json.encode({d.field: [d.good, d.bad] for d in part}).decode()


def fold(events: Iterable[FindingEvent], triage: Iterable[TriageNote], *, now: datetime) -> Finding:
    """The state of one finding from all that was said of it, in any order and with repetitions.

    What a person said stands while the change stands: a recovery resolves an acknowledged finding, and a finding that
    comes back after it was resolved is `reopened` until somebody looks. A snooze ends by itself. Raises ValueError
    where there is no event, or where events of several findings are mixed.
    """
    said = sorted({e.event_id: e for e in events}.values(), key=lambda e: (e.at, e.as_of_seq, e.event_id))
    notes = sorted({n.event_id: n for n in triage}.values(), key=lambda n: (n.at, n.event_id))
    names = {e.finding_id for e in said} | {n.finding_id for n in notes}
    if not said or len(names) != 1:
        raise ValueError(f"fold takes the events of one finding, got {len(said)} events of {sorted(names)}")
    life = _Life(state=FindingState.SUSPECTED, facts=said[0].facts, confirmed=False)
    moments: list[FindingEvent | TriageNote] = [*said, *notes]
    for moment in sorted(moments, key=lambda m: (m.at, isinstance(m, TriageNote))):
        life = life.after(moment)
    state = life.state
    if state is FindingState.SNOOZED and life.until is not None and life.until <= now:
        state = life.before_snooze
    return Finding(
        finding_id=names.pop(),
        state=state,
        facts=life.facts,
        owner=life.owner,
        snoozed_until=life.until if state is FindingState.SNOOZED else None,
        opened_at=said[0].at,
        updated_at=max(m.at for m in moments),
        confirmed=life.confirmed,
        opened_run_id=said[0].run_id,
        settled_run_id=said[-1].run_id,
    )


_PERSON_SAYS = {
    TriageKind.ACKNOWLEDGED: FindingState.ACKNOWLEDGED,
    TriageKind.EXPECTED: FindingState.EXPECTED,
    TriageKind.SNOOZED: FindingState.SNOOZED,
    TriageKind.RESOLVED: FindingState.RESOLVED,
}
_PERSONS = frozenset(_PERSON_SAYS.values()) - {FindingState.RESOLVED}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Life:
    state: FindingState
    facts: Facts
    confirmed: bool
    owner: str | None = None
    until: datetime | None = None
    before_snooze: FindingState = FindingState.SUSPECTED

    def after(self, moment: FindingEvent | TriageNote) -> _Life:
        return self._triaged(moment) if isinstance(moment, TriageNote) else self._measured(moment)

    def _triaged(self, note: TriageNote) -> _Life:
        life = replace(self, owner=note.owner) if note.event is TriageKind.ASSIGNED else self
        state = _PERSON_SAYS.get(note.event)
        if state is None:
            return life
        before = self.before_snooze if self.state is FindingState.SNOOZED else self.state
        return replace(
            life, state=state, until=note.until if state is FindingState.SNOOZED else None, before_snooze=before
        )

    def _measured(self, event: FindingEvent) -> _Life:
        facts = replace(event.facts, confirm_run_id=event.facts.confirm_run_id or self.facts.confirm_run_id)
        held = self.state in _PERSONS
        match event.event:
            case EventKind.SUSPECTED:
                return replace(self, facts=facts if not self.confirmed else self.facts)
            case EventKind.CONFIRMED:
                state = self.state if held else FindingState.CONFIRMED
                return replace(self, state=state, facts=facts, confirmed=True, before_snooze=FindingState.CONFIRMED)
            case EventKind.REFUTED:
                # A refutation of what was confirmed is a recovery: the change was there, and is not any more.
                state = FindingState.RESOLVED if self.confirmed else FindingState.REFUTED
                return replace(self, state=state, facts=facts)
            case EventKind.RESOLVED:
                return replace(self, state=FindingState.RESOLVED, facts=facts)
            case EventKind.REOPENED:
                return replace(self, state=FindingState.REOPENED, facts=facts)
            case EventKind.MOVED:
                return replace(self, facts=facts)


def finite(value: float | None) -> float | None:
    """The value where it is a finite number, else None: what a stored fact may hold."""
    return value if value is not None and math.isfinite(value) else None
