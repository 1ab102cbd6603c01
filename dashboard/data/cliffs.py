"""Cliffs in shape space as they are now: neighbours between which the time for a unit of work jumps."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dashboard.data.source import ask


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCliff:
    """One row of `cliffs`; see detection.cliffs."""

    kind: str
    axis: str
    operator: str
    family: str
    dtype: str
    arm: str
    device_model: str
    device_unit: str
    small_case_id: str
    large_case_id: str
    small_subject_id: str
    large_subject_id: str
    small: float
    large: float
    small_s: float
    large_s: float
    change: float
    change_low: float
    change_high: float
    n: int
    since_run_id: str
    since_at: datetime
    run_id: str
    sentence: str


QUERY = """
select kind, axis, operator, family, dtype, arm, device_model, device_unit, small_case_id, large_case_id,
       small_subject_id, large_subject_id, small, large, small_s, large_s, change, change_low, change_high, n,
       since_run_id, since_at, run_id, sentence
from cliffs
where ($operator is null or operator = $operator) and ($model is null or device_model = $model)
order by change desc, cliff_id limit $most
"""


def cliffs(*, operator: str | None = None, device_model: str | None = None, most: int = 200) -> list[StoredCliff]:
    """The cliffs of an operator on a device model, or of all; the largest first."""
    return ask(StoredCliff, QUERY, {"operator": operator, "model": device_model, "most": most})
