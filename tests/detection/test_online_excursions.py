"""What a series did before without changing is no sign of a change; a threshold never falls below its own."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from detection import judge_many
from detection.online_scores import GROUPS, THRESHOLDS, threshold_of, widest_excursion


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-3, 3), min_size=3, max_size=60), st.integers(1, 20), st.floats(-1, 1))
def test_the_widest_excursion_is_the_largest_sum_of_neighbours(psi: list[float], k: int, mean: float) -> None:
    """As by looking at every window of k values in turn; 0 where none is positive or none fits."""
    x = np.array(psi)
    sums = [float((x[i : i + k] - mean).sum()) for i in range(len(x) - k + 1)]
    assert abs(widest_excursion(x, mean, k) - max([0.0, *sums])) < 1e-9


def test_small_baselines_have_larger_thresholds_and_large_ones_no_smaller() -> None:
    """The threshold falls with the size of the baseline down to its own value and stays there."""
    for group in range(GROUPS):
        by_size = [threshold_of(group, n) for n in range(12, 201)]
        assert by_size == sorted(by_size, reverse=True)
        assert by_size[0] > 1.5 * THRESHOLDS[group]
        assert by_size[-1] == THRESHOLDS[group]


def test_a_wave_that_came_before_is_no_news() -> None:
    """Waves of eight values, 1.8 sd high, at 20, 45 and 70: the third raises an alert in at most 5 of 100 series."""
    values = np.random.default_rng(3).standard_normal((100, 90))
    for start in (20, 45, 70):
        values[:, start : start + 8] += 1.8
    told = [any(a.at >= 70 and a.direction > 0 for a in found) for found in judge_many(np.exp(0.02 * values))]
    assert sum(told) <= 5
