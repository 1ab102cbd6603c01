"""Exact one-dimensional medoids against brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_suite.shapes.medoids import MedoidLine, share_budget

points = st.lists(
    st.tuples(st.integers(0, 60), st.integers(1, 9)), min_size=1, max_size=8, unique_by=lambda point: point[0]
)


def brute_force(x: list[float], weight: list[float], k: int) -> float:
    """Least sum of weight x distance over every choice of k medoids, each point going to its nearest."""
    return min(
        sum(w * min(abs(value - x[m]) for m in chosen) for value, w in zip(x, weight, strict=True))
        for chosen in itertools.combinations(range(len(x)), k)
    )


@given(points)
@settings(deadline=None, max_examples=60)
def test_clustering_is_the_best_there_is(sample: list[tuple[int, int]]) -> None:
    """For every k the cost is that of the best choice of k medoids, and the clusters have that cost."""
    sample = sorted(sample)
    x, weight = [float(a) for a, _ in sample], [float(b) for _, b in sample]

    line = MedoidLine(np.asarray(x), np.asarray(weight), most=10)

    assert len(line.costs) == len(x) + 1
    for k in range(1, len(x) + 1):
        clusters = line.clusters(k)
        spent = sum(
            weight[i] * abs(x[i] - x[cluster.medoid])
            for cluster in clusters
            for i in range(cluster.start, cluster.stop)
        )
        assert [cluster.start for cluster in clusters] == [0, *(cluster.stop for cluster in clusters[:-1])]
        assert clusters[-1].stop == len(x)
        assert spent == pytest.approx(line.costs[k])
        assert line.costs[k] == pytest.approx(brute_force(x, weight, k), abs=1e-9)


@given(st.lists(st.lists(st.floats(0, 100), min_size=1, max_size=4), min_size=1, max_size=3), st.integers(0, 6))
@settings(deadline=None, max_examples=60)
def test_the_budget_is_shared_at_least_cost(groups: list[list[float]], extra: int) -> None:
    """No other division of the budget, with one for each group at least, costs less."""
    costs = [[float("inf"), *sorted(group, reverse=True)] for group in groups]
    budget = len(costs) + extra

    shares = share_budget(costs, budget)

    divisions = itertools.product(*(range(1, len(group)) for group in costs))
    best = min(sum(group[k] for group, k in zip(costs, ks, strict=True)) for ks in divisions if sum(ks) <= budget)
    assert sum(shares) <= budget
    assert sum(group[k] for group, k in zip(costs, shares, strict=True)) == pytest.approx(best)


def test_bad_lines_are_refused() -> None:
    """Points must rise strictly and weigh something; a group needs one medoid."""
    with pytest.raises(ValueError, match="rise strictly"):
        MedoidLine(np.asarray([1.0, 1.0]), np.asarray([1.0, 1.0]), 2)
    with pytest.raises(ValueError, match="at least one"):
        MedoidLine(np.asarray([]), np.asarray([]), 2)
    with pytest.raises(ValueError, match="2 clusters asked, must be 1 to 1"):
        MedoidLine(np.asarray([1.0]), np.asarray([1.0]), 2).clusters(2)
    with pytest.raises(ValueError, match="one each at least"):
        share_budget([[0.0, 1.0], [0.0, 1.0]], 1)
