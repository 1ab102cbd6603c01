"""LayerNorm in Triton: (x - mean) / sqrt(var + eps) * weight + bias, one program a row, in fp32 until the store.

The variance is that of x - mean, in a second pass over the row: mean(x^2) - mean(x)^2 cancels.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench_suite.kernels.norm_rows import NormConfig, launch_rows


@triton.jit
def layer_norm_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, hidden, stride_x, stride_out, epsilon,
    BLOCK: tl.constexpr, ONE_BLOCK: tl.constexpr,
):  # fmt: skip
    """Program axis: rows."""
    row = tl.program_id(0).to(tl.int64)
    x_row = x_ptr + row * stride_x
    out_row = out_ptr + row * stride_out
    i = tl.arange(0, BLOCK)
    if ONE_BLOCK:
        inside = i < hidden
        x = tl.load(x_row + i, mask=inside, other=0.0).to(tl.float32)
        centred = tl.where(inside, x - tl.sum(x, axis=0) / hidden, 0.0)
        scale = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=0) / hidden + epsilon)
        weight = tl.load(weight_ptr + i, mask=inside, other=0.0).to(tl.float32)
        bias = tl.load(bias_ptr + i, mask=inside, other=0.0).to(tl.float32)
        tl.store(out_row + i, (centred * scale * weight + bias).to(out_ptr.dtype.element_ty), mask=inside)
    else:
        sums = tl.zeros((BLOCK,), dtype=tl.float32)
        for start in range(0, hidden, BLOCK):
            sums += tl.load(x_row + start + i, mask=start + i < hidden, other=0.0).to(tl.float32)
        mean = tl.sum(sums, axis=0) / hidden
        squares = tl.zeros((BLOCK,), dtype=tl.float32)
        for start in range(0, hidden, BLOCK):
            inside = start + i < hidden
            x = tl.load(x_row + start + i, mask=inside, other=0.0).to(tl.float32)
            centred = tl.where(inside, x - mean, 0.0)
            squares += centred * centred
        scale = 1.0 / tl.sqrt(tl.sum(squares, axis=0) / hidden + epsilon)
        for start in range(0, hidden, BLOCK):
            inside = start + i < hidden
            x = tl.load(x_row + start + i, mask=inside, other=0.0).to(tl.float32)
            weight = tl.load(weight_ptr + start + i, mask=inside, other=0.0).to(tl.float32)
            bias = tl.load(bias_ptr + start + i, mask=inside, other=0.0).to(tl.float32)
            y = (x - mean) * scale * weight + bias
            tl.store(out_row + start + i, y.to(out_ptr.dtype.element_ty), mask=inside)


def launch(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, config: NormConfig | None = None) -> torch.Tensor:
    """x [rows, hidden] contiguous in hidden, weight and bias [hidden] -> [rows, hidden]."""
    return launch_rows(layer_norm_kernel, x, (weight, bias), config)
