"""The comparison itself: what it accepts, what it catches, and its numbers."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bench_suite.contract import DType, Phase, Tolerance
from bench_suite.contracts import contract
from bench_suite.operators.compare import compare, verify

BF16 = Tolerance(absolute=0.0, relative=DType.BF16.unit_roundoff)


@given(st.floats(min_value=1e-30, max_value=1e30), st.booleans())
def test_rounding_to_nearest_is_never_wrong(value: float, negative: bool) -> None:
    """A reference rounded to nearest in bf16 is within u relative, wherever it lies."""
    reference = torch.tensor([-value if negative else value], dtype=torch.float64)
    assert compare(reference.to(torch.bfloat16), reference, BF16).ok


def test_both_neighbours_of_a_midpoint_are_accepted() -> None:
    """The worst case of rounding, exactly half a step, passes to either side; a whole step does not."""
    low, high = torch.tensor([1.0, 1.0 + 2**-7], dtype=torch.bfloat16).split(1)
    middle = (low.double() + high.double()) / 2
    assert compare(low, middle, BF16).ok and compare(high, middle, BF16).ok
    assert not compare(low, high.double(), BF16).ok


@pytest.mark.parametrize(
    ("output", "reference", "ok"),
    [
        (math.nan, math.nan, True),
        (math.inf, math.inf, True),
        (-math.inf, -math.inf, True),
        (math.inf, -math.inf, False),
        (math.nan, 1.0, False),
        (1.0, math.nan, False),
        (math.inf, 1.0, False),
        (1.0, math.inf, False),
        (math.nan, math.inf, False),
    ],
)
def test_non_finite_values(output: float, reference: float, ok: bool) -> None:
    """Equal non-finite values are right; a non-finite value on one side only is wrong whatever the tolerance."""
    wide = Tolerance(absolute=1e30, relative=1.0)
    found = compare(torch.tensor([1.0, output]), torch.tensor([1.0, reference], dtype=torch.float64), wide)
    assert found.ok is ok
    assert found.mismatch_share == (0.0 if ok else 0.5)


def test_shape_and_dtype_must_match() -> None:
    """Another shape or dtype is wrong, with the reason, even where every value is right."""
    reference = torch.zeros(2, 3, dtype=torch.float64)
    case = contract("gemm").case({"M": 2, "N": 3, "K": 4}, DType.BF16, Phase.DECODE)
    shape = compare(torch.zeros(3, 2), reference, BF16)
    assert not shape.ok and shape.reason == "shape is [3, 2], must be [2, 3]" and shape.mismatch_share == 1.0
    dtype = verify(contract("gemm"), case, torch.zeros(2, 3), reference)
    assert not dtype.ok and dtype.reason == "dtype is torch.float32, must be torch.bfloat16"
    assert verify(contract("gemm"), case, torch.zeros(2, 3, dtype=torch.bfloat16), reference).ok


def test_one_wrong_element_of_many_is_found_and_named() -> None:
    """One element beyond tolerance in five million makes the result wrong; the reason says where and by how much."""
    reference = torch.ones(1000, 5000, dtype=torch.float64)
    output = reference.float()
    output[987, 4321] += 0.5
    found = compare(output, reference, Tolerance(absolute=0.1, relative=0.0))
    assert not found.ok
    assert found.mismatch_share == 1 / 5_000_000
    assert found.margin == pytest.approx(5.0) and found.max_abs == 0.5 and found.max_rel == 0.5
    assert found.reason == (
        "1 of 5,000,000 elements beyond tolerance; worst at [987, 4321]: 1.5, reference 1, 5x what is allowed"
    )


@given(st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3)), min_size=1, max_size=20))
def test_numbers_agree_with_a_plain_loop(pairs: list[tuple[float, float]]) -> None:
    """max_abs, margin and mismatch_share are what a loop over the elements gives."""
    tolerance = Tolerance(absolute=0.5, relative=0.25)
    y, r = (torch.tensor(column, dtype=torch.float64) for column in zip(*pairs, strict=True))
    found = compare(y, r, tolerance)
    errors = [abs(a - b) for a, b in pairs]
    allowed = [0.5 + 0.25 * abs(b) for _, b in pairs]
    assert found.max_abs == max(errors)
    assert found.margin == pytest.approx(max(e / a for e, a in zip(errors, allowed, strict=True)))
    wrong = sum(e > a for e, a in zip(errors, allowed, strict=True))
    assert found.mismatch_share == wrong / len(pairs) and found.ok is (wrong == 0)


def test_zero_tolerance_means_bit_for_bit() -> None:
    """With nothing allowed, equality passes and the smallest difference has an infinite margin."""
    exact = Tolerance(absolute=0.0, relative=0.0)
    reference = torch.tensor([1.0, 0.0], dtype=torch.float64)
    assert compare(reference.float(), reference, exact).ok
    off = compare(torch.tensor([1.0, 1e-30]), reference, exact)
    assert not off.ok and off.margin == math.inf


def test_nothing_to_compare_is_right() -> None:
    """An empty result of the right shape is right."""
    assert compare(torch.zeros(0, 3), torch.zeros(0, 3, dtype=torch.float64), BF16).ok
