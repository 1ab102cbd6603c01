"""The devices as a fleet: when each last spoke, how it stands beside its own model, and the telemetry of a run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dashboard.data.source import ask


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A device unit beside the others of its model."""

    device_unit: str
    device_model: str
    host: str | None
    latest_at: datetime
    runs: int
    series: int
    not_measured: int
    invalid: int
    beside_model_log: float | None
    """Median over its series of log(time / median time of that series over the units of the model)."""
    compared: int
    units: int


UNITS_QUERY = """
with own as (
  select coalesce(device_unit, '') as device_unit, coalesce(device_model, device_kind, 'unknown device')
         as device_model, host, case_id, arm, settings, status, latency_p50_s, latest_at
  from series where device_kind is distinct from 'static'
), alike as (
  select *, median(ln(latency_p50_s)) filter (status = 'measured' and latency_p50_s > 0)
           over (partition by device_model, case_id, arm, settings) as middle,
         count(*) filter (status = 'measured') over (partition by device_model, case_id, arm, settings) as peers
  from own
), units as (
  select device_unit, device_model, max(host) as host, count(*) as series,
         count(*) filter (status <> 'measured') as not_measured, count(*) filter (status = 'invalid') as invalid,
         median(ln(latency_p50_s) - middle) filter (peers > 1 and status = 'measured' and latency_p50_s > 0)
           as beside_model_log,
         count(*) filter (peers > 1 and status = 'measured') as compared
  from alike group by 1, 2
), spoke as (
  select coalesce(device_unit, '') as device_unit, max(finished_at) as latest_at, count(*) as runs
  from runs where kind <> 'import' group by 1
)
select units.*, coalesce(spoke.latest_at, epoch_ms(0)::timestamptz) as latest_at, coalesce(spoke.runs, 0) as runs,
       count(*) over (partition by device_model) as units
from units left join spoke using (device_unit)
order by device_model, abs(beside_model_log) desc nulls last, device_unit
limit 2000
"""


def units() -> list[Unit]:
    """Every unit, those that stand out most first within their model."""
    return ask(Unit, UNITS_QUERY)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOfUnit:
    """A run whose telemetry can be shown."""

    run_id: str
    started_at: datetime
    ingest_seq: int


def runs_of_unit(device_unit: str | None, limit: int = 200) -> list[RunOfUnit]:
    query = """
        select run_id, started_at, ingest_seq from runs
        where device_unit is not distinct from $unit order by started_at desc limit $limit
    """
    return ask(RunOfUnit, query, {"unit": device_unit, "limit": limit})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One value of one metric."""

    at: datetime
    metric: str
    unit: str | None
    value: float | None
    reason: str | None


TELEMETRY_QUERY = """
select "at", metric, unit, value, reason from telemetry
where run_id = $run and ingest_seq = $seq and month = $month and "at" is not null order by metric, "at"
"""


def telemetry(run: RunOfUnit) -> list[Reading]:
    """What was sampled beside the run, metric by metric."""
    return ask(Reading, TELEMETRY_QUERY, telemetry_parameters(run))


def telemetry_parameters(run: RunOfUnit) -> dict[str, object]:
    return {"run": run.run_id, "seq": run.ingest_seq, "month": f"{run.started_at:%Y-%m}"}
