"""Which values of an imported case are no evidence: read while the clock was held back, or of a first call.

A file says nothing of how it was measured, so both rules are wide ones, and what they set aside is kept with its mark.

*Held back*: a sample whose SM clock lies below `CLOCK_SHARE` of the run's upper clocks (their 95th percentile), or at
which a throttle reason was set. Before the clock first got there it had not settled; after that it was throttled. A run
with `HELD_BACK_SHARE` of its samples held back is not evidence as a whole: the others were taken on the way down.

*First call*: a first value that is `FIRST_CALL_FACTOR` times all others of the run, three of them at least: it holds
compilation, or the set-up of a connection, and is a time of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from store.bundle.schemas import InvalidReason
from store.exchange.units import Dimension

CLOCK_METRICS = ("sm_clock", "clock_sm", "gpu_clock", "sm_clock_hz", "clock")
REASON_METRICS = ("clocks_event_reasons", "clocks_throttle_reasons", "throttle_reasons", "throttle_reason")
THROTTLE_MASK = 0xE8
"""NVML's bits: hardware slowdown, software and hardware thermal slowdown, power brake."""
CLOCK_SHARE = 0.9
HELD_BACK_SHARE = 0.2
LEAST_CLOCKS = 5
FIRST_CALL = "first_call"
FIRST_CALL_FACTOR, LEAST_OTHERS = 5.0, 3


def is_clock(metric: str, dimension: Dimension) -> bool:
    """Whether a reading is the clock of the cores."""
    return dimension is Dimension.FREQUENCY and metric.lower() in CLOCK_METRICS


def is_reason(metric: str, dimension: Dimension) -> bool:
    """Whether a reading is NVML's mask of what holds the clock back."""
    return dimension is Dimension.RATIO and metric.lower() in REASON_METRICS


def held_back(clocks_hz: Mapping[str, float], reasons: Mapping[str, float]) -> dict[str, str]:
    """Sample -> why it is no evidence. Both by sample, in the order of the file; where nothing is known, nothing is
    held back."""
    marks = {sample: InvalidReason.THROTTLED.value for sample, mask in reasons.items() if int(mask) & THROTTLE_MASK}
    if len(clocks_hz) < LEAST_CLOCKS:
        return marks
    reference_hz = CLOCK_SHARE * float(np.quantile(list(clocks_hz.values()), 0.95))
    settled = False
    for sample, clock_hz in clocks_hz.items():
        if clock_hz >= reference_hz:
            settled = True
        else:
            reason = InvalidReason.THROTTLED if settled else InvalidReason.CLOCK_UNSETTLED
            marks.setdefault(sample, reason.value)
    return marks


def held_back_whole(marks: Mapping[str, str], samples: int) -> bool:
    """Whether so many samples were throttled that the run is no evidence."""
    throttled = sum(mark == InvalidReason.THROTTLED for mark in marks.values())
    return samples > 0 and throttled >= HELD_BACK_SHARE * samples


def has_first_call(times_s: Sequence[float]) -> bool:
    """Whether the first of the times holds more than a call."""
    others = times_s[1:]
    return len(others) >= LEAST_OTHERS and times_s[0] > FIRST_CALL_FACTOR * max(others)
