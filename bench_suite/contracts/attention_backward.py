"""Gradients of causal attention with respect to query, key and value, the forward pass included.

What a backward kernel reads of the forward pass (the result, the logarithms of the sums) has a layout of each backend's
own. The call therefore computes both, as a training step does: two products forward, five backward.
"""

from __future__ import annotations

import math

from bench_suite.contract import Axis, Case, Extreme, Tolerance
from bench_suite.contracts.attention_prefill import SCORE_RANGE, grouped_heads
from bench_suite.contracts.error_bounds import ACCUMULATE, CONFIDENCE, accumulation, smallest, storage
from bench_suite.contracts.frames import plain_contract, tensor

_PRODUCTS = 7
_WIDEST = 8.0
"""(dP - D) / √head_dim is near normal and stays below this."""


def _tolerance(case: Case) -> Tolerance:
    """With dout, query, key, value normal(0, 1): dS = p (dP - D) / √d with a bracket of standard deviation √d.

    - Binary32: a probability has the relative error of the forward pass, the bracket has values up to 8 √d.
    - 16 bits: p, dS and the stored result are rounded to the dtype before they enter products; independent errors of
      standard deviation u / √3 each, over sums whose root mean square is at most √(sum p^2), 1.3 over a column.
    - dk and dv sum over the query heads of a group: √group.
    """
    group = case["heads"] / case["kv_heads"]
    relative = 2 * accumulation(case["head_dim"]) + 2 * accumulation(case["q"]) + 2 * SCORE_RANGE * ACCUMULATE
    narrow = 2 * CONFIDENCE * case.dtype.unit_roundoff
    absolute = math.sqrt(group) * (_WIDEST * relative + narrow) + smallest(case.dtype)
    return Tolerance(absolute=absolute, relative=storage(case.dtype))


_QUERY, _KEY, _VALUE = (
    tensor("query", "heads", "q", "head_dim"),
    tensor("key", "kv_heads", "q", "head_dim"),
    tensor("value", "kv_heads", "q", "head_dim"),
)

ATTENTION_BACKWARD = plain_contract(
    operator="attention_backward",
    family="Attention",
    title="Attention, forward and gradients",
    formula="dq, dk, dv of softmax(query · keyᵀ / √head_dim + causal mask) · value",
    axes=(
        Axis(name="q", meaning="tokens of a training sequence", dynamic=True),
        Axis(name="heads", meaning="query heads"),
        Axis(name="kv_heads", meaning="key and value heads, each serves heads / kv_heads query heads"),
        Axis(name="head_dim", meaning="elements of a head"),
    ),
    inputs="dout, query, key, value normal(0, 1): scores have variance 1; seeded per tensor",
    reads=(tensor("dout", "heads", "q", "head_dim"), _QUERY, _KEY, _VALUE),
    writes=(tensor("dquery", *_QUERY.axes), tensor("dkey", *_KEY.axes), tensor("dvalue", *_VALUE.axes)),
    flops=lambda case: _PRODUCTS * 2.0 * case["heads"] * case["head_dim"] * case["q"] * (case["q"] + 1) / 2,
    tolerance=_tolerance,
    sensitivity="dP − D cancels; 16-bit p and dS enter three products; dk and dv add up the heads of a group",
    edge_cases=(
        {"q": 1, "heads": 1, "kv_heads": 1, "head_dim": 64},
        {"q": 17, "heads": 4, "kv_heads": 1, "head_dim": 64},
        {"q": 33, "heads": 6, "kv_heads": 2, "head_dim": 128},
        {"q": 129, "heads": 4, "kv_heads": 4, "head_dim": 64},
    ),
    extremes=(
        Extreme(name="large", meaning="dout scaled by 64", scale=64.0, output_scale=64.0),
        Extreme(name="zeros", meaning="dout is zero: so are all gradients", scale=0.0, output_scale=0.0),
    ),
    constraint=grouped_heads,
)
