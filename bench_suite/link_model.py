"""The latency-bandwidth model of a link: a message of s bytes takes alpha + s / beta (Hockney 1994,
doi:10.1016/S0167-8191(06)80021-9). Pure: times in, two numbers and the quality of the fit out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


class LinkFitError(ValueError):
    """Times that no line can be drawn through; the message is one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFit:
    """What a link costs: a start, and each byte."""

    alpha_s: float
    """Time of an empty message."""
    bytes_per_s: float
    """beta; infinite where no size dependence shows."""
    worst_relative_error: float
    """Largest |fitted / measured - 1| over the points."""

    @property
    def half_size_bytes(self) -> float:
        """The message that reaches half of beta: alpha beta. Shorter ones are latency, longer ones bandwidth."""
        return self.alpha_s * self.bytes_per_s

    def time_s(self, size_bytes: float) -> float:
        return self.alpha_s + (0.0 if math.isinf(self.bytes_per_s) else size_bytes / self.bytes_per_s)


def fit_link(points: Sequence[tuple[float, float]]) -> LinkFit:
    """From (bytes on the bus, seconds) of two sizes or more.

    Least squares of the *relative* residuals: absolute ones would be decided by the largest message, whose time is a
    thousand times that of the smallest. Neither alpha nor the time of a byte is let below zero. Raises LinkFitError.
    """
    for size, seconds in points:
        if not (size >= 0 and seconds > 0 and math.isfinite(size + seconds)):
            raise LinkFitError(f"point {size:g} bytes in {seconds:g} s: sizes must be >= 0 and times > 0, both finite")
    if len({size for size, _ in points}) < 2:
        raise LinkFitError(f"{len(points)} points of {len({s for s, _ in points})} size: two sizes are needed")
    # Minimise sum (a u + b v - 1)^2 with u = 1 / t, v = s / t.
    rows = [(1 / seconds, size / seconds) for size, seconds in points]
    uu, uv, vv = (sum(r[i] * r[j] for r in rows) for i, j in ((0, 0), (0, 1), (1, 1)))
    u, v = sum(r[0] for r in rows), sum(r[1] for r in rows)
    determinant = uu * vv - uv * uv
    alpha, per_byte = (u * vv - v * uv) / determinant, (v * uu - u * uv) / determinant
    if alpha < 0:
        alpha, per_byte = 0.0, v / vv
    elif per_byte < 0:
        alpha, per_byte = u / uu, 0.0
    worst = max(abs(alpha * r[0] + per_byte * r[1] - 1) for r in rows)
    return LinkFit(alpha_s=alpha, bytes_per_s=1 / per_byte if per_byte > 0 else math.inf, worst_relative_error=worst)
