"""Softmax over the last axis: exp(x - max) / sum(exp(x - max))."""

from __future__ import annotations

import math

from bench_suite.contract import Axis, Case, Extreme, Tolerance
from bench_suite.contracts.error_bounds import ACCUMULATE, accumulation, smallest, storage
from bench_suite.contracts.frames import COLUMNS, plain_contract, tensor, work

LOGIT_SD = 3.0
"""Standard deviation of the inputs: the spread of a language model's logits, some 30 from least to most likely."""

EXP_RANGE = 104
"""exp(x - max) is zero in binary32 where max - x is larger."""

LOGIT_EDGES = (
    {"rows": 1, "columns": 1},
    {"rows": 1, "columns": 128256},
    {"rows": 3, "columns": 2},
    {"rows": 7, "columns": 1025},
    {"rows": 65, "columns": 33},
)


def probability_error(columns: int) -> float:
    """Relative, of exp(x - max) / sum: the sum is same-sign; exp makes the error |x - max| u of its argument relative.

    The argument has that error twice: from the subtraction and from the reduction of range inside exp.
    """
    return accumulation(columns) + (2 * EXP_RANGE + 8) * ACCUMULATE


def _tolerance(case: Case) -> Tolerance:
    """One rounding to the dtype of a probability."""
    relative = storage(case.dtype) + probability_error(case["columns"])
    return Tolerance(absolute=smallest(case.dtype), relative=relative)


SOFTMAX = plain_contract(
    operator="softmax",
    family="Softmax",
    title="Softmax",
    formula="y = exp(x − max x) / Σ exp(x − max x)",
    axes=(Axis(name="rows", meaning="sequences that sample a token", dynamic=True), COLUMNS),
    inputs="x normal(0, 3), like logits; seeded",
    reads=(tensor("x", "rows", "columns"),),
    writes=(tensor("", "rows", "columns"),),
    flops=work(5.0, "rows", "columns"),  # compare, subtract, exp, add, divide
    tolerance=_tolerance,
    sensitivity="exp overflows beyond 88 (fp32) unless the maximum is subtracted; in fp16 small results are subnormal",
    edge_cases=LOGIT_EDGES,
    extremes=(
        Extreme(
            name="large", meaning="x scaled by 100: exp(x) overflows unless the maximum is subtracted", scale=100.0
        ),
        Extreme(name="zeros", meaning="x is zero: every probability is 1 / columns", scale=0.0),
        Extreme(name="nan", meaning="one element of x is NaN: its row of the result is", planted=math.nan),
        Extreme(name="minus_inf", meaning="one element of x is −∞: its probability is 0", planted=-math.inf),
    ),
)
