"""LayerNorm (Ba et al. 2016, arXiv:1607.06450) over the last axis, with weight and bias."""

from __future__ import annotations

import math

from bench_suite.contract import Case, Extreme, Tolerance
from bench_suite.contracts.error_bounds import ACCUMULATE, CONFIDENCE, accumulation, smallest, storage
from bench_suite.contracts.frames import HIDDEN, ROWS, plain_contract, tensor, work
from bench_suite.contracts.rms_norm import EDGES

EPSILON = 1e-5
"""torch's and the original models' default."""

_ELEMENTWISE = 8 * ACCUMULATE
"""Square root, division and products in binary32, each good to 2 u."""

_WIDEST = 8.0
"""Normalised values stay below this but with probability 1e-15; sums near zero keep their terms' absolute error."""


def _tolerance(case: Case) -> Tolerance:
    """One rounding to the dtype; the variance is same-sign; the mean and the bias cancel, so that errors are absolute.

    The mean of zero-mean values is off by lambda u at most, x - mean and the sum with the bias by u times their terms.
    """
    absolute = (CONFIDENCE + 3 * _WIDEST) * ACCUMULATE + smallest(case.dtype)
    relative = storage(case.dtype) + accumulation(case["hidden"]) / 2 + _ELEMENTWISE
    return Tolerance(absolute=absolute, relative=relative)


LAYER_NORM = plain_contract(
    operator="layer_norm",
    family="LayerNorm",
    title="LayerNorm",
    formula="y = (x − mean x) / √(var x + 1e-5) · weight + bias",
    axes=(ROWS, HIDDEN),
    inputs="x normal(0, 1), weight 1 + normal(0, 0.1), bias normal(0, 0.1); seeded per tensor",
    reads=(tensor("x", "rows", "hidden"), tensor("weight", "hidden"), tensor("bias", "hidden")),
    writes=(tensor("", "rows", "hidden"),),
    flops=work(7.0, "rows", "hidden"),  # mean, subtract, square, sum, scale, weight, bias
    tolerance=_tolerance,
    sensitivity="mean(x²) − mean(x)² cancels where the mean is large: the variance must be of x − mean",
    edge_cases=EDGES,
    extremes=(
        Extreme(name="large", meaning="x scaled by 2¹⁰: x² leaves fp16", scale=2.0**10),
        Extreme(name="zeros", meaning="x is zero: the result is the bias, not NaN", scale=0.0),
        Extreme(name="nan", meaning="one element of x is NaN: its row of the result is", planted=math.nan),
    ),
)
