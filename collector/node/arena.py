"""Input sets for cold calls: one arena, larger than the last-level cache, that all arms share.

The cursor advances on every call, whoever makes it, so that each arm meets each set equally often and none finds in
the cache what another has just left there (docs/method.md, cache).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

ARENA_CACHES = 2
"""The arena spans this many last-level caches: by the time a set comes round again, it has been evicted."""
MAXIMUM_SETS = 4096


class Arena:
    """Copies of one input set, laid out in one block for each tensor, with a cursor."""

    def __init__(self, inputs: Sequence[torch.Tensor], *, cache_bytes: int, warm: bool = False) -> None:
        one = sum(t.numel() * t.element_size() for t in inputs)
        wanted = 1 if warm else sets_needed(one, cache_bytes)
        self.sets: list[tuple[torch.Tensor, ...]] = [tuple(inputs)]
        self.bytes = one * wanted
        if wanted > 1:
            blocks = [t.unsqueeze(0).repeat(wanted, *(1 for _ in t.shape)) for t in inputs]
            self.sets = [tuple(block[i] for block in blocks) for i in range(wanted)]
        self._cursor = 0

    def next(self) -> tuple[torch.Tensor, ...]:
        """The next input set; advances for every caller alike."""
        inputs = self.sets[self._cursor]
        self._cursor = (self._cursor + 1) % len(self.sets)
        return inputs


def sets_needed(set_bytes: int, cache_bytes: int) -> int:
    """How many sets make ARENA_CACHES x the cache, at most MAXIMUM_SETS; 1 where one set alone streams through it."""
    arena_bytes = ARENA_CACHES * cache_bytes
    if set_bytes >= arena_bytes:
        return 1
    if set_bytes <= 0:
        return 1
    return min(MAXIMUM_SETS, -(-arena_bytes // set_bytes) + 1)
