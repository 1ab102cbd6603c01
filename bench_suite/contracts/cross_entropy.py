"""Cross-entropy of each row against its target class, log(sum exp x) - x[target]: training's loss, and its gradient."""

from __future__ import annotations

import math

from bench_suite.contract import Axis, Case, Extreme, Tolerance
from bench_suite.contracts.error_bounds import ACCUMULATE, accumulation, smallest, storage
from bench_suite.contracts.frames import COLUMNS, INT64_BYTES, plain_contract, tensor, work
from bench_suite.contracts.softmax import EXP_RANGE, LOGIT_EDGES, LOGIT_SD, probability_error

_AXES = (Axis(name="rows", meaning="tokens with a target", dynamic=True), COLUMNS)
_LOGITS = tensor("x", "rows", "columns")
_TARGET = tensor("target", "rows", element_bytes=INT64_BYTES)


def _tolerance(case: Case) -> Tolerance:
    """The relative error of the same-sign sum becomes an absolute one under the logarithm; one rounding of the loss.

    max and x[target] cancel in the loss: u times seven standard deviations to either side.
    """
    total = accumulation(case["columns"]) + 2 * EXP_RANGE * ACCUMULATE
    cancelled = 4 * 14 * LOGIT_SD * ACCUMULATE
    return Tolerance(absolute=total + cancelled + smallest(case.dtype), relative=storage(case.dtype))


CROSS_ENTROPY = plain_contract(
    operator="cross_entropy",
    family="Loss",
    title="Cross-entropy",
    formula="y = log Σ exp x − x[target]",
    axes=_AXES,
    inputs="x normal(0, 3), like logits; targets int64, evenly spread over the columns; seeded",
    reads=(_LOGITS, _TARGET),
    writes=(tensor("", "rows"),),
    flops=work(4.0, "rows", "columns"),  # compare, subtract, exp, add
    tolerance=_tolerance,
    sensitivity="exp overflows unless the maximum is subtracted; a loss near zero keeps absolute errors",
    edge_cases=LOGIT_EDGES,
    extremes=(
        Extreme(name="large", meaning="x scaled by 100: exp(x) overflows", scale=100.0, output_scale=100.0),
        Extreme(name="zeros", meaning="x is zero: the loss is log(columns)", scale=0.0),
        Extreme(name="nan", meaning="one element of x is NaN: so is its row's loss", planted=math.nan),
    ),
)


_LIKELIEST = 64


def _gradient_tolerance(case: Case) -> Tolerance:
    """Two roundings of a probability times dloss; at a target that is all but certain p - 1 cancels.

    There the error of p is absolute. Such a target is one of the few likeliest tokens of its row, and targets are
    spread evenly: the absolute part is cut by the share of those few in the vocabulary.
    """
    relative = probability_error(case["columns"])
    absolute = 2 * relative * min(1.0, _LIKELIEST / case["columns"])
    return Tolerance(absolute=absolute + smallest(case.dtype), relative=storage(case.dtype, 2) + relative)


CROSS_ENTROPY_BACKWARD = plain_contract(
    operator="cross_entropy_backward",
    family="Loss",
    title="Cross-entropy, gradient",
    formula="dx = dloss · (softmax(x) − onehot(target))",
    axes=_AXES,
    inputs="dloss 1 + normal(0, 0.1), x normal(0, 3), like logits; targets int64, evenly spread; seeded",
    reads=(tensor("dloss", "rows"), _LOGITS, _TARGET),
    writes=(tensor("", "rows", "columns"),),
    flops=work(6.0, "rows", "columns"),  # compare, subtract, exp, add, divide, scale
    tolerance=_gradient_tolerance,
    sensitivity="p − 1 cancels at a target that is all but certain; in fp16 gradients are subnormal without a scale",
    edge_cases=LOGIT_EDGES,
    extremes=(
        Extreme(name="large", meaning="dloss scaled by 1,024, a loss scale", scale=1024.0, output_scale=1024.0),
        Extreme(name="zeros", meaning="dloss is zero: so is the gradient", scale=0.0, output_scale=0.0),
        Extreme(name="nan", meaning="one dloss is NaN: so is its row of the gradient", planted=math.nan),
    ),
)
