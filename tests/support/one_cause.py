"""A second finding that began in the same night as the planted step: two of one group."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import simulated_lake
from simulated_lake import CASES, DEVICES, SimulatedDevice, Simulation

from collector.host.findings_store import refresh_findings_state
from detection.finding_rows import event_row
from detection.findings import EventKind, make_event
from store.lake.lake import Lake


def add_companion(
    lake: Lake, simulation: Simulation, *, device: SimulatedDevice = DEVICES[0], price: float = 0.0
) -> tuple[str, str]:
    """Confirms a slow-down of another case since the night of the planted step; gives the ids of the two."""
    step = next(event for event in simulated_lake.finding_events(simulation) if event.event is EventKind.CONFIRMED)
    assert step.facts is not None
    case = CASES[8]
    facts = replace(
        step.facts,
        group=f"with it {case.case_id}",
        title="Companion",
        case_id=case.case_id,
        subject_id=simulated_lake.subject_id(case, "candidate", device),
        subject_ids=(simulated_lake.subject_id(case, "candidate", device),),
        device_model=device.model,
        device_unit=device.unit,
        price=price,
    )
    events = [
        make_event(kind, facts, at=step.at + timedelta(minutes=minutes), as_of_seq=1, run_id=step.run_id)
        for kind, minutes in ((EventKind.SUSPECTED, 1), (EventKind.CONFIRMED, 2))
    ]
    lake.append("findings", [event_row(event) for event in events])
    refresh_findings_state(lake, now=datetime.now(UTC))
    return step.finding_id, events[0].finding_id
