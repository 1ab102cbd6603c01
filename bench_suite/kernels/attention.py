"""Attention in Triton: causal prefill, and decode over a padded cache with ragged lengths; grouped-query in both.

Online softmax (Milakov & Gimelshein 2018) over tiles (Dao 2023, arXiv:2307.08691); decode splits the cache among
programs and joins their parts (Flash-Decoding, Dao et al. 2023). Sums are fp32, exponentials are powers of two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl

from bench_suite.kernels.runtime import DeviceTraits, device_traits, upcasts


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillConfig:
    block_q: int
    block_kv: int
    num_warps: int
    num_stages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeConfig:
    block_kv: int
    splits: int
    """Programs that share the cache of one sequence and kv head."""
    num_warps: int
    num_stages: int


@triton.jit
def online_softmax(scores, v, maximum, total, weighted):
    """One more tile of scores (times log2(e)) and values: running maximum, sum and weighted values of each row."""
    higher = tl.maximum(maximum, tl.max(scores, axis=1))
    p = tl.exp2(scores - higher[:, None])
    decay = tl.exp2(maximum - higher)
    total = total * decay + tl.sum(p, axis=1)
    weighted = tl.dot(p.to(v.dtype), v, weighted * decay[:, None], input_precision="ieee")
    return higher, total, weighted


@triton.jit
def causal_tile(
    q_head, k_head, v_head, out_head, tile, q_len, kv_len, scale_log2, stride_qm, stride_kn, stride_vn, stride_om,
    D: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_KV: tl.constexpr, BLOCK_D: tl.constexpr, UPCAST: tl.constexpr,
):  # fmt: skip
    """A tile of queries of one head and sequence against all keys that it may see.

    Query i stands at position i + kv_len - q_len and sees the positions up to its own (bottom-right causal).
    """
    m = tile * BLOCK_Q + tl.arange(0, BLOCK_Q)
    d = tl.arange(0, BLOCK_D)
    offset = kv_len - q_len
    q_at = q_head + m[:, None] * stride_qm + d[None, :]
    q = tl.load(q_at, mask=(m[:, None] < q_len) & (d[None, :] < D), other=0.0)
    if UPCAST:
        q = q.to(tl.float32)
    maximum = tl.full((BLOCK_Q,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_Q,), dtype=tl.float32)
    weighted = tl.zeros((BLOCK_Q, BLOCK_D), dtype=tl.float32)
    seen = min(kv_len, offset + (tile + 1) * BLOCK_Q)
    # Tiles that every query of this tile sees whole need no mask.
    whole = (max(0, offset + tile * BLOCK_Q + 1) // BLOCK_KV) * BLOCK_KV
    for start in range(0, min(whole, seen), BLOCK_KV):
        n = start + tl.arange(0, BLOCK_KV)
        k = tl.load(k_head + n[None, :] * stride_kn + d[:, None], mask=d[:, None] < D, other=0.0)
        v = tl.load(v_head + n[:, None] * stride_vn + d[None, :], mask=d[None, :] < D, other=0.0)
        if UPCAST:
            k = k.to(tl.float32)
            v = v.to(tl.float32)
        scores = tl.dot(q, k, input_precision="ieee") * scale_log2
        maximum, total, weighted = online_softmax(scores, v, maximum, total, weighted)
    for start in range(whole, seen, BLOCK_KV):
        n = start + tl.arange(0, BLOCK_KV)
        k = tl.load(
            k_head + n[None, :] * stride_kn + d[:, None], mask=(n[None, :] < kv_len) & (d[:, None] < D), other=0.0
        )
        v = tl.load(
            v_head + n[:, None] * stride_vn + d[None, :], mask=(n[:, None] < kv_len) & (d[None, :] < D), other=0.0
        )
        if UPCAST:
            k = k.to(tl.float32)
            v = v.to(tl.float32)
        scores = tl.dot(q, k, input_precision="ieee") * scale_log2
        visible = (n[None, :] <= m[:, None] + offset) & (n[None, :] < kv_len)
        scores = tl.where(visible, scores, float("-inf"))
        maximum, total, weighted = online_softmax(scores, v, maximum, total, weighted)
    result = weighted / total[:, None]
    out_at = out_head + m[:, None] * stride_om + d[None, :]
    tl.store(out_at, result.to(out_head.dtype.element_ty), mask=(m[:, None] < q_len) & (d[None, :] < D))


@triton.jit
def prefill_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, q_len, kv_len, group, scale_log2,
    stride_qh, stride_qm, stride_kh, stride_kn, stride_vh, stride_vn, stride_oh, stride_om,
    D: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_KV: tl.constexpr, BLOCK_D: tl.constexpr, UPCAST: tl.constexpr,
):  # fmt: skip
    """Program axes: query tiles, heads."""
    # The last tiles see most keys: started first, they do not end last.
    tile = tl.num_programs(0) - 1 - tl.program_id(0)
    head = tl.program_id(1).to(tl.int64)
    kv_head = head // group
    causal_tile(
        q_ptr + head * stride_qh, k_ptr + kv_head * stride_kh, v_ptr + kv_head * stride_vh, out_ptr + head * stride_oh,
        tile, q_len, kv_len, scale_log2, stride_qm, stride_kn, stride_vn, stride_om,
        D, BLOCK_Q, BLOCK_KV, BLOCK_D, UPCAST,
    )  # fmt: skip


@triton.jit
def decode_kernel(
    q_ptr, k_ptr, v_ptr, lengths_ptr, part_ptr, maximum_ptr, total_ptr,
    kv_heads, group, positions_per_split, scale_log2,
    stride_qb, stride_qh, stride_kb, stride_kh, stride_kn, stride_vb, stride_vh, stride_vn,
    D: tl.constexpr, BLOCK_G: tl.constexpr, BLOCK_KV: tl.constexpr, BLOCK_D: tl.constexpr, SPLITS: tl.constexpr,
    UPCAST: tl.constexpr,
):  # fmt: skip
    """All query heads of one kv head against one part of one sequence; program axes: batch x kv heads, parts.

    Writes fp32 [batch, heads, SPLITS, D] with the maximum and the sum that belong to each part.
    """
    pair = tl.program_id(0)
    split = tl.program_id(1)
    b = (pair // kv_heads).to(tl.int64)
    kv_head = (pair % kv_heads).to(tl.int64)
    g = tl.arange(0, BLOCK_G)
    d = tl.arange(0, BLOCK_D)
    heads = kv_head * group + g
    inside = (g[:, None] < group) & (d[None, :] < D)
    q = tl.load(q_ptr + b * stride_qb + heads[:, None] * stride_qh + d[None, :], mask=inside, other=0.0)
    if UPCAST:
        q = q.to(tl.float32)
    length = tl.load(lengths_ptr + b).to(tl.int32)
    first = split * positions_per_split
    last = min(length, first + positions_per_split)
    k_head = k_ptr + b * stride_kb + kv_head * stride_kh
    v_head = v_ptr + b * stride_vb + kv_head * stride_vh
    maximum = tl.full((BLOCK_G,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_G,), dtype=tl.float32)
    weighted = tl.zeros((BLOCK_G, BLOCK_D), dtype=tl.float32)
    for start in range(first, last, BLOCK_KV):
        n = start + tl.arange(0, BLOCK_KV)
        k = tl.load(
            k_head + n[None, :] * stride_kn + d[:, None], mask=(n[None, :] < last) & (d[:, None] < D), other=0.0
        )
        v = tl.load(
            v_head + n[:, None] * stride_vn + d[None, :], mask=(n[:, None] < last) & (d[None, :] < D), other=0.0
        )
        if UPCAST:
            k = k.to(tl.float32)
            v = v.to(tl.float32)
        scores = tl.dot(q, k, input_precision="ieee") * scale_log2
        scores = tl.where(n[None, :] < last, scores, float("-inf"))
        maximum, total, weighted = online_softmax(scores, v, maximum, total, weighted)
    row = (b * kv_heads * group + heads) * SPLITS + split
    tl.store(part_ptr + row[:, None] * D + d[None, :], weighted, mask=inside)
    tl.store(maximum_ptr + row, maximum, mask=g < group)
    tl.store(total_ptr + row, total, mask=g < group)


@triton.jit
def join_splits_kernel(
    part_ptr, maximum_ptr, total_ptr, out_ptr, splits,
    D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """Joins the parts of one query head; program axis: batch x heads. A sequence without positions gives zeros."""
    row = tl.program_id(0).to(tl.int64)
    s = tl.arange(0, BLOCK_S)
    d = tl.arange(0, BLOCK_D)
    maxima = tl.load(maximum_ptr + row * splits + s, mask=s < splits, other=float("-inf"))
    totals = tl.load(total_ptr + row * splits + s, mask=s < splits, other=0.0)
    inside = (s[:, None] < splits) & (d[None, :] < D)
    parts = tl.load(part_ptr + (row * splits + s)[:, None] * D + d[None, :], mask=inside, other=0.0)
    maximum = tl.max(maxima, axis=0)
    decay = tl.exp2(maxima - tl.where(maximum == float("-inf"), 0.0, maximum))
    total = tl.sum(totals * decay, axis=0)
    result = tl.sum(parts * decay[:, None], axis=0) / tl.where(total == 0.0, 1.0, total)
    tl.store(out_ptr + row * D + d, result.to(out_ptr.dtype.element_ty), mask=d < D)


def choose_prefill(q_len: int, head_dim: int, dtype: torch.dtype, traits: DeviceTraits) -> PrefillConfig:
    """Tiles that compile without spills for bf16 and head_dim 128 (bench_suite.static), larger for longer prompts."""
    if dtype == torch.float32:
        return PrefillConfig(block_q=16, block_kv=32, num_warps=4, num_stages=2)
    if q_len < 256:
        return PrefillConfig(block_q=64, block_kv=32, num_warps=4, num_stages=3)
    if traits.architecture in ("sm_90", "sm_100"):
        return PrefillConfig(block_q=128, block_kv=128 if head_dim <= 64 else 64, num_warps=8, num_stages=3)
    # Wider tiles of keys spill on CDNA; narrower ones of queries do on sm_80 and sm_120.
    block_kv = 32 if traits.architecture.startswith("gfx") or head_dim > 128 else 64
    return PrefillConfig(block_q=128, block_kv=block_kv, num_warps=8, num_stages=2)


def choose_decode(
    batch: int, kv_heads: int, kv_max: int, head_dim: int, dtype: torch.dtype, traits: DeviceTraits
) -> DecodeConfig:
    """Parts for about two programs on each processor, none below four blocks of the longest sequence."""
    block_kv = 32 if dtype == torch.float32 or head_dim > 128 else 64
    wanted = triton.cdiv(2 * traits.processors, max(1, batch * kv_heads))
    splits = max(1, min(32, wanted, kv_max // (4 * block_kv)))
    return DecodeConfig(block_kv=block_kv, splits=splits, num_warps=4, num_stages=2)


def scale_log2_of(head_dim: int) -> float:
    """1 / sqrt(d), times log2(e) since the kernels take powers of two."""
    return 1 / math.sqrt(head_dim) * math.log2(math.e)


def launch_prefill(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, config: PrefillConfig | None = None
) -> torch.Tensor:
    """q [heads, q, d], k and v [kv_heads, kv, d], contiguous in d, kv >= q -> [heads, q, d]; causal, bottom-right."""
    (heads, q_len, head_dim), (kv_heads, kv_len, _) = q.shape, k.shape
    chosen = config or choose_prefill(q_len, head_dim, q.dtype, device_traits(q.device))
    out = torch.empty((heads, q_len, head_dim), dtype=q.dtype, device=q.device)
    if out.numel() == 0:
        return out
    prefill_kernel[(triton.cdiv(q_len, chosen.block_q), heads)](
        q, k, v, out, q_len, kv_len, heads // kv_heads, scale_log2_of(head_dim),
        q.stride(0), q.stride(1), k.stride(0), k.stride(1), v.stride(0), v.stride(1), out.stride(0), out.stride(1),
        D=head_dim, BLOCK_Q=chosen.block_q, BLOCK_KV=chosen.block_kv, BLOCK_D=padded_head(head_dim),
        UPCAST=upcasts(q.dtype), num_warps=chosen.num_warps, num_stages=chosen.num_stages,
    )  # fmt: skip
    return out


def launch_decode(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    lengths: torch.Tensor,
    config: DecodeConfig | None = None,
) -> torch.Tensor:
    """q [batch, heads, d], caches [batch, kv_heads, kv_max, d], lengths [batch] <= kv_max -> [batch, heads, d]."""
    _, kv_heads, kv_max, _ = k_cache.shape
    return decode_in_parts(decode_kernel, (q, k_cache, v_cache, lengths), kv_heads, kv_max, (), config)


def decode_in_parts(
    kernel: Any,
    tensors: tuple[torch.Tensor, ...],
    kv_heads: int,
    kv_max: int,
    more_strides: tuple[int, ...],
    config: DecodeConfig | None,
    **constants: int,
) -> torch.Tensor:
    """What all decode kernels share: q, k and v first among the tensors, parts of the cache, and joining them."""
    q, k_cache, v_cache, *_ = tensors
    batch, heads, head_dim = q.shape
    chosen = config or choose_decode(batch, kv_heads, kv_max, head_dim, q.dtype, device_traits(q.device))
    out = torch.empty((batch, heads, head_dim), dtype=q.dtype, device=q.device)
    if out.numel() == 0:
        return out
    splits = chosen.splits
    part = torch.empty((batch, heads, splits, head_dim), dtype=torch.float32, device=q.device)
    maximum, total = torch.empty((2, batch, heads, splits), dtype=torch.float32, device=q.device)
    positions = triton.cdiv(triton.cdiv(kv_max, chosen.block_kv), splits) * chosen.block_kv
    kernel[(batch * kv_heads, splits)](
        *tensors, part, maximum, total,
        kv_heads, heads // kv_heads, positions, scale_log2_of(head_dim),
        q.stride(0), q.stride(1), *k_cache.stride()[:3], *v_cache.stride()[:3], *more_strides,
        D=head_dim, BLOCK_G=max(16, triton.next_power_of_2(heads // kv_heads)), BLOCK_KV=chosen.block_kv,
        BLOCK_D=padded_head(head_dim), SPLITS=splits, UPCAST=upcasts(q.dtype), **constants,
        num_warps=chosen.num_warps, num_stages=chosen.num_stages,
    )  # fmt: skip
    join_splits_kernel[(batch * heads,)](
        part, maximum, total, out, splits,
        D=head_dim, BLOCK_D=padded_head(head_dim), BLOCK_S=triton.next_power_of_2(splits),
    )  # fmt: skip
    return out


def padded_head(head_dim: int) -> int:
    """The matrix units need 16 at least, and powers of two."""
    return max(16, triton.next_power_of_2(head_dim))
