"""RMSNorm in Triton: x / sqrt(mean(x^2) + eps) * weight, one program a row, everything in fp32 until the store."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench_suite.kernels.norm_rows import NormConfig, launch_rows


@triton.jit
def rms_norm_kernel(
    x_ptr, weight_ptr, out_ptr, hidden, stride_x, stride_out, epsilon,
    BLOCK: tl.constexpr, ONE_BLOCK: tl.constexpr,
):  # fmt: skip
    """Program axis: rows."""
    row = tl.program_id(0).to(tl.int64)
    x_row = x_ptr + row * stride_x
    out_row = out_ptr + row * stride_out
    i = tl.arange(0, BLOCK)
    if ONE_BLOCK:
        x = tl.load(x_row + i, mask=i < hidden, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + i, mask=i < hidden, other=0.0).to(tl.float32)
        scale = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / hidden + epsilon)
        tl.store(out_row + i, (x * scale * weight).to(out_ptr.dtype.element_ty), mask=i < hidden)
    else:
        squares = tl.zeros((BLOCK,), dtype=tl.float32)
        for start in range(0, hidden, BLOCK):
            x = tl.load(x_row + start + i, mask=start + i < hidden, other=0.0).to(tl.float32)
            squares += x * x
        scale = 1.0 / tl.sqrt(tl.sum(squares, axis=0) / hidden + epsilon)
        for start in range(0, hidden, BLOCK):
            inside = start + i < hidden
            x = tl.load(x_row + start + i, mask=inside, other=0.0).to(tl.float32)
            weight = tl.load(weight_ptr + start + i, mask=inside, other=0.0).to(tl.float32)
            tl.store(out_row + start + i, (x * scale * weight).to(out_ptr.dtype.element_ty), mask=inside)


def launch(x: torch.Tensor, weight: torch.Tensor, config: NormConfig | None = None) -> torch.Tensor:
    """x [rows, hidden] contiguous in hidden, weight [hidden] -> [rows, hidden]."""
    return launch_rows(rms_norm_kernel, x, (weight,), config)
