"""What the first page says. Reads only `runs`, `series`, `findings_state` and `audits`: no row of history."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from dashboard.data.source import ask, stamp, store_uri, table

if TYPE_CHECKING:
    import pyarrow as pa

OPEN_STATES = ("confirmed", "acknowledged", "reopened")
"""States of a finding that costs something and is not explained away."""
NEW_WITHIN = timedelta(hours=36)
"""A finding opened so shortly before the newest run is of "since yesterday": a night and its confirm run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeTotals:
    """How much has been measured."""

    runs: int
    first_at: datetime | None
    latest_at: datetime | None


LAKE_QUERY = """
select count(*) as runs, min(finished_at) as first_at, max(finished_at) as latest_at
from runs where device_kind is distinct from 'static'
"""
"""Kernels that were compiled only are no night."""


def totals() -> LakeTotals:
    return ask(LakeTotals, LAKE_QUERY)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingRow:
    """A finding as a list shows it, with the last values of its series."""

    finding_id: str
    state: str
    finding_class: str | None
    direction: int
    metric: str
    title: str | None
    shape: str | None
    case_id: str | None
    subject_id: str | None
    device_model: str | None
    device_unit: str | None
    host: str | None
    change: float | None
    change_low: float | None
    change_high: float | None
    price: float | None
    since_at: datetime | None
    opened_at: datetime | None
    revision_good: str | None
    revision_bad: str | None
    cause: str | None
    owner: str | None
    group_size: int
    sparkline_ratio: list[float | None] | None
    sparkline_latency_s: list[float | None] | None
    sparkline_at: list[datetime] | None

    @property
    def name(self) -> str:
        return self.title or self.case_id or self.finding_id

    @property
    def sparkline(self) -> list[float | None]:
        """The values of what is judged: ratio or latency; empty for what has no sparkline."""
        if self.metric == "latency_ratio":
            return self.sparkline_ratio or []
        return (self.sparkline_latency_s or []) if self.metric.startswith("latency") else []

    @property
    def since_index(self) -> int | None:
        """Index in the sparkline of the first value of the change."""
        if self.since_at is None or not self.sparkline_at:
            return None
        earlier = [at for at in self.sparkline_at if at < self.since_at]
        return len(earlier)


FINDINGS_QUERY = """
select f.finding_id, f.state, f.finding_class, f.direction, f.metric, f.title, f.shape, f.case_id, f.subject_id,
       f.device_model, f.device_unit, f.host, f.change, f.change_low, f.change_high, f.price, f.since_at, f.opened_at,
       f.revision_good, f.revision_bad, f.cause, f.owner, coalesce(len(f.subject_ids), 1) as group_size,
       s.sparkline_ratio, s.sparkline_latency_s, s.sparkline_at
from findings_state f left join series s on s.subject_id = f.subject_id
where f.state <> 'refuted' and ($opened_after is null or f.opened_at >= $opened_after)
order by abs(f.price) desc nulls last, abs(f.change) desc nulls last, f.finding_id
limit $limit
"""


def findings_by_price(limit: int) -> list[FindingRow]:
    """The dearest findings first; those without a price last, by size."""
    return ask(FindingRow, FINDINGS_QUERY, {"limit": limit, "opened_after": None})


def new_findings(lake: LakeTotals) -> list[FindingRow]:
    """The findings of "since yesterday", the dearest first."""
    if lake.latest_at is None:
        return []
    return ask(FindingRow, FINDINGS_QUERY, {"limit": 50, "opened_after": lake.latest_at - NEW_WITHIN})


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingTotals:
    """How many findings there are, and what the open slow-downs cost on the device where they cost most.

    A price is a share of one device's production time, so shares of several devices are not added up.
    """

    shown: int
    open_slower: int
    suspected: int
    devices: int
    """With an open slow-down."""
    unpriced: int
    dearest_model: str | None
    open_price: float | None
    """Of the dearest device's production time; None where no finding has a price."""
    suspected_price: float | None
    """What is only suspected on that device."""


TOTALS_QUERY = """
with marked as (
  select *, state in ('confirmed', 'acknowledged', 'reopened') and direction > 0 as open_slower,
         coalesce(device_unit, device_model, '') as device
  from findings_state
), priced as (
  select device, any_value(device_model) as model, sum(price) filter (open_slower) as open_price,
         sum(price) filter (state = 'suspected' and direction > 0) as suspected_price
  from marked group by 1
), dearest as (select * from priced order by open_price desc nulls last, device limit 1)
select count(*) filter (state <> 'refuted') as shown, count(*) filter (open_slower) as open_slower,
       count(*) filter (state = 'suspected') as suspected,
       count(distinct device) filter (open_slower) as devices,
       count(*) filter (open_slower and price is null) as unpriced,
       (select model from dearest) as dearest_model, (select open_price from dearest) as open_price,
       (select suspected_price from dearest) as suspected_price
from marked
"""


def finding_totals() -> FindingTotals:
    return ask(FindingTotals, TOTALS_QUERY)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """How much of the latest runs was judged against history, over the candidates' series."""

    series: int
    judged: int
    inconclusive: int
    not_judged: int
    visible_median: float | None
    cases: int


JUDGED_QUERY = """
select count(*) filter (role = 'candidate') as series,
       count(*) filter (role = 'candidate' and verdict in ('regressed', 'improved', 'unchanged', 'inconclusive'))
           as judged,
       count(*) filter (role = 'candidate' and verdict = 'inconclusive') as inconclusive,
       count(*) filter (role = 'candidate' and coalesce(verdict, 'not_judged') = 'not_judged') as not_judged,
       median(smallest_visible_change) filter (role = 'candidate') as visible_median,
       count(distinct case_id) as cases
from series where device_kind is distinct from 'static'
"""


def judged() -> Judged:
    return ask(Judged, JUDGED_QUERY)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRow:
    """A device and its newest run."""

    device_model: str
    device_slice: str | None
    device_unit: str
    host: str | None
    latest_at: datetime
    latest_run_id: str
    runs: int
    measured: int
    invalid: int
    invalid_kind: str | None
    failed: int
    wrong: int


DEVICES_QUERY = """
with newest as (
  select coalesce(device_model, device_kind, 'unknown device') as device_model, device_slice,
         coalesce(device_unit, '') as device_unit, max(host) as host, max(finished_at) as latest_at,
         arg_max(run_id, finished_at) as latest_run_id, count(*) as runs
  from runs where kind <> 'import' group by 1, 2, 3
), health as (
  select latest_run_id, count(*) filter (status = 'measured') as measured,
         count(*) filter (status = 'invalid') as invalid, mode(status_kind) filter (status = 'invalid') as invalid_kind,
         count(*) filter (status = 'failed') as failed, count(*) filter (status = 'wrong') as wrong
  from series group by 1
)
select newest.*, coalesce(measured, 0) as measured, coalesce(invalid, 0) as invalid, invalid_kind,
       coalesce(failed, 0) as failed, coalesce(wrong, 0) as wrong
from newest left join health using (latest_run_id)
order by latest_at desc, device_model, device_unit
"""


def devices() -> list[DeviceRow]:
    return ask(DeviceRow, DEVICES_QUERY)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatValue:
    """Operator x device: the weighted geometric mean of a ratio, or the weighted mean of a share."""

    family: str
    device_model: str
    value: float | None
    cases: int
    weighted: bool


HEAT_MEASURES = {
    "candidate ÷ optimized": ("ratio_optimized", "candidate", True),
    "candidate ÷ naive": ("ratio_naive", "candidate", True),
    "roofline fraction": ("roofline_fraction", "candidate", False),
    "error ÷ tolerance": ("error_margin", "candidate", False),
}
"""Title -> column of `series`, role, whether it is averaged as a ratio (in logarithms)."""


def heat_values(measure: str) -> list[HeatValue]:
    """One row a family and device that has a value. A mean is weighted where every case of it has a weight."""
    column, role, is_ratio = HEAT_MEASURES[measure]
    value, inverse = (f"ln({column})", "exp") if is_ratio else (column, "")
    # The column names come from HEAT_MEASURES; nothing of a reader's address is written into the query.
    query = f"""
        with cells as (
          select family, coalesce(device_model, device_kind) as device_model, weight, {value} as x
          from series
          where role = $role and status = 'measured' and {column} > 0 and not isnan({column})
        )
        select coalesce(family, 'other') as family, device_model, count(*) as cases,
               count(weight) = count(*) and sum(weight) > 0 as weighted,
               case when count(weight) = count(*) and sum(weight) > 0
                    then {inverse}(sum(weight * x) / sum(weight)) else {inverse}(avg(x)) end as value
        from cells group by 1, 2 order by 1, 2
    """  # noqa: S608
    return ask(HeatValue, query, {"role": role})


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The suite's weighted geomean of candidate over optimized on one device model (or on all: None)."""

    device_model: str | None
    cases: int
    value: float | None
    half_width_log: float | None
    since_previous_log: float | None
    weighted: bool


SCORE_QUERY = """
with cells as (
  select coalesce(device_model, device_kind) as device_model, ln(ratio_optimized) as x, coalesce(weight, 0) as w,
         weight is null as unweighted, ln(ratio_optimized_high / ratio_optimized_low) / 2 as h,
         ln(ratio_optimized / ratio_previous) as moved
  from series
  where role = 'candidate' and status = 'measured' and ratio_optimized > 0
), usable as (
  select device_model, x, case when isfinite(h) then h end as h, moved, unweighted,
         case when sum(w) over (partition by device_model) > 0 then w else 1 end as w
  from cells
)
select device_model, count(*) as cases, exp(sum(w * x) / sum(w)) as value, not bool_or(unweighted) as weighted,
       sqrt(sum(w * w * h * h)) / nullif(sum(w) filter (h is not null), 0) as half_width_log,
       sum(w * moved) / nullif(sum(w) filter (moved is not null), 0) as since_previous_log
from usable group by grouping sets ((device_model), ())
order by device_model nulls first
"""


def scores() -> list[Score]:
    """The score of all devices first, then one a device model; empty where no candidate was measured."""
    return [score for score in ask(Score, SCORE_QUERY) if score.cases]


SPARKLINES_QUERY = """
select coalesce(device_model, device_kind, 'unknown device') as device_model, coalesce(weight, 0) as weight,
       sparkline_ratio, sparkline_at
from series where role = 'candidate' and len(sparkline_ratio) > 1 and len(sparkline_ratio) = len(sparkline_at)
"""


def score_histories(now: list[Score]) -> dict[str, list[float]]:
    """The score of each device night by night; kept until the lake moves on."""
    return _histories(store_uri(), stamp(), now)


@st.cache_resource(show_spinner=False, max_entries=8, ttl=900)
def _histories(uri: str, at: str, _now: list[Score]) -> dict[str, list[float]]:
    """The score of each device night by night, ending at what it is now.

    A step is the weighted mean of the steps of the cases that both runs have: a case that was not measured one night
    moves nothing. Arrays, since a store has 30 points of each of 100,000 series.
    """
    level = {score.device_model: score.value for score in _now if score.device_model and score.value}
    found = table(SPARKLINES_QUERY)
    if not found.num_rows:
        return {}
    found = found.combine_chunks()
    ratios, nights, lengths = _flat(found)
    models = found["device_model"].to_pylist()
    names = sorted(set(models))
    model_of = np.repeat(np.array([names.index(model) for model in models]), lengths)
    weights = np.repeat(found["weight"].to_numpy(), lengths)
    owner = np.repeat(np.arange(found.num_rows), lengths)
    logs = np.log(np.where(ratios > 0, ratios, np.nan))
    steps = np.diff(logs, prepend=np.nan)
    steps[np.concatenate(([0], np.cumsum(lengths)[:-1]))] = np.nan  # the first point of a series is no step
    usable = np.isfinite(steps)
    histories = {}
    for index, name in enumerate(names):
        mine = usable & (model_of == index)
        if name in level and mine.any():
            moves = nightly_moves(owner[mine], nights[mine], steps[mine], weights[mine])
            after = np.concatenate((np.cumsum(moves[::-1])[::-1], [0.0]))
            histories[name] = [float(value) for value in (level[name] or 0.0) * np.exp(-after)]
    return histories


DAY_US = 86_400_000_000


def _flat(found: pa.Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ratios, days since 1970 and lengths of the sparklines, one after the other."""
    ratios, times = (found[name].combine_chunks() for name in ("sparkline_ratio", "sparkline_at"))
    values = ratios.flatten().to_numpy(zero_copy_only=False).astype(float)
    days = times.flatten().cast("int64").to_numpy(zero_copy_only=False) // DAY_US
    return values, days, ratios.value_lengths().to_numpy()


def nightly_moves(owner: np.ndarray, nights: np.ndarray, steps: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The weighted mean of what the series moved in each night, oldest first; plain where none of them has a weight.

    Of a series that was measured several times in a night the steps add up, and it weighs once. The steps of a series
    (`owner`) stand together, oldest first.
    """
    place = nights - nights.min()  # a sort of 3 million nights took longer than all the rest
    once = np.ones(len(owner))
    once[1:] = (owner[1:] != owner[:-1]) | (nights[1:] != nights[:-1])
    count = np.bincount(place, once)
    there = count > 0
    total = np.bincount(place, weights * once)[there]
    weighted = np.bincount(place, weights * steps)[there]
    plain = np.bincount(place, steps)[there] / count[there]
    return np.where(total > 0, weighted / np.where(total > 0, total, 1.0), plain)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """Nights of one kind of audited series in the last 30 days: how many there were, alarmed, and were suspected."""

    kind: str
    planted: float | None
    n: int
    alarmed: int
    suspected: int


def audit() -> list[AuditRow]:
    query = """
        select kind, planted, count(*) as n, count(*) filter (alarmed) as alarmed,
               count(*) filter (coalesce(suspected, alarmed)) as suspected
        from audits where "at" > (select max("at") from audits) - interval 30 day
        group by 1, 2 order by 1, 2 nulls first
    """
    return ask(AuditRow, query)


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleChange:
    """The smallest change that an operator's series can show: the median series and the worst tenth."""

    family: str
    series: int
    median_series: float
    worst_tenth: float


def visible_changes() -> list[VisibleChange]:
    query = """
        select coalesce(family, 'other') as family, count(*) as series,
               median(smallest_visible_change) as median_series,
               quantile_cont(smallest_visible_change, 0.9) as worst_tenth
        from series where smallest_visible_change is not null and role = 'candidate'
        group by 1 order by 3
    """
    return ask(VisibleChange, query)
