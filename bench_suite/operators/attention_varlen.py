"""Causal attention of packed prompts on torch: each sequence by the formula, the library's call, a compiled mask."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import torch
from torch.nn.functional import scaled_dot_product_attention

from bench_suite.contract import Case, DType
from bench_suite.contracts.attention_ragged import ATTENTION_PREFILL_VARLEN, prompt_lengths
from bench_suite.operators.base import Inputs, Runner, normal
from bench_suite.operators.compiled import compiled
from bench_suite.operators.frames import candidate, chosen_library, eager, plain_operator


def _make(case: Case, seed: int, device: torch.device, rank: int) -> Inputs:
    lengths = prompt_lengths(case)
    tokens = sum(lengths)
    query = normal(case, seed, device, tensor="query", shape=(tokens, case["heads"], case["head_dim"]), rank=rank)
    keys = (tokens, case["kv_heads"], case["head_dim"])
    key = normal(case, seed, device, tensor="key", shape=keys, rank=rank)
    value = normal(case, seed, device, tensor="value", shape=keys, rank=rank)
    ends = torch.tensor([0, *itertools.accumulate(lengths)], dtype=torch.int32)
    return query, key, value, ends.to(device)


def _sequences(*packed: torch.Tensor, ends: torch.Tensor) -> Iterator[tuple[slice, tuple[torch.Tensor, ...]]]:
    """The tokens of each sequence, and its tensors as [heads, length, head_dim]."""
    for start, end in itertools.pairwise(ends.tolist()):
        tokens = slice(start, end)
        yield tokens, tuple(tensor[tokens].transpose(0, 1) for tensor in packed)


def _causal(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """[heads, q, head_dim] each, key heads repeated for their group."""
    group = query.shape[0] // key.shape[0]
    keys, values = key.repeat_interleave(group, dim=0), value.repeat_interleave(group, dim=0)
    scores = query @ keys.mT / math.sqrt(query.shape[-1])
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=query.device).triu(1)
    return torch.softmax(scores.masked_fill(hidden, -math.inf), dim=-1) @ values


def _formula(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """Textbook: one sequence after the other, unfused in float32."""
    out = torch.empty_like(query)
    for tokens, (q, k, v) in _sequences(query, key, value, ends=ends):
        out[tokens] = _causal(q.float(), k.float(), v.float()).transpose(0, 1).to(query.dtype)
    return out


def _reference(case: Case, inputs: Sequence[Inputs], rank: int) -> torch.Tensor:
    query, key, value, ends = (tensor.to("cpu") for tensor in inputs[rank])
    rows = [
        _causal(q.double(), k.double(), v.double()).transpose(0, 1)
        for _, (q, k, v) in _sequences(query, key, value, ends=ends)
    ]
    return torch.cat(rows)


def _each(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """One fused call a sequence."""
    out = torch.empty_like(query)
    for tokens, (q, k, v) in _sequences(query, key, value, ends=ends):
        fused = scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True, enable_gqa=True)
        out[tokens] = fused[0].transpose(0, 1)
    return out


def _prepare_library(case: Case, device: torch.device) -> Runner:
    """torch's packed call is a flash kernel of 16-bit types on CUDA; elsewhere each sequence is a call of its own."""
    if device.type != "cuda" or case.dtype is DType.FP32:
        return _each
    from torch.nn.attention.varlen import varlen_attn

    longest, grouped = max(prompt_lengths(case)), case["heads"] != case["kv_heads"]

    def packed(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        result = varlen_attn(query, key, value, ends, ends, longest, longest, window_size=(-1, 0), enable_gqa=grouped)
        assert isinstance(result, torch.Tensor)
        return result

    return packed


def _block_mask(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """All sequences at once: scores of every pair of tokens, those of other sequences and of the future masked."""
    token = torch.arange(query.shape[0], device=query.device)
    sequence = (token[:, None] >= ends[None, 1:]).sum(-1)
    seen = (sequence[:, None] == sequence[None, :]) & (token[:, None] >= token[None, :])
    group = query.shape[1] // key.shape[1]
    tokens, heads, head_dim = query.shape
    grouped = query.float().transpose(0, 1).reshape(heads // group, group, tokens, head_dim)
    scores = grouped @ key.float().permute(1, 2, 0)[:, None] / math.sqrt(query.shape[-1])
    p = torch.softmax(scores.masked_fill(~seen, -math.inf), dim=-1)
    return (p @ value.float().transpose(0, 1)[:, None]).flatten(0, 1).transpose(0, 1).to(query.dtype).contiguous()


OPERATOR = plain_operator(
    ATTENTION_PREFILL_VARLEN,
    make=_make,
    reference=_reference,
    naive=eager(_formula, "eager formula a sequence"),
    optimized=chosen_library("scaled_dot_product_attention a sequence, or varlen_attn", _prepare_library),
    triton="attention_varlen",
    compiles=candidate("torch.compile(one masked block)", lambda case, device: compiled(_block_mask)),
)
