"""Exact one-dimensional weighted k-medoids, and one budget of medoids shared by several groups.

On a line, optimal clusters are intervals and an interval's best medoid is its weighted median, so the optimum is a
dynamic programme over cut points; its argmin never moves left (the quadrangle inequality), so each layer takes
O(n log n) by divide and conquer (Wu 1991, doi 10.1016/0196-6774(91)90039-2; Grønlund et al. 2017, arXiv 1701.07204).
Here a level of that recursion is one array operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Points start..stop-1 of a sorted line, and the one that stands for them."""

    start: int
    stop: int
    medoid: int


class MedoidLine:
    """Points on a line with weights: the best clusterings into 1, 2, ... `most` intervals.

    `x` must rise strictly and `weight` be positive; `costs[k]` is the least sum of weight x distance with k clusters,
    infinite for k = 0.
    """

    def __init__(self, x: Floats, weight: Floats, most: int) -> None:
        if x.size == 0 or x.size != weight.size:
            raise ValueError(f"{x.size} points with {weight.size} weights: must be as many, at least one")
        if np.any(np.diff(x) <= 0) or np.any(weight <= 0):
            raise ValueError("points must rise strictly and weigh more than nothing")
        self._x = x
        self._mass = np.concatenate([[0.0], np.cumsum(weight)])
        self._moment = np.concatenate([[0.0], np.cumsum(weight * x)])
        self._cuts: list[Ints] = []
        costs = [np.inf]
        best = np.full(x.size + 1, np.inf)
        best[0] = 0.0
        for _ in range(min(most, x.size)):
            best, cut = self._layer(best)
            self._cuts.append(cut)
            costs.append(float(best[-1]))
        self.costs: tuple[float, ...] = tuple(costs)

    def clusters(self, k: int) -> tuple[Cluster, ...]:
        """The best clustering into k intervals, from left to right; k must be 1 to len(costs) - 1."""
        if not 1 <= k < len(self.costs):
            raise ValueError(f"{k} clusters asked, must be 1 to {len(self.costs) - 1}")
        found: list[Cluster] = []
        stop = self._x.size
        for cut in reversed(self._cuts[:k]):
            start = int(cut[stop])
            medoid = int(self._median(np.asarray([start]), np.asarray([stop]))[0])
            found.append(Cluster(start=start, stop=stop, medoid=medoid))
            stop = start
        return tuple(reversed(found))

    def _median(self, start: Ints, stop: Ints) -> Ints:
        """Lower weighted median of each interval."""
        half = (self._mass[start] + self._mass[stop]) / 2
        index = np.searchsorted(self._mass, half, side="left") - 1
        return np.asarray(np.clip(index, start, stop - 1), dtype=np.int64)

    def _interval_cost(self, start: Ints, stop: Ints) -> Floats:
        """Sum of weight x distance to the medoid of each interval, from prefix sums."""
        m = self._median(start, stop)
        left = self._x[m] * (self._mass[m] - self._mass[start]) - (self._moment[m] - self._moment[start])
        right = (self._moment[stop] - self._moment[m]) - self._x[m] * (self._mass[stop] - self._mass[m])
        return np.asarray(np.maximum(left + right, 0.0))

    def _layer(self, before: Floats) -> tuple[Floats, Ints]:
        """One cluster more: best[j] = min over i < j of before[i] + cost(i, j), and its i, for all prefixes j."""
        n = self._x.size
        best = np.full(n + 1, np.inf)
        cut = np.zeros(n + 1, dtype=np.int64)
        segments = np.asarray([[1, n, 0, n - 1]])  # prefixes first..last, whose cuts lie in low..high
        while segments.size:
            first, last, low, high = segments.T
            middle = (first + last) // 2
            high_here = np.minimum(high, middle - 1)
            width = high_here - low + 1
            offsets = np.concatenate([[0], np.cumsum(width)[:-1]])
            owner = np.repeat(np.arange(middle.size), width)
            starts = low[owner] + np.arange(owner.size) - offsets[owner]
            values = before[starts] + self._interval_cost(starts, middle[owner])
            least = np.minimum.reduceat(values, offsets)
            hits = np.flatnonzero(values == least[owner])
            _, first_hit = np.unique(owner[hits], return_index=True)
            chosen = starts[hits[first_hit]]
            best[middle], cut[middle] = least, chosen
            lower = np.stack([first, middle - 1, low, chosen], axis=1)
            upper = np.stack([middle + 1, last, chosen, high], axis=1)
            segments = np.concatenate([lower, upper])
            segments = segments[segments[:, 0] <= segments[:, 1]]
        return best, cut


def share_budget(costs: Sequence[Sequence[float]], budget: int) -> tuple[int, ...]:
    """How many medoids each group gets so that the sum of costs[group][k] is least; every group gets one at least.

    Exact, by dynamic programming over groups; raises ValueError for a budget below the number of groups.
    """
    if budget < len(costs):
        raise ValueError(f"a budget of {budget} for {len(costs)} groups: must be one each at least")
    best: list[dict[int, tuple[float, tuple[int, ...]]]] = [{0: (0.0, ())}]
    for group in costs:
        reached: dict[int, tuple[float, tuple[int, ...]]] = {}
        for used, (total, chosen) in best[-1].items():
            for k in range(1, min(len(group) - 1, budget - used) + 1):
                offer = (total + group[k], (*chosen, k))
                if used + k not in reached or offer < reached[used + k]:
                    reached[used + k] = offer
        best.append(reached)
    return min(best[-1].values())[1]
