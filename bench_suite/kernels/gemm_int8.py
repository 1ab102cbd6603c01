"""GEMM with int8 weights in Triton: x [M, K] times weight [N, K] transposed, each row of the weight with its scale.

The weight is widened to the type of x on its way to the matrix units: it crosses memory as bytes. The scale comes after
the sum. Tiles and parts of the sum as in gemm.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench_suite.kernels.gemm import GemmConfig, added_up, choose, parts_of, tile_of
from bench_suite.kernels.runtime import device_traits, upcasts


@triton.jit
def gemm_int8_kernel(
    x_ptr, weight_ptr, scale_ptr, out_ptr, M, N, K, stride_x, stride_weight, stride_out, k_per_split,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    UPCAST: tl.constexpr,
):  # fmt: skip
    """One tile of the result over one part of K; program axes: tiles in grouped order, parts of K.

    With one part `out_ptr` is the result, else fp32 [parts, M, N], each scaled.
    """
    part = tl.program_id(1)
    tile_m, tile_n = tile_of(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    m = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    k_end = min(K, (part + 1) * k_per_split)
    x_rows = x_ptr + m.to(tl.int64)[:, None] * stride_x
    weight_rows = weight_ptr + n.to(tl.int64)[None, :] * stride_weight
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(part * k_per_split, k_end, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        x = tl.load(x_rows + k[None, :], mask=(m[:, None] < M) & (k[None, :] < k_end), other=0.0)
        weight = tl.load(weight_rows + k[:, None], mask=(n[None, :] < N) & (k[:, None] < k_end), other=0)
        if UPCAST:
            x = x.to(tl.float32)
        total = tl.dot(x, weight.to(x.dtype), total, input_precision="ieee")
    scale = tl.load(scale_ptr + n, mask=n < N, other=0.0).to(tl.float32)
    out = out_ptr + (part * M + m).to(tl.int64)[:, None] * stride_out + n[None, :]
    scaled = (total * scale[None, :]).to(out_ptr.dtype.element_ty)
    tl.store(out, scaled, mask=(m[:, None] < M) & (n[None, :] < N))


def launch(
    x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor, config: GemmConfig | None = None
) -> torch.Tensor:
    """x [M, K] and int8 weight [N, K], both contiguous in K, scale [N] of the type of x -> [M, N] of that type."""
    (M, K), N = x.shape, weight.shape[0]
    chosen = config or choose(M, N, K, x.dtype, device_traits(x.device))
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out
    target = parts_of(out, chosen)
    gemm_int8_kernel[chosen.grid(M, N)](
        x, weight, scale, target, M, N, K, x.stride(0), weight.stride(0), N, chosen.k_per_split(K),
        BLOCK_M=chosen.block_m, BLOCK_N=chosen.block_n, BLOCK_K=chosen.block_k, GROUP_M=chosen.group_m,
        UPCAST=upcasts(x.dtype), num_warps=chosen.num_warps, num_stages=chosen.num_stages,
    )  # fmt: skip
    return added_up(target, out)
