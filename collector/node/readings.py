"""What a telemetry probe gives: one reading a metric, and a reason where there is no value.

A probe of a device that another package adds stands behind an entry point in the group `kernel_observatory.probes`: its
name is the device's kind, its value a callable `(unit: str) -> Probe`. It runs in the telemetry process, so it should
import no torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

PROBE_ENTRY_POINT_GROUP = "kernel_observatory.probes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One metric at one moment; `reason` says why `value` is None."""

    metric: str
    unit: str
    value: float | None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedReading:
    """A reading and when it was made."""

    monotonic_s: float
    unix_s: float
    reading: Reading


class Probe(Protocol):
    """Something that can be read again and again; it never raises."""

    def read(self) -> list[Reading]: ...


def one(metric: str, unit: str, read: Callable[[], float], source: str = "") -> Reading:
    """The value that `read` gives, or why it gives none: each metric fails on its own."""
    try:
        return Reading(metric=metric, unit=unit, value=float(read()))
    except Exception as error:  # vendor libraries raise a class of their own for every code; none may end a run
        words = str(error) or type(error).__name__
        return Reading(metric=metric, unit=unit, value=None, reason=f"{source}: {words}" if source else words)
