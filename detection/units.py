"""Devices of one model side by side: the same cases on each, so a slow one of many can be named."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from detection.discovery import row_medians
from detection.stats import MAD_TO_SD

MINIMUM_UNITS = 3
"""Of two that differ nobody knows which one is wrong."""
MINIMUM_CASES = 5
SPREADS = 4.0
"""Robust standard deviations between units beyond which one of them is odd."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitEffect:
    """How far one unit lies from its fellows, over all cases that they share; relative, +0.1 is 10 % slower."""

    unit: str
    effect: float
    low: float
    high: float
    """Ends of a 95 % interval of the median over cases."""
    cases: int
    slow: bool
    fast: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class VarianceShares:
    """Where the scatter of a model's latencies comes from: standard deviations of logarithms."""

    between_units: float
    between_runs: float
    between_processes: float


def compare_units(units: Sequence[str], latency_s: NDArray[np.float64], *, floor: float) -> tuple[UnitEffect, ...]:
    """The units of one model against each other in one night; `latency_s` is [units, cases], NaN where not measured.

    A case counts where at least three units have it; each unit's deviation there is from the median of the units. A
    unit is slow where its median deviation is beyond the floor, with its interval, and beyond four robust spreads of
    the other units' deviations.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(latency_s > 0, np.log(latency_s), np.nan)
    shared = np.isfinite(logs).sum(axis=0) >= MINIMUM_UNITS
    if int(shared.sum()) < MINIMUM_CASES or len(units) < MINIMUM_UNITS:
        return ()
    logs = logs[:, shared]
    deviation = logs - row_medians(logs.T)[None, :]
    effects = row_medians(deviation)
    least = math.log1p(floor)
    found = []
    for i, unit in enumerate(units):
        known = deviation[i][np.isfinite(deviation[i])]
        if known.size < MINIMUM_CASES:
            continue
        others = np.delete(effects, i)
        others = others[np.isfinite(others)]
        spread = MAD_TO_SD * float(np.median(np.abs(others - np.median(others)))) if others.size else 0.0
        scale = MAD_TO_SD * float(np.median(np.abs(known - effects[i])))
        half = 1.96 * 1.2533 * scale / math.sqrt(known.size)  # 1.2533: the median's standard error over the mean's
        odd = abs(effects[i]) > max(least, SPREADS * spread) and abs(effects[i]) - half > least
        found.append(
            UnitEffect(
                unit=unit,
                effect=math.expm1(float(effects[i])),
                low=math.expm1(float(effects[i]) - half),
                high=math.expm1(float(effects[i]) + half),
                cases=int(known.size),
                slow=bool(odd and effects[i] > 0),
                fast=bool(odd and effects[i] < 0),
            )
        )
    return tuple(found)


def variance_shares(log_values: NDArray[np.float64], process_variance: NDArray[np.float64]) -> VarianceShares:
    """Splits the scatter of one case by unit, run and process, by the moments of a nested design (Searle 1992, ch. 3).

    `log_values` is [units, runs], means over the processes of a run; `process_variance` [units, runs] the variance of
    such a mean by its processes. Negative estimates are zero.
    """
    known = np.isfinite(log_values)
    n = known.sum(axis=1)
    usable = n >= 2
    if int(usable.sum()) < 2:
        raise ValueError("a split of variance needs two units with two runs each")
    x, n = log_values[usable], n[usable]
    means = np.nanmean(x, axis=1)
    within = float(np.nansum((x - means[:, None]) ** 2) / (n - 1).sum())
    process = float(np.nanmean(process_variance[usable]))
    between = float(means.var(ddof=1)) - within * float((1 / n).mean())
    return VarianceShares(
        between_units=math.sqrt(max(between, 0.0)),
        between_runs=math.sqrt(max(within - process, 0.0)),
        between_processes=math.sqrt(max(process, 0.0)),
    )
