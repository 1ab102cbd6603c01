"""Estimates and intervals from samples: numpy only, so that a node has them too.

Everything works on logarithms of times: a ratio is a difference there, and a slow-down of 5 % weighs the same anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

MAD_TO_SD = 1.4826
"""1 / Phi^-1(3/4): makes the median absolute deviation estimate the standard deviation of a normal sample."""

MINIMUM_N_P95 = 60
MINIMUM_N_P99 = 300
"""Fewest single calls behind a stated percentile: three samples beyond it are expected (0.05 x 60, 0.01 x 300)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An estimate with its 95 % interval (or the confidence that made it); infinite where n is below 2."""

    estimate: float
    low: float
    high: float
    n: int

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2

    def exp(self) -> Interval:
        """The interval of exp(x): from log-ratios to ratios."""
        return Interval(estimate=math.exp(self.estimate), low=_exp(self.low), high=_exp(self.high), n=self.n)


def _exp(x: float) -> float:
    return math.inf if x > 700 else math.exp(x)


@lru_cache(maxsize=1024)  # a night asks for the same few thousands of times
def student_t_quantile(p: float, df: float) -> float:
    """Quantile of Student's t with `df` > 0 degrees of freedom, 0 < p < 1.

    Exact for df 1 and 2; else bisection on the distribution function, which is the regularised incomplete beta
    (Abramowitz and Stegun 26.5.27 and 26.7.1). Absolute error below 1e-9.
    """
    if not 0 < p < 1:
        raise ValueError(f"p is {p}, must be in (0, 1)")
    if df <= 0:
        raise ValueError(f"df is {df}, must be > 0")
    if p < 0.5:
        return -student_t_quantile(1 - p, df)
    if df == 1:
        return math.tan(math.pi * (p - 0.5))
    if df == 2:
        a = 2 * p - 1
        return a * math.sqrt(2 / (1 - a * a))
    low, high = 0.0, 2.0
    while _student_t_cdf(high, df) < p:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        if high - low < 1e-11 * max(1.0, high):
            break
        if _student_t_cdf(middle, df) < p:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _student_t_cdf(t: float, df: float) -> float:
    """Distribution function of Student's t for t >= 0."""
    return 1 - 0.5 * _regularised_incomplete_beta(df / (df + t * t), df / 2, 0.5)


def _regularised_incomplete_beta(x: float, a: float, b: float) -> float:
    """I_x(a, b) by the continued fraction of Abramowitz and Stegun 26.5.8, evaluated by Lentz's method."""
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - _regularised_incomplete_beta(1 - x, b, a)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    tiny = 1e-300
    f, c, d = 1.0, 1.0, 0.0
    for i in range(400):
        m = i // 2
        if i == 0:
            numerator = 1.0
        elif i % 2 == 0:
            numerator = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        else:
            numerator = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1 + numerator * d
        d = 1 / (d if abs(d) > tiny else tiny)
        c = 1 + numerator / c
        c = c if abs(c) > tiny else tiny
        f *= c * d
        if abs(1 - c * d) < 1e-14:
            break
    return front * (f - 1)


def t_interval(values: ArrayLike, confidence: float = 0.95) -> Interval:
    """Mean of independent values with Student's t interval; [-inf, inf] for one value, ValueError for none.

    The values are one per process (each the median over its rounds): a process has its own memory layout and clocks, so
    rounds of one process are not independent, and an interval over rounds is too narrow (docs/method.md, intervals).
    """
    x = np.asarray(values, dtype=float)
    n = x.size
    if n == 0:
        raise ValueError("an interval needs at least one value")
    mean = float(x.mean())
    if n == 1:
        return Interval(estimate=mean, low=-math.inf, high=math.inf, n=1)
    half = student_t_quantile(0.5 + confidence / 2, n - 1) * float(x.std(ddof=1)) / math.sqrt(n)
    return Interval(estimate=mean, low=mean - half, high=mean + half, n=n)


def median_half_width(values: ArrayLike, confidence: float = 0.95) -> float:
    """Half the width of the distribution-free interval of the median, from order statistics.

    Normal approximation to the binomial ranks (Conover 1999, section 3.2): ranks n/2 -+ z sqrt(n)/2. Infinite below
    6 values, where no such interval has 95 %.
    """
    x = np.sort(np.asarray(values, dtype=float))
    n = x.size
    if n < 6:
        return math.inf
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    low = max(0, math.floor(n / 2 - z * math.sqrt(n) / 2) - 1)
    high = min(n - 1, math.ceil(n / 2 + z * math.sqrt(n) / 2))
    return float(x[high] - x[low]) / 2


NEIGHBOUR_ROUNDS = 2
"""Rounds up to this far apart are compared: five times the comparisons of one round, under the same weather."""


def neighbour_log_ratio(
    arm_s: ArrayLike,
    arm_round: ArrayLike,
    base_s: ArrayLike,
    base_round: ArrayLike,
    reach: int = NEIGHBOUR_ROUNDS,
) -> float:
    """Median of log(arm / base) over all samples of the two at most `reach` rounds apart; nan where there are none.

    The two-sample estimate of a shift by Hodges and Lehmann (1963, doi 10.1214/aoms/1177704172), kept to neighbours: a
    drift of the machine moves the comparisons with rounds before and after by opposite amounts, and a single disturbed
    sample does not spoil a round. Its variance was 0.25 to 0.78 of that of the median of the ratios inside rounds
    (docs/method.md, arms). Times that are not positive are left out.
    """
    values, others = np.asarray(arm_s, dtype=float), np.asarray(base_s, dtype=float)
    rounds, other_rounds = np.asarray(arm_round)[values > 0], np.asarray(base_round)[others > 0]
    logs, other_logs = np.log(values[values > 0]), np.log(others[others > 0])
    near = np.abs(rounds[:, None] - other_rounds[None, :]) <= reach
    differences = (logs[:, None] - other_logs[None, :])[near]
    return float(np.median(differences)) if differences.size else math.nan


def robust_sd(values: ArrayLike) -> float:
    """1.4826 x MAD; 0.0 for fewer than two values."""
    x = np.asarray(values, dtype=float)
    if x.size < 2:
        return 0.0
    return MAD_TO_SD * float(np.median(np.abs(x - np.median(x))))


def percentiles(values: Sequence[float], shares: Sequence[float] = (0.5, 0.9, 0.95, 0.99)) -> tuple[float, ...]:
    """Sample quantiles by linear interpolation (Hyndman and Fan 1996, type 7); ValueError for no value."""
    if len(values) == 0:
        raise ValueError("percentiles need at least one value")
    return tuple(float(q) for q in np.quantile(np.asarray(values, dtype=float), shares))
