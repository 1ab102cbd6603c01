"""The newest row of every series of a device: what roofline, memory, numerics, shapes and collectives draw from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from dashboard.data.source import ask, table


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A device that has series."""

    device_unit: str
    device_model: str
    device_slice: str | None
    device_kind: str | None
    host: str | None
    latest_at: datetime
    series: int


DEVICES_QUERY = """
select coalesce(device_unit, '') as device_unit, coalesce(max(device_model), max(device_kind), 'unknown device')
       as device_model, max(device_slice) as device_slice, max(device_kind) as device_kind, max(host) as host,
       max(latest_at) as latest_at, count(*) as series
from series where device_kind is distinct from 'static' group by 1 order by latest_at desc, device_unit limit 500
"""


def devices() -> list[Device]:
    """Every device with a series, the most recently measured first."""
    return ask(Device, DEVICES_QUERY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The newest row of one series."""

    subject_id: str
    case_id: str
    operator: str | None
    family: str
    dtype: str | None
    phase: str | None
    title: str | None
    shape: str | None
    axes: str | None
    weight: float | None
    arm: str
    role: str | None
    implementation: str | None
    settings: str | None
    run_id: str
    measured_at: datetime
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
    ratio_naive: float | None
    flops: float | None
    traffic_bytes: float | None
    flop_per_s: float | None
    bandwidth_bytes_per_s: float | None
    bandwidth_utilization: float | None
    roofline_latency_s: float | None
    roofline_fraction: float | None
    roofline_bound: str | None
    peak_memory_bytes: int | None
    workspace_bytes: int | None
    error_max_abs: float | None
    error_max_rel: float | None
    error_mismatch_share: float | None
    error_margin: float | None
    message_bytes: int | None
    world_size: int | None
    algbw_bytes_per_s: float | None
    busbw_bytes_per_s: float | None
    rank_spread: float | None
    straggler_rank: int | None
    null_reasons: str | None
    verdict: str | None
    smallest_visible_change: float | None

    @property
    def name(self) -> str:
        return self.title or self.case_id

    @property
    def label(self) -> str:
        """Title and shape, for a point or a row."""
        return f"{self.name}, {self.shape}" if self.shape else self.name

    @property
    def axis_values(self) -> dict[str, object]:
        """The named axes of the case."""
        try:
            found = json.loads(self.axes or "{}")
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


_FROM_SERIES = ("title", "shape", "verdict", "smallest_visible_change")
_COLUMNS = ", ".join(
    "coalesce(r.family, 'other') as family" if name == "family" else f"{'s' if name in _FROM_SERIES else 'r'}.{name}"
    for name in Row.__dataclass_fields__
)
ROWS_QUERY = f"""
select {_COLUMNS}
from series s join results r on r.subject_id = s.subject_id and r.run_id = s.latest_run_id
where s.device_unit is not distinct from $unit and r.measured_at >= $since and r.month >= $month
  and r.role is distinct from 'sentinel'
order by r.weight desc nulls last, r.case_id, r.arm
"""  # noqa: S608
REACH = timedelta(days=45)
"""A series that was not measured for so long before the device's newest run is not of its present."""


def parameters(device: Device) -> dict[str, object]:
    since = device.latest_at - REACH
    return {"unit": device.device_unit or None, "since": since, "month": f"{since - timedelta(days=35):%Y-%m}"}


def rows(device: Device) -> list[Row]:
    """The newest rows of a device, the heaviest cases first."""
    return ask(Row, ROWS_QUERY, parameters(device))


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofs:
    """The roofs that a run used."""

    flop_per_s: Mapping[str, float]
    bandwidth_bytes_per_s: float | None
    link_bytes_per_s: float | None
    kind: str
    source: str
    measured_at: str
    tries: int


def parse_roofs(text: str | None) -> Roofs | None:
    """The roofs of a run's `ceilings`; None where it has none or they cannot be read."""
    try:
        raw = json.loads(text or "null")
    except ValueError:
        return None
    if not isinstance(raw, dict):
        return None
    peaks = raw.get("flop_per_s")
    samples = raw.get("samples")
    counts = [len(tries) for tries in samples.values()] if isinstance(samples, dict) else []
    return Roofs(
        flop_per_s={str(k): float(v) for k, v in peaks.items()} if isinstance(peaks, dict) else {},
        bandwidth_bytes_per_s=_number(raw.get("bandwidth_bytes_per_s")),
        link_bytes_per_s=_number(raw.get("link_bytes_per_s")),
        kind=str(raw.get("kind") or "measured"),
        source=str(raw.get("source") or ""),
        measured_at=str(raw.get("measured_at") or ""),
        tries=max(counts, default=0),
    )


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and value > 0 else None


def roofs(device: Device) -> Roofs | None:
    """The roofs of the device's newest run that has any."""
    query = """
        select ceilings from runs where device_unit is not distinct from $unit and ceilings is not null
          and ceilings <> 'null' order by started_at desc limit 1
    """
    found = table(query, {"unit": device.device_unit or None})["ceilings"].to_pylist()
    return parse_roofs(found[0]) if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrailPoint:
    """A value of a series in one run."""

    subject_id: str
    at: datetime
    value: float


def trail(subjects: Sequence[str], column: str, since: datetime) -> list[TrailPoint]:
    """A column of the measured rows of a few series since then, oldest first."""
    if not subjects:
        return []
    assert column in TRAILED
    placeholders = ", ".join(f"$s{i}" for i in range(len(subjects)))
    query = f"""
        select subject_id, measured_at as "at", {column}::double as value from results
        where subject_id in ({placeholders}) and status = 'measured' and {column} is not null
          and measured_at >= $since and month >= $month
        order by measured_at
    """  # noqa: S608
    given: dict[str, object] = {f"s{i}": subject for i, subject in enumerate(subjects)}
    return ask(TrailPoint, query, given | {"since": since, "month": f"{since - timedelta(days=35):%Y-%m}"})


TRAILED = ("roofline_fraction", "peak_memory_bytes", "error_margin", "rank_spread", "busbw_bytes_per_s")
