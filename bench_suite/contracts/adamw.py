"""One step of AdamW (Loshchilov & Hutter 2019, arXiv:1711.05101) on a flat tensor of parameters, in place."""

from __future__ import annotations

import math

from bench_suite.contract import Axis, Case, Extreme, Tolerance
from bench_suite.contracts.error_bounds import ACCUMULATE, smallest, storage
from bench_suite.contracts.frames import plain_contract, tensor, work

LEARNING_RATE, BETA1, BETA2, EPSILON, WEIGHT_DECAY = 1e-3, 0.9, 0.95, 1e-8, 0.1
"""Of the training of Llama 2 (Touvron et al. 2023, arXiv:2307.09288, section 2.2), with a larger rate."""
STEP = 100
"""The step's number: its bias corrections are 1 - beta^100."""

_WIDEST = 8.0
_LEAST_V = 0.01
"""By the recipe: the largest update is then LEARNING_RATE · 8 / 0.1."""


def _tolerance(case: Case) -> tuple[Tolerance, Tolerance, Tolerance]:
    """Each of parameter, m and v is a sum of two terms that may cancel, in binary32, and one rounding to the dtype.

    Kernels may round m and v before the update uses them: that changes the update by a few u of the dtype.
    """
    relative = storage(case.dtype) + 8 * ACCUMULATE
    cancelled = 4 * _WIDEST * ACCUMULATE + smallest(case.dtype)
    update = LEARNING_RATE * _WIDEST / math.sqrt(_LEAST_V * BETA2)
    parameter = cancelled + 2 * update * case.dtype.unit_roundoff
    return (
        Tolerance(absolute=parameter, relative=relative),
        Tolerance(absolute=cancelled, relative=relative),
        Tolerance(absolute=smallest(case.dtype), relative=relative),
    )


_STATE = tuple(tensor(name, "elements") for name in ("parameter", "m", "v"))

ADAMW = plain_contract(
    operator="adamw",
    family="Optimizer",
    title="AdamW step",
    formula="m ← β₁m + (1−β₁)g, v ← β₂v + (1−β₂)g², p ← p(1 − λη) − η · m̂ / (√v̂ + ε)",
    axes=(Axis(name="elements", meaning="parameters of this rank's shard", dynamic=True),),
    inputs="parameter, gradient normal(0, 1), m normal(0, 0.3), v 0.01 + normal(0, 1)²; step 100; seeded per tensor",
    reads=(_STATE[0], tensor("gradient", "elements"), *_STATE[1:]),
    writes=_STATE,
    flops=work(14.0, "elements"),  # decay; 3 of m; 4 of v; two corrections, root, add, divide, scale, subtract
    tolerance=_tolerance,
    sensitivity="in 16 bits an update below u · |p| / 2 is lost: training keeps a fp32 copy or rounds stochastically",
    edge_cases=({"elements": 1}, {"elements": 1023}, {"elements": 65536}, {"elements": 100003}),
    extremes=(
        Extreme(name="large", meaning="parameter scaled by 64", scale=64.0, output_scale=64.0),
        Extreme(name="zeros", meaning="parameter is zero: only the update is left", scale=0.0),
        Extreme(name="nan", meaning="one parameter is NaN: it stays so, the others do not become so", planted=math.nan),
    ),
    updates=("parameter", "m", "v"),
)
