"""Laws of the online detector: what it finds, what it leaves alone, and that scale and direction do not matter."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from detection import Alert, DetectorError, OnlineDetector, judge_many

Values = NDArray[np.float64]


def alerts_of(values: Values | list[float | None]) -> list[Alert]:
    detector = OnlineDetector()
    return [alert for value in values if (alert := detector.update(value)) is not None]


def normal(seed: int, n: int, sd: float = 0.02) -> Values:
    return np.exp(np.random.default_rng(seed).normal(0.0, sd, n))


def stepped(seed: int, n: int, at: int, shift: float, sd: float = 0.02) -> Values:
    values = normal(seed, n, sd)
    values[at:] *= math.exp(shift)
    return values


@pytest.mark.parametrize("direction", [1, -1])
def test_a_clear_step_is_found_soon_and_where_it_is(direction: int) -> None:
    """A step of five standard deviations is reported within 6 values, in its direction, within 2 of its place."""
    for seed in range(20):
        (alert,) = alerts_of(stepped(seed, 100, 60, direction * 0.10))
        assert alert.direction == direction
        assert abs(alert.change - 60) <= 2
        assert alert.at <= 65
        assert alert.effect == pytest.approx(math.expm1(direction * 0.10), abs=0.05)
        assert alert.score > 1
        assert alert.n_after == alert.at - alert.change + 1
        assert alert.n_before <= alert.change


def test_small_steps_are_found() -> None:
    """Of steps of 1.5 standard deviations at least nine in ten are reported within 40 values, half within 12."""
    lags = []
    for seed in range(100):
        hits = [a for a in alerts_of(stepped(1_000 + seed, 101, 60, 0.03)) if a.direction > 0 and a.at >= 60]
        lags.append(hits[0].at - 59 if hits else math.inf)
    assert np.isfinite(lags).mean() >= 0.9
    assert np.median(lags) <= 12


@pytest.mark.parametrize("kind", ["normal", "heavy", "skewed", "two levels", "correlated"])
def test_noise_raises_few_alerts(kind: str) -> None:
    """On 60,000 values without a change, at most so many alerts of either direction for each kind of noise."""
    rng = np.random.default_rng(7)
    shape = (300, 200)
    noise = rng.standard_normal(shape)
    if kind == "heavy":
        noise = rng.standard_t(3, shape)
    elif kind == "skewed":
        noise = rng.exponential(1.0, shape)
    elif kind == "two levels":
        noise = 0.3 * noise + 3.0 * (rng.random(shape) < 0.3)
    elif kind == "correlated":
        for i in range(1, shape[1]):
            noise[:, i] = 0.4 * noise[:, i - 1] + math.sqrt(1 - 0.16) * noise[:, i]
    per_thousand = {"normal": 0.3, "heavy": 0.5, "skewed": 1.0, "two levels": 0.8, "correlated": 1.5}[kind]
    found = sum(len(alerts) for alerts in judge_many(np.exp(0.02 * noise)))
    assert found <= per_thousand * noise.size / 1_000


def test_constant_values_raise_nothing_and_a_change_of_a_constant_is_found() -> None:
    """An exact metric, a register count say, is silent for ever and reported once when it changes."""
    assert alerts_of([128.0] * 300) == []
    (alert,) = alerts_of([128.0] * 40 + [160.0] * 40)
    assert (alert.change, alert.direction) == (40, 1)
    assert alert.effect == pytest.approx(0.25)


def test_two_outliers_raise_nothing() -> None:
    """Neither a value a hundred times too large nor two in a row are a change of level."""
    values = normal(3, 120)
    values[40] *= 100
    values[80:82] *= 3
    assert alerts_of(values) == []


def test_a_burst_that_goes_away_leaves_the_old_baseline() -> None:
    """After a burst of eight has ended the old history judges again: a step soon after is found within 20 values."""
    found = 0
    for seed in range(20):
        values = normal(seed, 160)
        values[60:68] *= 1.15
        values[90:] *= 1.08
        found += any(abs(alert.change - 90) <= 2 and alert.at < 110 for alert in alerts_of(values))
    assert found >= 18


def test_one_step_is_told_once() -> None:
    """A single step of any size raises no second alert of its direction: at most 3 in 100 series of 150 values."""
    again = 0
    for seed in range(100):
        ups = [a for a in alerts_of(stepped(5_000 + seed, 150, 60, 0.02 + 0.002 * (seed % 50))) if a.direction > 0]
        again += max(0, len(ups) - 1)
    assert again <= 3


def test_each_of_several_steps_is_told() -> None:
    """Up, down and up again, 40 values apart: three alerts, each at its place."""
    values = normal(11, 160)
    values[40:80] *= 1.1
    values[120:] *= 1.2
    assert [(a.direction, round(a.change / 10)) for a in alerts_of(values)] == [(1, 4), (-1, 8), (1, 12)]


def test_a_drift_that_begins_is_told_once() -> None:
    """A level that starts to climb and climbs on is one change, not a staircase of alerts."""
    counts = []
    for seed in range(20):
        values = normal(seed, 300, 0.01)
        values[100:] *= np.exp(0.003 * np.arange(200))
        counts.append(sum(a.direction > 0 for a in alerts_of(values)))
    assert min(counts) >= 1
    assert np.mean(counts) <= 2


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.floats(1e-9, 1e9), st.integers(20, 90), st.floats(-0.2, 0.2))
def test_the_unit_does_not_matter(seed: int, factor: float, at: int, shift: float) -> None:
    """Multiplying a positive series by a constant changes no alert's place, time or direction."""
    values = stepped(seed, 100, at, shift)
    assert places(alerts_of(values)) == places(alerts_of(values * factor))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.integers(20, 90), st.floats(-0.2, 0.2))
def test_up_and_down_are_alike(seed: int, at: int, shift: float) -> None:
    """A series of rates gives the alerts of the series of times, with the sign turned."""
    values = stepped(seed, 100, at, shift)
    assert places(alerts_of(1 / values)) == [(a, c, -d) for a, c, d in places(alerts_of(values))]


def places(alerts: list[Alert]) -> list[tuple[int, int, int]]:
    return [(alert.at, alert.change, alert.direction) for alert in alerts]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.integers(30, 119))
def test_it_never_looks_ahead(seed: int, end: int) -> None:
    """The alerts of a beginning are the beginning of the alerts."""
    values = stepped(seed, 120, 50, 0.08)
    assert alerts_of(values[:end]) == [alert for alert in alerts_of(values) if alert.at < end]


@pytest.mark.parametrize("gap", [None, math.nan, math.inf, -math.inf])
def test_a_gap_is_counted_and_not_judged(gap: float | None) -> None:
    """Missing values move positions and change nothing else."""
    values: list[float | None] = list(stepped(4, 100, 60, 0.1))
    (plain,) = alerts_of(values)
    (with_gaps,) = alerts_of([*values[:30], gap, gap, *values[30:]])
    assert (with_gaps.change, with_gaps.at) == (plain.change + 2, plain.at + 2)
    assert (with_gaps.effect, with_gaps.score) == (plain.effect, plain.score)


def test_values_of_zero_and_below_are_judged_as_they_are() -> None:
    """An error that was exactly zero and is not any more is a change; so is a shift of a signed series."""
    (alert,) = alerts_of([0.0] * 30 + [1e-7] * 20)
    assert (alert.change, alert.direction, alert.effect) == (30, 1, pytest.approx(1e-7 / 1e-300))
    signed = np.random.default_rng(5).normal(0.0, 1.0, 100)
    signed[60:] += 6
    (alert,) = alerts_of(signed)
    assert (abs(alert.change - 60) <= 2, alert.direction) == (True, 1)


def test_a_series_that_turns_signed_keeps_its_history() -> None:
    """From the first value of zero or below on plain values are judged, the older ones included."""
    values = [*(5.0 + np.random.default_rng(5).normal(0.0, 0.1, 60)), -1.0, *([1.0, 1.1, 0.9, 1.05] * 5)]
    (alert,) = alerts_of(values)
    assert (alert.change, alert.direction) == (60, -1)
    assert alert.effect == pytest.approx(-0.8, abs=0.05)


def test_a_shift_too_small_to_matter_is_not_told() -> None:
    """Half the smallest effect is below notice however quiet the series is; twice it is told."""
    rng = np.random.default_rng(1)
    quiet = 1 + rng.normal(0.0, 1e-4, 100)
    assert alerts_of(np.where(np.arange(100) < 50, quiet, quiet * 1.0015)) == []
    assert len(alerts_of(np.where(np.arange(100) < 50, quiet, quiet * 1.006))) == 1


def test_many_series_at_once_are_judged_as_one_by_one() -> None:
    """`judge_many` gives exactly the alerts of a fresh detector per series, whatever their lengths."""
    histories = [stepped(seed, 80 + seed, 50, 0.06) for seed in range(20)]
    assert judge_many(histories) == [tuple(alerts_of(history)) for history in histories]


@pytest.mark.parametrize(
    ("name", "value"),
    [("strictness", 0.0), ("warmup", 3), ("baseline", 500), ("minimum_effect", -1.0)],
)
def test_settings_out_of_range_are_refused(name: str, value: float) -> None:
    """The message names the setting, the value and the range."""
    with pytest.raises(DetectorError, match=rf"^{name} is {value}, must be from .* to .*$"):
        OnlineDetector(**{name: value})  # type: ignore[arg-type]


def test_a_stricter_detector_says_less() -> None:
    """Higher thresholds find later and raise fewer alerts."""
    noise = np.exp(np.random.default_rng(2).standard_t(3, (200, 150)) * 0.02)
    counts = [sum(map(len, judge_many(noise, strictness=s))) for s in (0.8, 1.0, 1.3)]
    assert counts[0] > counts[1] >= counts[2]


def test_importing_detection_loads_no_compiler() -> None:
    """A node imports `detection.stats` without numba or scipy."""
    code = "import sys, detection, detection.stats; print(sorted({'numba', 'scipy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
