"""The cliffs of every device unit as they are now: found over its latest runs, kept in the table `cliffs`."""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from collector.host.case_shapes import ShapedRow, load_shapes
from collector.host.history import UnitHistory, visible_columns
from detection.cliffs import LEAST_COLUMNS, Cliff, ShapeTimes, find_cliffs
from detection.verdict import Metric
from store.lake.lake import Lake

RECENT_RUNS = 7
"""Runs over which a present time is taken: one night may have been throttled."""
ROLES = ("optimized", "candidate")
"""Arms that somebody ships."""

Row = dict[str, Any]


def refresh_cliffs(lake: Lake, judged: Iterable[UnitHistory]) -> tuple[str, ...]:
    """Finds the cliffs of these units anew and returns a sentence for each that was not there at its last judging."""
    histories = {history.runs[-1].device_unit: history for history in judged if history.runs}
    if not histories:
        return ()
    stored = lake.sql("SELECT * FROM cliffs ORDER BY device_unit, cliff_id").to_pylist()
    known = {row["cliff_id"]: row for row in stored}
    looked_at = {row["device_unit"] for row in stored}
    kept = [row for row in stored if row["device_unit"] not in histories]
    notices = []
    for unit, history in sorted(histories.items()):
        for row in _rows_of(lake, history):
            before = known.get(row["cliff_id"])
            if before is not None:
                row |= {"since_run_id": before["since_run_id"], "since_at": before["since_at"]}
            elif unit in looked_at:
                notices.append(f"{row['run_id']}: {row['arm']} on {row['device_model']}: {row['sentence']}")
            kept.append(row)
    if kept or stored:
        lake.overwrite("cliffs", kept)
    return tuple(notices)


def _rows_of(lake: Lake, history: UnitHistory) -> list[Row]:
    column = next((i for i in range(len(history.runs) - 1, -1, -1) if history.runs[i].kind != "confirm"), None)
    if column is None:
        return []
    run = history.runs[column]
    columns = [*np.flatnonzero(visible_columns(history, column)).tolist()[1 - RECENT_RUNS :], column]
    by_series: dict[tuple[str, str, str], list[ShapedRow]] = defaultdict(list)
    for row in load_shapes(lake, run.run_id):
        if row.role in ROLES and row.measured:
            by_series[row.shape.operator, row.arm, row.settings].append(row)
    found = []
    for (_, arm, settings), rows in sorted(by_series.items()):
        places = {row.shape.case_id: row for row in rows}
        for cliff in find_cliffs(_times(rows, history, columns)):
            found.append(_row(cliff, places, arm, settings, history, column))
    return found


def _times(rows: list[ShapedRow], history: UnitHistory, columns: list[int]) -> list[ShapeTimes]:
    """Present times by run; by process of the newest run where there are too few runs. Work in roofline seconds where
    every case has them, else in FLOP."""
    roofs = all(row.roofline_s > 0 for row in rows)
    latency = history.metrics[Metric.LATENCY].value
    places = [history.row(row.subject_id) for row in rows]
    by_run = len(columns) >= LEAST_COLUMNS
    processes = min((len(row.processes_s) for row in rows), default=0)
    return [
        ShapeTimes(
            shape=row.shape,
            seconds=tuple(latency[place, columns].tolist()) if by_run else row.processes_s[:processes],
            work=row.roofline_s if roofs else row.shape.flops or math.nan,
        )
        for row, place in zip(rows, places, strict=True)
        if place is not None
    ]


def _row(
    cliff: Cliff, places: Mapping[str, ShapedRow], arm: str, settings: str, history: UnitHistory, column: int
) -> Row:
    small, large = places[cliff.small_case_id], places[cliff.large_case_id]
    run = history.runs[column]
    name = "\x1f".join((run.device_unit, arm, settings, cliff.axis, cliff.small_case_id, cliff.large_case_id))
    return {
        "cliff_id": hashlib.sha256(name.encode()).hexdigest()[:16],
        "kind": cliff.kind.value,
        "axis": cliff.axis,
        "operator": small.shape.operator,
        "family": small.family,
        "dtype": small.shape.dtype,
        "arm": arm,
        "device_model": run.device_model,
        "device_unit": run.device_unit,
        "small_case_id": cliff.small_case_id,
        "large_case_id": cliff.large_case_id,
        "small_subject_id": small.subject_id,
        "large_subject_id": large.subject_id,
        "small": cliff.small,
        "large": cliff.large,
        "small_s": cliff.small_s,
        "large_s": cliff.large_s,
        "change": cliff.change,
        "change_low": cliff.low,
        "change_high": cliff.high,
        "n": cliff.columns,
        "since_run_id": run.run_id,
        "since_at": run.started_at,
        "run_id": run.run_id,
        "sentence": cliff.sentence,
    }
