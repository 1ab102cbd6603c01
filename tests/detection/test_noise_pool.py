"""What the series of a night say together of the noise that was believed of each."""

from __future__ import annotations

import numpy as np
import pytest

from detection.noise_pool import LEAST_SERIES, learnt_noise
from detection.policy import Noise

NOISE = Noise()


def ratios(seed: int, *, series: int, runs: int, factor: float, spread: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Own over believed variances of `series` histories whose true ratio is `factor`, scattered by `spread`."""
    rng = np.random.default_rng(seed)
    true = factor * np.exp(rng.normal(0, spread, series))
    return true * rng.chisquare(runs - 1, series) / (runs - 1), np.full(series, runs - 1.0)


@pytest.mark.parametrize("runs", [2, 4, 9, 30])
def test_a_belief_that_is_off_for_all_is_corrected_from_the_second_run_on(runs: int) -> None:
    """Of 300 series four times as variable as believed, the factor is within 30 % of 4 at any length of history."""
    found = [learnt_noise(*ratios(seed, series=300, runs=runs, factor=4.0), NOISE).factor for seed in range(20)]
    assert np.median(found) == pytest.approx(4.0, rel=0.1)
    assert np.mean([abs(np.log(f / 4)) < 0.3 for f in found]) >= 0.85


def test_a_few_series_change_nothing() -> None:
    """Below twelve series, and where no series has two runs, the belief stands with its own weight."""
    ratio, df = ratios(1, series=LEAST_SERIES - 1, runs=20, factor=9.0)
    for pool in (learnt_noise(ratio, df, NOISE), learnt_noise(np.zeros(300), np.zeros(300), NOISE)):
        assert (pool.factor, pool.weight, pool.series) == (1.0, NOISE.prior_runs, 0)


def test_a_quiet_device_is_not_believed_quieter_than_stated() -> None:
    """A few quiet nights do not prove a quiet device: the factor is never below 1."""
    assert learnt_noise(*ratios(2, series=100, runs=5, factor=0.1), NOISE).factor == 1.0


def test_the_pool_weighs_less_where_series_differ() -> None:
    """Alike series give the pool its full weight; series whose variances differ tenfold leave it a small one."""
    alike = learnt_noise(*ratios(3, series=300, runs=20, factor=2.0), NOISE)
    apart = learnt_noise(*ratios(3, series=300, runs=20, factor=2.0, spread=1.2), NOISE)
    assert alike.weight == NOISE.prior_runs
    assert apart.weight < 0.4 * NOISE.prior_runs


def test_a_tenth_of_odd_series_hardly_moves_the_factor() -> None:
    """A tenth of the series a hundred times as variable moves the factor by less than a quarter."""
    ratio, df = ratios(4, series=300, runs=10, factor=1.5)
    odd = ratio.copy()
    odd[:30] *= 100
    assert learnt_noise(odd, df, NOISE).factor == pytest.approx(learnt_noise(ratio, df, NOISE).factor, rel=0.25)


def test_exact_series_are_not_believed_noisy_because_some_others_are() -> None:
    """Of 300 byte counts thirty scatter: the belief about the other 270, which never moved, stands."""
    ratio, df = np.zeros(300), np.full(300, 9.0)
    ratio[:30] = 100.0
    assert learnt_noise(ratio, df, NOISE).factor == 1.0
