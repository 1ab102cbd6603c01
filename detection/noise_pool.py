"""What all series of a device say together of the noise that was believed of each.

A belief from a policy is a guess; a device where every series is twice as noisy as believed shows it within a few
nights, long before any single series can. With s_i^2 the variance that series i showed, worth f_i degrees of freedom,
and v_i the believed one:

    e_i = ln(s_i^2 / v_i) - 3 ln(1 - 2 / (9 f_i))     around ln c where the belief is off by the factor c in all of them
    c   = exp(median e_i)
    a   : trigamma(a / 2) = var(e_i) - mean trigamma(f_i / 2)

The second term of e_i is the logarithm of the median of chi^2_f / f (Wilson and Hilferty 1931). `a` is what the pooled
value is worth for one series: much where all are alike, little where each has its own noise. It is the moderated t of
Smyth (2004, doi 10.2202/1544-6115.1027), with medians, so that a few odd series decide nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import polygamma

from detection.policy import Noise
from detection.stats import MAD_TO_SD

Floats = NDArray[np.float64]

LEAST_SERIES: Final = 12
"""Fewer series say nothing of the belief."""
LEAST_WEIGHT: Final = 4.0
MOST_FACTOR: Final = 25.0
"""A belief is off by five in standard deviations at most: beyond that something else is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisePool:
    """The believed variances times `factor` are worth `weight` runs of a series' own."""

    factor: float
    weight: float
    series: int
    """How many series said so; 0 where the belief stands alone."""


NOTHING_LEARNT: Final = NoisePool(factor=1.0, weight=Noise().prior_runs, series=0)


def learnt_noise(ratio: Floats, df: Floats, noise: Noise) -> NoisePool:
    """Pool own over believed variances, [S] each with its degrees of freedom; rows that know nothing have df 0.

    The factor is never below 1: a few quiet nights do not prove a quiet device. A series without any scatter, such as
    an exact byte count, counts as quieter than every other.
    """
    alone = NoisePool(factor=1.0, weight=noise.prior_runs, series=0)
    usable = np.isfinite(ratio) & (df >= 1)
    n = int(usable.sum())
    if n < LEAST_SERIES:
        return alone
    worth = df[usable]
    with np.errstate(divide="ignore"):
        e = np.log(ratio[usable]) - 3 * np.log(1 - 2 / (9 * worth))
    middle = float(np.median(e))
    if middle <= 0:
        return alone
    excess = (MAD_TO_SD * float(np.median(np.abs(e - middle)))) ** 2 - float(np.mean(polygamma(1, worth / 2)))
    weight = noise.prior_runs if excess <= 0 else min(noise.prior_runs, max(LEAST_WEIGHT, 2 * _inverse(excess)))
    return NoisePool(factor=min(float(np.exp(middle)), MOST_FACTOR), weight=weight, series=n)


def _inverse(value: float) -> float:
    """x with trigamma(x) = value > 0, by Newton's method on 1 / trigamma (Smyth 2004, appendix)."""
    x = 0.5 + 1 / value
    for _ in range(20):
        now = float(polygamma(1, x))
        change = now * (1 - now / value) / float(polygamma(2, x))
        x += change
        if abs(change) < 1e-9 * x:
            break
    return x
