"""Before and after a known place: a driver that changed, a compiler, a harness; or a shift that was located.

Two samples of each series, the runs before and the runs after, compared on logarithms held to 3 robust sd:

    d = mean(after) - mean(before)

Neighbouring nights are alike (one host, one week), so that m of them say less than m independent ones: with blocks of
five alike, a t-test calls dozens of changes in a thousand series of which none changed. Where the older runs are long
enough, they say themselves how far means of m neighbours lie from the rest, when nothing happened:

    P_w = mean(window w of m older runs) - mean(the other older runs)          the same statistic, of no change
    t   = d / rms_w(P_w)

and the t of all windows of all series are the null distribution that tonight's are compared with (an empirical null,
Efron 2004, doi 10.1198/016214504000000089): no shape of noise is assumed. A shorter history falls back on Student's t
with the long-run factor of `detection.discovery`. All series of a change are one family for the false discovery rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from detection.discovery import benjamini_hochberg, long_run_profile, row_medians
from detection.policy import Policy
from detection.stats import MAD_TO_SD

Floats = NDArray[np.float64]

HELD_TO = 3.0
"""Robust standard deviations around its own median beyond which a value counts no more than one at that distance."""


MINIMUM_WINDOWS = 6
"""Windows of no change that a history must hold before it speaks for itself."""
EMPIRICAL_FROM = 2000
"""Windows over all series from which on they are the null distribution: p-values down to 1 in 2000 are needed."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Comparison:
    """One row a series; changes are relative, NaN where a side has no value."""

    change: Floats
    low: Floats
    high: Floats
    p: Floats
    discovered: NDArray[np.bool_]
    """Interval wholly beyond the floor, and significant among all series compared."""
    n_before: NDArray[np.int64]
    n_after: NDArray[np.int64]


def compare_at(before: Floats, after: Floats, *, floor: float, policy: Policy) -> Comparison:
    """Compares [S, B] values before with [S, A] values after (natural units, oldest first, NaN for none).

    `floor` is relative. A side with a single value borrows the scale of the other.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        x, y = (np.where(v > 0, np.log(v), np.nan) for v in (before, after))
    n, m = np.isfinite(x).sum(axis=1), np.isfinite(y).sum(axis=1)
    usable = (n >= 1) & (m >= 1) & (n + m >= 4)
    mean_x, square_x = _held(x)
    mean_y, square_y = _held(y)
    df = np.maximum(n + m - 2, 1).astype(float)
    variance = (square_x + square_y) / df
    profile = long_run_profile(x, policy.night.autocorrelation_from)
    error = np.sqrt(variance * (_inflation(profile, n) / np.maximum(n, 1) + _inflation(profile, m) / np.maximum(m, 1)))
    quiet, quiet_rows = _windows_of_no_change(x, y.shape[1])
    windows = quiet.shape[1]
    if quiet_rows.size:
        error[quiet_rows] = np.maximum(np.sqrt((quiet**2).mean(axis=1)), 1e-12)
        df[quiet_rows] = windows - 1
    d = np.where(usable, mean_y - mean_x, np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(error > 0, d / error, np.where(d == 0, 0.0, np.inf * np.sign(d)))
    p = np.where(usable, 2 * stdtr(df, -np.abs(t)), np.nan)
    if quiet.size >= EMPIRICAL_FROM:
        p[quiet_rows] = np.where(usable[quiet_rows], _empirical_p(np.abs(t[quiet_rows]), quiet), np.nan)
    half = np.asarray(stdtrit(df, 0.975), dtype=float) * error
    found = benjamini_hochberg(p, policy.night.false_discovery_rate)
    beyond = np.abs(d) - half > math.log1p(floor)
    return Comparison(
        change=np.expm1(d),
        low=np.expm1(d - half),
        high=np.expm1(d + half),
        p=p,
        discovered=found & usable & beyond,
        n_before=n,
        n_after=m,
    )


def _held(x: Floats) -> tuple[Floats, Floats]:
    """Mean and sum of squares of each row's values, held to their own robust range (from five values on)."""
    known = np.isfinite(x)
    n = known.sum(axis=1)
    filled = np.where(known, x, 0.0)
    safe = np.where(n[:, None] > 0, np.where(known, x, np.nan), 0.0) if x.shape[1] else x
    if x.shape[1] == 0:
        return np.full(n.shape, np.nan), np.zeros(n.shape)
    centre = row_medians(safe)[:, None]
    scale = MAD_TO_SD * row_medians(np.abs(safe - centre))[:, None]
    reach = np.where((n[:, None] >= 5) & (scale > 0), HELD_TO * scale, np.inf)
    held = np.where(known, np.clip(filled, centre - reach, centre + reach), 0.0)
    mean = held.sum(axis=1) / np.maximum(n, 1)
    squares = np.where(known, (held - mean[:, None]) ** 2, 0.0).sum(axis=1)
    return mean, squares


def _windows_of_no_change(x: Floats, size: int) -> tuple[Floats, NDArray[np.int64]]:
    """[rows, windows]: means of `size` older neighbours less the mean of the others, and the rows that have enough.

    Only rows without gaps are asked, so that a window is `size` runs for all of them.
    """
    windows = x.shape[1] // size if size else 0
    rows = np.flatnonzero(np.isfinite(x).all(axis=1)) if windows >= MINIMUM_WINDOWS else np.array([], dtype=np.int64)
    if rows.size == 0:
        return np.empty((0, 0)), rows
    used = x[rows][:, -windows * size :]
    parts = used.reshape(rows.size * windows, size)
    means = _held(parts)[0].reshape(rows.size, windows)
    rest = (means.sum(axis=1, keepdims=True) - means) / (windows - 1)
    return means - rest, rows


def _empirical_p(t: Floats, quiet: Floats) -> Floats:
    """Share of windows of no change whose statistic is as large, each scaled by the other windows of its series."""
    windows = quiet.shape[1]
    others = (np.square(quiet).sum(axis=1, keepdims=True) - np.square(quiet)) / (windows - 1)
    null = np.sort((np.abs(quiet) / np.sqrt(np.maximum(others, 1e-24))).ravel())
    return (1 + null.size - np.searchsorted(null, t)) / (null.size + 1)


def _inflation(profile: Floats, n: NDArray[np.int64]) -> Floats:
    """1 + 2 sum over lags l < n of (1 - l / n) r_l: variance of a mean of n neighbours over that of independent
    ones."""
    lags = np.arange(1, profile.shape[1] + 1)[None, :]
    size = np.maximum(n, 1)[:, None]
    weight = np.where(lags < size, 1 - lags / size, 0.0)
    return 1 + 2 * np.asarray((weight * profile).sum(axis=1), dtype=float)
