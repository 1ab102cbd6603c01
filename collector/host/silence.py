"""Devices that reported every night and stopped: one finding, resolved by the next run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise

import numpy as np

from collector.host.history import RunFacts, UnitHistory
from collector.host.life import Moment
from detection.classify import FindingClass
from detection.findings import EventKind, Evidence, Facts, Finding, FindingEvent, finding_id, make_event
from detection.policy import Policy
from detection.verdict import Metric
from store.lake.lake import Lake

_OVERDUE = """
    SELECT device_unit FROM runs GROUP BY device_unit
    HAVING max(started_at) >= $since AND max(started_at) < $due AND bool_or(kind <> 'import')
       AND count(*) > 5 ORDER BY device_unit
"""
NEWS = timedelta(days=14)
"""A device that has been silent for longer is not news: it was said, or it was gone before this store looked."""
RHYTHM_RUNS = 5
"""Runs whose rhythm says when the next one is due."""


def overdue_units(lake: Lake, now: datetime, policy: Policy) -> list[str | None]:
    """Units of which a run may be due; those of imported histories are not asked."""
    window = {"since": now - NEWS, "due": now - timedelta(hours=policy.silence.device_h)}
    return [row["device_unit"] for row in lake.sql(_OVERDUE, window).to_pylist()]


def silence_events(
    history: UnitHistory,
    upto: int,
    findings: Mapping[str, Finding],
    policy: Policy,
    moment: Moment,
    *,
    returned: RunFacts | None = None,
) -> list[FindingEvent]:
    """What the time since the run at column `upto` says: silent from the due hour on, back with the run `returned`.

    Only a device with a nightly rhythm can be late: the median of its last intervals must be at most the policy's
    hours, and at least a quarter of them.
    """
    regular = [run for run in history.runs[: upto + 1] if run.kind != "confirm"]
    if len(regular) <= RHYTHM_RUNS:
        return []
    last, limit = regular[-1], policy.silence.device_h
    times = [run.started_at for run in regular[-RHYTHM_RUNS - 1 :]]
    steps_h = [(b - a).total_seconds() / 3600 for a, b in pairwise(times)]
    if not limit / 4 <= float(np.median(steps_h)) <= limit:
        return []
    until = returned.started_at if returned else moment.at
    silent_h = (until - last.started_at).total_seconds() / 3600
    if silent_h <= limit:
        return []
    facts = _facts(last, silent_h, float(np.median(steps_h)))
    name = finding_id(facts.group, facts.metric, facts.direction, facts.since_run_id)
    events = []
    if name not in findings:
        due = min(last.started_at + timedelta(hours=limit), moment.at)
        events.append(_event(EventKind.CONFIRMED, facts, due, moment, last.run_id))
    if returned is not None and (name not in findings or findings[name].state.open):
        back = replace(facts, sentence=f"{_name(last)} reports again after {silent_h:.0f} h: run {returned.run_id}.")
        events.append(_event(EventKind.RESOLVED, back, moment.at, moment, returned.run_id))
    return events


def _event(kind: EventKind, facts: Facts, at: datetime, moment: Moment, run_id: str) -> FindingEvent:
    return make_event(kind, facts, at=at, as_of_seq=moment.as_of_seq, run_id=run_id)


def _name(run: RunFacts) -> str:
    return f"{run.device_unit} of {run.host}" if run.host and run.host != run.device_unit else run.device_unit


def _facts(last: RunFacts, silent_h: float, rhythm_h: float) -> Facts:
    return Facts(
        group=f"{last.device_unit} · silent",
        finding_class=FindingClass.HOST,
        direction=1,
        metric=Metric.SILENCE,
        operator="",
        family="",
        title=f"{_name(last)} is silent",
        shape="no run arrived",
        case_id="",
        arm="",
        subject_id="",
        subject_ids=(),
        device_model=last.device_model,
        device_unit=last.device_unit,
        host=last.host,
        change=None,
        change_low=None,
        change_high=None,
        price=None,
        since_run_id=last.run_id,
        since_at=last.started_at,
        last_good_run_id=last.run_id,
        cause="No run of this device reached the store.",
        sentence=(
            f"No run of {_name(last)} since {last.started_at:%d %b %Y %H:%M} UTC ({last.run_id}): "
            f"{silent_h:.0f} h, where one came every {rhythm_h:.0f} h."
        ),
        evidence=Evidence(baseline=f"its last {RHYTHM_RUNS} intervals"),
    )
