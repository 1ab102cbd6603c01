"""The results of one device unit as matrices, subjects by runs: what the judge's arithmetic needs, read once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detection.verdict import Metric
from store.lake.lake import Lake

Floats = NDArray[np.float64]

PAIRED_COLUMNS = {
    Metric.LATENCY_RATIO: "ratio",
    Metric.LATENCY: "latency",
    Metric.LATENCY_P99: "p99",
    Metric.FLOP_RATE: "flop_rate",
    Metric.BANDWIDTH: "bandwidth",
    Metric.PEAK_MEMORY: "memory",
    Metric.ERROR: "error",
}
"""Metric -> the prefix of its columns in the query below."""

LEAST_RUNS = 70
"""Runs that are loaded whatever they weigh: the judge looks at sixty."""
MOST_VALUES = 8_000_000
"""Values of one metric that are loaded at most beyond that; some twenty arrays have this size."""

_NARROWING = (" --case", " --arm", " --shard")
_SIZE = "SELECT count(*) AS n FROM results WHERE run_id = $run"
_RUNS = """
    SELECT run_id, ingest_seq, kind, confirms, started_at, suite, host, device_kind, device_model, device_slice,
           device_unit, revision, method_version, driver, torch, triton, clocks_policy, host_image, environment,
           catalog, command
    FROM runs WHERE device_unit IS NOT DISTINCT FROM $unit ORDER BY started_at, run_id
"""
_RESULTS = """
    WITH r AS (
        SELECT *, list_transform(list_filter(time_processes_s, lambda t: t > 0), lambda t: ln(t)) AS log_times,
               list_filter(log_ratio_optimized_processes, lambda t: isfinite(t)) AS log_ratios,
               latency_p50_s IS NULL AND time_processes_s IS NULL AS untimed
        FROM results WHERE run_id IN (SELECT unnest($runs)) AND role IS DISTINCT FROM 'sentinel'
    )
    SELECT run_id, subject_id, status, status_kind, status_reason,
           coalesce(exp(list_avg(log_ratios)), ratio_optimized) AS ratio_value,
           len(log_ratios) AS ratio_n, list_var_samp(log_ratios) AS ratio_variance,
           coalesce(exp(list_avg(log_times)), latency_p50_s) AS latency_value,
           len(log_times) AS latency_n, list_var_samp(log_times) AS latency_variance,
           latency_p99_s AS p99_value,
           CASE WHEN untimed AND flop_per_s > 0 THEN 1 / flop_per_s END AS flop_rate_value,
           CASE WHEN untimed AND flop_per_s IS NULL AND bandwidth_bytes_per_s > 0 THEN 1 / bandwidth_bytes_per_s END
           AS bandwidth_value,
           CAST(peak_memory_bytes AS DOUBLE) AS memory_value,
           error_margin AS error_value
    FROM r
"""
_SUBJECTS = """
    SELECT subject_id, arg_max(STRUCT_PACK(case_id := case_id, operator := operator, family := family, arm := arm,
           role := role, weight := weight, settings := settings,
           repro := repro), measured_at) AS facts
    FROM results WHERE run_id IN (SELECT unnest($runs)) AND role IS DISTINCT FROM 'sentinel'
    GROUP BY subject_id ORDER BY subject_id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What the judge needs of a run."""

    run_id: str
    ingest_seq: int
    kind: str
    confirms: str | None
    started_at: datetime
    suite: str
    host: str
    device_kind: str
    device_model: str
    device_unit: str
    revision: str | None
    environment: Mapping[str, str | None]
    """Flat: the fingerprint, and the run's own columns of versions."""
    catalog: Mapping[str, Any]
    narrowed: bool = False
    """Whether only chosen cases or arms of the suite were asked for: what it lacks is not missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is measured: case x arm on this unit."""

    subject_id: str
    case_id: str
    operator: str
    family: str
    arm: str
    role: str
    weight: float | None
    settings: str
    repro: str | None

    @property
    def planted(self) -> float | None:
        """Size of a planted slow-down; None for every other arm."""
        size = _object(self.settings).get("planted") if self.role == "planted" else None
        return None if size is None else float(size)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Matrix:
    """One metric: [subjects, runs]; NaN where a run has no judged value."""

    value: Floats
    n: NDArray[np.int64]
    variance: Floats
    """Of the logarithms between processes."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnitHistory:
    """All runs of one device unit, oldest first, with their results."""

    runs: tuple[RunFacts, ...]
    subjects: tuple[Subject, ...]
    metrics: Mapping[Metric, Matrix]
    paired: NDArray[np.bool_]
    """[S] whether the subject ever had a paired ratio."""
    status: NDArray[np.object_]
    """[S, R] row status, None where the run has no row of the subject."""
    status_kind: NDArray[np.object_]
    status_reason: NDArray[np.object_]
    places: Mapping[str, int]
    """Subject id -> row."""

    def column(self, run_id: str) -> int:
        """The place of a run in time."""
        return next(i for i, run in enumerate(self.runs) if run.run_id == run_id)

    def row(self, subject_id: str) -> int | None:
        """The row of a subject, or None."""
        return self.places.get(subject_id)

    def baseline_rows(self, rows: Sequence[int]) -> list[int]:
        """Whose past each row is held against: its own; of a planted slow-down, the A/A copy's on the same case.

        The arm is the optimized implementation on a night when it got slower, so that what is seen of it is what would
        be seen of a change of that size.
        """
        copies = {(s.case_id, s.settings): i for i, s in enumerate(self.subjects) if s.role == "aa"}
        return [copies.get(_unplanted(self.subjects[row]) or ("", ""), row) for row in rows]


def visible_columns(history: UnitHistory, column: int) -> NDArray[np.bool_]:
    """Runs that are evidence for the one at `column`: older ones that were not made to confirm something."""
    return np.array([i < column and run.kind != "confirm" for i, run in enumerate(history.runs)], dtype=bool)


def _unplanted(subject: Subject) -> tuple[str, str] | None:
    """Case and settings of the copy that a planted arm is compared with; None for any other arm."""
    if subject.role != "planted":
        return None
    settings = {k: v for k, v in _object(subject.settings).items() if k != "planted"}
    return subject.case_id, json.dumps(settings, sort_keys=True)


def load_unit(lake: Lake, device_unit: str | None, *, to_judge: int = 1) -> UnitHistory:
    """The history of a device unit: all of it, or what fits into memory of the newest runs, `to_judge` among them.

    A unit with a hundred thousand series is judged on its last hundred nights or so; a smaller one on years.
    """
    rows = lake.sql(_RUNS, {"unit": device_unit}).to_pylist()
    if rows:
        latest = lake.sql(_SIZE, {"run": rows[-1]["run_id"]}).to_pylist()[0]["n"]
        rows = rows[-(to_judge + max(LEAST_RUNS, MOST_VALUES // max(latest, 1))) :]
    runs = tuple(_run(row) for row in rows)
    names = [run.run_id for run in runs]
    subjects = tuple(_subject(row) for row in lake.sql(_SUBJECTS, {"runs": names}).to_pylist())
    table = lake.sql(_RESULTS, {"runs": names})
    shape = (len(subjects), len(runs))
    columns = _places(table["run_id"].to_pylist(), names)
    places_of = {s.subject_id: i for i, s in enumerate(subjects)}
    places = _places(table["subject_id"].to_pylist(), [s.subject_id for s in subjects])
    measured = np.array(table["status"].to_pylist(), dtype=object) == "measured"
    metrics = {}
    for metric, prefix in PAIRED_COLUMNS.items():
        value = _floats(table, f"{prefix}_value")
        value[~measured] = np.nan
        matrix = Matrix(value=np.full(shape, np.nan), n=np.ones(shape, dtype=np.int64), variance=np.full(shape, np.nan))
        matrix.value[places, columns] = value
        if f"{prefix}_n" in table.column_names:
            matrix.n[places, columns] = np.nan_to_num(_floats(table, f"{prefix}_n"), nan=1).astype(np.int64)
            matrix.variance[places, columns] = _floats(table, f"{prefix}_variance")
        metrics[metric] = matrix
    texts = {}
    for name in ("status", "status_kind", "status_reason"):
        texts[name] = np.full(shape, None, dtype=object)
        texts[name][places, columns] = np.array([*table[name].to_pylist(), None], dtype=object)[:-1]
    paired = np.asarray(np.isfinite(metrics[Metric.LATENCY_RATIO].value).any(axis=1), dtype=bool)
    return UnitHistory(runs=runs, subjects=subjects, metrics=metrics, paired=paired, places=places_of, **texts)


def _places(names: Sequence[str], order: Sequence[str]) -> NDArray[np.int64]:
    index = {name: i for i, name in enumerate(order)}
    return np.array([index[name] for name in names], dtype=np.int64)


def _floats(table: Any, name: str) -> Floats:
    column = table[name].to_numpy()
    return np.array(column, dtype=float)


def _run(row: Mapping[str, Any]) -> RunFacts:
    environment: dict[str, str | None] = {k: str(v) for k, v in _object(row["environment"]).items()}
    for name in ("revision", "method_version", "driver", "torch", "triton", "clocks_policy", "host_image", "host"):
        environment[name] = row[name]
    return RunFacts(
        run_id=row["run_id"],
        ingest_seq=row["ingest_seq"],
        kind=row["kind"] or "night",
        confirms=row["confirms"],
        started_at=row["started_at"],
        suite=row["suite"] or "",
        host=row["host"] or "",
        device_kind=row["device_kind"] or "",
        device_model=row["device_model"] or "",
        device_unit=row["device_unit"] or "",
        revision=row["revision"],
        environment=environment,
        catalog=_object(row["catalog"]),
        narrowed=any(option in (row["command"] or "") for option in _NARROWING),
    )


def _subject(row: Mapping[str, Any]) -> Subject:
    facts = row["facts"]
    return Subject(
        subject_id=row["subject_id"],
        case_id=facts["case_id"] or "",
        operator=facts["operator"] or "",
        family=facts["family"] or facts["operator"] or "",
        arm=facts["arm"] or "",
        role=facts["role"] or "candidate",
        weight=facts["weight"],
        settings=facts["settings"] or "",
        repro=facts["repro"],
    )


def _object(text: str | None) -> Mapping[str, Any]:
    if not text:
        return {}
    parsed = json.loads(text)
    return parsed if isinstance(parsed, dict) else {}
