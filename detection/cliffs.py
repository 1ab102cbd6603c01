"""Cliffs: neighbours in shape space between which the time for a unit of work jumps.

Two cases are neighbours along an axis when they have the same operator, dtype and other sizes, and no measured case
lies between them. A unit of work is a second that the roofs allow (the roofline time of a case; its FLOP where no roof
is known). Growing shapes use a device better, so the time of a unit falls or stays; where it rises instead, a tile, a
wave or a path through the code was crossed:

- `jump`: the larger neighbour takes more time for a unit of work, by more than the floor;
- `inverted`: the smaller neighbour takes more time as a whole, so padding it to the larger one would be faster.

Both are differences of logarithms over the columns (runs, or processes of one run) that have both, with Student's t.
Something is a cliff when its 99 % interval lies wholly beyond the floor.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

import numpy as np

from detection.shape_features import Shape
from detection.stats import student_t_quantile
from detection.verdict import percent

FLOOR = 0.25
"""Of a jump: a quarter more time for the same work ..."""
INVERTED_FLOOR = 0.05
"""... and of an inversion, where padding would already pay."""
CONFIDENCE = 0.99
LEAST_COLUMNS = 3
FAR = 4.0
"""Neighbours further apart than this factor say nothing about what lies between them."""


class CliffKind(StrEnum):
    """Which side is worse than it should be."""

    JUMP = "jump"
    INVERTED = "inverted"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeTimes:
    """A case with its present times."""

    shape: Shape
    seconds: tuple[float, ...]
    """By run or process, the same ones in the same order for every case; NaN where it has none."""
    work: float
    """Roofline seconds, or FLOP where no roof is known; the same unit for every case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cliff:
    """One jump between two neighbours."""

    kind: CliffKind
    axis: str
    small_case_id: str
    large_case_id: str
    small: float
    """Size of the axis on either side."""
    large: float
    small_s: float
    """Median seconds on either side."""
    large_s: float
    change: float
    """`jump`: relative rise of the time for a unit of work; `inverted`: how much longer the smaller one takes."""
    low: float
    high: float
    columns: int
    fixed: str
    """The sizes that both sides share, in words."""

    @property
    def sentence(self) -> str:
        """In words, with the numbers."""
        where = f" ({self.fixed})" if self.fixed else ""
        interval = f"99 % interval {percent(self.low, signed=True)} to {percent(self.high, signed=True)}"
        times = f"{_time(self.small_s)} at {self.axis} {self.small:,.0f}, {_time(self.large_s)} at {self.large:,.0f}"
        what = (
            f"a unit of work takes {percent(self.change)} more on the larger side"
            if self.kind is CliffKind.JUMP
            else f"the smaller takes {percent(self.change)} longer than the larger, to which it could be padded"
        )
        return f"Cliff in {self.axis}{where}: {times}: {what} ({interval})."


def find_cliffs(cases: Sequence[ShapeTimes], *, floor: float = FLOOR) -> tuple[Cliff, ...]:
    """Every cliff between neighbours of these cases (of one implementation on one device), the largest first."""
    found = [cliff for pair in _neighbours(cases) if (cliff := _cliff(*pair, floor)) is not None]
    return tuple(sorted(found, key=lambda c: (-c.change, c.small_case_id, c.large_case_id)))


def _neighbours(cases: Sequence[ShapeTimes]) -> Iterator[tuple[str, ShapeTimes, ShapeTimes]]:
    """(axis, smaller, larger) of all pairs without a measured case between them."""
    lines: dict[tuple[str, str, str, str], list[tuple[float, ShapeTimes]]] = defaultdict(list)
    for case in cases:
        shape = case.shape
        for axis, sizes in shape.axes.items():
            if len(sizes) == 1:
                rest = tuple((name, values) for name, values in shape.axes.items() if name != axis)
                lines[axis, shape.operator, shape.dtype, repr(rest)].append((sizes[0], case))
    for (axis, *_), line in lines.items():
        line.sort(key=lambda item: item[0])
        for (small, a), (large, b) in pairwise(line):
            if 0 < small < large <= FAR * small:
                yield axis, a, b


def _cliff(axis: str, small: ShapeTimes, large: ShapeTimes, floor: float) -> Cliff | None:
    if not (small.work > 0 and large.work > 0):
        return None
    times = np.array([small.seconds, large.seconds], dtype=float)
    if times.shape[1] == 0:
        return None
    both = np.all(np.isfinite(times) & (times > 0), axis=0)
    logs = np.log(times[:, both])
    n = int(both.sum())
    if n < LEAST_COLUMNS:
        return None
    longer = logs[1] - logs[0]
    half = student_t_quantile((1 + CONFIDENCE) / 2, n - 1) * float(longer.std(ddof=1)) / math.sqrt(n)
    mean = float(longer.mean())
    unit = mean - math.log(large.work / small.work)
    if -mean - half > math.log1p(INVERTED_FLOOR):
        kind, centre = CliffKind.INVERTED, -mean
    elif unit - half > math.log1p(floor):
        kind, centre = CliffKind.JUMP, unit
    else:
        return None
    medians = np.exp(np.median(logs, axis=1))
    return Cliff(
        kind=kind,
        axis=axis,
        small_case_id=small.shape.case_id,
        large_case_id=large.shape.case_id,
        small=small.shape.axes[axis][0],
        large=large.shape.axes[axis][0],
        small_s=float(medians[0]),
        large_s=float(medians[1]),
        change=math.expm1(centre),
        low=math.expm1(centre - half),
        high=math.expm1(centre + half),
        columns=n,
        fixed=", ".join(f"{name} {_sizes(v)}" for name, v in small.shape.axes.items() if name != axis),
    )


def _sizes(values: tuple[float, ...]) -> str:
    low, high = min(values), max(values)
    return f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"


def _time(seconds: float) -> str:
    for scale, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= scale:
            return f"{seconds / scale:,.4g} {unit}"
    return f"{seconds / 1e-6:,.4g} µs"
