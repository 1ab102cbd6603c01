"""Two looks that no comparison with the newest runs can replace: against the oldest ones, and at the first ones.

*Drift.* Who compares each run with its neighbours never sees a drift: 0.4 % a night is less than any night's noise, and
27 % after sixty. Held against each other are the oldest runs of the present baseline and the newest, by their medians:

    d  = median(last RECENT values) - median(first ANCHOR values)          on logarithms
    s  = 1.4826 MAD(x[i+1] - x[i]) / sqrt(2)                               the noise of one run: a drift is not in it
    se = s sqrt(1.57 L (1 / ANCHOR + 1 / RECENT))                          1.57: variance of a median over a mean's

L is the long-run factor of what is left of the series around the line through its two ends. A drift is called where d
is beyond the floor and |d| / se beyond `DRIFT_T`.

*Early step.* A run with too little history is not judged that night, nor the step that came with it. Once there are
`EARLY_FROM` runs the first ones are looked at again, from both sides: the split with the least absolute deviation from
the two medians, called where their difference is beyond `EARLY_T` errors (the same s), which allows for the choice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from detection.discovery import long_run_factor, row_medians
from detection.stats import MAD_TO_SD

Floats = NDArray[np.float64]

ANCHOR, RECENT = 10, 5
LEAST_RUNS = 25
"""Runs from which on a drift is looked for: below that the newest are too near to the oldest."""
EARLY_FROM = 12
EARLY_SPLITS = range(2, 9)
"""First runs of the series on the one side."""
DRIFT_T = 6.0
EARLY_T = 7.0
MEDIAN_VARIANCE = 1.57
"""pi / 2: of a median of normal values over that of their mean."""
LEAST_NOISE = 1e-3
"""Of logarithms: no series is believed to be quieter, so that the last digit of a table is no drift."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OldReference:
    """One row a series. NaN and -1 where nothing is called."""

    change: Floats
    """Log-change of the newest runs against the oldest ones, or of the runs after an early step."""
    error: Floats
    since: NDArray[np.int64]
    """Place of the first run of the change, among the row's known values."""


def drift(log_values: Floats, *, floor: float) -> OldReference:
    """Series whose newest runs have drifted from their oldest.

    `log_values` is [series, runs] of one baseline, oldest first, tonight the last, NaN where there is none. `floor` is
    of logarithms. Called are rows whose last value is known.
    """
    called = _none(log_values.shape[0])
    rows, packed, n = _known_rows(log_values, LEAST_RUNS)
    for size in np.unique(n):
        part = rows[n == size]
        x = packed[n == size][:, -int(size) :]
        change = np.median(x[:, -RECENT:], axis=1) - np.median(x[:, :ANCHOR], axis=1)
        plain = _noise(x) * math.sqrt(MEDIAN_VARIANCE * (1 / ANCHOR + 1 / RECENT))
        may = np.flatnonzero((np.abs(change) > floor) & (np.abs(change) > DRIFT_T * plain))  # L is never below 1
        part, x, change = part[may], x[may], change[may]
        line = np.linspace(0.0, 1.0, int(size))[None, :] * change[:, None]
        error = plain[may] * np.sqrt(long_run_factor(x - line, minimum=LEAST_RUNS - 1))
        found = np.abs(change) > DRIFT_T * error
        called.change[part[found]], called.error[part[found]] = change[found], error[found]
        called.since[part[found]] = _left_the_anchor(x[found], change[found])
    return called


def early_step(log_values: Floats, *, floor: float) -> OldReference:
    """Series that stepped in their first runs, seen once there are EARLY_FROM of them; later it says nothing."""
    called = _none(log_values.shape[0])
    rows, packed, n = _known_rows(log_values, EARLY_FROM)
    rows, packed = rows[n == EARLY_FROM], packed[n == EARLY_FROM][:, -EARLY_FROM:]
    if rows.size == 0:
        return called
    halves = [(np.median(packed[:, :k], axis=1), np.median(packed[:, k:], axis=1), k) for k in EARLY_SPLITS]
    left = [
        np.abs(packed[:, :k] - before[:, None]).sum(axis=1) + np.abs(packed[:, k:] - after[:, None]).sum(axis=1)
        for before, after, k in halves
    ]
    best, place = np.argmin(np.stack(left), axis=0), np.arange(rows.size)
    change = np.stack([after - before for before, after, _ in halves])[best, place]
    split = np.array(EARLY_SPLITS)[best]
    error = _noise(packed) * np.sqrt(MEDIAN_VARIANCE * (1 / split + 1 / (EARLY_FROM - split)))
    found = (np.abs(change) > floor) & (np.abs(change) > EARLY_T * error)
    called.change[rows[found]], called.error[rows[found]] = change[found], error[found]
    called.since[rows[found]] = split[found]
    return called


def _none(rows: int) -> OldReference:
    return OldReference(
        change=np.full(rows, np.nan), error=np.full(rows, np.nan), since=np.full(rows, -1, dtype=np.int64)
    )


def _known_rows(log_values: Floats, least: int) -> tuple[NDArray[np.int64], Floats, NDArray[np.int64]]:
    """The rows with a value tonight and enough before, their known values at the right end, and how many."""
    if log_values.shape[1] == 0:
        return np.array([], dtype=np.int64), log_values, np.array([], dtype=np.int64)
    known = np.isfinite(log_values)
    n = known.sum(axis=1)
    rows = np.flatnonzero((n >= least) & known[:, -1])
    order = np.argsort(known[rows], axis=1, kind="stable")
    return rows, np.take_along_axis(log_values[rows], order, axis=1), n[rows]


def _noise(x: Floats) -> Floats:
    """Noise of one run from neighbours' differences, in which neither a drift nor a single step weighs."""
    steps = np.diff(x, axis=1)
    centred = np.abs(steps - row_medians(steps)[:, None])
    return np.maximum(MAD_TO_SD * row_medians(centred) / math.sqrt(2), LEAST_NOISE)


def _left_the_anchor(x: Floats, change: Floats) -> NDArray[np.int64]:
    """The first run from which on every value is nearer to where the series is now than to where it was."""
    middle = np.median(x[:, :ANCHOR], axis=1) + change / 2
    beyond = (x - middle[:, None]) * np.sign(change)[:, None] > 0
    inside = np.where(beyond, -1, np.arange(x.shape[1])[None, :]).max(axis=1)
    return np.asarray(np.minimum(inside + 1, x.shape[1] - 1), dtype=np.int64)
