"""How a norm takes its rows: what RMSNorm and LayerNorm share."""

from __future__ import annotations

from dataclasses import dataclass

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
