"""Attention over ragged batches as servers keep them: a paged cache for decode, packed sequences for prefill."""

from __future__ import annotations

from bench_suite.contract import Axis, Case, Contract
from bench_suite.contracts.attention_decode import ATTENTION_DECODE, context_lengths
from bench_suite.contracts.attention_prefill import EXTREMES, attention_tolerance, grouped_heads
from bench_suite.contracts.frames import FLOATS, INT32_BYTES
from bench_suite.contracts.wording import count, shape_words

SPARE_PAGES = 3
"""Pages that no sequence owns: reading one of them shows as a wrong row."""


def pages_of(case: Case) -> tuple[int, ...]:
    """Pages that each sequence needs for its context."""
    return tuple(-(-length // case["page"]) for length in context_lengths(case))


def _page_elements(case: Case) -> int:
    return (sum(pages_of(case)) + SPARE_PAGES) * case["page"] * case["kv_heads"] * case["head_dim"]


def _paged_input_bytes(case: Case) -> float:
    query = case["batch"] * case["heads"] * case["head_dim"]
    table = case["batch"] * max(pages_of(case)) + case["batch"]
    return float((query + 2 * _page_elements(case)) * case.dtype.size_bytes + table * INT32_BYTES)


def _paged_traffic_bytes(case: Case) -> float:
    """As decode over a padded cache, and the numbers of the pages."""
    return ATTENTION_DECODE.traffic_bytes(case) + sum(pages_of(case)) * INT32_BYTES


ATTENTION_DECODE_PAGED = Contract(
    operator="attention_decode_paged",
    family="Attention",
    title="Attention decode, paged cache",
    formula="y = softmax(query · keyᵀ / √head_dim) · value over each sequence's own pages",
    axes=(*ATTENTION_DECODE.axes, Axis(name="page", meaning="tokens of a page, fixed by the server")),
    dtypes=FLOATS,
    inputs="query, key, value normal(0, 1); pages of a sequence lie scattered over the cache; seeded per tensor",
    tensors=(
        "query [batch, heads, head_dim]",
        "key [pages, page, kv_heads, head_dim]",
        "value [pages, page, kv_heads, head_dim]",
        "page_table [batch, most pages]",
        "lengths [batch]",
    ),
    output=ATTENTION_DECODE.output,
    flops=ATTENTION_DECODE.flops,
    traffic_bytes=_paged_traffic_bytes,
    input_bytes=_paged_input_bytes,
    tolerance=ATTENTION_DECODE.tolerance,
    describe=lambda case: f"pages of {count(case['page'])} · {ATTENTION_DECODE.describe(case)}",
    sensitivity="as decode; a page of another sequence, or a token beyond the last one of a page, shows as a wrong row",
    edge_cases=tuple(
        {**edge, "page": page} for edge, page in zip(ATTENTION_DECODE.edge_cases, (16, 16, 1, 32, 16, 64), strict=True)
    ),
    extremes=EXTREMES,
    constraint=ATTENTION_DECODE.constraint,
)


def prompt_lengths(case: Case) -> tuple[int, ...]:
    """Tokens of each packed sequence; one length in the axis stands for the whole batch."""
    given = case.ragged("q")
    return given if len(given) == case["batch"] else given * case["batch"]


def _packed_elements(case: Case) -> int:
    """Of query, key and value."""
    return sum(prompt_lengths(case)) * (case["heads"] + 2 * case["kv_heads"]) * case["head_dim"]


def _packed_traffic_bytes(case: Case) -> float:
    result = sum(prompt_lengths(case)) * case["heads"] * case["head_dim"]
    return float((_packed_elements(case) + result) * case.dtype.size_bytes + (case["batch"] + 1) * INT32_BYTES)


def _pairs(case: Case) -> int:
    return sum(length * (length + 1) // 2 for length in prompt_lengths(case))


def _packed_constraint(case: Case) -> str:
    given = case.ragged("q")
    if len(given) not in (1, case["batch"]):
        return f"q has {len(given)} lengths, must have 1 or batch ({case['batch']})"
    return grouped_heads(case)


def _packed_words(case: Case) -> str:
    lengths = prompt_lengths(case)
    q = f"q {count(min(lengths))} to {count(max(lengths))}, {count(sum(lengths))} in all"
    heads = (f"{name} {count(case[name])}" for name in ("heads", "kv_heads", "head_dim"))
    return shape_words(case, f"batch {count(case['batch'])}", q, *heads)


ATTENTION_PREFILL_VARLEN = Contract(
    operator="attention_prefill_varlen",
    family="Attention",
    title="Attention prefill, packed sequences",
    formula="y = softmax(query · keyᵀ / √head_dim + causal mask) · value within each sequence",
    axes=(
        Axis(name="batch", meaning="sequences", dynamic=True),
        Axis(name="q", meaning="prompt lengths: one for all, or one a sequence", dynamic=True, ragged=True),
        Axis(name="heads", meaning="query heads"),
        Axis(name="kv_heads", meaning="key and value heads, each serves heads / kv_heads query heads"),
        Axis(name="head_dim", meaning="elements of a head"),
    ),
    dtypes=FLOATS,
    inputs="query, key, value normal(0, 1), sequences one after the other; ends int32; seeded per tensor",
    tensors=(
        "query [tokens, heads, head_dim]",
        "key [tokens, kv_heads, head_dim]",
        "value [tokens, kv_heads, head_dim]",
        "ends [batch + 1]",
    ),
    output="[tokens, heads, head_dim]",
    flops=lambda case: 4.0 * case["heads"] * case["head_dim"] * _pairs(case),
    traffic_bytes=_packed_traffic_bytes,
    input_bytes=lambda case: float(_packed_elements(case) * case.dtype.size_bytes + (case["batch"] + 1) * INT32_BYTES),
    tolerance=lambda case: attention_tolerance(
        case.dtype, head_dim=case["head_dim"], longest=max(prompt_lengths(case)), shortest=1
    ),
    describe=_packed_words,
    sensitivity="as prefill; a row that sees the sequence before it is wrong as a whole",
    edge_cases=(
        {"batch": 1, "q": 1, "heads": 1, "kv_heads": 1, "head_dim": 64},
        {"batch": 3, "q": (1, 40, 17), "heads": 4, "kv_heads": 1, "head_dim": 64},
        {"batch": 2, "q": (65, 3), "heads": 6, "kv_heads": 2, "head_dim": 128},
        {"batch": 5, "q": 33, "heads": 4, "kv_heads": 4, "head_dim": 64},
        {"batch": 4, "q": (127, 1, 255, 64), "heads": 4, "kv_heads": 2, "head_dim": 64},
    ),
    extremes=EXTREMES,
    constraint=_packed_constraint,
)
