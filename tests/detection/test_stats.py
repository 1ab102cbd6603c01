"""Laws of detection.stats: Student's t against scipy, intervals that cover, estimates that survive outliers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as oracle

from detection.stats import (
    Interval,
    median_half_width,
    neighbour_log_ratio,
    percentiles,
    robust_sd,
    student_t_quantile,
    t_interval,
)


@given(p=st.floats(0.001, 0.999), df=st.one_of(st.integers(1, 400).map(float), st.floats(0.5, 60)))
def test_student_t_quantile_agrees_with_scipy(p: float, df: float) -> None:
    """The quantile is scipy's to 1e-8 relative, for whole and broken degrees of freedom."""
    expected = float(oracle.t.ppf(p, df))
    assert student_t_quantile(p, df) == pytest.approx(expected, rel=1e-8, abs=1e-8)


@given(p=st.floats(0.5, 0.999), df=st.integers(1, 50))
def test_student_t_quantile_is_odd_about_one_half(p: float, df: int) -> None:
    """Quantiles of p and 1 - p are opposite."""
    assert student_t_quantile(1 - p, df) == pytest.approx(-student_t_quantile(p, df), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(("p", "df"), [(0.0, 3.0), (1.0, 3.0), (-0.1, 3.0), (0.5, 0.0), (0.5, -1.0)])
def test_student_t_quantile_refuses_what_has_no_quantile(p: float, df: float) -> None:
    """A probability outside (0, 1) or no degrees of freedom is refused by name and value."""
    with pytest.raises(ValueError, match="must be"):
        student_t_quantile(p, df)


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=30).filter(lambda v: max(v) - min(v) > 1e-3))
def test_t_interval_agrees_with_scipy(values: list[float]) -> None:
    """Both ends are those of scipy.stats.t.interval."""
    mine = t_interval(values)
    low, high = oracle.t.interval(0.95, len(values) - 1, np.mean(values), oracle.sem(values))
    assert (mine.low, mine.high) == (pytest.approx(low, rel=1e-6, abs=1e-6), pytest.approx(high, rel=1e-6, abs=1e-6))


def test_t_interval_of_one_value_is_the_whole_line() -> None:
    """One process says nothing about the spread between processes."""
    only = t_interval([2.0])
    assert (only.estimate, only.low, only.high, only.n) == (2.0, -math.inf, math.inf, 1)
    assert only.exp().high == math.inf


def test_t_interval_of_nothing_is_refused() -> None:
    """No value has no mean."""
    with pytest.raises(ValueError, match="at least one"):
        t_interval([])


@pytest.mark.parametrize("processes", [3, 5, 10])
def test_t_interval_covers_with_process_effects(processes: int) -> None:
    """With a planted effect of each process, intervals over process medians hold the truth >= 93 % of the time."""
    rng = np.random.default_rng(20_260_101 + processes)
    trials, rounds = 4_000, 31
    effects = rng.normal(0.0, 0.01, (trials, processes, 1))
    medians = np.median(effects + rng.normal(0.0, 0.03, (trials, processes, rounds)), axis=2)
    covered = [interval.low <= 0 <= interval.high for interval in map(t_interval, medians)]
    assert np.mean(covered) >= 0.93


def test_interval_over_pooled_rounds_covers_too_little() -> None:
    """Why processes are the unit: pooling their rounds as if independent covers far less than it says."""
    rng = np.random.default_rng(4)
    effects = rng.normal(0.0, 0.01, (1_000, 5, 1))
    pooled = (effects + rng.normal(0.0, 0.01, (1_000, 5, 31))).reshape(1_000, -1)
    covered = [interval.low <= 0 <= interval.high for interval in map(t_interval, pooled)]
    assert np.mean(covered) < 0.5


@given(st.floats(-50, 50), st.floats(0, 10))
def test_interval_exp_keeps_order(estimate: float, half: float) -> None:
    """From log-ratios to ratios: low <= estimate <= high stays, and all are positive."""
    ratio = Interval(estimate=estimate, low=estimate - half, high=estimate + half, n=5).exp()
    assert 0 < ratio.low <= ratio.estimate <= ratio.high


@pytest.mark.parametrize("n", [20, 101, 400])
def test_median_interval_covers(n: int) -> None:
    """Half the width of the distribution-free interval, about the median, holds a heavy-tailed truth >= 92 %."""
    samples = np.random.default_rng(n).standard_t(3, (1_500, n))
    half = np.array([median_half_width(row) for row in samples])
    covered = np.abs(np.median(samples, axis=1)) <= half
    assert 0.92 <= covered.mean() <= 0.99


def test_median_interval_needs_six_values() -> None:
    """Five order statistics cannot bracket a median with 95 %."""
    assert median_half_width([1.0] * 5) == math.inf
    assert median_half_width([1.0] * 6) == 0.0


def slow_neighbour_log_ratio(arm: dict[int, float], base: dict[int, float], reach: int) -> float:
    """The definition, pair by pair; round -> seconds."""
    differences = [math.log(arm[i] / base[j]) for i in arm for j in base if abs(i - j) <= reach]
    return float(np.median(differences)) if differences else math.nan


ROUNDS = st.dictionaries(st.integers(0, 12), st.floats(1e-6, 1e2), min_size=1, max_size=10)


@given(arm=ROUNDS, base=ROUNDS, reach=st.integers(0, 4), factor=st.floats(0.1, 10))
def test_neighbour_log_ratio_is_its_definition(
    arm: dict[int, float], base: dict[int, float], reach: int, factor: float
) -> None:
    """Pair by pair; nan where no two are near; the other way round its negative; a factor comes out as it is."""

    def ratio(a: dict[int, float], b: dict[int, float]) -> float:
        return neighbour_log_ratio(list(a.values()), list(a), list(b.values()), list(b), reach)

    expected = slow_neighbour_log_ratio(arm, base, reach)

    assert ratio(arm, base) == pytest.approx(expected, abs=1e-12, nan_ok=True)
    assert ratio(base, arm) == pytest.approx(-expected, abs=1e-12, nan_ok=True)
    assert ratio({n: s * factor for n, s in arm.items()}, base) == pytest.approx(
        expected + math.log(factor), abs=1e-9, nan_ok=True
    )


def test_neighbour_log_ratio_leaves_out_what_is_no_time() -> None:
    """A sample of zero seconds, or fewer, is compared with nothing."""
    assert neighbour_log_ratio([2.0, 0.0, -1.0], [0, 1, 2], [1.0, 1.0, 1.0], [0, 1, 2]) == pytest.approx(math.log(2))


def test_a_drift_leaves_the_neighbour_log_ratio_alone() -> None:
    """A machine that gets 1 % slower from round to round does not make one arm look slower than its equal."""
    seconds = np.exp(0.01 * np.arange(40))

    assert neighbour_log_ratio(seconds, range(40), seconds, range(40)) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("disturbed", [0.0, 0.1])
def test_neighbours_know_the_ratio_better_than_each_round_alone(disturbed: float) -> None:
    """Calls that vary by 3 %, a tenth of them disturbed or none: the squared error is at most three quarters."""
    rng = np.random.default_rng(11)
    times = np.exp(rng.normal(0.0, 0.03, (400, 2, 60)))
    times[rng.random(times.shape) < disturbed] *= 3.0
    rounds = np.arange(60)

    near = [neighbour_log_ratio(arm, rounds, base, rounds) for arm, base in times]
    inside = [float(np.median(np.log(arm / base))) for arm, base in times]

    assert np.mean(np.square(near)) <= 0.75 * np.mean(np.square(inside))


def test_robust_sd_estimates_the_standard_deviation_and_ignores_outliers() -> None:
    """On a normal sample it is the standard deviation; a tenth of wild values moves it by less than a fifth."""
    sample = np.random.default_rng(7).normal(5.0, 2.0, 20_000)
    assert robust_sd(sample) == pytest.approx(2.0, rel=0.03)
    sample[:2_000] = 1e9
    assert robust_sd(sample) < 2.0 * 1.2
    assert robust_sd([3.0]) == 0.0


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50))
def test_percentiles_agree_with_numpy_and_are_ordered(values: list[float]) -> None:
    """Type-7 quantiles, in the order asked for."""
    found = percentiles(values)
    assert found == tuple(float(q) for q in np.quantile(values, (0.5, 0.9, 0.95, 0.99)))
    assert percentiles(values, (0.0, 1.0)) == (min(values), max(values))


def test_percentiles_of_nothing_are_refused() -> None:
    """No value has no quantile."""
    with pytest.raises(ValueError, match="at least one"):
        percentiles([])
