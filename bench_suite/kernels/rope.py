"""RoPE in Triton: both halves of each head rotated by its token's angles, in fp32 until the store."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeConfig:
    heads: int
    """Heads of one token a program, a power of two: they share its angles."""
    num_warps: int


@triton.jit
def rope_kernel(
    x_ptr, cosine_ptr, sine_ptr, out_ptr, heads, half, stride_xr, stride_xh, stride_or, stride_oh, stride_angle,
    BLOCK_H: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Program axes: tokens, blocks of heads."""
    row = tl.program_id(0).to(tl.int64)
    h = tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H)
    d = tl.arange(0, BLOCK_D)
    cosine = tl.load(cosine_ptr + row * stride_angle + d, mask=d < half, other=0.0)[None, :]
    sine = tl.load(sine_ptr + row * stride_angle + d, mask=d < half, other=0.0)[None, :]
    inside = (h[:, None] < heads) & (d[None, :] < half)
    at = x_ptr + row * stride_xr + h[:, None] * stride_xh + d[None, :]
    first = tl.load(at, mask=inside, other=0.0).to(tl.float32)
    second = tl.load(at + half, mask=inside, other=0.0).to(tl.float32)
    out = out_ptr + row * stride_or + h[:, None] * stride_oh + d[None, :]
    tl.store(out, (first * cosine - second * sine).to(out_ptr.dtype.element_ty), mask=inside)
    tl.store(out + half, (second * cosine + first * sine).to(out_ptr.dtype.element_ty), mask=inside)


def choose(heads: int, head_dim: int) -> RopeConfig:
    """Some 2,048 elements a program."""
    block = max(1, min(triton.next_power_of_2(heads), 2048 // triton.next_power_of_2(head_dim)))
    return RopeConfig(heads=block, num_warps=4)


def launch(x: torch.Tensor, angles: torch.Tensor, config: RopeConfig | None = None) -> torch.Tensor:
    """x [rows, heads, head_dim] contiguous in head_dim, angles fp32 [2, rows, head_dim / 2] -> as x."""
    rows, heads, head_dim = x.shape
    half = head_dim // 2
    chosen = config or choose(heads, head_dim)
    out = torch.empty((rows, heads, head_dim), dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out
    rope_kernel[(rows, triton.cdiv(heads, chosen.heads))](
        x, angles[0], angles[1], out, heads, half,
        x.stride(0), x.stride(1), out.stride(0), out.stride(1), angles.stride(1),
        BLOCK_H=chosen.heads, BLOCK_D=triton.next_power_of_2(half), num_warps=chosen.num_warps,
    )  # fmt: skip
    return out
