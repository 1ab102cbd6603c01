"""RoPE on torch: the formula step by step, torch's general operations in place, and a compiled or Triton candidate."""

from __future__ import annotations

import torch

from bench_suite.contract import Case
from bench_suite.contracts.rope import BASE, ROPE
from bench_suite.operators.base import Inputs, Origin, normal
from bench_suite.operators.frames import in_float64, library, plain_operator

_CONTEXT = 131_072
_STRIDE = 37
"""Positions of neighbouring rows, as tokens of many sequences have them, lie apart."""


def _make(case: Case, seed: int, device: torch.device, rank: int) -> Inputs:
    rows, half = case["rows"], case["head_dim"] // 2
    x = normal(case, seed, device, tensor="x", shape=(rows, case["heads"], 2 * half), rank=rank)
    position = (torch.arange(rows) * _STRIDE + seed + rank) % _CONTEXT
    return x, angles_of(position, 2 * half).to(device)


def angles_of(position: torch.Tensor, head_dim: int) -> torch.Tensor:
    """Cosine and sine of each position's angles, fp32 [2, positions, head_dim / 2], formed in float64."""
    half = head_dim // 2
    angle = position.double()[:, None] * BASE ** (-torch.arange(half).double() / half)
    return torch.stack((angle.cos(), angle.sin())).float()


def _rotated(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=-1)
    cosine, sine = angles[:, :, None]  # each [rows, 1, half]
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)


def _formula(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    """As model code has it: in float32, halves, products, sums and the joined result each a tensor of its own."""
    return _rotated(x.float(), angles).to(x.dtype)


def _fewer_passes(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    """The products written into halves of one float32 result: torch has no call of its own."""
    cosine, sine = angles[:, :, None]
    first, second = x.float().chunk(2, dim=-1)
    out = torch.empty(x.shape, dtype=torch.float32, device=x.device)
    left, right = out.chunk(2, dim=-1)
    torch.mul(first, cosine, out=left)
    torch.mul(second, cosine, out=right)
    left.addcmul_(second, sine, value=-1.0)
    right.addcmul_(first, sine)
    return out.to(x.dtype)


OPERATOR = plain_operator(
    ROPE,
    make=_make,
    reference=in_float64(_rotated),
    naive=_formula,
    optimized=library("torch.mul, addcmul_", _fewer_passes, origin=Origin.GENERIC),
    triton="rope",
)
