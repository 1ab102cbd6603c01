"""The cases of a run as points in shape space, from its rows."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from detection.shape_features import Shape
from store.lake.lake import Lake

_ROWS = """
    SELECT subject_id, case_id, operator, family, dtype, phase, axes, settings, arm, role, device_model, device_unit,
           status, flops, traffic_bytes, roofline_latency_s, time_processes_s, latency_p50_s
    FROM results WHERE run_id = $run ORDER BY subject_id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapedRow:
    """One row of a run, with its place in shape space."""

    subject_id: str
    shape: Shape
    family: str
    settings: str
    arm: str
    role: str
    device_model: str
    device_unit: str
    measured: bool
    roofline_s: float
    """NaN where no roof is known."""
    processes_s: tuple[float, ...]
    seconds: float
    """Median of one call; NaN where there is none."""


def load_shapes(lake: Lake, run_id: str) -> tuple[ShapedRow, ...]:
    """Every row of a run."""
    return tuple(_row(row) for row in lake.sql(_ROWS, {"run": run_id}).to_pylist())


def shapes_by_case(rows: tuple[ShapedRow, ...]) -> Mapping[str, Shape]:
    """The shape of each case."""
    return {row.shape.case_id: row.shape for row in rows}


def _row(row: Mapping[str, Any]) -> ShapedRow:
    shape = Shape(
        case_id=row["case_id"] or "",
        axes=axes_of(row["axes"]),
        operator=row["operator"] or "",
        phase=row["phase"] or "",
        dtype=row["dtype"] or "",
        flops=row["flops"],
        traffic_bytes=row["traffic_bytes"],
    )
    return ShapedRow(
        subject_id=row["subject_id"],
        shape=shape,
        family=row["family"] or row["operator"] or "",
        settings=row["settings"] or "",
        arm=row["arm"] or "",
        role=row["role"] or "candidate",
        device_model=row["device_model"] or "",
        device_unit=row["device_unit"] or "",
        measured=row["status"] == "measured",
        roofline_s=_number(row["roofline_latency_s"]),
        processes_s=tuple(_number(v) for v in row["time_processes_s"] or ()),
        seconds=_number(row["latency_p50_s"]),
    )


def axes_of(text: str | None) -> Mapping[str, tuple[float, ...]]:
    """The axes of a row as sizes; what is no size is left out."""
    parsed = json.loads(text) if text else {}
    found: dict[str, tuple[float, ...]] = {}
    for name, value in parsed.items() if isinstance(parsed, dict) else ():
        sizes = value if isinstance(value, list) else [value]
        if sizes and all(isinstance(v, int | float) and not isinstance(v, bool) for v in sizes):
            found[name] = tuple(float(v) for v in sizes)
    return found


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
