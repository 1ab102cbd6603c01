"""The cost model: right about shapes it has not seen, honest about how right, silent where it knows too little."""

from __future__ import annotations

import math

import numpy as np
import pytest

from detection.cost_model import Costed, fit_cost_model
from detection.shape_features import Shape


def costed(m: int, n: int, noise: float = 0.0, seconds: float | None = None) -> Costed:
    """A made-up GEMM: roofline, a launch of 4 µs, three quarters of the roof, and noise."""
    roof = max(2.0 * m * n * 4096 / 300e12, 2.0 * (m * 4096 + n * 4096 + m * n) / 2e12)
    return Costed(
        shape=Shape(
            case_id=f"gemm[bf16,M={m},N={n}]",
            axes={"M": (m,), "N": (n,)},
            flops=2.0 * m * n * 4096,
            traffic_bytes=2.0 * (m * 4096 + n * 4096 + m * n),
        ),
        roofline_s=roof,
        seconds=(4e-6 + roof / 0.75) * math.exp(noise) if seconds is None else seconds,
    )


def some(count: int, seed: int, noise: float) -> list[Costed]:
    """Random sizes of two axes."""
    rng = np.random.default_rng(seed)
    return [
        costed(int(2 ** rng.uniform(0, 12)), int(2 ** rng.uniform(9, 15)), noise=float(rng.normal(0, noise)))
        for _ in range(count)
    ]


@pytest.mark.parametrize("count", [16, 40])
def test_unseen_shapes_are_within_a_few_percent(count: int) -> None:
    """Smooth costs with 2 % noise: the median error on unseen shapes is below 10 %, and nine intervals of ten hold."""
    held, errors = 0, []
    for seed in range(6):
        model = fit_cost_model(some(count, seed, 0.02))
        assert model is not None
        for unseen in some(50, 100 + seed, 0.02):
            expected = model.expect(unseen)
            assert expected is not None
            errors.append(abs(math.log(unseen.seconds / expected.seconds)))
            held += expected.low_s <= unseen.seconds <= expected.high_s
    assert np.median(errors) < 0.1
    assert held / 300 >= 0.88


def test_a_shape_that_costs_twice_as_much_is_far() -> None:
    """Twice the expected time is far from the model and said with both numbers; the expected time is not."""
    model = fit_cost_model(some(40, 1, 0.02))
    assert model is not None
    usual = costed(300, 6144)
    expected = model.expect(usual)
    assert expected is not None
    assert not expected.is_far(usual.seconds)
    assert expected.is_far(2.5 * usual.seconds)
    assert expected.sentence(2.5 * usual.seconds).endswith("far from the model.")
    assert "40 measured shapes" in expected.sentence(usual.seconds)


def test_another_unit_of_time_changes_nothing_but_the_unit() -> None:
    """Times and roofs a thousand times longer have expected times a thousand times longer."""
    cases = some(20, 4, 0.02)
    slower = [Costed(shape=c.shape, roofline_s=1000 * c.roofline_s, seconds=1000 * c.seconds) for c in cases]
    first, second = fit_cost_model(cases), fit_cost_model(slower)
    assert first is not None
    assert second is not None
    probe = costed(100, 2048)
    one, other = first.expect(probe), second.expect(Costed(shape=probe.shape, roofline_s=1000 * probe.roofline_s))
    assert one is not None
    assert other is not None
    assert other.seconds == pytest.approx(1000 * one.seconds, rel=1e-6)
    assert other.low_s == pytest.approx(1000 * one.low_s, rel=1e-6)


def test_too_few_or_unlike_cases_are_not_predicted() -> None:
    """Seven cases make no model; a shape without the axes, or without a roofline, has no expected time."""
    assert fit_cost_model(some(7, 0, 0.02)) is None
    model = fit_cost_model(some(12, 0, 0.02))
    assert model is not None
    assert model.expect(Costed(shape=Shape(case_id="x", axes={"K": (3.0,)}), roofline_s=1e-6)) is None
    assert model.expect(Costed(shape=costed(8, 512).shape, roofline_s=math.nan)) is None


def test_an_empty_case_is_left_out() -> None:
    """A measured case with a size of zero changes nothing for the others, and has no expectation itself."""
    cases = some(20, 4, 0.02)
    empty = costed(16, 0)
    assert empty.roofline_s > 0
    model, without = fit_cost_model([*cases, empty]), fit_cost_model(cases)
    assert model is not None and without is not None
    assert model.expect(costed(100, 2048)) == without.expect(costed(100, 2048))
    assert model.expect(empty) is None
