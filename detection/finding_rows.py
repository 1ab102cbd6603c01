"""What is said of findings as rows of `findings` and `triage`, and back: host and dashboard read the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from detection.findings import EventKind, FindingEvent, TriageKind, TriageNote, facts_from_json, facts_to_json

Row = Mapping[str, Any]


def event_row(event: FindingEvent) -> dict[str, Any]:
    """An event as a row of `findings`."""
    return {
        "event_id": event.event_id,
        "finding_id": event.finding_id,
        "event": event.event.value,
        "at": event.at,
        "as_of_seq": event.as_of_seq,
        "actor": event.actor,
        "run_id": event.run_id,
        "payload": facts_to_json(event.facts),
    }


def event_of_row(row: Row) -> FindingEvent | None:
    """The event of a row; None for a word of a newer version, which is passed over."""
    if row["event"] not in set(EventKind):
        return None
    return FindingEvent(
        event_id=row["event_id"],
        finding_id=row["finding_id"],
        event=EventKind(row["event"]),
        at=row["at"],
        as_of_seq=row["as_of_seq"],
        actor=row["actor"] or "",
        run_id=row["run_id"] or "",
        facts=facts_from_json(row["payload"]),
    )


def note_of_row(row: Row) -> TriageNote | None:
    """What a person said, of a row of `triage`; None for a word of a newer version."""
    if row["event"] not in set(TriageKind):
        return None
    payload = triage_payload(row)
    until = payload.get("until")
    return TriageNote(
        event_id=row["event_id"],
        finding_id=row["finding_id"],
        event=TriageKind(row["event"]),
        at=row["at"],
        actor=row["actor"] or "",
        until=datetime.fromisoformat(until) if until else None,
        owner=payload.get("owner"),
        text=payload.get("text"),
    )


def triage_payload(row: Row) -> Mapping[str, Any]:
    """What a row of `triage` says beyond its kind: owner, until, text, link. Empty where that cannot be read."""
    try:
        payload = json.loads(row["payload"] or "{}")
    except ValueError:
        return {}
    return payload if isinstance(payload, dict) else {}
