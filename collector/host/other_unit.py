"""After a change is confirmed on its own device: is it this unit alone? Another unit of the model is asked.

One confirm run of fresh processes on the other unit, held against that unit's own runs from before the change, and only
if it measures the same revision. It shows the change too (the code, or the environment of all), or it does not (this
unit), or it cannot tell. Either way the finding stays what it is, confirmed; what is said is where it reaches.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from collector.host.confirm import ConfirmOutcome
from collector.host.history import PAIRED_COLUMNS, UnitHistory, visible_columns
from collector.host.life import Moment, is_fenced
from collector.host.night_arrays import make_night
from collector.host.requests import ConfirmRequest, done_row, request_row
from collector.host.run_verdicts import SubjectVerdict
from collector.host.segments import WHOLE_RUN, Segment
from detection.classify import FindingClass
from detection.findings import EventKind, Facts, Finding, FindingEvent, Tile, finite
from detection.night import judge_night
from detection.policy import Policy
from detection.verdict import Tier, Verdict, in_words, percent
from store.lake.lake import Lake

_RECENTLY = timedelta(days=14)
"""A unit that has not measured a night within so long before the change is not asked."""
_FELLOWS = """
    SELECT device_unit, arg_max(host, started_at) AS host, arg_max(device_kind, started_at) AS device_kind FROM runs
    WHERE device_model = $model AND device_unit <> $unit AND kind = 'night' AND started_at >= $since
    GROUP BY device_unit HAVING count(*) >= 3 ORDER BY max(started_at) DESC, device_unit
"""


def other_unit_request(
    lake: Lake, event: FindingEvent, findings: Mapping[str, Finding], request: ConfirmRequest, policy: Policy
) -> dict[str, Any] | None:
    """The row that asks another unit of the model; None where no other one reports, or it has spoken already."""
    facts = event.facts
    if event.event is not EventKind.CONFIRMED or facts.metric not in PAIRED_COLUMNS or facts.group.endswith(WHOLE_RUN):
        return None
    since = facts.since_at - _RECENTLY
    fellows = lake.sql(_FELLOWS, {"model": facts.device_model, "unit": facts.device_unit, "since": since}).to_pylist()
    fellow = next((f for f in fellows if not is_fenced(f["device_unit"], findings)), None)
    if fellow is None:
        return None
    row = request_row(event, suite=request.suite, device_kind=fellow["device_kind"] or "", policy=policy)
    name = "R-" + hashlib.sha256(f"{event.finding_id}\x1f{fellow['device_unit']}".encode()).hexdigest()[:8]
    return row | {
        "event_id": hashlib.sha256(f"{name}\x1fopen".encode()).hexdigest()[:16],
        "request_id": name,
        "host": fellow["host"] or "",
        "device_unit": fellow["device_unit"],
        "priority": row["priority"] / 2,  # it is known to be there; asked is where it reaches
        "reason": f"Confirmed on {facts.device_unit}: is it that unit alone? {facts.sentence}",
    }


def judge_other_unit(
    history: UnitHistory, column: int, request: ConfirmRequest, finding: Finding, policy: Policy, moment: Moment
) -> ConfirmOutcome:
    """What a confirm run on another unit says of a confirmed finding."""
    run, facts = history.runs[column], finding.facts
    said = _verdict(history, column, finding, policy)
    if facts.revision_bad is not None and run.revision != facts.revision_bad:
        reach, words = None, f"{run.device_unit} measures revision {run.revision}, not {facts.revision_bad}."
    elif said is None or said.verdict.change is None:
        reach, words = None, f"{run.device_unit} has no runs of the case from before the change."
    else:
        floor = math.log1p(policy.floor(facts.metric, run.device_kind))
        reach = _reaches(said.verdict, facts, floor, policy)
        words = f"{run.device_unit}: {_size(said, facts)}."
    event = None
    if said is not None and reach is not None:
        told = _told(facts, said, run.device_unit, run.run_id, reaches=reach, words=words)
        event = moment.event(EventKind.MOVED, told, run.run_id)
    rows = (done_row(request, run_id=run.run_id, now=moment.at, reason=words),)
    return ConfirmOutcome(verdicts=() if said is None else (said,), event=event, request_rows=rows, sentence=words)


def _verdict(history: UnitHistory, column: int, finding: Finding, policy: Policy) -> SubjectVerdict | None:
    """The series of this unit that does the same as the finding's first member, tonight against before the change."""
    facts = finding.facts
    top = next(iter(facts.evidence.members), None)
    row = next(
        (
            i
            for i, s in enumerate(history.subjects)
            if top is not None
            and (s.case_id, s.arm) == (top.case_id, top.arm)
            and history.status[i, column] is not None
        ),
        None,
    )
    if row is None:
        return None
    end = next((i for i, r in enumerate(history.runs) if r.started_at >= facts.since_at), column)
    before = {(row, facts.metric): Segment(end=end)}
    night = make_night(history, facts.metric, [row], column, visible_columns(history, column), before)
    verdict = judge_night(replace(night, known_scatter=facts.evidence.scatter), policy).verdicts[0]
    return SubjectVerdict(
        subject=history.subjects[row], metric=facts.metric, verdict=verdict, tier=Tier.CONFIRM,
        finding_id=finding.finding_id,
    )  # fmt: skip


def _reaches(verdict: Verdict, facts: Facts, floor: float, policy: Policy) -> bool | None:
    """Whether the change is there too: its interval clear of zero and its size beyond the floor; not there: even the
    far end is below the share of the change that a confirm run refutes by; None where neither holds."""
    if verdict.change is None or verdict.low is None or verdict.high is None or facts.change is None:
        return None
    sign = 1.0 if facts.direction > 0 else -1.0
    d, ends = sign * math.log1p(verdict.change), sorted(sign * math.log1p(e) for e in (verdict.low, verdict.high))
    if ends[0] > 0 and d > floor:
        return True
    small = max(floor, policy.confirm.share_of_change * abs(math.log1p(facts.change)))
    return False if ends[1] < small else None


def _size(said: SubjectVerdict, facts: Facts) -> str:
    verdict = said.verdict
    low, high = (percent(v or 0.0, signed=True) for v in (verdict.low, verdict.high))
    return f"{in_words(facts.metric, verdict.change or 0.0)} (95 % interval {low} to {high})"


def _told(facts: Facts, said: SubjectVerdict, unit: str, run_id: str, *, reaches: bool, words: str) -> Facts:
    tile = Tile(
        label="Another unit", change=finite(said.verdict.change), low=finite(said.verdict.low),
        high=finite(said.verdict.high), words=f"{said.verdict.n} fresh processes, {unit}",
    )  # fmt: skip
    tiles = (*(t for t in facts.evidence.tiles if t.label != "Another unit"), tile)
    reach = f"{unit} shows it too" if reaches else f"{unit} does not show it"
    evidence = replace(facts.evidence, tiles=tiles, confirm=f"{facts.evidence.confirm} {reach} ({run_id}).".strip())
    if reaches:
        return replace(facts, evidence=evidence)
    cause = f"{facts.device_unit} alone: {words} {facts.cause}"
    return replace(facts, evidence=evidence, finding_class=FindingClass.HOST, cause=cause)
