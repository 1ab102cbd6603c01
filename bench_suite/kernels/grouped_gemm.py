"""Grouped GEMM in Triton: rows sorted by expert, each run of rows times its own expert's weight, accumulated in fp32.

Where an expert's rows end is known on the device only. The grid therefore holds the most tiles there can be, and each
program finds its expert by walking the ends; what is left over has nothing to do.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench_suite.kernels.gemm import TileConfig
from bench_suite.kernels.runtime import DeviceTraits, device_traits, upcasts


@triton.jit
def grouped_gemm_kernel(
    x_ptr, weight_ptr, ends_ptr, out_ptr, experts, N, K, stride_x, stride_expert, stride_weight, stride_out,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, UPCAST: tl.constexpr,
):  # fmt: skip
    """One tile of one expert's rows; program axes: tiles of rows over all experts, tiles of N."""
    tile = tl.program_id(0)
    expert, first, last = 0, 0, 0
    begin, tiles_before = 0, 0
    for e in range(experts):
        end = tl.load(ends_ptr + e)
        tiles = (end - begin + BLOCK_M - 1) // BLOCK_M
        mine = (tile >= tiles_before) & (tile < tiles_before + tiles)
        expert = tl.where(mine, e, expert)
        first = tl.where(mine, begin + (tile - tiles_before) * BLOCK_M, first)
        last = tl.where(mine, end, last)
        tiles_before += tiles
        begin = end
    if first < last:
        m = first + tl.arange(0, BLOCK_M)
        n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
        x_rows = x_ptr + m.to(tl.int64)[:, None] * stride_x
        weight_rows = weight_ptr + expert.to(tl.int64) * stride_expert + n.to(tl.int64)[None, :] * stride_weight
        total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for start in range(0, K, BLOCK_K):
            k = start + tl.arange(0, BLOCK_K)
            x = tl.load(x_rows + k[None, :], mask=(m[:, None] < last) & (k[None, :] < K), other=0.0)
            weight = tl.load(weight_rows + k[:, None], mask=(n[None, :] < N) & (k[:, None] < K), other=0.0)
            if UPCAST:
                x = x.to(tl.float32)
                weight = weight.to(tl.float32)
            total = tl.dot(x, weight, total, input_precision="ieee")
        out = out_ptr + m.to(tl.int64)[:, None] * stride_out + n[None, :]
        tl.store(out, total.to(out_ptr.dtype.element_ty), mask=(m[:, None] < last) & (n[None, :] < N))


def choose(rows: int, experts: int, dtype: torch.dtype, traits: DeviceTraits) -> TileConfig:
    """Tiles about as tall as an expert's rows: taller ones multiply padding."""
    if traits.architecture == "interpreter":
        return TileConfig(block_m=32, block_n=64, block_k=64)
    mean = triton.next_power_of_2(max(1, rows // experts))
    block_m = min(64 if dtype == torch.float32 else 128, max(16, mean))
    block_k = 32 if dtype == torch.float32 else 64
    return TileConfig(
        block_m=block_m, block_n=64 if block_m < 128 else 128, block_k=block_k, num_warps=8 if block_m == 128 else 4
    )


def launch(x: torch.Tensor, weight: torch.Tensor, ends: torch.Tensor, config: TileConfig | None = None) -> torch.Tensor:
    """x [rows, K] sorted by expert, weight [experts, N, K], both contiguous in K, ends int32 [experts] -> [rows, N]."""
    (rows, K), (experts, N, _) = x.shape, weight.shape
    chosen = config or choose(rows, experts, x.dtype, device_traits(x.device))
    out = torch.empty((rows, N), dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out
    most_tiles = triton.cdiv(rows, chosen.block_m) + experts - 1
    grouped_gemm_kernel[(most_tiles, triton.cdiv(N, chosen.block_n))](
        x, weight, ends, out, experts, N, K, x.stride(0), weight.stride(0), weight.stride(1), out.stride(0),
        BLOCK_M=chosen.block_m, BLOCK_N=chosen.block_n, BLOCK_K=chosen.block_k,
        UPCAST=upcasts(x.dtype), num_warps=chosen.num_warps, num_stages=chosen.num_stages,
    )  # fmt: skip
    return out
