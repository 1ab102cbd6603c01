"""Findings in the lake: their events, what people say of them, and the folded state that everybody reads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from detection.finding_rows import event_of_row, note_of_row
from detection.findings import Finding, FindingEvent, TriageNote, fold, part_to_json
from store.lake.lake import Lake


def read_events(lake: Lake) -> list[FindingEvent]:
    """All events, as they were said; words of a newer version are passed over."""
    rows = lake.sql('SELECT * FROM findings ORDER BY "at", event_id').to_pylist()
    return [event for row in rows if (event := event_of_row(row)) is not None]


def read_triage(lake: Lake) -> list[TriageNote]:
    """All that people said of findings; words of a newer version are passed over."""
    rows = lake.sql('SELECT * FROM triage ORDER BY "at", event_id').to_pylist()
    return [note for row in rows if (note := note_of_row(row)) is not None]


def fold_all(events: Sequence[FindingEvent], triage: Sequence[TriageNote], *, now: datetime) -> dict[str, Finding]:
    """The state of every finding, by its id. What is said of a finding that has no event yet waits."""
    said: dict[str, list[FindingEvent]] = defaultdict(list)
    notes: dict[str, list[TriageNote]] = defaultdict(list)
    for event in events:
        said[event.finding_id].append(event)
    for note in triage:
        notes[note.finding_id].append(note)
    return {name: fold(said[name], notes[name], now=now) for name in sorted(said)}


def refresh_findings_state(lake: Lake, *, now: datetime) -> dict[str, Finding]:
    """Folds all events into `findings_state`, which is overwritten, and returns the findings."""
    findings = fold_all(read_events(lake), read_triage(lake), now=now)
    if findings or lake.sql("SELECT count(*) AS n FROM findings_state").to_pylist()[0]["n"]:
        lake.overwrite("findings_state", [state_row(finding) for finding in findings.values()])
    return findings


def state_row(finding: Finding) -> dict[str, Any]:
    """A finding as a row of `findings_state`."""
    facts = finding.facts
    return {
        "finding_id": finding.finding_id,
        "state": finding.state.value,
        "finding_class": facts.finding_class.value,
        "direction": facts.direction,
        "metric": facts.metric.value,
        "operator": facts.operator,
        "family": facts.family,
        "title": facts.title,
        "shape": facts.shape,
        "case_id": facts.case_id,
        "arm": facts.arm,
        "subject_id": facts.subject_id,
        "subject_ids": list(facts.subject_ids),
        "device_model": facts.device_model,
        "device_unit": facts.device_unit,
        "host": facts.host,
        "change": facts.change,
        "change_low": facts.change_low,
        "change_high": facts.change_high,
        "price": facts.price,
        "since_run_id": facts.since_run_id,
        "since_at": facts.since_at,
        "last_good_run_id": facts.last_good_run_id,
        "confirm_run_id": facts.confirm_run_id,
        "revision_good": facts.revision_good,
        "revision_bad": facts.revision_bad,
        "differing": part_to_json(facts.differing),
        "cause": facts.cause,
        "sentence": facts.sentence,
        "evidence": part_to_json(facts.evidence),
        "owner": finding.owner,
        "snoozed_until": finding.snoozed_until,
        "opened_at": finding.opened_at,
        "updated_at": finding.updated_at,
        "repro": facts.repro,
    }
