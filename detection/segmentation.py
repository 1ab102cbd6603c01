"""Where a series changed, told from all of it: for charts, and for the range of revisions behind a change.

The online detector says that something changed, from the front and, on the reversed series, from the back. Looking at
both sides of each place then gives the location, how far it can be trusted, and which changes remain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from detection import online_kernel as kernel
from detection import online_scores as scores
from detection.online import settings_vector

Vector = NDArray[np.float64]

LEAST_SCORE: Final = 4.0
"""Standard errors between the levels of two neighbours, below which they are one segment."""
LEAST_LENGTH: Final = 3
PROFILE_DROP: Final = 3.68
"""-ln(1 - sqrt(0.95)): how far the log-likelihood may fall within the 95 % range of a place.

On either side of the truth it is a random walk that falls; its highest rise exceeds c with probability about exp(-c)
(Siegmund, Confidence sets in change-point problems, International Statistical Review 56, 1988).
"""
PASSES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Values from `first` up to before `end` that share one level; positions count gaps.

    `level` is their median, `spread` 1.4826 MAD over the level's size (in plain units where the level is 0).
    """

    first: int
    end: int
    n: int
    level: float
    spread: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePoint:
    """Between two segments: `change` is the first value of the new level, surely from `earliest` to `latest`.

    `effect` is the new median over the old, less 1 (infinite after 0); `score` the distance in standard errors.
    """

    change: int
    earliest: int
    latest: int
    direction: int
    effect: float
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Segmentation:
    """Segments in order, and the change points between them: one fewer, or none at all for no value."""

    segments: tuple[Segment, ...]
    changes: tuple[ChangePoint, ...]


def segment(values: ArrayLike, *, strictness: float = 1.0, minimum_effect: float = 0.003) -> Segmentation:
    """The segments of a series; NaN and infinities are gaps. Logarithms are judged where all values are positive."""
    raw = np.asarray(values, dtype=np.float64)
    places = np.flatnonzero(np.isfinite(raw))
    kept = raw[places]
    if kept.size == 0:
        return Segmentation(segments=(), changes=())
    is_log = bool((kept > 0).all())
    x = np.log(kept) if is_log else kept
    splits = _candidates(kept, x, strictness, minimum_effect)
    splits = _prune(x, _relocate(x, splits), is_log=is_log, strictness=strictness, minimum_effect=minimum_effect)
    bounds = [0, *splits, x.size]
    return Segmentation(
        segments=tuple(
            _segment(kept, places, raw.size, bounds[i], bounds[i + 1], is_last=i == len(splits))
            for i in range(len(splits) + 1)
        ),
        changes=tuple(_change(x, kept, places, *bounds[i : i + 3]) for i in range(len(splits))),
    )


def _candidates(kept: Vector, x: Vector, strictness: float, minimum_effect: float) -> list[int]:
    """Places where the detector reports a change, fed forwards and backwards (by reciprocals or negatives)."""
    settings = settings_vector(strictness=strictness, warmup=12, baseline=200, minimum_effect=minimum_effect)
    forward = kernel.replay(kept, settings, kernel.new_state())
    backward = kernel.replay(np.ascontiguousarray(kept[::-1]), settings, kernel.new_state())
    found = {int(row[kernel.CHANGE]) for row in forward}
    found |= {x.size - int(row[kernel.CHANGE]) for row in backward}
    return sorted(split for split in found if LEAST_LENGTH <= split <= x.size - LEAST_LENGTH)


def _relocate(x: Vector, splits: list[int]) -> list[int]:
    """Move each split to where its two neighbours' levels fit best; splits that meet become one."""
    for _ in range(PASSES):
        bounds = [0, *splits, x.size]
        moved: list[int] = []
        for i in range(1, len(bounds) - 1):
            before = moved[-1] if moved else 0
            if bounds[i + 1] - before < 2 * LEAST_LENGTH or not before < bounds[i] < bounds[i + 1]:
                continue
            moved.append(before + _best_split(x[before : bounds[i + 1]], bounds[i] - before))
        if moved == splits:
            break
        splits = moved
    return splits


def _costs(x: Vector, split: int) -> Vector:
    """Sum of absolute residuals of the two medians for each place of the split, [len(x) + 1]."""
    left = np.abs(x - np.median(x[:split]))
    right = np.abs(x - np.median(x[split:]))
    return np.concatenate(([0.0], np.cumsum(left))) + np.concatenate((np.cumsum(right[::-1])[::-1], [0.0]))


def _best_split(x: Vector, split: int) -> int:
    inner = _costs(x, split)[LEAST_LENGTH : x.size - LEAST_LENGTH + 1]
    return LEAST_LENGTH + int(np.argmin(inner))


def _prune(x: Vector, splits: list[int], *, is_log: bool, strictness: float, minimum_effect: float) -> list[int]:
    """Take out the weakest split, again and again, until all that remain stand on their own."""
    while splits:
        bounds = [0, *splits, x.size]
        strengths = [_score(x[a:b], x[b:c]) for a, b, c in zip(bounds, bounds[1:], bounds[2:], strict=False)]
        sizes = [
            _is_large(x[a:b], x[b:c], is_log=is_log, minimum_effect=minimum_effect)
            for a, b, c in zip(bounds, bounds[1:], bounds[2:], strict=False)
        ]
        ranked = [strength if large else 0.0 for strength, large in zip(strengths, sizes, strict=True)]
        weakest = int(np.argmin(ranked))
        if ranked[weakest] >= LEAST_SCORE * strictness:
            break
        splits = _relocate(x, splits[:weakest] + splits[weakest + 1 :])
    return splits


def _is_large(left: Vector, right: Vector, *, is_log: bool, minimum_effect: float) -> bool:
    old = float(np.median(left))
    return abs(float(np.median(right)) - old) >= minimum_effect * (1.0 if is_log else abs(old))


def _score(left: Vector, right: Vector) -> float:
    """Distance of two segments' clipped means in standard errors, with the long-run variance of what remains."""
    centres = float(np.median(left)), float(np.median(right))
    rest = np.concatenate((left - centres[0], right - centres[1]))
    scale = scores.MAD_TO_SD * float(np.median(np.abs(rest)))
    if scale == 0:
        scale = max(float(np.abs(rest).mean()), scores.RELATIVE_FLOOR * abs(centres[1] - centres[0]), 1e-300)
    psi = np.clip(rest / scale, -3.0, 3.0)
    r = scores.correlations(psi, float(psi.mean()), float(psi.var()))
    inflation = scores.variance_inflation(r, min(left.size, right.size))
    variance = max(float(psi.var()), scores.LEAST_VARIANCE) * inflation * (1 / left.size + 1 / right.size)
    return abs(centres[1] - centres[0]) / scale / math.sqrt(variance)


def _segment(kept: Vector, places: NDArray[np.intp], size: int, first: int, end: int, *, is_last: bool) -> Segment:
    inside = kept[first:end]
    level = float(np.median(inside))
    spread = scores.MAD_TO_SD * float(np.median(np.abs(inside - level)))
    return Segment(
        first=int(places[first]) if first else 0,
        end=size if is_last else int(places[end]),
        n=end - first,
        level=level,
        spread=spread / abs(level) if level else spread,
    )


def _change(x: Vector, kept: Vector, places: NDArray[np.intp], first: int, split: int, end: int) -> ChangePoint:
    costs = _costs(x[first:end], split - first)
    least = costs[split - first]
    per_value = max(least / (end - first), 1e-300)
    near = first + np.flatnonzero(costs - least <= PROFILE_DROP * per_value)
    near = near[(near > first) & (near < end)]
    old, new = float(np.median(kept[first:split])), float(np.median(kept[split:end]))
    return ChangePoint(
        change=int(places[split]),
        earliest=int(places[min(int(near.min()), split)]),
        latest=int(places[max(int(near.max()), split)]),
        direction=1 if new > old else -1,
        effect=(new - old) / abs(old) if old else math.copysign(math.inf, new - old),
        score=_score(x[first:split], x[split:end]),
    )
