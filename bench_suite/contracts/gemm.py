"""GEMM as a linear layer calls it, x [M, K] @ weight [N, K]^T -> [M, N]; batched; and its two gradients in training.

The gradients have layouts of their own: dgrad reads the weight untransposed, wgrad both operands transposed.
"""

from __future__ import annotations

import math

from bench_suite.contract import Axis, Case, Extreme, Tolerance
from bench_suite.contracts.error_bounds import accumulation, smallest, storage
from bench_suite.contracts.frames import plain_contract, tensor, work

M_AXIS = Axis(name="M", meaning="tokens of the step", dynamic=True)
N_AXIS = Axis(name="N", meaning="output features, fixed by the model")
K_AXIS = Axis(name="K", meaning="input features, fixed by the model")


def product_tolerance(case: Case, length: int) -> Tolerance:
    """One rounding of the result, and zero-mean terms accumulated to a root mean square of 1 (by the recipe)."""
    return Tolerance(absolute=accumulation(length) + smallest(case.dtype), relative=storage(case.dtype))


def product_extremes(first: str) -> tuple[Extreme, ...]:
    """A product is linear: scaling its first input scales the result."""
    return (
        Extreme(name="large", meaning=f"{first} scaled by 64", scale=64.0, output_scale=64.0),
        Extreme(name="tiny", meaning=f"{first} scaled by 2⁻¹⁰", scale=2.0**-10, output_scale=2.0**-10),
        Extreme(name="zeros", meaning=f"{first} is zero", scale=0.0, output_scale=0.0),
        Extreme(name="nan", meaning=f"one element of {first} is NaN: so is what it enters", planted=math.nan),
        Extreme(name="inf", meaning=f"one element of {first} is +∞", planted=math.inf),
    )


GEMM_EDGES = (
    {"M": 1, "N": 1, "K": 1},
    {"M": 1, "N": 257, "K": 129},
    {"M": 3, "N": 1, "K": 4097},
    {"M": 17, "N": 33, "K": 65},
    {"M": 65, "N": 127, "K": 31},
    {"M": 128, "N": 64, "K": 64},
)

_SENSITIVITY = "error grows with √{} in the accumulator; TF32 or a 16-bit accumulator leaves the bound"

GEMM = plain_contract(
    operator="gemm",
    family="GEMM",
    title="GEMM",
    formula="y = x · weightᵀ",
    axes=(M_AXIS, N_AXIS, K_AXIS),
    inputs="x normal(0, 1), weight normal(0, 1/√K), so that the result has variance 1; seeded per tensor",
    reads=(tensor("x", "M", "K"), tensor("weight", "N", "K")),
    writes=(tensor("", "M", "N"),),
    flops=work(2.0, "M", "N", "K"),  # one multiplication and one addition a term
    tolerance=lambda case: product_tolerance(case, case["K"]),
    sensitivity=_SENSITIVITY.format("K"),
    edge_cases=GEMM_EDGES,
    extremes=product_extremes("x"),
)

GEMM_DGRAD = plain_contract(
    operator="gemm_dgrad",
    family="GEMM",
    title="GEMM, gradient of the input",
    formula="dx = dy · weight",
    axes=(M_AXIS, N_AXIS, K_AXIS),
    inputs="dy normal(0, 1), weight normal(0, 1/√N), so that the result has variance 1; seeded per tensor",
    reads=(tensor("dy", "M", "N"), tensor("weight", "N", "K")),
    writes=(tensor("", "M", "K"),),
    flops=work(2.0, "M", "N", "K"),
    tolerance=lambda case: product_tolerance(case, case["N"]),
    sensitivity=_SENSITIVITY.format("N"),
    edge_cases=GEMM_EDGES,
    extremes=product_extremes("dy"),
)

GEMM_WGRAD = plain_contract(
    operator="gemm_wgrad",
    family="GEMM",
    title="GEMM, gradient of the weight",
    formula="dweight = dyᵀ · x",
    axes=(M_AXIS, N_AXIS, K_AXIS),
    inputs="dy normal(0, 1/√M), x normal(0, 1), so that the result has variance 1; seeded per tensor",
    reads=(tensor("dy", "M", "N"), tensor("x", "M", "K")),
    writes=(tensor("", "N", "K"),),
    flops=work(2.0, "M", "N", "K"),
    tolerance=lambda case: product_tolerance(case, case["M"]),
    sensitivity=_SENSITIVITY.format("M, the tokens of the step,"),
    edge_cases=GEMM_EDGES,
    extremes=product_extremes("dy"),
)

BATCHED_GEMM = plain_contract(
    operator="batched_gemm",
    family="GEMM",
    title="Batched GEMM",
    formula="y = x · weightᵀ in each batch entry",
    axes=(Axis(name="batch", meaning="independent products, as heads of latent attention"), M_AXIS, N_AXIS, K_AXIS),
    inputs="x normal(0, 1), weight normal(0, 1/√K), so that the result has variance 1; seeded per tensor",
    reads=(tensor("x", "batch", "M", "K"), tensor("weight", "batch", "N", "K")),
    writes=(tensor("", "batch", "M", "N"),),
    flops=work(2.0, "batch", "M", "N", "K"),
    tolerance=lambda case: product_tolerance(case, case["K"]),
    sensitivity=_SENSITIVITY.format("K"),
    edge_cases=tuple({"batch": batch, **edge} for batch, edge in zip((1, 3, 2, 5, 2, 4), GEMM_EDGES, strict=True)),
    extremes=product_extremes("x"),
)
