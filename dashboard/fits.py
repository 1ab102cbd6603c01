"""The straight line under a collective's latencies: t(S) = alpha + S / beta (Hockney 1994). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class AlphaBeta:
    """Latency of an empty message and the bandwidth of a long one."""

    alpha_s: float
    beta_bytes_per_s: float
    worst_error: float
    """Largest relative distance of a measured time from the line."""
    n: int


def fit_alpha_beta(sizes_bytes: Sequence[float], times_s: Sequence[float]) -> AlphaBeta | None:
    """Least squares of relative errors, both parameters held at or above 0; None below 3 sizes.

    Relative, since the times of a sweep span decades: an absolute fit would see the longest message only.
    """
    sizes, times = np.asarray(sizes_bytes, dtype=float), np.asarray(times_s, dtype=float)
    usable = np.isfinite(sizes) & np.isfinite(times) & (times > 0) & (sizes >= 0)
    sizes, times = sizes[usable], times[usable]
    if len(np.unique(sizes)) < 3:
        return None
    design = np.column_stack([1 / times, sizes / times])
    ones = np.ones_like(times)
    scale = np.linalg.norm(design, axis=0)  # the columns are seconds and bytes: unscaled, one of them drops out
    alpha, slope = np.linalg.lstsq(design / scale, ones, rcond=None)[0] / scale
    if alpha < 0:
        alpha, slope = 0.0, float(np.dot(design[:, 1], ones) / np.dot(design[:, 1], design[:, 1]))
    if slope <= 0:
        return None
    worst = float(np.max(np.abs(design @ np.array([alpha, slope]) - 1)))
    return AlphaBeta(alpha_s=float(alpha), beta_bytes_per_s=float(1 / slope), worst_error=worst, n=len(times))
