"""Ragged decode attention on torch: each sequence by the formula, the fastest library form, a candidate."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch.nn.functional import scaled_dot_product_attention

from bench_suite.contract import Case, Role
from bench_suite.contracts.attention_decode import ATTENTION_DECODE, context_lengths
from bench_suite.operators.base import Implementation, Inputs, Operator, Origin, Runner, normal
from bench_suite.operators.compiled import compiled
from bench_suite.operators.triton_candidate import triton_candidate


def _make(case: Case, seed: int, device: torch.device, rank: int) -> Inputs:
    lengths = context_lengths(case)
    queries = (case["batch"], case["heads"], case["head_dim"])
    cache = (case["batch"], case["kv_heads"], max(lengths), case["head_dim"])
    query = normal(case, seed, device, tensor="query", shape=queries, rank=rank)
    key = normal(case, seed, device, tensor="key", shape=cache, rank=rank)
    value = normal(case, seed, device, tensor="value", shape=cache, rank=rank)
    return query, key, value, torch.tensor(lengths, dtype=torch.int32).to(device)


def reference_each(case: Case, inputs: Sequence[Inputs], rank: int) -> torch.Tensor:
    query, key, value, lengths = (tensor.to("cpu") for tensor in inputs[rank])
    heads, head_dim = query.shape[1:]
    kv_heads = key.shape[1]
    rows = []
    for q, k, v, length in zip(query, key, value, lengths.tolist(), strict=True):
        grouped = q.double().view(kv_heads, heads // kv_heads, head_dim)
        scores = grouped @ k[:, :length].double().mT / math.sqrt(head_dim)  # [kv_heads, group, length]
        rows.append((torch.softmax(scores, dim=-1) @ v[:, :length].double()).view(heads, head_dim))
    return torch.stack(rows)


def formula_each(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Textbook: one sequence after the other, unfused in float32, key heads repeated for their group."""
    group = query.shape[1] // key.shape[1]
    out = torch.empty_like(query)
    for b, length in enumerate(lengths.tolist()):
        keys = key[b, :, :length].float().repeat_interleave(group, dim=0)  # [heads, length, head_dim]
        values = value[b, :, :length].float().repeat_interleave(group, dim=0)
        scores = query[b, :, None].float() @ keys.transpose(-2, -1) / math.sqrt(query.shape[-1])
        out[b] = (torch.softmax(scores, dim=-1) @ values).squeeze(1).to(query.dtype)
    return out


def library_each(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """One fused call a sequence, on its own context; the query heads of a group are the rows of one key head.

    Of four forms timed on a CPU this was the fastest for ragged batches: one padded call with a mask took 1.5 to 2.6
    times as long (0.9 times for a uniform batch), `enable_gqa` 1.6 to 4.4 times (benchmarks/operators.py).
    """
    batch, heads, head_dim = query.shape
    grouped = query.view(batch, key.shape[1], heads // key.shape[1], head_dim)
    out = torch.empty_like(grouped)
    for b, length in enumerate(lengths.tolist()):
        row = slice(b, b + 1)
        out[row] = scaled_dot_product_attention(grouped[row], key[row, :, :length], value[row, :, :length])
    return out.view(batch, heads, head_dim)


def library_padded(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """One fused call for the whole padded batch: an accelerator pays more for launches than for padding."""
    batch, heads, head_dim = query.shape
    grouped = query.view(batch, key.shape[1], heads // key.shape[1], head_dim)
    valid = torch.arange(key.shape[2], device=query.device) < lengths[:, None]  # [batch, longest]
    return scaled_dot_product_attention(grouped, key, value, attn_mask=valid[:, None, None]).view(
        batch, heads, head_dim
    )


def padded_formula(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """The formula over the whole padded batch as sums of products, in grouped form: what a compiler can fuse."""
    batch, heads, head_dim = query.shape
    grouped = query.float().view(batch, key.shape[1], heads // key.shape[1], head_dim)
    scores = grouped @ key.float().mT / math.sqrt(head_dim)  # [batch, kv_heads, group, longest]
    beyond = torch.arange(key.shape[2], device=query.device) >= lengths[:, None]
    scores = scores.masked_fill(beyond[:, None, None], -math.inf)
    return (torch.softmax(scores, dim=-1) @ value.float()).view(batch, heads, head_dim).to(query.dtype)


def _prepare_compiled(case: Case, device: torch.device) -> Runner:
    return compiled(padded_formula)


def _implementations(device_type: str) -> tuple[Implementation, ...]:
    if device_type == "cpu":
        name, library = "scaled_dot_product_attention a sequence", library_each
        candidate = Implementation(role=Role.CANDIDATE, name="torch.compile(padded formula)", prepare=_prepare_compiled)
    else:
        name, library = "scaled_dot_product_attention, padded", library_padded
        candidate = triton_candidate("attention", "launch_decode")
    return (
        Implementation(role=Role.NAIVE, name="eager formula a sequence", prepare=lambda case, device: formula_each),
        Implementation(role=Role.OPTIMIZED, origin=Origin.VENDOR, name=name, prepare=lambda case, device: library),
        candidate,
    )


OPERATOR = Operator(
    contract=ATTENTION_DECODE, make=_make, compute_reference=reference_each, list_implementations=_implementations
)
