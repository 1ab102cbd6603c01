"""Series with two levels: a kernel that runs at one of two clocks has no "slower", only more often slow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

MINIMUM_VALUES = 20
MINIMUM_SHARE = 0.1
MINIMUM_CLUSTER = 5
"""The smaller cluster holds at least this share of the values and at least this many: fewer are outliers."""
MINIMUM_SEPARATION = 8.0
"""Distance of the cluster means in pooled standard deviations. The best split of one normal cluster is 2.6 apart, of a
uniform one 3.5, and twenty values of a long-tailed one can reach 5 by chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Modes:
    """Two clusters of logarithms."""

    low: float
    high: float
    share_high: float
    separation: float
    n: int


def two_modes(log_values: ArrayLike) -> Modes | None:
    """The two clusters of a sample of logarithms, or None where it has one.

    The split with the least sum of squares (two-means, exact in one dimension by prefix sums); accepted where both
    sides hold enough values and lie far apart for their own widths (Ashman, Bird and Zepf 1994, doi 10.1086/117248: D
    > 2 separates clusters cleanly; more is asked here, since the split was chosen).
    """
    x = np.sort(np.asarray(log_values, dtype=float))
    x = x[np.isfinite(x)]
    n = x.size
    if n < MINIMUM_VALUES:
        return None
    left = np.arange(1, n)
    total, squares = np.cumsum(x), np.cumsum(x * x)
    low, high = total[:-1] / left, (total[-1] - total[:-1]) / (n - left)
    inside = (squares[:-1] - left * low**2) + (squares[-1] - squares[:-1] - (n - left) * high**2)
    k = int(np.argmin(inside))
    share = 1 - (k + 1) / n
    pooled = float(np.sqrt((_variance(x[: k + 1]) + _variance(x[k + 1 :])) / 2))
    distance = float(high[k] - low[k])
    separation = distance / pooled if pooled > 0 else (np.inf if distance > 0 else 0.0)
    smaller = min(k + 1, n - k - 1)
    if smaller < max(MINIMUM_CLUSTER, MINIMUM_SHARE * n) or separation < MINIMUM_SEPARATION:
        return None
    return Modes(low=float(low[k]), high=float(high[k]), share_high=share, separation=float(separation), n=n)


def only_shares_moved(before: ArrayLike, tonight: ArrayLike, floor: float) -> Modes | None:
    """The modes of a series that had two levels and tonight has no other ones, or None.

    `floor` (of logarithms) is how far a level may lie from its old place. Tonight may sit on one of the two levels
    alone. Its values are told apart by the nearer old level, so that a dozen of them are enough: the median of each
    side must lie on its level, and all but a tenth of them within three sd of a cluster or a floor of it.
    """
    old = two_modes(before)
    if old is None:
        return None
    values: NDArray[np.float64] = np.asarray(tonight, dtype=float)
    values = values[np.isfinite(values)]
    is_high = values > (old.low + old.high) / 2
    off = np.abs(values - np.where(is_high, old.high, old.low))
    sides = [(values[is_high], old.high), (values[~is_high], old.low)]
    placed = all(abs(float(np.median(side)) - level) <= floor for side, level in sides if side.size >= 3)
    reach = max(floor, 3 * (old.high - old.low) / old.separation)
    return old if placed and float((off <= reach).mean()) >= 1 - MINIMUM_SHARE else None


def _variance(x: NDArray[np.float64]) -> float:
    return float(x.var()) if x.size else 0.0
