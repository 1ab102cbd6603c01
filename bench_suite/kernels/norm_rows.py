"""How a norm takes its rows: what RMSNorm and LayerNorm share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton

EPSILON = 1e-5
"""Of Llama 3, as the contracts have it."""
LONGEST_BLOCK = 16384
"""Elements of a row that one program keeps in registers; longer rows are read more than once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NormConfig:
    block: int
    """Elements a step, a power of two; a row that fits is read once."""
    num_warps: int


def choose(hidden: int) -> NormConfig:
    """The whole row where it fits; 16 elements or more for each thread of 32-lane warps."""
    block = min(triton.next_power_of_2(hidden), LONGEST_BLOCK)
    return NormConfig(block=block, num_warps=min(16, max(1, block // 512)))


def launch_rows(
    kernel: Any, x: torch.Tensor, parameters: tuple[torch.Tensor, ...], config: NormConfig | None
) -> torch.Tensor:
    """One program for each row of x [rows, hidden], contiguous in hidden, with parameters [hidden] -> as x."""
    rows, hidden = x.shape
    chosen = config or choose(hidden)
    out = torch.empty((rows, hidden), dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out
    kernel[(rows,)](
        x, *parameters, out, hidden, x.stride(0), out.stride(0), EPSILON,
        BLOCK=chosen.block, ONE_BLOCK=hidden <= chosen.block, num_warps=chosen.num_warps,
    )  # fmt: skip
    return out
