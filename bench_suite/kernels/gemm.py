"""GEMM in Triton: x [M, K] times weight [N, K] transposed -> [M, N], accumulated in fp32.

Decode has few rows, so that tiles of the result alone leave most of the chip idle: there the sum over K is split among
programs, whose parts a second kernel adds in a fixed order. No atomics: the result is the same on every call.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from bench_suite.kernels.runtime import DeviceTraits, device_traits, upcasts


@dataclass(frozen=True, slots=True, kw_only=True)
class TileConfig:
    """Tile sizes in elements, and how a program runs: of every kernel that multiplies matrices."""

    block_m: int
    block_n: int
    block_k: int
    num_warps: int = 4
    num_stages: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmConfig(TileConfig):
    """Tiles, and how programs share them."""

    split_k: int = 1
    """Programs that share the sum of one tile."""
    group_m: int = 8
    """Tiles of rows that are walked together, so that their part of the weight stays in the L2 cache."""

    def k_per_split(self, K: int) -> int:
        """Terms of a part of the sum, in whole steps."""
        return triton.cdiv(triton.cdiv(K, self.block_k), self.split_k) * self.block_k

    def grid(self, M: int, N: int) -> tuple[int, int]:
        """Tiles of the result, parts of the sum."""
        return triton.cdiv(M, self.block_m) * triton.cdiv(N, self.block_n), self.split_k


@triton.jit
def tile_of(tile, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP_M: tl.constexpr):
    """Row and column of a tile in grouped order: GROUP_M tiles of rows are walked together."""
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    first_m = tile // (GROUP_M * tiles_n) * GROUP_M
    rows_in_group = min(tiles_m - first_m, GROUP_M)
    within = tile % (GROUP_M * tiles_n)
    return first_m + within % rows_in_group, within // rows_in_group


@triton.jit
def gemm_kernel(
    x_ptr, weight_ptr, out_ptr, M, N, K, stride_x, stride_weight, stride_out, k_per_split,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    UPCAST: tl.constexpr,
):  # fmt: skip
    """One tile of the result over one part of K; program axes: tiles in grouped order, parts of K.

    With one part `out_ptr` is the result, else fp32 [parts, M, N].
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
        weight = tl.load(weight_rows + k[:, None], mask=(n[None, :] < N) & (k[:, None] < k_end), other=0.0)
        if UPCAST:
            x = x.to(tl.float32)
            weight = weight.to(tl.float32)
        total = tl.dot(x, weight, total, input_precision="ieee")
    out = out_ptr + (part * M + m).to(tl.int64)[:, None] * stride_out + n[None, :]
    tl.store(out, total.to(out_ptr.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def sum_parts_kernel(parts_ptr, out_ptr, elements, SPLIT: tl.constexpr, BLOCK: tl.constexpr):
    """out[i] = parts[0, i] + parts[1, i] + ..., in this order; parts are fp32 [SPLIT, elements]."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for part in tl.static_range(SPLIT):
        total += tl.load(parts_ptr + part * elements.to(tl.int64) + i, mask=i < elements, other=0.0)
    tl.store(out_ptr + i, total.to(out_ptr.dtype.element_ty), mask=i < elements)


def choose(M: int, N: int, K: int, dtype: torch.dtype, traits: DeviceTraits) -> GemmConfig:
    """A configuration for the shape and device: from published practice, not from a search on that device."""
    if traits.architecture == "interpreter":
        return GemmConfig(block_m=32, block_n=64, block_k=64)
    wide = dtype == torch.float32
    if M <= 64:
        block_m = max(16, triton.next_power_of_2(M))
        tiles = triton.cdiv(N, 64)
        return GemmConfig(
            block_m=block_m,
            block_n=64,
            block_k=64,
            split_k=_parts(tiles, K, 64, traits.processors),
            num_warps=4,
            num_stages=3 if wide else 4,
        )
    if wide:
        return GemmConfig(block_m=64, block_n=64, block_k=32, num_warps=4, num_stages=3)
    if traits.architecture in ("sm_90", "sm_100") and M >= 512:
        return GemmConfig(block_m=128, block_n=256, block_k=64, num_warps=8, num_stages=3)
    block_m = 64 if M <= 128 else 128
    return GemmConfig(block_m=block_m, block_n=128, block_k=64, num_warps=8 if block_m == 128 else 4, num_stages=3)


def _parts(tiles: int, K: int, block_k: int, processors: int) -> int:
    """Enough programs for two on each processor, none with fewer than four steps of the sum."""
    wanted = triton.cdiv(2 * processors, tiles)
    return max(1, min(8, wanted, K // (4 * block_k)))


def launch(x: torch.Tensor, weight: torch.Tensor, config: GemmConfig | None = None) -> torch.Tensor:
    """x [M, K], weight [N, K], both contiguous in K, of one dtype -> [M, N] of that dtype."""
    (M, K), N = x.shape, weight.shape[0]
    chosen = config or choose(M, N, K, x.dtype, device_traits(x.device))
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out
    target = parts_of(out, chosen)
    gemm_kernel[chosen.grid(M, N)](
        x, weight, target, M, N, K, x.stride(0), weight.stride(0), N, chosen.k_per_split(K),
        BLOCK_M=chosen.block_m, BLOCK_N=chosen.block_n, BLOCK_K=chosen.block_k, GROUP_M=chosen.group_m,
        UPCAST=upcasts(x.dtype), num_warps=chosen.num_warps, num_stages=chosen.num_stages,
    )  # fmt: skip
    return added_up(target, out)


def parts_of(out: torch.Tensor, config: GemmConfig) -> torch.Tensor:
    """Where the programs write: the result itself, or fp32 parts of it."""
    if config.split_k == 1:
        return out
    return torch.empty((config.split_k, *out.shape), dtype=torch.float32, device=out.device)


def added_up(target: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """The result, from its parts where there are any."""
    if target is not out:
        sum_parts_kernel[(triton.cdiv(out.numel(), 1024),)](target, out, out.numel(), SPLIT=len(target), BLOCK=1024)
    return out
