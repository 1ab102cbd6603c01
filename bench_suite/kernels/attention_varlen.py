"""Causal attention of packed prompts in Triton: sequences one after the other, each by itself.

Where a sequence ends is known on the device only. The grid therefore holds the most tiles of queries there can be, and
each program finds its sequence by walking the ends, as in grouped_gemm.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench_suite.kernels.attention import PrefillConfig, causal_tile, choose_prefill, padded_head, scale_log2_of
from bench_suite.kernels.runtime import device_traits, upcasts


@triton.jit
def varlen_prefill_kernel(
    q_ptr, k_ptr, v_ptr, ends_ptr, out_ptr, batch, group, scale_log2,
    stride_qm, stride_qh, stride_kn, stride_kh, stride_vn, stride_vh, stride_om, stride_oh,
    D: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_KV: tl.constexpr, BLOCK_D: tl.constexpr, UPCAST: tl.constexpr,
):  # fmt: skip
    """A tile of queries of one sequence and head; program axes: tiles over all sequences, heads."""
    program = tl.program_id(0)
    first, length, tile = 0, 0, 0
    begin, tiles_before = 0, 0
    for s in range(batch):
        end = tl.load(ends_ptr + s + 1)
        tiles = (end - begin + BLOCK_Q - 1) // BLOCK_Q
        mine = (program >= tiles_before) & (program < tiles_before + tiles)
        first = tl.where(mine, begin, first)
        length = tl.where(mine, end - begin, length)
        tile = tl.where(mine, program - tiles_before, tile)
        tiles_before += tiles
        begin = end
    if length > 0:
        head = tl.program_id(1).to(tl.int64)
        kv_head = head // group
        token = first.to(tl.int64)
        causal_tile(
            q_ptr + token * stride_qm + head * stride_qh, k_ptr + token * stride_kn + kv_head * stride_kh,
            v_ptr + token * stride_vn + kv_head * stride_vh, out_ptr + token * stride_om + head * stride_oh,
            tile, length, length, scale_log2, stride_qm, stride_kn, stride_vn, stride_om,
            D, BLOCK_Q, BLOCK_KV, BLOCK_D, UPCAST,
        )  # fmt: skip


def launch(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, ends: torch.Tensor, config: PrefillConfig | None = None
) -> torch.Tensor:
    """q [tokens, heads, d], k and v [tokens, kv_heads, d], contiguous in d, ends int32 [1 + batch] from 0 -> as q."""
    (tokens, heads, head_dim), kv_heads, batch = q.shape, k.shape[1], ends.numel() - 1
    out = torch.empty_like(q, memory_format=torch.contiguous_format)
    if out.numel() == 0:
        return out
    chosen = config or choose_prefill(triton.cdiv(tokens, batch), head_dim, q.dtype, device_traits(q.device))
    most_tiles = triton.cdiv(tokens, chosen.block_q) + batch - 1
    varlen_prefill_kernel[(most_tiles, heads)](
        q, k, v, ends, out, batch, heads // kv_heads, scale_log2_of(head_dim),
        q.stride(0), q.stride(1), k.stride(0), k.stride(1), v.stride(0), v.stride(1), out.stride(0), out.stride(1),
        D=head_dim, BLOCK_Q=chosen.block_q, BLOCK_KV=chosen.block_kv, BLOCK_D=padded_head(head_dim),
        UPCAST=upcasts(q.dtype), num_warps=chosen.num_warps, num_stages=chosen.num_stages,
    )  # fmt: skip
    return out
