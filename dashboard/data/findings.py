"""Findings: the list, one with its evidence and its history, and what people say of it.

Measurements are only read. The one thing written is an event into `triage` (or a retraction, through the store's own
act); the state shown is the fold of all events, so an act is seen at once, whoever made it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from dashboard.data.overview import FindingRow
from dashboard.data.source import ask, forget, lake, table
from detection.finding_rows import event_of_row, note_of_row, triage_payload
from detection.findings import Finding, FindingEvent, FindingState, TriageKind, fold

_ROWS = """
select f.finding_id, f.state, f.finding_class, f.direction, f.metric, f.title, f.shape, f.case_id, f.subject_id,
       f.device_model, f.device_unit, f.host, f.change, f.change_low, f.change_high, f.price, f.since_at, f.opened_at,
       f.revision_good, f.revision_bad, f.cause, f.owner, coalesce(len(f.subject_ids), 1) as group_size,
       s.sparkline_ratio, s.sparkline_latency_s, s.sparkline_at
from findings_state f left join series s on s.subject_id = f.subject_id
"""
_BY_PRICE = "order by abs(f.price) desc nulls last, abs(f.change) desc nulls last, f.finding_id limit 20000"
ROW_QUERY = _ROWS + _BY_PRICE
GROUP_QUERY = (
    _ROWS
    + """
where f.finding_class is not distinct from $class and f.direction * $way > 0
  and f.revision_bad is not distinct from $revision and f.since_at >= $since and f.since_at < $since + interval 1 day
"""
    + _BY_PRICE
)


def all_findings() -> list[FindingRow]:
    """Every finding, the dearest first, each in the state that people and measurements have put it into by now."""
    return with_acts(ask(FindingRow, ROW_QUERY))


def groups(rows: Sequence[FindingRow]) -> dict[str, list[FindingRow]]:
    """Words -> the open findings that probably have one cause: of a class, a way and a first revision, since one night.

    Only groups of two and more, the largest first.
    """
    found: dict[tuple[object, ...], list[FindingRow]] = {}
    for row in rows:
        if row.state in OPEN and row.since_at is not None:
            key = (row.finding_class, row.direction > 0, row.revision_bad, row.since_at.date())
            found.setdefault(key, []).append(row)
    named = {}
    for own in sorted(found.values(), key=lambda own: (-len(own), own[0].finding_id)):
        first = own[0]
        if len(own) > 1 and first.since_at is not None:
            at = f" at {first.revision_bad[:12]}" if first.revision_bad else ""
            way = "worse" if first.direction > 0 else "better"
            kind = first.finding_class or "not classed"
            named[f"{len(own)} {way} since {first.since_at:%d %b %Y}, class {kind}{at}"] = own
    return named


def group_of(found: Finding) -> list[FindingRow]:
    """The open findings of the group that `found` is in, itself among them; empty where it is in none."""
    facts = found.facts
    given = {
        "class": facts.finding_class,
        "way": 1 if facts.direction > 0 else -1,
        "revision": facts.revision_bad or None,
        "since": facts.since_at.replace(hour=0, minute=0, second=0, microsecond=0),
    }
    rows = with_acts(ask(FindingRow, GROUP_QUERY, given))
    return next((own for own in groups(rows).values() if any(r.finding_id == found.finding_id for r in own)), [])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Name:
    finding_id: str


def with_acts(rows: Sequence[FindingRow]) -> list[FindingRow]:
    """The rows with what was said after the host last folded them."""
    query = """
        select distinct t.finding_id from triage t join findings_state f using (finding_id)
        where t."at" > f.updated_at limit 500
    """
    newer = {name.finding_id for name in ask(_Name, query)} & {row.finding_id for row in rows}
    folded = {name: found for name in newer if (found := current(name)) is not None}
    return [
        replace(row, state=folded[row.finding_id].state.value, owner=folded[row.finding_id].owner)
        if row.finding_id in folded
        else row
        for row in rows
    ]


def events_of(finding_id: str) -> list[FindingEvent]:
    """What measuring said of a finding, oldest first; words of a later version are passed over."""
    rows = table(
        'select * from findings where finding_id = $id order by "at", event_id', {"id": finding_id}
    ).to_pylist()
    return [event for row in rows if (event := event_of_row(row)) is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What a person said of a finding."""

    event_id: str
    finding_id: str
    event: str
    at: datetime
    actor: str
    until: datetime | None
    owner: str | None
    text: str | None
    link: str | None


def acts_of(finding_id: str) -> list[Act]:
    """What people said of a finding, oldest first."""
    found = []
    for row in _triage_of(finding_id):
        payload = triage_payload(row)
        until = payload.get("until")
        found.append(
            Act(
                event_id=row["event_id"],
                finding_id=row["finding_id"],
                event=row["event"],
                at=row["at"],
                actor=row["actor"] or "",
                until=datetime.fromisoformat(until) if until else None,
                owner=payload.get("owner"),
                text=payload.get("text"),
                link=payload.get("link"),
            )
        )
    return found


def _triage_of(finding_id: str) -> list[dict[str, Any]]:
    query = 'select * from triage where finding_id = $id order by "at", event_id'
    rows: list[dict[str, Any]] = table(query, {"id": finding_id}).to_pylist()
    return rows


def current(finding_id: str) -> Finding | None:
    """The finding as of now, folded from all its events; None where there is none of that id."""
    said = events_of(finding_id)
    if not said:
        return None
    notes = [note for row in _triage_of(finding_id) if (note := note_of_row(row)) is not None]
    return fold(said, notes, now=datetime.now(UTC))


def say_of(
    finding_ids: Sequence[str],
    event: TriageKind,
    *,
    actor: str,
    owner: str | None = None,
    until: datetime | None = None,
    text: str | None = None,
    link: str | None = None,
    event_id: str | None = None,
) -> None:
    """Appends one triage event for each finding, all in one commit.

    `event_id` is given where saying it twice has to be saying it once: for a link, whose button two people may press.

    Raises:
        StoreError: the store cannot be written.
    """
    payload = {"owner": owner, "until": until.isoformat() if until else None, "text": text, "link": link}
    given = json.dumps({name: value for name, value in payload.items() if value}, ensure_ascii=False)
    at = datetime.now(UTC)
    rows = [
        {
            "event_id": event_id or uuid.uuid4().hex,
            "finding_id": finding_id,
            "event": event.value,
            "at": at,
            "actor": actor,
            "payload": given,
        }
        for finding_id in finding_ids
    ]
    lake().append("triage", rows)
    forget()


def retract_run(run_id: str, *, actor: str, reason: str) -> None:
    """Hides a run from every reader; nothing is deleted, and the store's command brings it back.

    Raises:
        StoreError: it is retracted already, the reason is empty, or the store cannot be written.
    """
    from store.lake.maintenance import retract

    retract(lake(), [run_id], actor=actor, reason=reason)
    forget()


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """What one run measured of one arm."""

    run_id: str
    arm: str
    status: str
    latency_p50_s: float | None
    latency_p99_s: float | None
    ratio_optimized: float | None
    ratio_naive: float | None
    roofline_fraction: float | None
    peak_memory_bytes: int | None
    workspace_bytes: int | None
    error_margin: float | None
    flop_per_s: float | None
    bandwidth_bytes_per_s: float | None
    compile_s: float | None


VALUES_QUERY = """
select r.run_id, r.arm, r.status, r.latency_p50_s, r.latency_p99_s, r.ratio_optimized, r.ratio_naive,
       r.roofline_fraction, r.peak_memory_bytes, r.workspace_bytes, r.error_margin, r.flop_per_s,
       r.bandwidth_bytes_per_s, r.compile_s
from results r where r.subject_id = $subject and r.run_id in ($good, $bad)
"""


def values(subject_id: str, good: str, bad: str) -> dict[str, Value]:
    """Run -> what it measured of the series, for the last good and the first bad run."""
    found = ask(Value, VALUES_QUERY, {"subject": subject_id, "good": good, "bad": bad})
    return {value.run_id: value for value in found}


OPEN = tuple(state.value for state in FindingState if state.open)
