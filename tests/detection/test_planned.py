"""Before and after a known place, under noise that is not independent."""

from __future__ import annotations

import numpy as np
import pytest

from detection.discovery import benjamini_hochberg, long_run_factor
from detection.planned import compare_at
from detection.policy import Policy

POLICY = Policy()


def blocks(rng: np.random.Generator, series: int, runs: int, sd: float = 0.02) -> np.ndarray:
    """Log-values with blocks of neighbours that share most of their noise."""
    level = np.repeat(rng.normal(0, 1, (series, -(-runs // 5))), 5, axis=1)[:, :runs]
    return np.asarray(sd * (np.sqrt(0.7) * level + np.sqrt(0.3) * rng.normal(0, 1, (series, runs))))


@pytest.mark.parametrize("share", [0.0, 0.01, 0.05])
def test_false_discoveries_stay_rare_with_blocks_of_alike_nights(share: float) -> None:
    """3,000 series, blocks of five: the share of false ones stays near the stated rate, steps of 5 to 20 % are
    found."""
    false = true = changed_total = 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        x = blocks(rng, 3000, 250)
        changed = rng.random(3000) < share
        x[changed, 240:] += np.log1p(rng.uniform(0.05, 0.2, int(changed.sum())))[:, None]
        found = compare_at(np.exp(x[:, :240]), np.exp(x[:, 240:]), floor=0.003, policy=POLICY).discovered
        false += int((found & ~changed).sum())
        true += int((found & changed).sum())
        changed_total += int(changed.sum())
    assert false <= 0.2 * (false + true) + 1
    assert true >= 0.9 * changed_total


def test_a_change_and_its_interval() -> None:
    """10 % more after the place: estimated within its 95 % interval, for a short history too."""
    rng = np.random.default_rng(4)
    before, after = np.exp(rng.normal(0, 0.01, (50, 12))), 1.1 * np.exp(rng.normal(0, 0.01, (50, 5)))
    result = compare_at(before, after, floor=0.03, policy=POLICY)
    assert result.discovered.all()
    inside = (result.low <= 0.1) & (result.high >= 0.1)
    assert inside.mean() >= 0.85
    assert result.change == pytest.approx(np.full(50, 0.1), abs=0.03)


def test_too_little_says_nothing() -> None:
    """Three values in all are no comparison; neither is a side without any."""
    result = compare_at(
        np.array([[1.0, 1.0], [np.nan, np.nan]]), np.array([[2.0, np.nan], [2.0, 2.0]]), floor=0.03, policy=POLICY
    )
    assert not result.discovered.any()
    assert np.isnan(result.p).all()


def test_discoveries_are_those_of_the_textbook() -> None:
    """Benjamini and Hochberg's own example (1995, section 3.2): 4 of 15 at a rate of .05; NaN is nobody's discovery."""
    p = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459]
    p += [0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0]
    found = benjamini_hochberg(np.array([*p, np.nan]), 0.05)
    assert found.tolist() == [True] * 4 + [False] * 12


def test_the_long_run_factor_sees_blocks_and_only_them() -> None:
    """Independent nights have a factor near 1, blocks of five one near 1 + 2 x .7 x (.8 + .6 + .4 + .2) = 3.8."""
    rng = np.random.default_rng(5)
    assert np.median(long_run_factor(rng.normal(0, 1, (200, 240)), 24)) <= 1.2
    assert np.median(long_run_factor(blocks(rng, 200, 240), 24)) == pytest.approx(3.8, abs=1.2)
    assert (long_run_factor(rng.normal(0, 1, (5, 10)), 24) == 1).all()
