"""One new token of each sequence of a batch over that sequence's own context: ragged, grouped-query.

Production batches are ragged (the longest context is some three times the mean), so that a uniform length hides the
tail. The cache is padded to the longest context, as a simple serving system has it.
"""

from __future__ import annotations

from bench_suite.contract import Axis, Case, Contract, DType
from bench_suite.contracts.attention_prefill import EXTREMES, attention_tolerance, grouped_heads
from bench_suite.contracts.wording import count, shape_words

QUANTILES = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)
"""Of the six numbers that a ragged axis may be given by."""

_STRIDE = (5**0.5 - 1) / 2
"""Golden ratio: sequences of a batch arrive unsorted, so that the longest is neither first nor last."""


def context_lengths(case: Case) -> tuple[int, ...]:
    """One length a sequence, from axis kv: the list itself, one length for all, or expanded quantiles.

    Six numbers for a batch of another size are the quantiles 0, 25, 50, 75, 90 and 100 %. Sequence i of n gets the
    linearly interpolated quantile at i / (n - 1), so that shortest and longest are exact; then the order is mixed.
    """
    batch, given = case["batch"], case.ragged("kv")
    if len(given) == 1:
        return given * batch
    if len(given) == batch:
        return given
    spread = [_quantile(given, i / (batch - 1)) for i in range(batch)]
    order = sorted(range(batch), key=lambda i: (i + 1) * _STRIDE % 1.0)
    return tuple(spread[i] for i in order)


def length_quantiles(lengths: tuple[int, ...]) -> tuple[int, ...]:
    """The six numbers that stand for a long list: its least, its largest, and the lengths at the shares between."""
    ordered = sorted(lengths)
    return tuple(ordered[round(share * (len(ordered) - 1))] for share in QUANTILES)


def _quantile(values: tuple[int, ...], share: float) -> int:
    for low in range(len(QUANTILES) - 1):
        left, right = QUANTILES[low], QUANTILES[low + 1]
        if share <= right:
            return round(values[low] + (values[low + 1] - values[low]) * (share - left) / (right - left))
    return values[-1]


def _token_elements(case: Case) -> int:
    return case["batch"] * case["heads"] * case["head_dim"]


def _cache_elements(case: Case, tokens: int) -> int:
    """Keys and values of so many tokens."""
    return 2 * tokens * case["kv_heads"] * case["head_dim"]


def _traffic_bytes(case: Case) -> float:
    """Query, result, the keys and values that exist (padding is not read), and the lengths."""
    elements = 2 * _token_elements(case) + _cache_elements(case, sum(context_lengths(case)))
    return float(elements * case.dtype.size_bytes + 4 * case["batch"])


def _input_bytes(case: Case) -> float:
    padded = case["batch"] * max(context_lengths(case))
    return float((_token_elements(case) + _cache_elements(case, padded)) * case.dtype.size_bytes + 4 * case["batch"])


def _describe(case: Case) -> str:
    lengths = context_lengths(case)
    low, high = min(lengths), max(lengths)
    kv = (
        count(high)
        if low == high
        else f"{count(low)} to {count(high)}, mean {count(round(sum(lengths) / len(lengths)))}"
    )
    heads = (f"{name} {count(case[name])}" for name in ("heads", "kv_heads", "head_dim"))
    return shape_words(case, f"batch {count(case['batch'])}", f"kv {kv}", *heads)


def _constraint(case: Case) -> str:
    given, batch = case.ragged("kv"), case["batch"]
    if len(given) not in (1, batch, len(QUANTILES)):
        return f"kv has {len(given)} lengths, must have 1, batch ({batch}) or {len(QUANTILES)} (quantiles)"
    if len(given) == len(QUANTILES) != batch:
        if list(given) != sorted(given):
            return f"kv is {'/'.join(map(str, given))}, quantiles must not fall"
        if batch == 1:
            return f"kv has {len(given)} lengths for a batch of 1, must have 1"
    return grouped_heads(case)


ATTENTION_DECODE = Contract(
    operator="attention_decode",
    family="Attention",
    title="Attention decode",
    formula="y = softmax(query · keyᵀ / √head_dim) · value over each sequence's own context",
    axes=(
        Axis(name="batch", meaning="sequences", dynamic=True),
        Axis(
            name="kv",
            meaning="context lengths: one for all, one a sequence, or six quantiles (0, 25, 50, 75, 90, 100 %)",
            dynamic=True,
            ragged=True,
        ),
        Axis(name="heads", meaning="query heads"),
        Axis(name="kv_heads", meaning="key and value heads, each serves heads / kv_heads query heads"),
        Axis(name="head_dim", meaning="elements of a head"),
    ),
    dtypes=(DType.FP32, DType.BF16, DType.FP16),
    inputs="query, key, value normal(0, 1), the padding too; lengths int32; seeded per tensor",
    tensors=(
        "query [batch, heads, head_dim]",
        "key [batch, kv_heads, longest kv, head_dim]",
        "value [batch, kv_heads, longest kv, head_dim]",
        "lengths [batch]",
    ),
    output="[batch, heads, head_dim]",
    flops=lambda case: 4.0 * case["heads"] * case["head_dim"] * sum(context_lengths(case)),
    traffic_bytes=_traffic_bytes,
    input_bytes=_input_bytes,
    tolerance=lambda case: attention_tolerance(
        case.dtype,
        head_dim=case["head_dim"],
        longest=max(context_lengths(case)),
        shortest=min(context_lengths(case)),
    ),
    describe=_describe,
    sensitivity="as prefill; splitting the context adds one rescaling a part; reading padding shows as a wrong row",
    edge_cases=(
        {"batch": 1, "kv": 1, "heads": 1, "kv_heads": 1, "head_dim": 64},
        {"batch": 3, "kv": (1, 17, 130), "heads": 4, "kv_heads": 1, "head_dim": 64},
        {"batch": 2, "kv": (257, 3), "heads": 6, "kv_heads": 2, "head_dim": 128},
        {"batch": 5, "kv": 65, "heads": 4, "kv_heads": 4, "head_dim": 64},
        {"batch": 9, "kv": (1, 40, 80, 120, 200, 333), "heads": 8, "kv_heads": 2, "head_dim": 128},
        {"batch": 1, "kv": 2049, "heads": 4, "kv_heads": 2, "head_dim": 64},
    ),
    extremes=EXTREMES,
    constraint=_constraint,
)
