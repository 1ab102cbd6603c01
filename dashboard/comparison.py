"""Two sides, case by case: what can be paired, the change with its interval, and what cannot be compared and why.

Pure. Works on logarithms, so that a change one way and back is none. Intervals are Student's t (detection.stats).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from detection.stats import Interval, t_interval

Key = tuple[str, str]
"""Case and settings: what has to be the same on both sides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One case of one side in one run."""

    case_id: str
    settings: str
    name: str
    shape: str
    subject_id: str
    weight: float | None
    status: str
    status_kind: str
    timer: str
    log_ratios: tuple[float, ...]
    """log(arm / optimized) of each process."""
    log_times: tuple[float, ...]
    """log(time of one call) of each process."""
    run_id: str
    smallest_visible_change: float | None = None

    @property
    def key(self) -> Key:
        return self.case_id, self.settings

    def values(self, measure: str) -> tuple[float, ...]:
        """By "ratio" (to optimized, paired in its process) or by "time"."""
        return self.log_ratios if measure == "ratio" else self.log_times


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The change of one case from A to B, relative: +0.05 is 5 % more in B."""

    case_id: str
    name: str
    shape: str
    subject_id: str
    weight: float | None
    change: float
    low: float
    high: float
    verdict: str
    """slower, faster, unchanged or inconclusive."""

    @property
    def price(self) -> float | None:
        return None if self.weight is None else self.weight * self.change


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All of it: the pairs, dearest first, their weighted geomean, and what was left out."""

    rows: tuple[Compared, ...]
    total: Interval | None
    """Of log(B / A), weighted; None without a pair."""
    weighted: bool
    floor: float
    left_out: Mapping[str, int]
    """Reason -> cases."""


def compare(
    a: Sequence[Measured], b: Sequence[Measured], *, measure: str, floor: float, paired: bool = False
) -> Comparison:
    """B against A. `paired` says that both sides are arms of the same run, so that processes can be paired."""
    left_out: Counter[str] = Counter()
    sides = [_by_case(side) for side in (a, b)]
    rows = []
    parts: list[tuple[float, float, float]] = []
    for key in sorted(set(sides[0]) | set(sides[1])):
        ones, others = sides[0].get(key, []), sides[1].get(key, [])
        reason = _not_comparable(ones, others, measure)
        if reason:
            left_out[reason] += 1
            continue
        interval = _difference(ones, others, measure, paired=paired)
        if interval is None or not math.isfinite(interval.estimate):
            left_out["no value of this measure"] += 1
            continue
        last = others[-1]
        weight = last.weight if last.weight is not None else ones[-1].weight
        rows.append(_row(last, weight, interval, floor))
        half = interval.half_width
        parts.append((weight or 0.0, interval.estimate, half if math.isfinite(half) else 0.0))
    rows.sort(key=lambda r: (-abs(r.price or 0.0), -abs(r.change), r.case_id))
    total, weighted = _total(parts)
    return Comparison(rows=tuple(rows), total=total, weighted=weighted, floor=floor, left_out=dict(left_out))


def _by_case(side: Sequence[Measured]) -> dict[Key, list[Measured]]:
    found: dict[Key, list[Measured]] = {}
    for one in side:
        found.setdefault(one.key, []).append(one)
    return found


def _not_comparable(ones: Sequence[Measured], others: Sequence[Measured], measure: str) -> str:
    """Why there is no pair; empty where there is one."""
    if not ones:
        return "not in A"
    if not others:
        return "not in B"
    for side, name in ((ones, "A"), (others, "B")):
        if not any(m.status == "measured" for m in side):
            last = side[-1]
            return f"{(last.status_kind or last.status).replace('_', ' ')} in {name}"
    if measure == "time" and {m.timer for m in ones} != {m.timer for m in others}:
        return "timed by another clock"
    return ""


def _difference(ones: Sequence[Measured], others: Sequence[Measured], measure: str, *, paired: bool) -> Interval | None:
    good = [[m for m in side if m.status == "measured" and m.values(measure)] for side in (ones, others)]
    if not good[0] or not good[1]:
        return None
    if paired and len(good[0]) == len(good[1]) == 1:
        pairs = list(zip(good[0][0].log_times, good[1][0].log_times, strict=False))
        if pairs and len(good[0][0].log_times) == len(good[1][0].log_times):
            return t_interval([y - x for x, y in pairs])
    a, b = (_level(side, measure) for side in good)
    half = math.hypot(a.half_width, b.half_width)
    estimate = b.estimate - a.estimate
    return Interval(estimate=estimate, low=estimate - half, high=estimate + half, n=min(a.n, b.n))


def _level(side: Sequence[Measured], measure: str) -> Interval:
    """Of one run its processes; of several runs their means: runs differ by more than processes of one do."""
    if len(side) == 1:
        return t_interval(side[0].values(measure))
    return t_interval([sum(m.values(measure)) / len(m.values(measure)) for m in side])


def _row(last: Measured, weight: float | None, interval: Interval, floor: float) -> Compared:
    ratio = interval.exp()
    return Compared(
        case_id=last.case_id,
        name=last.name,
        shape=last.shape,
        subject_id=last.subject_id,
        weight=weight,
        change=ratio.estimate - 1,
        low=ratio.low - 1,
        high=ratio.high - 1,
        verdict=_verdict(interval, floor),
    )


def _verdict(interval: Interval, floor: float) -> str:
    """Two conditions for a change: the interval excludes no change, and the change is not too small to be seen."""
    if interval.low > 0 and interval.estimate > math.log1p(floor):
        return "slower"
    if interval.high < 0 and interval.estimate < -math.log1p(floor):
        return "faster"
    if not math.isfinite(interval.half_width) or interval.half_width > 2 * math.log1p(floor):
        return "inconclusive"
    return "unchanged"


def _total(parts: Sequence[tuple[float, float, float]]) -> tuple[Interval | None, bool]:
    """The weighted geometric mean, nothing clipped; equal weights where no case has one."""
    if not parts:
        return None, False
    weighted = sum(weight for weight, _, _ in parts) > 0
    used = [(weight if weighted else 1.0, x, h) for weight, x, h in parts]
    whole = sum(weight for weight, _, _ in used)
    mean = sum(weight * x for weight, x, _ in used) / whole
    half = math.sqrt(sum((weight * h) ** 2 for weight, _, h in used)) / whole
    return Interval(estimate=mean, low=mean - half, high=mean + half, n=len(used)), weighted
