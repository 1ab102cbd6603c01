"""What samples say of a ratio: the estimates of every method, from lists of seconds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from benchmarks.measurement_trials import Estimate
from detection.stats import neighbour_log_ratio

T = TypeVar("T")

SHARES = (0.25, 0.5, 1.0)
"""Of the time of a trial: what would have been said if it had been stopped there."""
MINIMUM_ROUNDS = 4
"""Fewer in a process give no estimate at this share of the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """Whole rounds of one process: seconds of a call of both arms."""

    base: list[float]
    arm: list[float]

    def possible(self) -> Rounds:
        """Without rounds in which a clock stood still: the product flags such a time and judges without it."""
        kept = [(b, a) for b, a in zip(self.base, self.arm, strict=True) if a > 0 and b > 0]
        return Rounds(base=[b for b, _ in kept], arm=[a for _, a in kept])


def from_rounds(parts: list[Rounds], share: float, clock: str) -> Estimate | None:
    """As collector.node.row_times has it; beside it, as the `mean`, what it was before: the median inside rounds."""
    parts = [part.possible() for part in parts]
    if any(len(part.arm) < MINIMUM_ROUNDS for part in parts):
        return None
    ratios = [neighbour_log_ratio(p.arm, range(len(p.arm)), p.base, range(len(p.base))) for p in parts]
    inside = [statistics.median(math.log(a / b) for a, b in zip(p.arm, p.base, strict=True)) for p in parts]
    return Estimate(
        share=share,
        clock=clock,
        median=statistics.fmean(ratios),
        mean=statistics.fmean(inside),
        minimum=statistics.fmean(math.log(min(p.arm) / min(p.base)) for p in parts),
        base=[0.0] * len(ratios),
        arm=ratios,
        paired=True,
        within_se=None,
        within_df=None,
        samples=2 * sum(len(part.arm) for part in parts),
    )


def from_blocks(
    first: Sequence[Sequence[float]], second: Sequence[Sequence[float]], share: float, clock: str
) -> Estimate:
    """The end of the first arm's samples against the beginning of the second's, as a shorter trial would have had them.

    With one process an arm a share is one of its samples, with several one of its processes.
    """
    if len(first) == 1:
        a, b = [_last(first[0], share)], [_first(second[0], share)]
    else:
        a, b = [list(p) for p in _last(first, share)], [list(p) for p in _first(second, share)]
    pooled_a, pooled_b = [x for p in a for x in p], [x for p in b for x in p]
    se, df = welch(np.log(pooled_a), np.log(pooled_b))
    return Estimate(
        share=share,
        clock=clock,
        median=math.log(statistics.median(pooled_b) / statistics.median(pooled_a)),
        mean=math.log(statistics.fmean(pooled_b) / statistics.fmean(pooled_a)),
        minimum=math.log(min(pooled_b) / min(pooled_a)),
        base=[math.log(statistics.fmean(p)) for p in a],
        arm=[math.log(statistics.fmean(p)) for p in b],
        paired=False,
        within_se=se,
        within_df=df,
        samples=len(pooled_a) + len(pooled_b),
    )


def _last(values: Sequence[T], share: float) -> list[T]:
    return list(values[-max(1, round(len(values) * share)) :])


def _first(values: Sequence[T], share: float) -> list[T]:
    return list(values[: max(1, round(len(values) * share))])


def welch(a: Iterable[float], b: Iterable[float]) -> tuple[float | None, float | None]:
    """Standard error of mean(b) - mean(a) and its degrees of freedom (Welch 1947); None below two of each."""
    x, y = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if x.size < 2 or y.size < 2:
        return None, None
    u, v = float(x.var(ddof=1)) / x.size, float(y.var(ddof=1)) / y.size
    if u + v == 0:
        return 0.0, float(x.size + y.size - 2)
    return math.sqrt(u + v), (u + v) ** 2 / (u * u / (x.size - 1) + v * v / (y.size - 1))
