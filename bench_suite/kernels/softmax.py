"""Softmax over the last axis in Triton, in fp32 until the store.

A short row is one program. A vocabulary is not: sampling has few rows of 128 thousand columns, so each row is cut into
chunks, whose maximum and sum are found by one kernel and joined by the next, which writes (Milakov & Gimelshein 2018,
arXiv:1805.02867).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

LONGEST_ROW = 8192
"""Columns that one program keeps in registers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftmaxConfig:
    block: int
    """Columns a program, a power of two."""
    num_warps: int


@triton.jit
def softmax_row_kernel(x_ptr, out_ptr, columns, stride_x, stride_out, BLOCK: tl.constexpr):
    """A whole row; program axis: rows."""
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride_x + i, mask=i < columns, other=float("-inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * stride_out + i, (e / tl.sum(e, axis=0)).to(out_ptr.dtype.element_ty), mask=i < columns)


@triton.jit
def softmax_chunk_kernel(x_ptr, maximum_ptr, sum_ptr, columns, stride_x, chunks, BLOCK: tl.constexpr):
    """Maximum of a chunk and its sum of exp(x - maximum); program axes: rows, chunks."""
    row = tl.program_id(0).to(tl.int64)
    chunk = tl.program_id(1)
    i = chunk * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride_x + i, mask=i < columns, other=float("-inf")).to(tl.float32)
    maximum = tl.max(x, axis=0)
    # A chunk of -inf alone adds nothing; -inf - (-inf) would be NaN.
    total = tl.sum(tl.exp(x - tl.where(maximum == float("-inf"), 0.0, maximum)), axis=0)
    tl.store(maximum_ptr + row * chunks + chunk, maximum)
    tl.store(sum_ptr + row * chunks + chunk, total)


@triton.jit
def softmax_join_kernel(
    x_ptr, maximum_ptr, sum_ptr, out_ptr, columns, stride_x, stride_out, chunks,
    BLOCK: tl.constexpr, CHUNKS: tl.constexpr,
):  # fmt: skip
    """Joins the chunks of a row and writes one of them; program axes: rows, chunks."""
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, CHUNKS)
    maxima = tl.load(maximum_ptr + row * chunks + c, mask=c < chunks, other=float("-inf"))
    sums = tl.load(sum_ptr + row * chunks + c, mask=c < chunks, other=0.0)
    maximum = tl.max(maxima, axis=0)
    total = tl.sum(sums * tl.exp(maxima - maximum), axis=0)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride_x + i, mask=i < columns, other=float("-inf")).to(tl.float32)
    y = tl.exp(x - maximum) / total
    tl.store(out_ptr + row * stride_out + i, y.to(out_ptr.dtype.element_ty), mask=i < columns)


def choose(columns: int) -> SoftmaxConfig:
    block = triton.next_power_of_2(columns) if columns <= LONGEST_ROW else 4096
    return SoftmaxConfig(block=block, num_warps=min(8, max(1, block // 512)))


def launch(x: torch.Tensor, config: SoftmaxConfig | None = None) -> torch.Tensor:
    """x [rows, columns] contiguous in columns -> [rows, columns]."""
    rows, columns = x.shape
    chosen = config or choose(columns)
    out = torch.empty((rows, columns), dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out
    settings = {"BLOCK": chosen.block, "num_warps": chosen.num_warps}
    if columns <= chosen.block:
        softmax_row_kernel[(rows,)](x, out, columns, x.stride(0), out.stride(0), **settings)
        return out
    chunks = triton.cdiv(columns, chosen.block)
    maximum, total = torch.empty((2, rows, chunks), dtype=torch.float32, device=x.device)
    grid = (rows, chunks)
    softmax_chunk_kernel[grid](x, maximum, total, columns, x.stride(0), chunks, **settings)
    softmax_join_kernel[grid](
        x, maximum, total, out, columns, x.stride(0), out.stride(0), chunks,
        CHUNKS=triton.next_power_of_2(chunks), **settings,
    )  # fmt: skip
    return out
