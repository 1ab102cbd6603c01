"""The runs: where and with what they were made, what became of each row, and what was refused at the door."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from dashboard.data.source import ask, lake

if TYPE_CHECKING:
    from store.lake.ingest import QuarantineReason


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A run as the list shows it."""

    run_id: str
    kind: str | None
    status: str | None
    started_at: datetime
    finished_at: datetime | None
    suite: str | None
    device_model: str | None
    device_slice: str | None
    device_unit: str | None
    host: str | None
    revision: str | None
    wall_s: float | None
    note: str | None

    @property
    def partial(self) -> bool:
        return self.status != "complete"


RUNS_QUERY = """
select run_id, kind, status, started_at, finished_at, suite, coalesce(device_model, device_kind) as device_model,
       device_slice, device_unit, host, revision, wall_s, note
from runs order by started_at desc, run_id limit $limit
"""


def runs(limit: int) -> list[RunRow]:
    """The newest runs first."""
    return ask(RunRow, RUNS_QUERY, {"limit": limit})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDetail:
    """All that a run says of itself."""

    run_id: str
    kind: str | None
    confirms: str | None
    status: str | None
    started_at: datetime
    finished_at: datetime | None
    suite: str | None
    suite_hash: str | None
    seed: int | None
    replicates: int | None
    revision: str | None
    host: str | None
    device_kind: str | None
    device_model: str | None
    device_slice: str | None
    device_unit: str | None
    method_version: str | None
    driver: str | None
    torch: str | None
    triton: str | None
    clocks_policy: str | None
    host_image: str | None
    environment: str | None
    ceilings: str | None
    command: str | None
    wall_s: float | None
    note: str | None
    ingest_seq: int | None
    ingested_at: datetime | None

    def fields(self) -> dict[str, str]:
        """The environment, field -> text, the run's own columns first."""
        found: dict[str, str] = {}
        for name in ENVIRONMENT_COLUMNS:
            value = getattr(self, name)
            if value is not None:
                found[name] = str(value)
        for name, value in _parsed(self.environment).items():
            found.setdefault(name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        return found


ENVIRONMENT_COLUMNS = (
    "revision",
    "driver",
    "torch",
    "triton",
    "method_version",
    "clocks_policy",
    "host",
    "host_image",
    "device_unit",
    "suite_hash",
    "replicates",
)


def _parsed(text: str | None) -> dict[str, object]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {"environment": text}
    return found if isinstance(found, dict) else {"environment": found}


def run(run_id: str) -> RunDetail | None:
    names = ", ".join(RunDetail.__dataclass_fields__)
    found = ask(RunDetail, f"select {names} from runs where run_id = $run", {"run": run_id})  # noqa: S608
    return found[0] if found else None


def run_before(one: RunDetail) -> RunDetail | None:
    """The run of the same device just before it, confirm runs left out."""
    names = ", ".join(RunDetail.__dataclass_fields__)
    query = f"""
        select {names} from runs
        where device_unit is not distinct from $unit and device_model is not distinct from $model
          and started_at < $at and kind <> 'confirm' order by started_at desc limit 1
    """  # noqa: S608
    found = ask(RunDetail, query, {"unit": one.device_unit, "model": one.device_model, "at": one.started_at})
    return found[0] if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """One case x arm of a run, with the words of its series."""

    subject_id: str
    case_id: str
    operator: str | None
    title: str | None
    shape: str | None
    weight: float | None
    arm: str
    role: str | None
    implementation: str | None
    status: str
    status_kind: str | None
    status_reason: str | None
    latency_p50_s: float | None
    latency_p99_s: float | None
    latency_n: int | None
    latency_basis: str | None
    ratio_optimized: float | None
    ratio_optimized_low: float | None
    ratio_optimized_high: float | None
    roofline_fraction: float | None
    roofline_bound: str | None
    flop_per_s: float | None
    bandwidth_bytes_per_s: float | None
    peak_memory_bytes: int | None
    error_margin: float | None
    null_reasons: str | None
    repro: str | None

    def why_null(self, column: str) -> str:
        """The reason for which a number is not there, in words."""
        if self.status in ("failed", "wrong", "skipped"):
            return self.status
        reason = _parsed(self.null_reasons).get(column)
        if not reason and self.role == "aa":
            return "as optimized"
        return str(reason) if reason else "not known"


RESULTS_QUERY = """
select r.subject_id, r.case_id, r.operator, s.title, s.shape, r.weight, r.arm, r.role, r.implementation, r.status,
       r.status_kind, r.status_reason, r.latency_p50_s, r.latency_p99_s, r.latency_n, r.latency_basis,
       r.ratio_optimized, r.ratio_optimized_low, r.ratio_optimized_high, r.roofline_fraction, r.roofline_bound,
       r.flop_per_s, r.bandwidth_bytes_per_s, r.peak_memory_bytes, r.error_margin, r.null_reasons, r.repro
from results r left join series s using (subject_id)
where r.run_id = $run and r.month = $month and r.ingest_seq = $seq
order by r.weight desc nulls last, r.case_id,
         case r.role when 'naive' then 0 when 'optimized' then 1 when 'aa' then 2 else 3 end, r.arm
"""


def results(one: RunDetail) -> list[ResultRow]:
    """Every row of the run; its month and its ingest number lead to its file."""
    return ask(ResultRow, RESULTS_QUERY, result_parameters(one))


def result_parameters(one: RunDetail) -> dict[str, object]:
    return {"run": one.run_id, "month": f"{one.started_at:%Y-%m}", "seq": one.ingest_seq}


def quarantine() -> list[QuarantineReason]:
    """What ingest refused, the newest first."""
    from store.lake.maintenance import quarantined

    return sorted(quarantined(lake()), key=lambda refused: refused.at, reverse=True)
