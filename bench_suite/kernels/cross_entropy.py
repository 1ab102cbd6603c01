"""Cross-entropy and its gradient in Triton: a program a row, the vocabulary in blocks, in fp32 until the store.

The maximum and the sum are carried along (Milakov & Gimelshein 2018, arXiv:1805.02867): the loss reads its row once,
the gradient twice, and neither stores a probability.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossEntropyConfig:
    block: int
    """Columns a step, a power of two."""
    num_warps: int


@triton.jit
def _row_sum(x_row, columns, BLOCK: tl.constexpr):
    """Maximum of the row, and the sum of exp(x - maximum)."""
    i = tl.arange(0, BLOCK)
    maxima = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
    sums = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        x = tl.load(x_row + start + i, mask=start + i < columns, other=float("-inf")).to(tl.float32)
        higher = tl.where(x != x, x, tl.maximum(maxima, x))  # a NaN stays
        shift = tl.where(higher == float("-inf"), 0.0, higher)  # -inf - (-inf) would be NaN
        sums = sums * tl.exp(maxima - shift) + tl.exp(x - shift)
        maxima = higher
    maximum = tl.max(maxima, axis=0)
    shift = tl.where(maximum == float("-inf"), 0.0, maximum)
    return maximum, tl.sum(sums * tl.exp(maxima - shift), axis=0)


@triton.jit
def cross_entropy_kernel(x_ptr, target_ptr, out_ptr, columns, stride_x, BLOCK: tl.constexpr):
    """Program axis: rows."""
    row = tl.program_id(0).to(tl.int64)
    x_row = x_ptr + row * stride_x
    maximum, total = _row_sum(x_row, columns, BLOCK)
    own = tl.load(x_row + tl.load(target_ptr + row)).to(tl.float32)
    tl.store(out_ptr + row, (tl.log(total) + (maximum - own)).to(out_ptr.dtype.element_ty))


@triton.jit
def cross_entropy_backward_kernel(
    loss_ptr, x_ptr, target_ptr, out_ptr, columns, stride_x, stride_out, BLOCK: tl.constexpr
):
    """Program axis: rows."""
    row = tl.program_id(0).to(tl.int64)
    x_row = x_ptr + row * stride_x
    maximum, total = _row_sum(x_row, columns, BLOCK)
    target = tl.load(target_ptr + row)
    gradient = tl.load(loss_ptr + row).to(tl.float32)
    i = tl.arange(0, BLOCK)
    for start in range(0, columns, BLOCK):
        inside = start + i < columns
        x = tl.load(x_row + start + i, mask=inside, other=0.0).to(tl.float32)
        p = tl.exp(x - maximum) / total
        y = (p - tl.where(start + i == target, 1.0, 0.0)) * gradient
        tl.store(out_ptr + row * stride_out + start + i, y.to(out_ptr.dtype.element_ty), mask=inside)


def choose(columns: int) -> CrossEntropyConfig:
    """The whole row where it is short, else 4,096 columns a step."""
    block = min(triton.next_power_of_2(columns), 4096)
    return CrossEntropyConfig(block=block, num_warps=min(8, max(1, block // 512)))


def launch(x: torch.Tensor, target: torch.Tensor, config: CrossEntropyConfig | None = None) -> torch.Tensor:
    """x [rows, columns] contiguous in columns, target int64 [rows] within them -> the loss of each row."""
    rows, columns = x.shape
    chosen = config or choose(columns)
    out = torch.empty((rows,), dtype=x.dtype, device=x.device)
    if rows:
        cross_entropy_kernel[(rows,)](
            x, target, out, columns, x.stride(0), BLOCK=chosen.block, num_warps=chosen.num_warps
        )
    return out


def launch_backward(
    dloss: torch.Tensor, x: torch.Tensor, target: torch.Tensor, config: CrossEntropyConfig | None = None
) -> torch.Tensor:
    """dloss [rows], x [rows, columns] contiguous in columns, target int64 [rows] -> [rows, columns]."""
    rows, columns = x.shape
    chosen = config or choose(columns)
    out = torch.empty((rows, columns), dtype=x.dtype, device=x.device)
    if out.numel():
        cross_entropy_backward_kernel[(rows,)](
            dloss, x, target, out, columns, x.stride(0), out.stride(0), BLOCK=chosen.block, num_warps=chosen.num_warps
        )
    return out
