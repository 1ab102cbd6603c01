"""One metric of one run as the arrays that `detection` judges: tonight's values, and each series' baseline runs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from collector.host.history import Floats, UnitHistory
from collector.host.segments import WHOLE, Segments
from detection.night import Night
from detection.verdict import UNPAIRED, Metric, ReasonCode

CONTROL_ROLES = frozenset({"aa", "naive"})
"""Arms that the code under test does not touch: what moves them moved the run."""

_OF_STATUS = {"wrong": ReasonCode.WRONG, "failed": ReasonCode.FAILED, "skipped": ReasonCode.SKIPPED}


def make_night(
    history: UnitHistory,
    metric: Metric,
    rows: Sequence[int],
    column: int,
    visible: NDArray[np.bool_],
    segments: Segments,
) -> Night:
    """The arrays of one metric for the given rows."""
    matrix = history.metrics[metric]
    picked = np.array(rows, dtype=np.int64)
    value = matrix.value[picked, column]
    before = np.array(history.baseline_rows(rows), dtype=np.int64)
    past = baseline_values(history, metric, rows, column, visible, segments)
    known = np.isfinite(past)
    variance, df = matrix.variance[before, :column], (matrix.n[before, :column] - 1).astype(float)
    counted = known & np.isfinite(variance) & (df > 0)
    total_df = np.where(counted, df, 0).sum(axis=1)
    pooled = np.where(counted, df * np.nan_to_num(variance), 0).sum(axis=1) / np.maximum(total_df, 1)
    controls = metric is Metric.LATENCY_RATIO or metric in UNPAIRED
    return Night(
        metric=metric,
        device_kind=history.runs[column].device_kind,
        subjects=tuple(history.subjects[row].subject_id for row in rows),
        value=value,
        processes=matrix.n[picked, column],
        process_sd=np.sqrt(matrix.variance[picked, column]),
        history=packed(past, known),
        history_process_variance=np.where(total_df > 0, pooled, np.nan),
        history_process_df=total_df,
        control=np.array([controls and history.subjects[row].role in CONTROL_ROLES for row in rows], dtype=bool),
        absent=tuple(_absent(history, row, column, float(v)) for row, v in zip(rows, value, strict=True)),
        told=np.array([segments.get((row, metric), WHOLE).finding_id is not None for row in rows], dtype=bool),
    )


def baseline_values(
    history: UnitHistory,
    metric: Metric,
    rows: Sequence[int],
    column: int,
    visible: NDArray[np.bool_],
    segments: Segments,
) -> Floats:
    """[rows, runs before `column`]: the values that each row is held against, in the columns of their runs."""
    before = np.array(history.baseline_rows(rows), dtype=np.int64)
    past = np.where(visible[None, :column], history.metrics[metric].value[before, :column], np.nan)
    for i, row in enumerate(before.tolist()):
        segment = segments.get((row, metric))
        if segment is not None:
            past[i, ~segment.mask(column)] = np.nan
    return past


def packed(values: Floats, known: NDArray[np.bool_]) -> Floats:
    """Each row's known places moved to the right end, so that a window of columns is a window of runs."""
    if values.shape[1] == 0:
        return values
    order = np.argsort(known, axis=1, kind="stable")
    used = int(known.sum(axis=1).max(initial=0))
    return np.take_along_axis(values, order, axis=1)[:, values.shape[1] - used :]


def _absent(history: UnitHistory, row: int, column: int, value: float) -> tuple[ReasonCode, str] | None:
    status = history.status[row, column]
    if status == "measured":
        return None if math.isfinite(value) else (ReasonCode.NO_VALUE, "This run has no such number for the series.")
    kind, said = history.status_kind[row, column], history.status_reason[row, column]
    sentence = said or f"The row is {status}{f' ({kind})' if kind else ''}."
    if status == "invalid" or kind == "impossible_value":
        code = ReasonCode(kind) if kind in set(ReasonCode) else ReasonCode.NO_VALUE
        return code, sentence
    return _OF_STATUS.get(str(status), ReasonCode.NO_VALUE), sentence


def last_good_runs(
    history: UnitHistory,
    metric: Metric,
    rows: Sequence[int],
    visible: NDArray[np.bool_],
    segments: Segments,
) -> list[str | None]:
    """The newest baseline run of each row that has a value; None where there is none."""
    usable = np.isfinite(history.metrics[metric].value[rows]) & visible
    for i, row in enumerate(rows):
        segment = segments.get((row, metric))
        if segment is not None:
            usable[i] &= segment.mask(visible.size)
    newest = visible.size - 1 - np.argmax(usable[:, ::-1], axis=1)
    found = np.asarray(usable.any(axis=1))
    return [history.runs[c].run_id if ok else None for c, ok in zip(newest.tolist(), found.tolist(), strict=True)]
