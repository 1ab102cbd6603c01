"""Gradients of RMSNorm in Triton: dx and a part of dweight in one pass over the rows, then the parts are added.

Each program walks every n-th row and keeps what its rows add to dweight in fp32. The parts are added in a fixed order:
the result is the same on every call.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench_suite.kernels.norm_rows import NormConfig, choose
from bench_suite.kernels.runtime import device_traits

PROGRAMS_EACH = 2
"""Programs on each processor: enough to hide loads, few enough that the parts of dweight stay small."""
SUM_BLOCK = 256


@triton.jit
def rms_norm_backward_kernel(
    dy_ptr, x_ptr, weight_ptr, rstd_ptr, dx_ptr, part_ptr, rows, hidden, stride_dy, stride_x, stride_dx,
    BLOCK: tl.constexpr, ONE_BLOCK: tl.constexpr,
):  # fmt: skip
    """Every n-th row of n programs; part_ptr is fp32 [programs, hidden], zeros where a row takes several blocks."""
    first = tl.program_id(0).to(tl.int64)
    programs = tl.num_programs(0)
    i = tl.arange(0, BLOCK)
    part_row = part_ptr + first * hidden
    dy_row, x_row, dx_row = dy_ptr + first * stride_dy, x_ptr + first * stride_x, dx_ptr + first * stride_dx
    if ONE_BLOCK:
        weight = tl.load(weight_ptr + i, mask=i < hidden, other=0.0).to(tl.float32)
        part = tl.zeros((BLOCK,), dtype=tl.float32)
        for row in range(tl.program_id(0), rows, programs):
            rstd = tl.load(rstd_ptr + row)
            dy = tl.load(dy_row + i, mask=i < hidden, other=0.0).to(tl.float32)
            normed = tl.load(x_row + i, mask=i < hidden, other=0.0).to(tl.float32) * rstd
            g = dy * weight
            dx = rstd * (g - normed * (tl.sum(g * normed, axis=0) / hidden))
            tl.store(dx_row + i, dx.to(dx_ptr.dtype.element_ty), mask=i < hidden)
            part += dy * normed
            dy_row += programs.to(tl.int64) * stride_dy
            x_row += programs.to(tl.int64) * stride_x
            dx_row += programs.to(tl.int64) * stride_dx
        tl.store(part_row + i, part, mask=i < hidden)
    else:
        for row in range(tl.program_id(0), rows, programs):
            rstd = tl.load(rstd_ptr + row)
            products = tl.zeros((BLOCK,), dtype=tl.float32)
            for start in range(0, hidden, BLOCK):
                inside = start + i < hidden
                dy = tl.load(dy_row + start + i, mask=inside, other=0.0).to(tl.float32)
                x = tl.load(x_row + start + i, mask=inside, other=0.0).to(tl.float32)
                weight = tl.load(weight_ptr + start + i, mask=inside, other=0.0).to(tl.float32)
                products += dy * weight * (x * rstd)
            mean = tl.sum(products, axis=0) / hidden
            for start in range(0, hidden, BLOCK):
                inside = start + i < hidden
                dy = tl.load(dy_row + start + i, mask=inside, other=0.0).to(tl.float32)
                normed = tl.load(x_row + start + i, mask=inside, other=0.0).to(tl.float32) * rstd
                weight = tl.load(weight_ptr + start + i, mask=inside, other=0.0).to(tl.float32)
                dx = rstd * (dy * weight - normed * mean)
                tl.store(dx_row + start + i, dx.to(dx_ptr.dtype.element_ty), mask=inside)
                part = tl.load(part_row + start + i, mask=inside, other=0.0)
                tl.store(part_row + start + i, part + dy * normed, mask=inside)
            dy_row += programs.to(tl.int64) * stride_dy
            x_row += programs.to(tl.int64) * stride_x
            dx_row += programs.to(tl.int64) * stride_dx


@triton.jit
def sum_rows_kernel(part_ptr, out_ptr, rows, hidden, BLOCK: tl.constexpr):
    """out[i] = part[0, i] + part[1, i] + ..., in this order; program axis: blocks of columns."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for row in range(rows):
        total += tl.load(part_ptr + row * hidden + i, mask=i < hidden, other=0.0)
    tl.store(out_ptr + i, total.to(out_ptr.dtype.element_ty), mask=i < hidden)


def launch(
    dy: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    rstd: torch.Tensor,
    config: NormConfig | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """dy and x [rows, hidden] contiguous in hidden, weight [hidden], rstd fp32 [rows] -> dx as x, dweight as weight."""
    rows, hidden = x.shape
    chosen = config or choose(hidden)
    dx, dweight = torch.empty_like(x, memory_format=torch.contiguous_format), torch.zeros_like(weight)
    if x.numel() == 0:
        return dx, dweight
    programs = min(rows, PROGRAMS_EACH * device_traits(x.device).processors)
    whole = hidden <= chosen.block
    allocate = torch.empty if whole else torch.zeros
    part = allocate((programs, hidden), dtype=torch.float32, device=x.device)
    rms_norm_backward_kernel[(programs,)](
        dy, x, weight, rstd, dx, part, rows, hidden, dy.stride(0), x.stride(0), dx.stride(0),
        BLOCK=chosen.block, ONE_BLOCK=whole, num_warps=chosen.num_warps,
    )  # fmt: skip
    sum_rows_kernel[(triton.cdiv(hidden, SUM_BLOCK),)](part, dweight, programs, hidden, BLOCK=SUM_BLOCK)
    return dx, dweight
