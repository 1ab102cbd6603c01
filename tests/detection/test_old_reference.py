"""Drifts against the oldest runs, and steps among the first: found where they are, and not where there are none."""

from __future__ import annotations

import numpy as np
import pytest

from detection.old_reference import EARLY_FROM, drift, early_step

FLOOR = float(np.log1p(0.05))


def autoregressive(rng: np.random.Generator, rows: int, runs: int, r: float) -> np.ndarray:
    """Noise of sd 1 in which neighbours are alike."""
    x = rng.normal(size=(rows, runs))
    for i in range(1, runs):
        x[:, i] = r * x[:, i - 1] + np.sqrt(1 - r * r) * x[:, i]
    return x


@pytest.mark.parametrize("direction", [1, -1])
def test_a_drift_below_every_nights_noise_is_found(direction: int) -> None:
    """0.4 % a run under 1.5 % of noise: all of 200 series are called by the fiftieth run, in the right direction."""
    x = np.random.default_rng(1).normal(0, 0.015, (200, 50)) + direction * np.log(1.004) * np.arange(50)
    found = drift(x, floor=FLOOR)
    assert np.mean(np.isfinite(found.change)) > 0.95
    assert np.all(np.sign(found.change[np.isfinite(found.change)]) == direction)


@pytest.mark.parametrize("kind", ["normal", "heavy", "alike", "outliers"])
def test_noise_is_no_drift(kind: str) -> None:
    """Of 4,000 series of 60 runs without change at most one is called, alike neighbours and heavy tails or not."""
    rng = np.random.default_rng(2)
    x = {
        "normal": lambda: rng.normal(size=(4000, 60)),
        "heavy": lambda: rng.standard_t(2, size=(4000, 60)),
        "alike": lambda: autoregressive(rng, 4000, 60, 0.4),
        "outliers": lambda: rng.normal(size=(4000, 60)) + 10 * (rng.random((4000, 60)) < 0.05),
    }[kind]()
    assert np.isfinite(drift(0.05 * x, floor=FLOOR).change).sum() <= 1


def test_the_first_run_of_a_step_is_named() -> None:
    """A clear step is called by the oldest reference too, and begins where it was planted."""
    x = np.random.default_rng(3).normal(0, 0.01, (50, 40))
    x[:, 22:] += 0.2
    assert np.all(drift(x, floor=FLOOR).since == 22)


def test_an_early_step_is_seen_once_there_are_runs_to_see_it() -> None:
    """A step at the third to the ninth run is called at the twelfth run, at its place, and never again."""
    rng = np.random.default_rng(4)
    for at in range(2, 9):
        x = rng.normal(0, 0.008, (60, EARLY_FROM + 1))
        x[:, at:] += 0.1
        found = early_step(x[:, :EARLY_FROM], floor=FLOOR)
        assert np.mean(found.since == at) > 0.9
        assert not np.isfinite(early_step(x, floor=FLOOR).change).any()
        assert not np.isfinite(early_step(x[:, : EARLY_FROM - 1], floor=FLOOR).change).any()


@pytest.mark.parametrize("heavy", [False, True])
def test_first_runs_of_noise_have_no_step(heavy: bool) -> None:
    """Of 5,000 series at most one in 200 is called: twelve runs say little of their own noise."""
    rng = np.random.default_rng(5)
    x = rng.standard_t(3, (5000, EARLY_FROM)) if heavy else rng.normal(size=(5000, EARLY_FROM))
    assert np.isfinite(early_step(0.05 * x, floor=FLOOR).change).mean() <= 0.005


def test_one_odd_early_run_is_no_step() -> None:
    """The second of the first runs 8 % up and the others not: nothing."""
    x = np.random.default_rng(6).normal(0, 0.008, (100, EARLY_FROM))
    x[:, 1] += 0.08
    assert not np.isfinite(early_step(x, floor=FLOOR).change).any()


def test_gaps_and_scale_do_not_matter() -> None:
    """Runs without a value are as if they had not been; without tonight's nothing is said; a unit changes nothing."""
    x = np.random.default_rng(7).normal(0, 0.01, (20, 45)) + np.log(1.005) * np.arange(45)
    gaps = np.insert(x, [3, 17, 30], np.nan, axis=1)
    np.testing.assert_allclose(drift(gaps, floor=FLOOR).change, drift(x, floor=FLOOR).change)
    np.testing.assert_allclose(drift(x + 7, floor=FLOOR).change, drift(x, floor=FLOOR).change)
    x[:, -1] = np.nan
    assert not np.isfinite(drift(x, floor=FLOOR).change).any()
    assert drift(np.empty((3, 0)), floor=FLOOR).since.tolist() == [-1, -1, -1]
