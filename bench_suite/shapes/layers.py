"""What one forward pass of a rank launches: operators with fixed sizes, sizes that vary, and calls per pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from bench_suite.shapes import cost
from bench_suite.shapes.chips import Chip
from bench_suite.shapes.cost import Cost
from bench_suite.shapes.models import Shard


class Rows(StrEnum):
    """What the varying size of a row-wise operator counts."""

    TOKENS = "tokens"
    """All tokens of the pass, after padding."""
    SAMPLED = "sampled"
    """Sequences that get a next token in this pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOperator:
    """An operator whose shape follows from a number of rows."""

    operator: str
    family: str
    rows: Rows
    calls: int
    """Per forward pass."""
    axes: Callable[[int], tuple[tuple[str, int], ...]]
    """Rows of the pass -> named sizes, in the order of the contract."""
    cost: Callable[[NDArray[np.float64]], Cost]
    """Rows of the pass -> work, traffic and time of one call."""


def row_operators(part: Shard, chip: Chip) -> tuple[RowOperator, ...]:
    """Every row-wise operator and collective of a forward pass, in the order in which they run."""
    return (*_attention_side(part, chip), *_feed_forward(part, chip), *_head(part, chip), *_collectives(part, chip))


def _gemm(family: str, rows: Rows, calls: int, N: int, K: int, chip: Chip) -> RowOperator:
    return RowOperator(
        operator="gemm",
        family=family,
        rows=rows,
        calls=calls,
        axes=lambda M: (("M", M), ("N", N), ("K", K)),
        cost=lambda M: cost.gemm(M, N, K, chip),
    )


def _attention_side(part: Shard, chip: Chip) -> Iterator[RowOperator]:
    model, hidden = part.model, part.model.hidden
    yield RowOperator(
        operator="rms_norm",
        family="rms_norm",
        rows=Rows.TOKENS,
        calls=2 * model.layers + 1,
        axes=lambda M: (("rows", M), ("hidden", hidden)),
        cost=lambda M: cost.elementwise(4 * M * hidden, 2 * M * hidden + hidden, chip),
    )
    qkv = (part.heads + 2 * part.kv_heads) * model.head_dim
    yield _gemm("qkv", Rows.TOKENS, model.layers, qkv, hidden, chip)
    yield _gemm("o", Rows.TOKENS, model.layers, hidden, part.heads * model.head_dim, chip)


def _feed_forward(part: Shard, chip: Chip) -> Iterator[RowOperator]:
    model = part.model
    if not model.is_mixture:
        yield _gemm("gate_up", Rows.TOKENS, model.layers, 2 * part.ffn, model.hidden, chip)
        yield _swiglu(part.ffn, 1, model.layers, chip)
        yield _gemm("down", Rows.TOKENS, model.layers, model.hidden, part.ffn, chip)
        return
    yield _gemm("router", Rows.TOKENS, model.layers, model.experts, model.hidden, chip)
    yield _grouped("expert_gate_up", part, 2 * part.expert_ffn, model.hidden, chip)
    yield _swiglu(part.expert_ffn, model.experts_per_token, model.layers, chip)
    yield _grouped("expert_down", part, model.hidden, part.expert_ffn, chip)


def _swiglu(ffn: int, rows_per_token: int, calls: int, chip: Chip) -> RowOperator:
    return RowOperator(
        operator="swiglu",
        family="swiglu",
        rows=Rows.TOKENS,
        calls=calls,
        axes=lambda M: (("rows", M * rows_per_token), ("ffn", ffn)),
        cost=lambda M: cost.elementwise(5 * M * rows_per_token * ffn, 3 * M * rows_per_token * ffn, chip),
    )


def _grouped(family: str, part: Shard, N: int, K: int, chip: Chip) -> RowOperator:
    experts, per_token = part.model.experts, part.model.experts_per_token

    def axes(M: int) -> tuple[tuple[str, int], ...]:
        active = max(1, round(float(cost.active_experts(M, experts, per_token))))
        return (("rows", M * per_token), ("experts", experts), ("active", active), ("N", N), ("K", K))

    return RowOperator(
        operator="grouped_gemm",
        family=family,
        rows=Rows.TOKENS,
        calls=part.model.layers,
        axes=axes,
        cost=lambda M: cost.grouped_gemm(M * per_token, cost.active_experts(M, experts, per_token), N, K, chip),
    )


def _head(part: Shard, chip: Chip) -> Iterator[RowOperator]:
    model = part.model
    yield _gemm("lm_head", Rows.SAMPLED, 1, part.vocab, model.hidden, chip)
    yield RowOperator(
        operator="softmax",
        family="sampling",
        rows=Rows.SAMPLED,
        calls=1,
        axes=lambda M: (("rows", M), ("columns", model.vocab)),
        cost=lambda M: cost.elementwise(5 * M * model.vocab, 2 * M * model.vocab, chip),
    )


def _collectives(part: Shard, chip: Chip) -> Iterator[RowOperator]:
    model, ranks = part.model, part.tensor_parallel
    if ranks == 1:
        return
    row_bytes, logit_bytes = model.hidden * cost.ELEMENT_BYTES, model.vocab * cost.ELEMENT_BYTES
    yield RowOperator(
        operator="all_reduce",
        family="tensor_parallel",
        rows=Rows.TOKENS,
        calls=2 * model.layers,
        axes=lambda M: (("ranks", ranks), ("elements", M * model.hidden)),
        cost=lambda M: cost.all_reduce(M * row_bytes, ranks, chip),
    )
    yield RowOperator(
        operator="all_gather",
        family="logits",
        rows=Rows.SAMPLED,
        calls=1,
        axes=lambda M: (("ranks", ranks), ("elements", M * model.vocab)),
        cost=lambda M: cost.all_gather(M * logit_bytes, ranks, chip),
    )
