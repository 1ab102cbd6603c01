"""Warm until the clock has settled: a device ramps its clock up under load, and down again as it warms."""

from __future__ import annotations

import time
from collections.abc import Callable

from collector.node.devices.base import Call, Clocked

WINDOW = 5
"""Readings that must agree."""
SPREAD = 0.03
"""How far apart they may be, as a share of the highest: one step of a GPU's clock is 15 MHz, or 1 %."""
BETWEEN_S = 0.02
"""Work between two readings."""
LIMIT_S = 3.0
"""A clock that has not settled by then is not waited for."""


def settle(
    device: Clocked,
    call: Call,
    sample: Callable[[Call, int], object],
    *,
    now: Callable[[], float] = time.monotonic,
    limit_s: float = LIMIT_S,
) -> str:
    """Make calls until WINDOW readings of the clock lie within SPREAD; empty then, else what they were in words.

    A device that does not tell its clock has nothing to wait for.
    """
    begun, seen = now(), list[float]()
    while True:
        until = now() + BETWEEN_S
        while now() < until:
            sample(call, 1)
        clock_hz = device.clock_hz()
        if clock_hz is None:
            return ""
        seen = [*seen[1 - WINDOW :], clock_hz]
        low, high = min(seen), max(seen)
        if len(seen) == WINDOW and high - low <= SPREAD * high:
            return ""
        if now() - begun > limit_s:
            return f"the clock was between {low / 1e6:.0f} and {high / 1e6:.0f} MHz after {limit_s:g} s of work"
