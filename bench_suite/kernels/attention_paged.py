"""Decode attention over a paged cache in Triton: each program reads the pages of its part of one sequence.

As attention.decode_kernel, but that a position's place comes from the page table; a block of keys may cross pages.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench_suite.kernels.attention import DecodeConfig, decode_in_parts, online_softmax


@triton.jit
def paged_decode_kernel(
    q_ptr, k_ptr, v_ptr, table_ptr, lengths_ptr, part_ptr, maximum_ptr, total_ptr,
    kv_heads, group, positions_per_split, scale_log2,
    stride_qb, stride_qh, stride_kp, stride_kt, stride_kh, stride_vp, stride_vt, stride_vh, stride_table,
    D: tl.constexpr, PAGE: tl.constexpr, BLOCK_G: tl.constexpr, BLOCK_KV: tl.constexpr, BLOCK_D: tl.constexpr,
    SPLITS: tl.constexpr, UPCAST: tl.constexpr,
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
    maximum = tl.full((BLOCK_G,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_G,), dtype=tl.float32)
    weighted = tl.zeros((BLOCK_G, BLOCK_D), dtype=tl.float32)
    for start in range(first, last, BLOCK_KV):
        n = start + tl.arange(0, BLOCK_KV)
        page = tl.load(table_ptr + b * stride_table + n // PAGE, mask=n < last, other=0).to(tl.int64)
        k_at = page * stride_kp + (n % PAGE) * stride_kt + kv_head * stride_kh
        v_at = page * stride_vp + (n % PAGE) * stride_vt + kv_head * stride_vh
        k = tl.load(k_ptr + k_at[None, :] + d[:, None], mask=(n[None, :] < last) & (d[:, None] < D), other=0.0)
        v = tl.load(v_ptr + v_at[:, None] + d[None, :], mask=(n[:, None] < last) & (d[None, :] < D), other=0.0)
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


def launch(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    table: torch.Tensor,
    lengths: torch.Tensor,
    config: DecodeConfig | None = None,
) -> torch.Tensor:
    """q [batch, heads, d], caches [pages, page, kv_heads, d], table int32 [batch, most], lengths [batch] -> as q."""
    _, page, kv_heads, _ = k_cache.shape
    return decode_in_parts(
        paged_decode_kernel,
        (q, k_cache, v_cache, table, lengths),
        kv_heads,
        table.shape[1] * page,
        (table.stride(0),),
        config,
        PAGE=page,
    )
