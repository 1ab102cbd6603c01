"""All series of a night at once: which levels have shifted over the last runs, at a stated false discovery rate.

For each series the mean of the last k clipped deviations is set against its history of h runs:

    z = (mean(psi_recent) - mean(psi_history)) / sqrt(v (L_k / k + L_h / h))

psi: deviations from the median in robust standard deviations, clipped at 3, so that no single run decides; v: their
variance in the history; L_k = 1 + 2 sum_(l<k) r_l: by how much neighbours in time being alike widens a mean of k
values. The usual weights 1 - l/k are left out: they are right on average over all places of a window, and too small
for one that holds whole blocks of like runs, as the runs since a change of host do. The correlation of one series is
poorly known, that of a night well: r_l is the larger of its own and the mean of its own and the night's median.
p-values come from Student's t with the degrees of freedom that the correlation leaves, and pass Benjamini and Hochberg
together.

A burst of some runs is no shift: without the most telling half of the recent runs, taken together in time, the rest
must still point the same way by 1.5 standard errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from detection.discovery import benjamini_hochberg, row_medians
from detection.stats import MAD_TO_SD

Floats = NDArray[np.float64]

CLIP: Final = 3.0
LEAST_HISTORY: Final = 20
"""Runs of history below which a series is not judged here."""
LEAST_REST: Final = 1.5
"""Standard errors that remain without the most telling half of the recent runs."""
RELATIVE_FLOOR: Final = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shifts:
    """Row i is series i; NaN where it could not be judged."""

    change: Floats
    """Difference of medians of the logarithms: recent less history."""
    p: Floats
    found: NDArray[np.bool_]


def discover_shifts(history: Floats, recent: Floats, *, rate: float = 0.1) -> Shifts:
    """Compare logarithms of the recent runs [S, k] with the history [S, h], oldest first; NaN is a missing run."""
    if history.ndim != 2 or recent.ndim != 2 or len(history) != len(recent):
        raise ValueError(f"shifts: history {history.shape} and recent {recent.shape} must be [series, runs] each")
    centre = row_medians(history)[:, None]
    scale = np.maximum(MAD_TO_SD * row_medians(np.abs(history - centre))[:, None], RELATIVE_FLOOR)
    old = np.clip((history - centre) / scale, -CLIP, CLIP)
    new = np.clip((recent - centre) / scale, -CLIP, CLIP)
    h, k = np.isfinite(old).sum(axis=1), np.isfinite(new).sum(axis=1)
    usable = (h >= LEAST_HISTORY) & (k > 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean_old = np.nansum(old, axis=1) / h
        rest = np.where(np.isfinite(old), old - mean_old[:, None], 0.0)
        variance = np.maximum((rest**2).sum(axis=1) / (h - 1), 0.5)
        r = correlations(rest, recent.shape[1])
        widened_h = _inflation(r, h)
        mean_new = np.nansum(new, axis=1) / k - mean_old
        z = mean_new / np.sqrt(variance * (_inflation(r, k) / k + widened_h / h))
        lasting = _without_best_half(new - mean_old[:, None], mean_new)
        kept = np.maximum(k - k // 2, 1)
        lasts = lasting / np.sqrt(variance * (_inflation(r, kept) / kept + widened_h / h)) > LEAST_REST
        p = np.where(lasts, 2 * stdtr(np.maximum(h / widened_h - 1, 3.0), -np.abs(z)), 1.0)
    p = np.where(usable, p, np.nan)
    change = row_medians(recent) - centre[:, 0]
    return Shifts(change=np.where(usable, change, np.nan), p=p, found=benjamini_hochberg(p, rate))


def _without_best_half(deviation: Floats, mean: Floats) -> Floats:
    """Mean in the direction of `mean` of what remains without the best half of consecutive runs.

    A missing run stands for the mean of the others.
    """
    x = np.where(np.isfinite(deviation), deviation, mean[:, None]) * np.sign(mean)[:, None]
    half = x.shape[1] // 2
    sums = np.concatenate([np.zeros((len(x), 1)), x.cumsum(axis=1)], axis=1)
    best = (sums[:, half:] - sums[:, : sums.shape[1] - half]).max(axis=1)
    return np.asarray((sums[:, -1] - best) / (x.shape[1] - half))


def correlations(rest: Floats, lags: int) -> Floats:
    """[S, lags] autocorrelations of rows of mean 0 to count with: own, or half-way to the night's median, never < 0."""
    power = (rest**2).sum(axis=1)
    r = np.zeros((len(rest), lags))
    for lag in range(1, min(lags + 1, rest.shape[1] // 3)):
        own = (rest[:, lag:] * rest[:, :-lag]).sum(axis=1) / np.where(power > 0, power, np.inf) + 1 / rest.shape[1]
        typical = float(np.median(own[power > 0])) if (power > 0).any() else 0.0
        r[:, lag - 1] = np.maximum(np.maximum(own, (own + typical) / 2), 0.0)
    return r


def _inflation(r: Floats, k: NDArray[np.int64]) -> Floats:
    within = np.arange(1, r.shape[1] + 1) < k[:, None]
    return np.asarray(1 + 2 * np.where(within, r, 0.0).sum(axis=1))
