"""One run of one device unit against that unit's history: arrays for `detection`, verdicts back."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from collector.host.history import PAIRED_COLUMNS, UnitHistory, visible_columns
from collector.host.night_arrays import last_good_runs, make_night
from collector.host.open_findings import further_steps, with_finding
from collector.host.row_status import missing_series, newly_failing
from collector.host.run_verdicts import RunVerdicts, SubjectVerdict
from collector.host.segments import WHOLE, Segments
from collector.host.siblings import siblings_of
from detection.night import RECENT, CommonShift, judge_night
from detection.noise_pool import NoisePool
from detection.policy import Policy
from detection.verdict import Metric, ReasonCode


def judge_run(history: UnitHistory, column: int, segments: Segments, policy: Policy) -> RunVerdicts:
    """Every series of the run at `column` against its baseline runs; what is already reported is not said again."""
    visible = visible_columns(history, column)
    rows = [i for i in range(len(history.subjects)) if history.status[i, column] is not None]
    said: list[SubjectVerdict] = []
    shift: CommonShift | None = None
    scatter: dict[Metric, float] = {}
    discovery_p: dict[Metric, float] = {}
    noise: dict[Metric, NoisePool] = {}
    for metric in PAIRED_COLUMNS:
        chosen = [row for row in rows if _is_judged(history, metric, row, column)]
        if not chosen:
            continue
        night = make_night(history, metric, chosen, column, visible, segments)
        siblings = siblings_of(history, metric, chosen, column, visible, segments, policy)
        judgement = judge_night(replace(night, siblings=siblings), policy)
        scatter[metric], discovery_p[metric] = judgement.scatter, judgement.discovery_p
        noise[metric] = judgement.noise
        if metric is not Metric.LATENCY_P99 and judgement.shift is not None and not judgement.shift.usual:
            shift = shift or judgement.shift
        last_good = last_good_runs(history, metric, chosen, visible, segments)
        for i, verdict in enumerate(judgement.verdicts):
            if verdict.code is ReasonCode.RECENT_NIGHTS:  # it may have begun with the first of those nights
                before = visible & (np.arange(visible.size) < _nights_back(visible, max(RECENT) - 1))
                last_good[i] = last_good_runs(history, metric, [chosen[i]], before, segments)[0]
        for row, verdict, good in zip(chosen, judgement.verdicts, last_good, strict=True):
            segment = segments.get((row, metric), WHOLE)
            subject = history.subjects[row]
            plain = SubjectVerdict(subject=subject, metric=metric, verdict=verdict, baseline_run_id=good)
            said.append(with_finding(plain, segment, judgement.shift))
    said += newly_failing(history, rows, column, visible, segments, policy)
    said += missing_series(history, column, visible, policy)
    steps = further_steps(history, column, visible, segments, policy, said, noise)
    kept = [steps.get((v.subject.subject_id, v.metric), v) for v in said]
    return RunVerdicts(
        run=history.runs[column],
        column=column,
        verdicts=tuple(kept),
        shift=shift,
        scatter=scatter,
        discovery_p=discovery_p,
        noise=noise,
    )


def _is_judged(history: UnitHistory, metric: Metric, row: int, column: int) -> bool:
    """Whether the series has this metric. A row without times is judged, to say why not, under one metric only."""
    subject = history.subjects[row]
    if subject.role == "planted":
        return False  # another case each night, another size: see `planted_audit`
    if history.status[row, column] != "measured":
        return metric is (
            Metric.LATENCY_RATIO if history.paired[row] and subject.role != "optimized" else Metric.LATENCY
        )
    if metric is Metric.LATENCY_RATIO and subject.role == "optimized":
        return False
    return math.isfinite(history.metrics[metric].value[row, column])


def _nights_back(visible: NDArray[np.bool_], nights: int) -> int:
    """The column of the run so many before the newest visible one, itself excluded from what is older."""
    columns = np.flatnonzero(visible)
    return int(columns[-nights]) if columns.size >= nights else 0


def planted_audit(history: UnitHistory, judged: RunVerdicts, policy: Policy) -> list[SubjectVerdict]:
    """Would the planted slow-downs of a run have been noticed, had they happened to the optimized arm?

    Judged as if tonight's A/A copy of the case had their ratio, with the scatter and among the discoveries of the whole
    night; without earlier nights of that copy there is no answer.
    """
    ratio, column = Metric.LATENCY_RATIO, judged.column
    matrix, visible = history.metrics[ratio], visible_columns(history, column)
    copies = {s.case_id: i for i, s in enumerate(history.subjects) if s.role == "aa"}
    said = []
    for row, subject in enumerate(history.subjects):
        copy = copies.get(subject.case_id)
        if subject.role != "planted" or copy is None or not math.isfinite(matrix.value[row, column]):
            continue
        night = make_night(history, ratio, [copy], column, visible, {})
        night = replace(
            night,
            value=matrix.value[[row], column],
            processes=matrix.n[[row], column],
            process_sd=np.sqrt(matrix.variance[[row], column]),
            control=np.array([False]),
            absent=(None,),
            known_scatter=judged.scatter.get(ratio, 1.0),
            known_discovery_p=judged.discovery_p.get(ratio),
            known_noise=judged.noise.get(ratio),
        )
        said.append(SubjectVerdict(subject=subject, metric=ratio, verdict=judge_night(night, policy).verdicts[0]))
    return said
