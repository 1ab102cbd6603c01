"""A run's verdicts in the light of open findings: still there, back, or a second step on top."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from collector.host.history import PAIRED_COLUMNS, UnitHistory
from collector.host.night_arrays import last_good_runs, make_night
from collector.host.run_verdicts import SubjectVerdict
from collector.host.segments import Segment, Segments
from detection.night import CommonShift, judge_night
from detection.noise_pool import NoisePool
from detection.policy import Policy
from detection.verdict import Metric, ReasonCode, Verdict, VerdictStatus


def with_finding(out: SubjectVerdict, segment: Segment, shift: CommonShift | None) -> SubjectVerdict:
    """The verdict in the light of an open finding: still there, back, or something new."""
    verdict = out.verdict
    if segment.finding_id is None:
        return out
    out = replace(out, finding_id=segment.finding_id)
    standing = _still_there(verdict, segment, shift)
    if standing is None:
        return out
    if standing:
        worse = segment.change is None or segment.change > 0
        return replace(
            out,
            verdict=replace(
                verdict,
                status=VerdictStatus.REGRESSED if worse else VerdictStatus.IMPROVED,
                code=ReasonCode.OPEN_FINDING,
                sentence=f"Still where {segment.finding_id} reported it. {verdict.sentence}",
            ),
        )
    if out.moved and verdict.change is not None and (segment.change or 0) * verdict.change < 0:
        return replace(out, finding_id=None)
    sentence = f"Back from {segment.finding_id}. {verdict.sentence}"
    recovered = replace(verdict, status=VerdictStatus.UNCHANGED, code=ReasonCode.RECOVERED, sentence=sentence)
    return replace(out, verdict=recovered)


def _still_there(verdict: Verdict, segment: Segment, shift: CommonShift | None) -> bool | None:
    """Whether an open finding's change stands tonight: half of it or more is left. None where tonight cannot say."""
    if verdict.code in (ReasonCode.FROM_ZERO, ReasonCode.STILL_ZERO):
        return verdict.code is ReasonCode.FROM_ZERO
    if verdict.change is None:
        return None
    now = math.log1p(verdict.change)
    if segment.whole_run:
        now += math.log1p(shift.change) if shift else 0.0
    if segment.change is None:
        return now > 0
    reported = math.log1p(segment.change)
    return math.copysign(1.0, reported) * now > abs(reported) / 2


def further_steps(
    history: UnitHistory,
    column: int,
    visible: NDArray[np.bool_],
    segments: Segments,
    policy: Policy,
    said: Sequence[SubjectVerdict],
    noise: Mapping[Metric, NoisePool],
    least: int = 3,
) -> dict[tuple[str, Metric], SubjectVerdict]:
    """Second steps on top of open findings: judged against the runs since the finding, `least` of them or more."""
    standing = {
        (v.subject.subject_id, v.metric): v.verdict.change for v in said if v.verdict.code is ReasonCode.OPEN_FINDING
    }
    found: dict[tuple[str, Metric], SubjectVerdict] = {}
    for metric in PAIRED_COLUMNS:
        levels: dict[tuple[int, Metric], Segment] = {}
        for (row, of), segment in segments.items():
            if of is metric and segment.end is not None and (history.subjects[row].subject_id, metric) in standing:
                values = history.metrics[metric].value[row, segment.end : column]
                if int(np.isfinite(values[visible[segment.end : column]]).sum()) >= least:
                    levels[row, metric] = Segment(start=segment.end)
        if not levels:
            continue
        rows = [row for row, _ in levels]
        further = make_night(history, metric, rows, column, visible, levels)
        judgement = judge_night(replace(further, known_noise=noise.get(metric)), policy)
        last_good = last_good_runs(history, metric, rows, visible, levels)
        for row, verdict, good in zip(rows, judgement.verdicts, last_good, strict=True):
            if verdict.code is ReasonCode.BEYOND_FLOOR:
                subject = history.subjects[row]
                found[subject.subject_id, metric] = SubjectVerdict(
                    subject=subject,
                    metric=metric,
                    verdict=verdict,
                    baseline_run_id=good,
                    total_change=standing[subject.subject_id, metric],
                )
    return found
