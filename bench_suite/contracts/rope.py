"""Rotary position embedding (Su et al. 2021, arXiv:2104.09864), halves rotated as Llama's published weights want it."""

from __future__ import annotations

import math

from bench_suite.contract import Axis, Case, Extreme, Tolerance
from bench_suite.contracts.error_bounds import ACCUMULATE, smallest, storage
from bench_suite.contracts.frames import FP32_BYTES, plain_contract, tensor, work

BASE = 500_000.0
"""Of Llama 3: angle of pair i is position / BASE^(2 i / head_dim)."""

_WIDEST = 8.0
"""Normal values stay below this but with probability 1e-15."""


def _tolerance(case: Case) -> Tolerance:
    """x1 cos - x2 sin may cancel: two products and a difference, each good to u of values up to 8, stay absolute."""
    absolute = 4 * _WIDEST * ACCUMULATE + smallest(case.dtype)
    return Tolerance(absolute=absolute, relative=storage(case.dtype))


def _constraint(case: Case) -> str:
    return f"head_dim is {case['head_dim']}, must be even" if case["head_dim"] % 2 else ""


def _table_bytes(case: Case) -> float:
    return float(case["rows"] * case["head_dim"] * FP32_BYTES)  # cosine and sine of half the elements each


def _elements_bytes(case: Case) -> float:
    return float(case["rows"] * case["heads"] * case["head_dim"] * case.dtype.size_bytes)


ROPE = plain_contract(
    operator="rope",
    family="RoPE",
    title="RoPE",
    formula="y₁ = x₁ · cos − x₂ · sin, y₂ = x₂ · cos + x₁ · sin, x₁ and x₂ the halves of a head",
    axes=(
        Axis(name="rows", meaning="tokens of the step", dynamic=True),
        Axis(name="heads", meaning="query and key heads together"),
        Axis(name="head_dim", meaning="elements of a head"),
    ),
    inputs="x normal(0, 1); angles fp32 [2, rows, head_dim / 2]: cosine and sine of each token's position; seeded",
    reads=(tensor("x", "rows", "heads", "head_dim"), tensor("angles", "rows", "head_dim", element_bytes=FP32_BYTES)),
    writes=(tensor("", "rows", "heads", "head_dim"),),
    flops=work(3.0, "rows", "heads", "head_dim"),  # two products and a sum
    tolerance=_tolerance,
    sensitivity="angles of far positions need fp32: 16-bit positions beyond 256 (bf16) are not even distinct",
    edge_cases=(
        {"rows": 1, "heads": 1, "head_dim": 2},
        {"rows": 1, "heads": 40, "head_dim": 128},
        {"rows": 3, "heads": 5, "head_dim": 80},
        {"rows": 17, "heads": 3, "head_dim": 64},
        {"rows": 129, "heads": 2, "head_dim": 128},
    ),
    extremes=(
        Extreme(name="large", meaning="x scaled by 64", scale=64.0, output_scale=64.0),
        Extreme(name="zeros", meaning="x is zero: so is the result", scale=0.0, output_scale=0.0),
        Extreme(name="nan", meaning="one element of x is NaN: so is its pair of the result", planted=math.nan),
    ),
    constraint=_constraint,
)
