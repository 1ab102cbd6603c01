"""Causal attention of a prompt on torch: materialised scores, the fused library call, a compiled or Triton one."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch.nn.functional import scaled_dot_product_attention

from bench_suite.contract import Case, Contract, Role
from bench_suite.contracts.attention_prefill import ATTENTION_PREFILL, ATTENTION_PREFILL_WINDOW, window_of
from bench_suite.operators.base import Implementation, Inputs, Operator, Runner, normal
from bench_suite.operators.compiled import compiled
from bench_suite.operators.frames import candidate, chosen_library, plain_operator


def _make(case: Case, seed: int, device: torch.device, rank: int) -> Inputs:
    queries = (case["heads"], case["q"], case["head_dim"])
    keys = (case["kv_heads"], case["kv"], case["head_dim"])
    query = normal(case, seed, device, tensor="query", shape=queries, rank=rank)
    key = normal(case, seed, device, tensor="key", shape=keys, rank=rank)
    return query, key, normal(case, seed, device, tensor="value", shape=keys, rank=rank)


def _reference(case: Case, inputs: Sequence[Inputs], rank: int) -> torch.Tensor:
    """Head by head: the float64 scores of all heads of a long prompt would not fit."""
    query, key, value = inputs[rank]
    group = query.shape[0] // key.shape[0]
    hidden = _hidden(case["q"], case["kv"], window_of(case), torch.device("cpu"))
    heads = []
    for head in range(query.shape[0]):
        q, k, v = (t.to("cpu", torch.float64) for t in (query[head], key[head // group], value[head // group]))
        scores = (q @ k.T / math.sqrt(q.shape[-1])).masked_fill(hidden, -math.inf)  # [q, kv]
        heads.append(torch.softmax(scores, dim=-1) @ v)
    return torch.stack(heads)


def _hidden(q: int, kv: int, window: int, device: torch.device) -> torch.Tensor:
    """[q, kv], true where the key lies in the query's future or before its window: bottom-right aligned."""
    ones = torch.ones(q, kv, dtype=torch.bool, device=device)
    return ones.triu(kv - q + 1) | ones.tril(kv - q - window)


def _formula_of(case: Case) -> Runner:
    """The textbook for one window: a length that the code knows, as a compiler wants it."""
    window = window_of(case)

    def formula(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """Unfused, in float32: key heads repeated, scores, mask, softmax and weighted sum each stored."""
        group = query.shape[0] // key.shape[0]
        keys = key.float().repeat_interleave(group, dim=0)  # [heads, kv, head_dim]
        values = value.float().repeat_interleave(group, dim=0)
        scores = query.float() @ keys.transpose(-2, -1) / math.sqrt(query.shape[-1])  # [heads, q, kv]
        scores = scores.masked_fill(_hidden(query.shape[1], key.shape[1], window, query.device), -math.inf)
        return (torch.softmax(scores, dim=-1) @ values).to(query.dtype)

    return formula


def _prepare_naive(case: Case, device: torch.device) -> Runner:
    return _formula_of(case)


def _prepare_library(case: Case, device: torch.device) -> Runner:
    """is_causal means top-left aligned in torch, so that it serves square cases only; others get a mask, made once."""
    plain = case["q"] == case["kv"] <= window_of(case)
    mask = None if plain else ~_hidden(case["q"], case["kv"], window_of(case), device)

    def run(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return scaled_dot_product_attention(
            query[None], key[None], value[None], attn_mask=mask, is_causal=mask is None, enable_gqa=True
        )[0]

    return run


def _prepare_compiled(case: Case, device: torch.device) -> Runner:
    return compiled(_formula_of(case))


def _prefill(contract: Contract, triton: str | None) -> Operator:
    return plain_operator(
        contract,
        make=_make,
        reference=_reference,
        naive=Implementation(role=Role.NAIVE, name="eager formula", prepare=_prepare_naive),
        optimized=chosen_library("scaled_dot_product_attention", _prepare_library),
        compiles=candidate("torch.compile(formula)", _prepare_compiled),
        triton=triton,
    )


OPERATORS = {
    "attention_prefill": _prefill(ATTENTION_PREFILL, "attention.launch_prefill"),
    # The Triton kernel knows no window: the compiled formula competes everywhere.
    "attention_prefill_window": _prefill(ATTENTION_PREFILL_WINDOW, None),
}
