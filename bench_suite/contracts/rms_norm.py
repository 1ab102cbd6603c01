"""RMSNorm (Zhang & Sennrich 2019, arXiv:1910.07467): x / sqrt(mean(x^2) + eps) * weight over the last axis."""

from __future__ import annotations

import math

from bench_suite.contract import Case, Extreme, Tolerance
from bench_suite.contracts.error_bounds import ACCUMULATE, CONFIDENCE, accumulation, smallest, storage
from bench_suite.contracts.frames import FP32_BYTES, HIDDEN, ROWS, plain_contract, tensor, work

EPSILON = 1e-5
"""Of Llama 3."""

_ELEMENTWISE = 8 * ACCUMULATE
"""Square root, division and two products in binary32, each good to 2 u."""

_WIDEST = 8.0
"""Normal values stay below this but with probability 1e-15."""

_SHORT = 16
"""Rows shorter than this may by chance be near zero as a whole, so that eps alone bounds 1 / rms."""

EDGES = (
    {"rows": 1, "hidden": 1},
    {"rows": 1, "hidden": 4096},
    {"rows": 3, "hidden": 7},
    {"rows": 5, "hidden": 1023},
    {"rows": 33, "hidden": 257},
)


def _tolerance(case: Case) -> Tolerance:
    """The mean of same-sign squares carries lambda sqrt(n) u, its square root half; up to two roundings to the dtype.

    Two, since model code commonly rounds the normalised value before it multiplies by the weight.
    """
    relative = storage(case.dtype, 2) + accumulation(case["hidden"]) / 2 + _ELEMENTWISE
    return Tolerance(absolute=smallest(case.dtype), relative=relative)


RMS_NORM = plain_contract(
    operator="rms_norm",
    family="RMSNorm",
    title="RMSNorm",
    formula="y = x / √(mean(x²) + 1e-5) · weight",
    axes=(ROWS, HIDDEN),
    inputs="x normal(0, 1), weight 1 + normal(0, 0.1); seeded per tensor",
    reads=(tensor("x", "rows", "hidden"), tensor("weight", "hidden")),
    writes=(tensor("", "rows", "hidden"),),
    flops=work(4.0, "rows", "hidden"),  # square, add, scale, weight
    tolerance=_tolerance,
    sensitivity="x² leaves the range of fp16 beyond |x| = 255: form it in fp32; eps decides for rows near zero",
    edge_cases=(*EDGES, {"rows": 2, "hidden": 65537}),
    extremes=(
        Extreme(name="large", meaning="x scaled by 2¹²: x² leaves fp16", scale=2.0**12),
        Extreme(name="tiny", meaning="x scaled by 2⁻¹⁰: eps outweighs x²", scale=2.0**-10),
        Extreme(name="zeros", meaning="x is zero: the result is, not NaN", scale=0.0),
        Extreme(name="nan", meaning="one element of x is NaN: its row of the result is", planted=math.nan),
    ),
)


def _backward_tolerance(case: Case) -> tuple[Tolerance, Tolerance]:
    """dx = rstd · (g − x · rstd² · mean(g · x)) with g = dy · weight, and dweight = Σ over rows of dy · x · rstd.

    dx: two roundings to the dtype; the two terms may cancel, so that their binary32 errors, some 8 u of values up to
    8, are absolute; the mean of zero-mean terms is off by lambda u. dweight: `rows` zero-mean terms of variance 1.
    """
    hidden, rows = case["hidden"], case["rows"]
    rstd = 2.0 if hidden >= _SHORT else 1 / math.sqrt(EPSILON)
    cancelled = rstd * (2 * _WIDEST + CONFIDENCE * _WIDEST) * ACCUMULATE
    dx = Tolerance(absolute=cancelled + smallest(case.dtype), relative=storage(case.dtype, 2) + _ELEMENTWISE)
    size = math.sqrt(rows) * (1.0 if hidden >= _SHORT else math.sqrt(hidden))
    summed = size * (accumulation(rows) + CONFIDENCE * _ELEMENTWISE)
    return dx, Tolerance(absolute=summed + smallest(case.dtype), relative=storage(case.dtype))


RMS_NORM_BACKWARD = plain_contract(
    operator="rms_norm_backward",
    family="RMSNorm",
    title="RMSNorm, gradients",
    formula="dx = rstd · (g − x · rstd² · mean(g · x)), g = dy · weight; dweight = Σ dy · x · rstd",
    axes=(ROWS, HIDDEN),
    inputs="dy, x normal(0, 1), weight 1 + normal(0, 0.1), rstd of x in fp32 as the forward pass has kept it",
    reads=(
        tensor("dy", "rows", "hidden"),
        tensor("x", "rows", "hidden"),
        tensor("weight", "hidden"),
        tensor("rstd", "rows", element_bytes=FP32_BYTES),
    ),
    writes=(tensor("dx", "rows", "hidden"), tensor("dweight", "hidden")),
    flops=work(11.0, "rows", "hidden"),  # g, g·x and its sum, its product with x, difference, scale; dy·x·rstd, sum
    tolerance=_backward_tolerance,
    sensitivity="the two terms of dx cancel along x; dweight sums over all tokens of the step: keep that sum in fp32",
    edge_cases=EDGES,
    extremes=(
        Extreme(name="large", meaning="dy scaled by 64", scale=64.0, output_scale=64.0),
        Extreme(name="zeros", meaning="dy is zero: so are both gradients", scale=0.0, output_scale=0.0),
        Extreme(name="nan", meaning="one element of dy is NaN: its row of dx and its dweight are", planted=math.nan),
    ),
)
