"""GEMM in Triton for chips with bulk copies: as many programs as processors, each walking tiles, loads by descriptor.

A descriptor is a tensor's address, shape and strides: the copy engine (TMA of sm_90 and later) moves a whole tile,
fills what lies outside with zeros, and leaves registers to the sums. On other chips Triton lowers it to plain loads.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench_suite.kernels.gemm import GemmConfig, tile_of
from bench_suite.kernels.runtime import DeviceTraits, device_traits, interpreted, upcasts

ALIGNMENT_BYTES = 16
"""Of addresses and strides that a descriptor takes."""
FIRST_ARCHITECTURES = ("sm_90", "sm_100", "sm_120")
"""Those with the copy engine."""


@triton.jit
def gemm_persistent_kernel(
    x_ptr, weight_ptr, out_ptr, M, N, K, stride_x, stride_weight, stride_out,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    UPCAST: tl.constexpr,
):  # fmt: skip
    """Every n-th tile of n programs, in grouped order."""
    x_tiles = tl.make_tensor_descriptor(x_ptr, [M, K], [stride_x, 1], [BLOCK_M, BLOCK_K])
    weight_tiles = tl.make_tensor_descriptor(weight_ptr, [N, K], [stride_weight, 1], [BLOCK_N, BLOCK_K])
    out_tiles = tl.make_tensor_descriptor(out_ptr, [M, N], [stride_out, 1], [BLOCK_M, BLOCK_N])
    for tile in range(tl.program_id(0), tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N), tl.num_programs(0)):
        tile_m, tile_n = tile_of(tile, M, N, BLOCK_M, BLOCK_N, GROUP_M)
        m = tile_m * BLOCK_M
        n = tile_n * BLOCK_N
        total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, K, BLOCK_K):
            x = x_tiles.load([m, k])
            weight = weight_tiles.load([n, k])
            if UPCAST:
                x = x.to(tl.float32)
                weight = weight.to(tl.float32)
            total = tl.dot(x, weight.T, total, input_precision="ieee")
        out_tiles.store([m, n], total.to(out_ptr.dtype.element_ty))


def why_not(N: int, K: int, dtype: torch.dtype, traits: DeviceTraits) -> str:
    """Why the shape or the device does not take descriptors; empty where it does."""
    if traits.architecture not in (*FIRST_ARCHITECTURES, "interpreter"):
        return f"bulk copies by descriptor begin with sm_90; this is {traits.architecture}"
    step = ALIGNMENT_BYTES // dtype.itemsize
    for name, size in (("N", N), ("K", K)):
        if size % step:
            return f"a descriptor of {dtype} needs {name} in multiples of {step}, here {size}"
    return ""


def choose(M: int, N: int, K: int, dtype: torch.dtype, traits: DeviceTraits) -> GemmConfig:
    """From published practice for bf16 on Hopper and later, not from a search on that device."""
    if traits.architecture == "interpreter":
        return GemmConfig(block_m=32, block_n=64, block_k=64)
    if dtype == torch.float32:
        return GemmConfig(block_m=64, block_n=64, block_k=32)
    small = traits.architecture == "sm_120"  # 99 KiB of shared memory
    if M <= 64:
        return GemmConfig(block_m=64, block_n=64, block_k=128, num_stages=2 if small else 4)
    if small:
        return GemmConfig(block_m=128, block_n=128, block_k=64, num_warps=8, num_stages=2)
    return GemmConfig(block_m=128, block_n=256 if M >= 512 else 128, block_k=64, num_warps=8, num_stages=3)


def launch(x: torch.Tensor, weight: torch.Tensor, config: GemmConfig | None = None) -> torch.Tensor:
    """x [M, K], weight [N, K], both contiguous in K, of one dtype -> [M, N] of that dtype; see `why_not`."""
    (M, K), N = x.shape, weight.shape[0]
    traits = device_traits(x.device)
    chosen = config or choose(M, N, K, x.dtype, traits)
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out
    if not interpreted():  # descriptors are made on the device, in memory that the launch gives
        triton.set_allocator(lambda size, alignment, stream: torch.empty(size, device=x.device, dtype=torch.int8))
    programs = min(chosen.grid(M, N)[0], traits.processors)
    gemm_persistent_kernel[(programs,)](
        x, weight, out, M, N, K, x.stride(0), weight.stride(0), N,
        BLOCK_M=chosen.block_m, BLOCK_N=chosen.block_n, BLOCK_K=chosen.block_k, GROUP_M=chosen.group_m,
        UPCAST=upcasts(x.dtype), num_warps=chosen.num_warps, num_stages=chosen.num_stages,
    )  # fmt: skip
    return out
