"""What can stand on the two sides of a comparison, and the rows of each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from dashboard.comparison import Measured
from dashboard.data.source import ask

POOLED_RUNS = 20
"""Of a revision or a driver at most so many runs, the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOfDevice:
    """A run, with what it can be pooled by."""

    run_id: str
    started_at: datetime
    ingest_seq: int
    revision: str | None
    driver: str | None
    kind: str | None
    device_unit: str | None


def runs_of(device_unit: str | None, limit: int = 400) -> list[RunOfDevice]:
    """The newest runs of a device."""
    query = """
        select run_id, started_at, ingest_seq, revision, driver, kind, device_unit from runs
        where device_unit is not distinct from $unit order by started_at desc limit $limit
    """
    return ask(RunOfDevice, query, {"unit": device_unit, "limit": limit})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    run_id: str
    case_id: str
    settings: str | None
    name: str | None
    shape: str | None
    subject_id: str
    weight: float | None
    status: str
    status_kind: str | None
    timer: str | None
    ratios: list[float | None] | None
    times: list[float | None] | None
    ratio_optimized: float | None
    latency_p50_s: float | None
    smallest_visible_change: float | None


ROWS_QUERY = """
select r.run_id, r.case_id, r.settings, s.title as name, s.shape, r.subject_id, r.weight, r.status, r.status_kind,
       r.ratio_timer as timer, r.log_ratio_optimized_processes as ratios, r.time_processes_s as times,
       r.ratio_optimized, r.latency_p50_s, s.smallest_visible_change
from results r left join series s using (subject_id)
where r.ingest_seq in ({seqs}) and r.arm = $arm and r.month >= $month
order by r.measured_at, r.case_id
"""


def side_query(runs: Sequence[RunOfDevice]) -> str:
    return ROWS_QUERY.format(seqs=", ".join(f"$q{i}" for i in range(len(runs))))


def side_parameters(runs: Sequence[RunOfDevice], arm: str) -> dict[str, object]:
    month = min((f"{run.started_at:%Y-%m}" for run in runs), default="9999-99")
    return {f"q{i}": run.ingest_seq for i, run in enumerate(runs)} | {"arm": arm, "month": month}


def side(runs: Sequence[RunOfDevice], arm: str) -> list[Measured]:
    """Every row of the arm in the runs, oldest first."""
    if not runs:
        return []
    found = ask(_Row, side_query(runs), side_parameters(runs, arm))
    return [
        Measured(
            case_id=row.case_id,
            settings=row.settings or "",
            name=row.name or row.case_id,
            shape=row.shape or "",
            subject_id=row.subject_id,
            weight=row.weight,
            status=row.status,
            status_kind=row.status_kind or "",
            timer=row.timer or "",
            log_ratios=_finite(row.ratios) or _log(row.ratio_optimized),
            log_times=tuple(math.log(t) for t in _finite(row.times) if t > 0) or _log(row.latency_p50_s),
            run_id=row.run_id,
            smallest_visible_change=row.smallest_visible_change,
        )
        for row in found
    ]


def _finite(values: list[float | None] | None) -> tuple[float, ...]:
    return tuple(v for v in values or () if v is not None and math.isfinite(v))


def _log(value: float | None) -> tuple[float, ...]:
    return (math.log(value),) if value and value > 0 else ()
