"""Causal attention of one sequence's new tokens over its whole context, grouped-query, bottom-right aligned.

Query i of q sees the keys j <= i + kv - q: with kv > q it is a later chunk of a prompt (chunked prefill).
"""

from __future__ import annotations

import math

from bench_suite.contract import Axis, AxisValue, Case, Contract, DType, Extreme, Tolerance
from bench_suite.contracts.error_bounds import ACCUMULATE, CONFIDENCE, accumulation, smallest, storage
from bench_suite.contracts.wording import axis_words

SCORE_RANGE = 16
"""max - s for scores normal(0, 1) and eight standard deviations to either side."""


def attention_tolerance(dtype: DType, *, head_dim: int, longest: int, shortest: int) -> Tolerance:
    """Of softmax(q k^T / sqrt(d)) v with scores and values of variance 1, rows of `shortest` to `longest` keys.

    - A score is a zero-mean sum of d terms; its absolute error, and |s - max| u of the exponential, become a relative
      error of the probability; the sum of probabilities is same-sign over the row. Their effect on sum p v is at most
      the sum of p |v|, which is below 1.
    - Kernels may round each probability to the dtype before the second product: independent errors below u p, whose
      sum has a standard deviation of u / sqrt(3) sqrt(sum p^2). A row of n keys has sum p^2 near e / n for scores of
      variance 1 (a lognormal's second moment); four times that, at most 1, is allowed.
    - The result is rounded once.
    """
    computed = accumulation(head_dim) + 2 * accumulation(longest) + 2 * SCORE_RANGE * ACCUMULATE
    concentration = min(1.0, 4 * math.e / shortest)
    stored = CONFIDENCE * dtype.unit_roundoff / math.sqrt(3) * math.sqrt(concentration)
    return Tolerance(absolute=computed + stored + smallest(dtype), relative=storage(dtype))


def grouped_heads(case: Case) -> str:
    """The rule of grouped-query attention: each key head serves the same number of query heads."""
    if case["heads"] % case["kv_heads"]:
        return f"heads is {case['heads']}, must be a multiple of kv_heads, {case['kv_heads']}"
    return ""


def window_of(case: Case) -> int:
    """Keys that a query may look back at, itself included; the whole context where the operator has no window."""
    return dict(case.axes).get("window", case["kv"])  # type: ignore[return-value]


def _pairs(case: Case) -> int:
    """Query-key pairs a head sees: query i sees the keys up to its own position, at most a window of them."""
    q, kv, window = case["q"], case["kv"], window_of(case)
    earlier = kv - q
    growing = max(0, min(q, window - earlier))  # queries that see less than a window, and one more each
    return growing * earlier + growing * (growing + 1) // 2 + (q - growing) * window


def _elements(case: Case) -> int:
    """Of query, key and value."""
    return case["head_dim"] * (case["q"] * case["heads"] + 2 * case["kv"] * case["kv_heads"])


def _traffic_bytes(case: Case) -> float:
    """Query, result, and the keys and values that any query sees."""
    seen = min(case["kv"], case["q"] + window_of(case) - 1)
    elements = 2 * case["q"] * case["heads"] + 2 * seen * case["kv_heads"]
    return float(elements * case["head_dim"]) * case.dtype.size_bytes


def _constraint(case: Case) -> str:
    if case["kv"] < case["q"]:
        return f"kv is {case['kv']}, must be at least q, {case['q']}"
    return grouped_heads(case)


EXTREMES = (
    Extreme(name="large", meaning="query scaled by 16: nearly one key counts", scale=16.0, output_scale=16.0),
    Extreme(name="zeros", meaning="query is zero: the mean of the values", scale=0.0),
    Extreme(name="nan", meaning="one element of query is NaN: so is its head's row", planted=math.nan),
)

_AXES = (
    Axis(name="q", meaning="new tokens", dynamic=True),
    Axis(name="kv", meaning="context length, the new tokens included", dynamic=True),
    Axis(name="heads", meaning="query heads"),
    Axis(name="kv_heads", meaning="key and value heads, each serves heads / kv_heads query heads"),
    Axis(name="head_dim", meaning="elements of a head"),
)

_EDGES: tuple[dict[str, AxisValue], ...] = (
    {"q": 1, "kv": 1, "heads": 1, "kv_heads": 1, "head_dim": 64},
    {"q": 1, "kv": 129, "heads": 4, "kv_heads": 1, "head_dim": 64},
    {"q": 33, "kv": 33, "heads": 6, "kv_heads": 2, "head_dim": 128},
    {"q": 17, "kv": 100, "heads": 4, "kv_heads": 4, "head_dim": 64},
    {"q": 127, "kv": 255, "heads": 4, "kv_heads": 2, "head_dim": 128},
)


def _tolerance(case: Case) -> Tolerance:
    longest, first = min(case["kv"], window_of(case)), case["kv"] - case["q"] + 1
    return attention_tolerance(
        case.dtype, head_dim=case["head_dim"], longest=longest, shortest=min(first, window_of(case))
    )


def _prefill(
    operator: str, title: str, mask: str, axes: tuple[Axis, ...], edges: tuple[dict[str, AxisValue], ...]
) -> Contract:
    return Contract(
        operator=operator,
        family="Attention",
        title=title,
        formula=f"y = softmax(query · keyᵀ / √head_dim + {mask}) · value",
        axes=axes,
        dtypes=(DType.FP32, DType.BF16, DType.FP16),
        inputs="query, key, value normal(0, 1): scores have variance 1; seeded per tensor",
        tensors=("query [heads, q, head_dim]", "key [kv_heads, kv, head_dim]", "value [kv_heads, kv, head_dim]"),
        output="[heads, q, head_dim]",
        flops=lambda case: 4.0 * case["heads"] * case["head_dim"] * _pairs(case),  # two products of 2 d a pair
        traffic_bytes=_traffic_bytes,
        input_bytes=lambda case: float(_elements(case)) * case.dtype.size_bytes,
        tolerance=_tolerance,
        describe=lambda case: axis_words(case, [axis.name for axis in axes]),
        sensitivity="16-bit probabilities cost u / √3 · √Σp²; a running maximum that is not rescaled loses early keys",
        edge_cases=edges,
        extremes=EXTREMES,
        constraint=_constraint,
    )


ATTENTION_PREFILL = _prefill("attention_prefill", "Attention prefill", "causal mask", _AXES, _EDGES)

ATTENTION_PREFILL_WINDOW = _prefill(
    "attention_prefill_window",
    "Attention prefill, sliding window",
    "causal mask of a window",
    (*_AXES, Axis(name="window", meaning="keys a query looks back at, itself included, fixed by the model")),
    tuple({**edge, "window": window} for edge, window in zip(_EDGES, (1, 128, 8, 64, 1000), strict=True)),
)
"""Layers of gpt-oss and Gemma look back at a window only."""
