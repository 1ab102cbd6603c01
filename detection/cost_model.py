"""What a shape that was never measured should cost: roofline times a smooth correction learnt from measured shapes.

For the cases of one operator, arm and dtype on one device, with logarithms throughout:

    log t = log roofline + a + b . trend(shape) + g(shape) + noise

`trend` is the size of the work, its arithmetic intensity and the waste of the last tile of each axis; `g` is a Gaussian
process over the sizes in octaves (Rasmussen and Williams 2006, chapter 2). Its length and the share of noise are the
ones, of a small grid, under which the measured cases predict each other best (leave one out, section 5.4.2 there). The
interval comes from the errors that models of four fifths of the cases make on the last fifth, in units of what the
process says of each place (cross-conformal prediction, Vovk 2015; difficulty estimate, Lei et al. 2018). So it holds
however wrong the smooth part is, as long as the new shape is like the measured ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from detection.shape_features import Shape, sizes_of
from detection.stats import student_t_quantile
from detection.verdict import percent

Floats = NDArray[np.float64]

LEAST_CASES = 8
"""Measured cases below which nothing is predicted."""
MOST_CASES = 80
"""More are thinned out evenly: a smooth function needs no more, and the algebra grows with their cube."""
COVERAGE = 0.95
FAR = 0.25
"""A measured time outside the interval, and by more than this from the expected one, is far from the model."""
TILE = 128.0
FOLDS = 5
_LENGTHS = (1.5, 3.0, 6.0)
_NOISES = (0.02, 0.1, 0.5)
_TREND_VARIANCE = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Costed:
    """A shape with its roofline time, and its measured time where it has one."""

    shape: Shape
    roofline_s: float
    seconds: float = math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a shape should cost, with its interval."""

    seconds: float
    low_s: float
    high_s: float
    cases: int
    """Measured cases behind it."""

    def is_far(self, seconds: float) -> bool:
        """Whether a measured time does not fit: outside the interval, and not by a trifle."""
        outside = not self.low_s <= seconds <= self.high_s
        return outside and abs(math.log(seconds / self.seconds)) > math.log1p(FAR)

    def sentence(self, seconds: float) -> str:
        """In words, beside what was measured."""
        change = percent(seconds / self.seconds - 1, signed=True)
        verdict = "far from the model" if self.is_far(seconds) else "as the model expects"
        return (
            f"Expected {_range(self.low_s, self.high_s)} from {self.cases} measured shapes and the roofline, "
            f"measured {_time(seconds)} ({change}): {verdict}."
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CostModel:
    """A fitted model of one operator, arm and dtype on one device."""

    axes: tuple[str, ...]
    sizes: Floats
    """[n, axes] in octaves."""
    trend: Floats
    centre: Floats
    length: float
    noise: float
    inverse: Floats
    weights: Floats
    mean: float
    scale: float
    """Standard deviation of the smooth part."""
    factor: float
    """How many of its own standard deviations the interval reaches: from errors on cases that were held out."""

    def expect(self, costed: Costed) -> Expected | None:
        """The time of a shape; None where it lacks an axis or a roofline."""
        found = _sizes([costed], self.axes)
        if found is None or not costed.roofline_s > 0:
            return None
        trend = _trend([costed], found) - self.centre
        cross = _kernel(found, self.sizes, self.length) + _TREND_VARIANCE * trend @ self.trend.T
        own = 1.0 + _TREND_VARIANCE * float((trend**2).sum()) + self.noise
        mean = self.mean + float((cross @ self.weights)[0])
        variance = max(own - float((cross @ self.inverse @ cross.T)[0, 0]), self.noise)
        half = self.factor * self.scale * math.sqrt(variance)
        centre = math.log(costed.roofline_s) + mean
        return Expected(
            seconds=math.exp(centre),
            low_s=math.exp(centre - half),
            high_s=math.exp(centre + half),
            cases=len(self.sizes),
        )


def fit_cost_model(measured: Sequence[Costed]) -> CostModel | None:
    """The model of these cases; None where there are too few with a time and a roofline."""
    usable = [c for c in measured if c.roofline_s > 0 and math.isfinite(c.seconds) and c.seconds > 0 and _has_size(c)]
    usable.sort(key=lambda c: (c.roofline_s, c.shape.case_id))
    if len(usable) > MOST_CASES:
        usable = [usable[i] for i in np.linspace(0, len(usable) - 1, MOST_CASES).astype(int).tolist()]
    axes = _shared_axes(usable)
    if len(usable) < LEAST_CASES or not axes:
        return None
    model = _fitted(usable, axes)
    return replace(model, factor=_factor(_held_out_errors(usable, axes)))


def _has_size(costed: Costed) -> bool:
    """Whether no size is zero: an empty case may be measured, and says nothing of others."""
    return all(size > 0 for size in sizes_of(costed.shape).values())


def _fitted(cases: Sequence[Costed], axes: tuple[str, ...]) -> CostModel:
    """The process under which the cases predict each other best; its interval is one standard deviation."""
    sizes = _sizes(cases, axes)
    assert sizes is not None, "the axes are those that every case has"
    trend = _trend(cases, sizes)
    centre = trend.mean(axis=0)
    trend = trend - centre
    y = np.array([math.log(c.seconds / c.roofline_s) for c in cases])
    mean = float(y.mean())
    best: CostModel | None = None
    least = math.inf
    for length, noise in product(_LENGTHS, _NOISES):
        cover = _kernel(sizes, sizes, length) + _TREND_VARIANCE * trend @ trend.T + noise * np.eye(len(y))
        inverse = np.linalg.inv(cover)
        weights = inverse @ (y - mean)
        spread = 1.0 / np.diag(inverse)
        scale = max(float(np.sqrt(np.mean(weights**2 * spread))), 1e-6)
        loss = float(np.log(spread).sum() / 2) + len(y) * math.log(scale)
        if loss < least:
            least = loss
            best = CostModel(
                axes=axes,
                sizes=sizes,
                trend=trend,
                centre=centre,
                length=length,
                noise=noise,
                inverse=inverse,
                weights=weights,
                mean=mean,
                scale=scale,
                factor=1.0,
            )
    assert best is not None
    return best


def _held_out_errors(cases: Sequence[Costed], axes: tuple[str, ...]) -> Floats:
    """By how many of the model's own standard deviations a model of the other parts misses each case."""
    errors = []
    for part in range(FOLDS):
        model = _fitted([c for i, c in enumerate(cases) if i % FOLDS != part], axes)
        for case in cases[part::FOLDS]:
            expected = model.expect(case)
            assert expected is not None
            unit = math.log(expected.high_s / expected.seconds)
            errors.append(abs(math.log(case.seconds / expected.seconds)) / unit)
    return np.array(errors)


def _factor(errors: Floats) -> float:
    """The quantile of the held-out errors that covers one more case; of few cases no less than Student's t."""
    n = errors.size
    rank = math.ceil((n + 1) * COVERAGE)
    largest = float(np.sort(errors)[min(rank, n) - 1])
    return largest if rank <= n else max(largest, student_t_quantile((1 + COVERAGE) / 2, n - 1))


def _shared_axes(cases: Sequence[Costed]) -> tuple[str, ...]:
    """The sizes that every case has."""
    if not cases:
        return ()
    known = [set(sizes_of(case.shape)) for case in cases]
    return tuple(name for name in sizes_of(cases[0].shape) if all(name in names for names in known))


def _sizes(cases: Sequence[Costed], axes: Sequence[str]) -> Floats | None:
    found = []
    for case in cases:
        sizes = sizes_of(case.shape)
        if any(sizes.get(name, 0.0) <= 0 for name in axes):
            return None
        found.append([math.log2(sizes[name]) for name in axes])
    return np.array(found, dtype=float)


def _trend(cases: Sequence[Costed], sizes: Floats) -> Floats:
    """[n, 2 + axes]: octaves of roofline time and of intensity, scaled to a few units; waste of the last tile."""
    work = np.array([[math.log2(c.roofline_s), math.log2(c.shape.intensity or 1.0)] for c in cases]) / 4
    whole = 2.0**sizes
    waste = np.where(whole > TILE / 2, np.log(np.ceil(whole / TILE - 1e-9) * TILE / whole), 0.0)
    return np.hstack([work, waste])


def _kernel(a: Floats, b: Floats, length: float) -> Floats:
    apart: Floats = ((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2)
    return np.exp(-apart / (2 * length**2))


def _range(low: float, high: float) -> str:
    scale, unit = _unit(high)
    return f"{low / scale:,.3g} to {high / scale:,.3g} {unit}"


def _time(seconds: float) -> str:
    scale, unit = _unit(seconds)
    return f"{seconds / scale:,.3g} {unit}"


def _unit(seconds: float) -> tuple[float, str]:
    return next(((s, u) for s, u in ((1.0, "s"), (1e-3, "ms")) if seconds >= s), (1e-6, "µs"))
