"""Top-k, top-p sampling in Triton without a sort: both sets are all logits from some value up, found by bisection.

One program a row. Logits in the order of their bits, as whole numbers, take 32 halvings to find the k-th largest, and
as many to find the least that top-p keeps; a row of a vocabulary stays in the L2 cache meanwhile. A last pass adds up
the kept probability in the order of the vocabulary until it exceeds u times the total.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from bench_suite.kernels.runtime import DeviceTraits, device_traits

HALVINGS = 32
"""Of the whole range of 32-bit keys, until one is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingConfig:
    block: int
    """Columns a step, a power of two."""
    num_warps: int


@triton.jit
def ordered_key(x):
    """An int32 for each fp32: in the same order, and equal where the numbers are (0 and -0)."""
    bits = tl.where(x == 0.0, 0.0, x).to(tl.int32, bitcast=True)
    return tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)


@triton.jit
def number_from(logits_row, columns, least, BLOCK: tl.constexpr):
    """How many logits of a row have a key of `least` or more."""
    i = tl.arange(0, BLOCK)
    found = tl.zeros((BLOCK,), dtype=tl.int32)
    for start in range(0, columns, BLOCK):
        inside = start + i < columns
        x = tl.load(logits_row + start + i, mask=inside, other=float("-inf")).to(tl.float32)
        found += (inside & (ordered_key(x) >= least)).to(tl.int32)
    return tl.sum(found, axis=0)


@triton.jit
def mass_from(logits_row, columns, maximum, least, BLOCK: tl.constexpr):
    """The sum of exp(x - maximum) over the logits of a row that have a key of `least` or more."""
    i = tl.arange(0, BLOCK)
    found = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        inside = start + i < columns
        x = tl.load(logits_row + start + i, mask=inside, other=float("-inf")).to(tl.float32)
        found += tl.where(inside & (ordered_key(x) >= least), tl.exp(x - maximum), 0.0)
    return tl.sum(found, axis=0)


@triton.jit
def sampling_kernel(
    logits_ptr, u_ptr, token_ptr, columns, stride_logits, top_k, top_p,
    HALVINGS: tl.constexpr, BLOCK: tl.constexpr, ONE_BLOCK: tl.constexpr,
):  # fmt: skip
    """The token of one row, which stays in registers where it is one block; program axis: rows."""
    row = tl.program_id(0).to(tl.int64)
    logits_row = logits_ptr + row * stride_logits
    i = tl.arange(0, BLOCK)
    highest = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        x = tl.load(logits_row + start + i, mask=start + i < columns, other=float("-inf")).to(tl.float32)
        highest = tl.maximum(highest, x)
    maximum = tl.max(highest, axis=0)
    # Below the key of every number: what lies outside the row.
    keys = tl.where(i < columns, ordered_key(highest), -2147483648)
    masses = tl.exp(highest - maximum)

    # The largest key that top_k logits or more reach: they reach `low`, fewer reach `high`.
    low = tl.full((), -2147483647, dtype=tl.int64)
    high = tl.full((), 2147483649, dtype=tl.int64)
    for _ in range(HALVINGS):
        middle = (low + high) >> 1  # towards minus infinity, also below zero
        if ONE_BLOCK:
            number = tl.sum((keys >= middle).to(tl.int32), axis=0)
        else:
            number = number_from(logits_row, columns, middle, BLOCK)
        low = tl.where(number >= top_k, middle, low)
        high = tl.where(number >= top_k, high, middle)
    kth = low

    # The least key above which there is less than this: from `low` + 1 on there is not, from `high` + 1 on there is.
    wanted = top_p * mass_from(logits_row, columns, maximum, kth, BLOCK)
    low = kth - 1
    high = tl.full((), 2147483648, dtype=tl.int64)
    for _ in range(HALVINGS):
        middle = (low + high + 1) >> 1
        least = tl.maximum(middle + 1, kth)
        if ONE_BLOCK:
            above = tl.sum(tl.where(keys >= least, masses, 0.0), axis=0)
        else:
            above = mass_from(logits_row, columns, maximum, least, BLOCK)
        low = tl.where(above < wanted, low, middle)
        high = tl.where(above < wanted, middle, high)
    least = tl.maximum(high, kth)

    threshold = tl.load(u_ptr + row) * mass_from(logits_row, columns, maximum, least, BLOCK)
    before = tl.full((), 0.0, dtype=tl.float32)
    token = tl.full((), 2147483647, dtype=tl.int32)
    last = tl.full((), 0, dtype=tl.int32)
    for start in range(0, columns, BLOCK):
        inside = start + i < columns
        x = tl.load(logits_row + start + i, mask=inside, other=float("-inf")).to(tl.float32)
        p = tl.where(inside & (ordered_key(x) >= least), tl.exp(x - maximum), 0.0)
        running = before + tl.cumsum(p, axis=0)
        token = tl.minimum(token, tl.min(tl.where((running > threshold) & (p > 0.0), start + i, 2147483647), axis=0))
        last = tl.maximum(last, tl.max(tl.where(p > 0.0, start + i, 0), axis=0))
        before += tl.sum(p, axis=0)
    # Where rounding has left the running sum below u times the total: the last that is kept.
    tl.store(token_ptr + row, tl.minimum(token, last).to(tl.int64))


def choose(columns: int, traits: DeviceTraits) -> SamplingConfig:
    """A row in registers where it fits; the interpreter has no registers, and pays for each step."""
    block = min(triton.next_power_of_2(columns), 8192 if traits.architecture != "interpreter" else 1 << 20)
    return SamplingConfig(block=block, num_warps=min(16, max(1, block // 512)))


def launch(
    logits: torch.Tensor, u: torch.Tensor, *, top_k: int, top_p: float, config: SamplingConfig | None = None
) -> torch.Tensor:
    """logits [rows, columns] contiguous in columns, u fp32 [rows] -> int64 [rows]."""
    rows, columns = logits.shape
    chosen = config or choose(columns, device_traits(logits.device))
    token = torch.empty((rows,), dtype=torch.int64, device=logits.device)
    if rows:
        sampling_kernel[(rows,)](
            logits, u, token, columns, logits.stride(0), top_k, top_p,
            HALVINGS=HALVINGS, BLOCK=chosen.block, ONE_BLOCK=columns <= chosen.block, num_warps=chosen.num_warps,
        )  # fmt: skip
    return token
