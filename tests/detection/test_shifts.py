"""Laws of judging the levels of all series together: few false discoveries under correlation, power kept."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from detection.shifts import discover_shifts

Floats = NDArray[np.float64]


def blocks(seed: int, series: int, runs: int, shared: float = 0.5) -> Floats:
    """Noise of 1 to 6 % whose blocks of five consecutive runs share a part of the variance."""
    rng = np.random.default_rng(seed)
    sd = np.exp(rng.uniform(np.log(0.01), np.log(0.06), (series, 1)))
    block = np.repeat(rng.standard_normal((series, runs // 5)), 5, axis=1)
    noise: Floats = sd * (np.sqrt(shared) * block + np.sqrt(1 - shared) * rng.standard_normal((series, runs)))
    return noise


def test_few_discoveries_are_false_and_most_steps_are_found() -> None:
    """With blocks of five runs and 1 % of 3,000 series stepped by 5 to 20 %: false share <= 0.1, power >= 0.6."""
    false = found = true = 0
    for seed in range(3):
        x = blocks(seed, 3_000, 250)
        x[:30, 240:] += np.log1p(np.random.default_rng(seed).uniform(0.05, 0.20, (30, 1)))
        called = discover_shifts(x[:, :240], x[:, 240:]).found
        false += int(called[30:].sum())
        true += int(called[:30].sum())
        found += int(called.sum())
    assert false / found <= 0.1
    assert true / 90 >= 0.6


def test_nothing_is_found_where_nothing_changed() -> None:
    """Three nights of 2,000 correlated series without a change: at most one false call in all."""
    called = 0
    for seed in (11, 12, 13):
        x = blocks(seed, 2_000, 250)
        called += int(discover_shifts(x[:, :240], x[:, 240:]).found.sum())
    assert called <= 1


def test_a_burst_is_no_shift() -> None:
    """Five of ten recent runs at twice the level are not a new level; all ten are."""
    x = blocks(3, 200, 250, shared=0.0)
    x[0, 240:245] += np.log(2)
    x[1, 240:] += np.log(2)
    found = discover_shifts(x[:, :240], x[:, 240:]).found
    assert (bool(found[0]), bool(found[1])) == (False, True)


def test_direction_does_not_matter_and_the_change_is_that_of_medians() -> None:
    """Mirrored series give the same p-values and opposite changes."""
    x = blocks(4, 100, 250)
    x[0, 240:] += 0.3
    up, down = discover_shifts(x[:, :240], x[:, 240:]), discover_shifts(-x[:, :240], -x[:, 240:])
    assert up.p == pytest.approx(down.p)
    assert up.change == pytest.approx(-down.change)
    assert up.change[0] == pytest.approx(0.3, abs=0.1)


def test_missing_runs_are_left_out_and_short_histories_not_judged() -> None:
    """NaN counts nowhere; a series with under 20 earlier runs, or none tonight, has no p-value and is never found."""
    x = blocks(5, 50, 250)
    x[0, 240:] += 0.3
    x[0, ::7] = np.nan
    x[1, 15:240] = np.nan
    x[2, 240:] = np.nan
    got = discover_shifts(x[:, :240], x[:, 240:])
    assert bool(got.found[0])
    assert np.isnan(got.p[[1, 2]]).all()
    assert not got.found[[1, 2]].any()


def test_exact_series_do_not_trouble_the_others() -> None:
    """A constant series has no correlation to count; a change of it is found."""
    x = blocks(6, 60, 250)
    x[0], x[1] = 1.0, 1.0
    x[1, 240:] = 1.2
    found = discover_shifts(x[:, :240], x[:, 240:]).found
    assert (bool(found[0]), bool(found[1])) == (False, True)


def test_shapes_that_do_not_fit_are_refused() -> None:
    """History and recent runs are of the same series."""
    with pytest.raises(ValueError, match=r"history \(2, 30\) and recent \(3, 10\)"):
        discover_shifts(np.zeros((2, 30)), np.zeros((3, 10)))
