"""Laws of offline segmentation: two-sided places, ranges that hold the truth, and nothing found in noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detection.segmentation import Segmentation, segment


def places(found: Segmentation) -> list[int]:
    return [change.change for change in found.changes]


def test_several_steps_are_found_where_they_are() -> None:
    """Three steps of three to six standard deviations are placed within one value of the truth, with their sizes."""
    rng = np.random.default_rng(8)
    x = rng.normal(0.0, 0.02, 240)
    x[60:120] += 0.10
    x[120:190] -= 0.06
    x[190:] += 0.12
    found = segment(np.exp(x))
    assert [round(c.change, -1) for c in found.changes] == [60, 120, 190]
    assert all(abs(c.change - truth) <= 1 for c, truth in zip(found.changes, (60, 120, 190), strict=True))
    assert [c.direction for c in found.changes] == [1, -1, 1]
    assert [c.effect for c in found.changes] == pytest.approx(list(np.expm1([0.10, -0.16, 0.18])), abs=0.02)
    assert [s.first for s in found.segments] == [0, *places(found)]
    assert [s.end for s in found.segments] == [*places(found), 240]
    assert found.segments[0].spread == pytest.approx(0.02, rel=0.5)


def test_the_range_holds_the_truth() -> None:
    """The true place of a two-sigma step lies in earliest..latest for at least nine in ten series."""
    inside = []
    for seed in range(100):
        x = np.random.default_rng(seed).normal(0.0, 0.02, 120)
        x[60:] += 0.04
        changes = [c for c in segment(np.exp(x)).changes if abs(c.change - 60) <= 15]
        if changes:
            inside.append(changes[0].earliest <= 60 <= changes[0].latest)
            assert changes[0].earliest <= changes[0].change <= changes[0].latest
    assert len(inside) >= 95
    assert np.mean(inside) >= 0.9


def test_looking_from_both_sides_places_a_step_better_than_the_online_alert() -> None:
    """Median distance from the truth of a 1.5-sigma step is at most 2 values."""
    errors = []
    for seed in range(60):
        x = np.random.default_rng(100 + seed).normal(0.0, 0.02, 140)
        x[70:] += 0.03
        errors += [abs(c.change - 70) for c in segment(np.exp(x)).changes[:1]]
    assert len(errors) >= 55
    assert np.median(errors) <= 2


def test_a_step_near_the_beginning_is_found_from_the_back() -> None:
    """A change before the online detector has a baseline is seen in the reversed series."""
    x = np.random.default_rng(2).normal(0.0, 0.02, 120)
    x[:8] += 0.15
    assert places(segment(np.exp(x))) == [8]


@pytest.mark.parametrize("kind", ["normal", "heavy", "correlated"])
def test_noise_has_one_segment(kind: str) -> None:
    """Of 150 series of 150 values without a change, at most so many are cut."""
    rng = np.random.default_rng(3)
    noise = rng.standard_normal((150, 150))
    if kind == "heavy":
        noise = rng.standard_t(3, (150, 150))
    elif kind == "correlated":
        for i in range(1, 150):
            noise[:, i] = 0.5 * noise[:, i - 1] + math.sqrt(0.75) * noise[:, i]
    cut = sum(bool(segment(np.exp(0.02 * row)).changes) for row in noise)
    assert cut <= {"normal": 4, "heavy": 6, "correlated": 20}[kind]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**31), st.integers(20, 100), st.floats(-0.3, 0.3), st.floats(1e-6, 1e6))
def test_unit_and_direction_do_not_matter(seed: int, at: int, shift: float, factor: float) -> None:
    """A constant factor moves no boundary."""
    x = np.random.default_rng(seed).normal(0.0, 0.02, 120)
    x[at:] += shift
    assert places(segment(np.exp(x))) == places(segment(factor * np.exp(x)))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.one_of(st.floats(-1e3, 1e3), st.just(math.nan)), max_size=80))
def test_segments_tile_the_series(values: list[float]) -> None:
    """Any series is covered once, in order, and every finite value is in a segment."""
    found = segment(values)
    n = sum(math.isfinite(value) for value in values)
    assert sum(s.n for s in found.segments) == n
    if n == 0:
        assert found == Segmentation(segments=(), changes=())
        return
    assert found.segments[0].first == 0
    assert found.segments[-1].end == len(values)
    for one, following in zip(found.segments, found.segments[1:], strict=False):
        assert one.end == following.first
    assert places(found) == [s.first for s in found.segments[1:]]


def test_gaps_move_places_and_nothing_else() -> None:
    """Missing values before a step shift its place by their number."""
    x = np.random.default_rng(4).normal(0.0, 0.02, 100)
    x[50:] += 0.2
    values = np.exp(x)
    gapped = np.insert(values, [20, 20, 30], math.nan)
    (plain,), (moved,) = segment(values).changes, segment(gapped).changes
    assert (moved.change, moved.effect, moved.score) == (plain.change + 3, plain.effect, plain.score)


def test_an_exact_series_is_cut_where_it_changes() -> None:
    """A register count that changes twice has three segments without spread."""
    found = segment([128.0] * 30 + [160.0] * 30 + [96.0] * 30)
    assert [(s.first, s.end, s.level, s.spread) for s in found.segments] == [
        (0, 30, 128.0, 0.0),
        (30, 60, 160.0, 0.0),
        (60, 90, 96.0, 0.0),
    ]
    assert [(c.earliest, c.latest) for c in found.changes] == [(30, 30), (60, 60)]
