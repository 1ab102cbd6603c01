"""SwiGLU and GeGLU (Shazeer 2020, arXiv:2002.05202) after the fused gate-and-up GEMM, and SwiGLU's gradients."""

from __future__ import annotations

import math

from bench_suite.contract import Case, DType, Extreme, Tolerance
from bench_suite.contracts.error_bounds import ACCUMULATE, smallest, storage
from bench_suite.contracts.frames import FFN, ROWS, plain_contract, tensor, work

_ELEMENTWISE = 100 * ACCUMULATE
"""exp makes the error |gate| u of its argument a relative one and underflows beyond |gate| = 88."""

_UNDERFLOW = 2.0**10
"""A sigmoid flushed to zero costs |gate * up| <= 88 * 7 times the smallest number."""

_WIDEST_PRODUCT = 64.0
"""Products of two normal values stay below this but with probability 1e-14."""

_EDGES = (
    {"rows": 1, "ffn": 1},
    {"rows": 1, "ffn": 14336},
    {"rows": 3, "ffn": 1023},
    {"rows": 129, "ffn": 65},
)

_READS = (tensor("gate", "rows", "ffn"), tensor("up", "rows", "ffn"))
_NAN = Extreme(name="nan", meaning="one element of gate is NaN: so is that of the result", planted=math.nan)


def _tolerance(case: Case) -> Tolerance:
    """Elementwise: no accumulation; up to two roundings to the dtype, since silu(gate) may be stored between."""
    return Tolerance(
        absolute=_UNDERFLOW * smallest(DType.FP32) + smallest(case.dtype),
        relative=storage(case.dtype, 2) + _ELEMENTWISE,
    )


SWIGLU = plain_contract(
    operator="swiglu",
    family="SwiGLU",
    title="SwiGLU",
    formula="y = gate · sigmoid(gate) · up",
    axes=(ROWS, FFN),
    inputs="gate normal(0, 1), up normal(0, 1), two contiguous tensors; seeded per tensor",
    reads=_READS,
    writes=(tensor("", "rows", "ffn"),),
    flops=work(5.0, "rows", "ffn"),  # exp, add, divide, two products
    tolerance=_tolerance,
    sensitivity="elementwise; exp(−gate) overflows for gate < −88, where the result must be −0 and not NaN",
    edge_cases=_EDGES,
    extremes=(
        Extreme(name="large", meaning="gate scaled by 100: exp(−gate) overflows", scale=100.0, output_scale=100.0),
        Extreme(name="zeros", meaning="gate is zero: the result is", scale=0.0, output_scale=0.0),
        _NAN,
    ),
)


def _cancelling_tolerance(case: Case) -> Tolerance:
    """Elementwise with a term that cancels: 1 + tanh for a negative gate, the derivative of silu where it is zero.

    There the binary32 errors, some 8 u of a product of two normal values, stay absolute. Up to three roundings.
    """
    absolute = 8 * _WIDEST_PRODUCT * ACCUMULATE + smallest(case.dtype)
    return Tolerance(absolute=absolute, relative=storage(case.dtype, 3) + _ELEMENTWISE)


GEGLU = plain_contract(
    operator="geglu",
    family="GeGLU",
    title="GeGLU",
    formula="y = gelu(gate) · up, gelu by tanh(√(2/π) · (gate + 0.044715 · gate³))",
    axes=(ROWS, FFN),
    inputs="gate normal(0, 1), up normal(0, 1), two contiguous tensors; seeded per tensor",
    reads=_READS,
    writes=(tensor("", "rows", "ffn"),),
    flops=work(10.0, "rows", "ffn"),  # cube, scale, add, scale, tanh, add, halve, three products
    tolerance=_cancelling_tolerance,
    sensitivity="1 + tanh cancels for a negative gate; gate³ leaves fp16 beyond |gate| = 40; erf is another function",
    edge_cases=_EDGES,
    extremes=(
        Extreme(name="large", meaning="gate scaled by 100: gate³ leaves fp16", scale=100.0, output_scale=100.0),
        Extreme(name="zeros", meaning="gate is zero: the result is", scale=0.0, output_scale=0.0),
        _NAN,
    ),
)

SWIGLU_BACKWARD = plain_contract(
    operator="swiglu_backward",
    family="SwiGLU",
    title="SwiGLU, gradients",
    formula="dgate = dy · up · s · (1 + gate · (1 − s)), dup = dy · gate · s, s = sigmoid(gate)",
    axes=(ROWS, FFN),
    inputs="dy, gate, up normal(0, 1), three contiguous tensors; seeded per tensor",
    reads=(tensor("dy", "rows", "ffn"), *_READS),
    writes=(tensor("dgate", "rows", "ffn"), tensor("dup", "rows", "ffn")),
    flops=work(11.0, "rows", "ffn"),  # exp, add, divide; difference, product, add, three products; two products
    tolerance=_cancelling_tolerance,
    sensitivity="the derivative of silu is zero at gate = −1.278: its terms cancel there",
    edge_cases=_EDGES,
    extremes=(
        Extreme(name="large", meaning="dy scaled by 64", scale=64.0, output_scale=64.0),
        Extreme(name="zeros", meaning="dy is zero: so are both gradients", scale=0.0, output_scale=0.0),
        Extreme(name="nan", meaning="one element of dy is NaN: so are its gradients", planted=math.nan),
    ),
)
