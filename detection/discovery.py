"""Many tests at once, and neighbours in time that are not independent."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from detection.stats import MAD_TO_SD

Floats = NDArray[np.float64]


def benjamini_hochberg(p_values: Floats, rate: float) -> NDArray[np.bool_]:
    """Which of the p-values are discoveries at a false discovery rate; NaN never is one.

    The step-up rule of Benjamini and Hochberg (1995, doi 10.1111/j.2517-6161.1995.tb02031.x): with m p-values sorted,
    all up to the largest k with p_(k) <= k rate / m.
    """
    found = np.zeros(p_values.shape, dtype=bool)
    judged = np.flatnonzero(np.isfinite(p_values))
    if judged.size == 0:
        return found
    order = judged[np.argsort(p_values[judged], kind="stable")]
    allowed = rate * np.arange(1, judged.size + 1) / judged.size
    below = np.flatnonzero(p_values[order] <= allowed)
    if below.size:
        found[order[: below[-1] + 1]] = True
    return found


def row_medians(x: Floats) -> Floats:
    """Median of each row's known values; NaN where a row has none. Sorting beats numpy's nanmedian on short rows."""
    if x.shape[1] == 0:
        return np.full(x.shape[0], np.nan)
    ordered = np.sort(x, axis=1)  # NaN goes to the end
    n = np.isfinite(x).sum(axis=1)
    rows = np.arange(x.shape[0])
    low, high = np.maximum((n - 1) // 2, 0), np.minimum(n // 2, x.shape[1] - 1)
    middle = (ordered[rows, low] + ordered[rows, high]) / 2
    return np.where(n > 0, middle, np.nan)


def long_run_factor(history: Floats, minimum: int, lags: int = 5) -> Floats:
    """By how much the variance of a mean over the history exceeds that of independent values, per row; at least 1."""
    return 1 + 2 * np.asarray(long_run_profile(history, minimum, lags).sum(axis=1), dtype=float)


def long_run_profile(history: Floats, minimum: int, lags: int = 5) -> Floats:
    """Autocorrelations at lags 1 to `lags`, per row, never below 0.

    `history` is [series, runs], oldest first, NaN where there is none. They are those of the values clipped at two
    robust standard deviations (an outlier is not a correlation), plus 1/n for the bias that the estimated mean brings;
    from the first lag that is not above 0.75 / sqrt(n) on, the rest count as zero. Rows with fewer than `minimum`
    values get 0.
    """
    known = np.isfinite(history)
    n = known.sum(axis=1)
    profile = np.zeros((history.shape[0], lags))
    rows = np.flatnonzero(n >= minimum)
    if rows.size == 0:
        return profile
    order = np.argsort(known[rows], axis=1, kind="stable")  # known values to the right end, still oldest first
    x = np.take_along_axis(history[rows], order, axis=1)[:, -int(n[rows].max()) :]
    used, m = np.isfinite(x), n[rows]
    centre = row_medians(x)[:, None]
    scale = MAD_TO_SD * row_medians(np.abs(x - centre))[:, None]
    psi = np.where(used, np.clip((x - centre) / np.where(scale > 0, scale, 1.0), -2, 2), 0.0)
    psi = np.where(used, psi - psi.sum(axis=1, keepdims=True) / m[:, None], 0.0)
    variance = (psi * psi).sum(axis=1)
    going = (scale[:, 0] > 0) & (variance > 0)
    for lag in range(1, lags + 1):
        r = (psi[:, lag:] * psi[:, :-lag]).sum(axis=1) / np.where(variance > 0, variance, 1.0) + 1 / m
        going &= (r > 0.75 / np.sqrt(m)) & (lag <= m // 3)
        profile[rows, lag - 1] = np.where(going, r, 0.0)
    return profile
