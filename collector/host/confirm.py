"""A confirm run: fresh replicates of a suspected change, compared with the runs from before it. The second witness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from collector.host.history import PAIRED_COLUMNS, RunFacts, UnitHistory, visible_columns
from collector.host.life import Moment
from collector.host.night_arrays import make_night
from collector.host.requests import ConfirmRequest, done_row, request_row
from collector.host.run_verdicts import SubjectVerdict
from collector.host.segments import Segment, Segments
from detection.findings import EventKind, Evidence, Facts, Finding, FindingEvent, Tile, finite
from detection.night import Night, judge_night, noise_of
from detection.policy import Policy
from detection.verdict import Metric, ReasonCode, Tier, VerdictStatus, in_words, percent
from detection.witness import Witness, together, weigh


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmOutcome:
    """What a confirm run says: verdicts, at most one event, and the rows that close (or repeat) its request."""

    verdicts: tuple[SubjectVerdict, ...]
    event: FindingEvent | None
    request_rows: tuple[dict[str, Any], ...]
    sentence: str


def judge_confirm(
    history: UnitHistory,
    column: int,
    request: ConfirmRequest,
    finding: Finding,
    segments: Segments,
    policy: Policy,
    moment: Moment,
    *,
    requests: Sequence[ConfirmRequest],
) -> ConfirmOutcome:
    """The confirm run at `column` against the baseline runs of the finding that it was asked about.

    All confirm runs of one finding are weighed together (detection.witness). While they are undecided it is asked
    again, up to the policy's tries, and left to the next nights after that.
    """
    run = history.runs[column]
    asked = {r.request_id for r in requests if r.finding_id == finding.finding_id}
    looks = [i for i, r in enumerate(history.runs[: column + 1]) if r.kind == "confirm" and r.confirms in asked]
    verdicts = _verdicts(history, looks or [column], finding, segments, policy)
    top = _dearest(verdicts, finding)
    decided = _status_outcome(history, column, finding) if finding.facts.metric is Metric.STATUS else None
    if decided is None:
        decided = (
            (None, f"Run {run.run_id} has no value to compare.")
            if top is None
            else _decide(top, max(len(looks), 1), finding, policy, run.device_kind)
        )
    kind, sentence = decided
    said = tuple(_as_confirm(v, kind, sentence if v is top else None) for v in verdicts)
    rows = [done_row(request, run_id=run.run_id, now=moment.at, reason=sentence)]
    if kind is None:
        if len(asked) < policy.confirm.tries:
            again = moment.event(EventKind.SUSPECTED, finding.facts, request.run_id)
            suite = request.suite
            rows.append(
                request_row(again, suite=suite, device_kind=run.device_kind, policy=policy, attempt=len(asked) + 1)
            )
        return ConfirmOutcome(verdicts=said, event=None, request_rows=tuple(rows), sentence=sentence)
    facts = _witnessed(finding.facts, kind, top, run, sentence)
    event = moment.event(kind, facts, run.run_id)
    return ConfirmOutcome(verdicts=said, event=event, request_rows=tuple(rows), sentence=sentence)


def _verdicts(
    history: UnitHistory,
    looks: Sequence[int],
    finding: Finding,
    segments: Segments,
    policy: Policy,
) -> list[SubjectVerdict]:
    """The members that the newest of the confirm runs measured, judged by the mean of all of them."""
    column = looks[-1]
    metric = finding.facts.metric
    wanted = set(finding.facts.subject_ids)
    rows = [
        i for i, s in enumerate(history.subjects) if s.subject_id in wanted and history.status[i, column] is not None
    ]
    if metric not in PAIRED_COLUMNS or not rows:
        return []
    own = {
        (row, metric): segments[row, metric]
        for row in rows
        if (row, metric) in segments and segments[row, metric].finding_id == finding.finding_id
    }
    since = next((i for i, r in enumerate(history.runs) if r.run_id == finding.facts.since_run_id), column)
    before = {(row, metric): own.get((row, metric), Segment(end=since)) for row in rows}
    visible = visible_columns(history, column)
    night = make_night(history, metric, rows, column, visible, before)
    everything = make_night(history, metric, range(len(history.subjects)), column, visible, {})
    night = replace(night, known_noise=noise_of(everything, policy))
    judgement = judge_night(_pooled(night, history, rows, looks, finding), policy)
    return [
        SubjectVerdict(
            subject=history.subjects[row],
            metric=metric,
            verdict=verdict,
            tier=Tier.CONFIRM,
            baseline_run_id=finding.facts.last_good_run_id,
            finding_id=finding.finding_id,
        )
        for row, verdict in zip(rows, judgement.verdicts, strict=True)
    ]


def _pooled(night: Night, history: UnitHistory, rows: Sequence[int], looks: Sequence[int], finding: Finding) -> Night:
    """The night with what all looks stand for in the place of the newest; as it is where one of them has no value."""
    night = replace(night, known_scatter=finding.facts.evidence.scatter)
    matrix = history.metrics[night.metric]
    values = matrix.value[np.ix_(rows, looks)]
    if len(looks) == 1 or not (values > 0).all():
        return night
    variance = matrix.variance[np.ix_(rows, looks)].mean(axis=1)
    changes = {m.subject_id: m.change for m in finding.facts.evidence.members}
    signs = [-1 if (changes.get(name) or 0.0) < 0 else 1 for name in night.subjects]
    stand_for = [together(row.tolist(), sign) for row, sign in zip(np.log(values), signs, strict=True)]
    return replace(
        night,
        value=np.exp([value for value, _ in stand_for]),
        process_sd=np.sqrt(variance) if np.isfinite(variance).all() else night.process_sd,
        looks=stand_for[0][1],
    )


def _dearest(verdicts: list[SubjectVerdict], finding: Finding) -> SubjectVerdict | None:
    usable = [v for v in verdicts if v.verdict.change is not None or v.verdict.code is ReasonCode.FROM_ZERO]
    first = [v for v in usable if v.subject.subject_id == finding.facts.subject_id]
    return next(iter(first or usable), None)


def _decide(
    top: SubjectVerdict, looks: int, finding: Finding, policy: Policy, device_kind: str
) -> tuple[EventKind | None, str]:
    verdict = top.verdict
    reported = next((m.change for m in finding.facts.evidence.members if m.subject_id == top.subject.subject_id), None)
    if verdict.change is None or verdict.low is None or verdict.high is None:
        still = verdict.code is ReasonCode.FROM_ZERO
        return (EventKind.CONFIRMED if still else EventKind.REFUTED), verdict.sentence
    interval = f"95 % interval {percent(verdict.low, signed=True)} to {percent(verdict.high, signed=True)}"
    seen = f"{looks} confirm runs" if looks > 1 else "1 confirm run"
    words = f"{in_words(finding.facts.metric, verdict.change)} in {seen} ({interval})"
    floor = policy.floor(finding.facts.metric, device_kind)
    witness = weigh(verdict, looks, reported, floor=floor, policy=policy)
    match witness:
        case Witness.CONFIRMED:
            return EventKind.CONFIRMED, f"Confirmed: {words}."
        case Witness.REFUTED:
            return EventKind.REFUTED, f"Not confirmed: {words}."
        case Witness.UNDECIDED:
            return None, f"Undecided: {words}."


def _status_outcome(history: UnitHistory, column: int, finding: Finding) -> tuple[EventKind | None, str]:
    """A case that failed: does it fail again?"""
    wanted = {(m.case_id, m.arm) for m in finding.facts.evidence.members}
    seen = {
        str(history.status[i, column])
        for i, s in enumerate(history.subjects)
        if (s.case_id, s.arm) in wanted and history.status[i, column] is not None
    }
    run_id = history.runs[column].run_id
    if not seen:
        return None, f"Run {run_id} has no row of the case."
    if seen & {"wrong", "failed"}:
        return EventKind.CONFIRMED, f"Confirmed: {', '.join(sorted(seen))} again in run {run_id}."
    return EventKind.REFUTED, f"Not confirmed: {', '.join(sorted(seen))} in run {run_id}."


def _as_confirm(said: SubjectVerdict, kind: EventKind | None, sentence: str | None) -> SubjectVerdict:
    """The verdict in the words of a second witness."""
    verdict = said.verdict
    if verdict.change is None:
        return said
    if kind is EventKind.CONFIRMED:
        status = VerdictStatus.REGRESSED if verdict.change > 0 else VerdictStatus.IMPROVED
        code = ReasonCode.CONFIRMED
    elif kind is EventKind.REFUTED:
        status, code = VerdictStatus.UNCHANGED, ReasonCode.REFUTED
    else:
        status, code = VerdictStatus.INCONCLUSIVE, ReasonCode.TOO_WIDE
    text = f"{sentence} {verdict.sentence}" if sentence else verdict.sentence
    return replace(said, verdict=replace(verdict, status=status, code=code, sentence=text))


def _witnessed(facts: Facts, kind: EventKind, top: SubjectVerdict | None, run: RunFacts, sentence: str) -> Facts:
    """The facts with the confirm run among the evidence; a confirmed change has the size that both runs showed last."""
    verdict = top.verdict if top else None
    tile = Tile(
        label="Confirmed" if kind is EventKind.CONFIRMED else "Looked at again",
        change=finite(verdict.change) if verdict else None,
        low=finite(verdict.low) if verdict else None,
        high=finite(verdict.high) if verdict else None,
        words=f"{verdict.n} fresh processes, {run.device_unit}" if verdict else run.device_unit,
    )
    evidence = replace(facts.evidence, confirm=sentence, tiles=(*_without_witness(facts.evidence), tile))
    return replace(facts, confirm_run_id=run.run_id, evidence=evidence)


def _without_witness(evidence: Evidence) -> tuple[Tile, ...]:
    return tuple(t for t in evidence.tiles if t.label not in ("Confirmed", "Looked at again"))
