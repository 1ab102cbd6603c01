"""Neighbours of heavy shapes: the same case a step to either side, where a kernel's speed may fall off a cliff.

One more row than a tile, one less than an alignment, the next whole tile: work hardly changes, time should not. A
neighbour stands for nothing that ran and has no weight; the cliff detector compares it with the shape it was made of.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench_suite.contract import AxisValue, Case, ContractError
from bench_suite.contracts import contract
from bench_suite.contracts.attention_decode import length_quantiles
from bench_suite.plan import PlannedCase

VARIED = ("M", "rows", "q", "batch", "tokens")
"""The axis that is stepped: the first of these that the operator has. Messages are not stepped: links have no tiles."""
TILES = (16, 64, 128)
"""Rows of common tiles: the largest that the size is at least as large as counts."""


def steps(size: int) -> tuple[int, ...]:
    """Sizes around `size`, the most telling first: off by one, then the edges of its tile, then one beyond those."""
    tile = max((t for t in TILES if t <= size), default=TILES[0])
    below, above = size // tile * tile, -(-size // tile) * tile
    wanted = (size + 1, size - 1, above, above + 1, below, below - 1, size + tile, size - tile)
    return tuple(value for value in dict.fromkeys(wanted) if value >= 1 and value != size)


def neighbours(planned: PlannedCase, number: int) -> Iterator[PlannedCase]:
    """Up to `number` neighbours of a case, those that its contract allows."""
    case = planned.case
    promise = contract(case.operator)
    axis = next((name for name in VARIED if any(entry.name == name for entry in promise.axes)), None)
    if promise.collective or axis is None or len(case.ragged(axis)) > 1:
        return
    made = 0
    for size in steps(case[axis]):
        if made == number:
            return
        try:
            other = promise.case(_moved(case, axis, size), case.dtype, case.phase, cache=case.cache)
        except ContractError:
            continue
        made += 1
        yield PlannedCase(
            case=other,
            weight=None,
            label=f"{planned.label}: {axis} {size - case[axis]:+,}",
            provenance=f"neighbour of {case.case_id}",
        )


def _moved(case: Case, axis: str, size: int) -> dict[str, AxisValue]:
    """The axes with one size changed; a context keeps what lay before its new tokens, a batch its spread of lengths."""
    axes = dict(case.axes)
    if axis == "q" and isinstance(axes.get("kv"), int):
        axes["kv"] = axes["kv"] + size - case[axis]  # type: ignore[operator]
    lengths = axes.get("kv")
    if axis == "batch" and isinstance(lengths, tuple):
        axes["kv"] = length_quantiles(lengths)
    return axes | {axis: size}
