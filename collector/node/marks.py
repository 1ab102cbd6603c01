"""Which samples are no evidence: the device was held back, or others used it, while they were taken. Pure.

The state of the clocks is known at readings only. What lies between a good reading and a bad one is unknown, so a bad
reading speaks for the time from the reading before it to the reading after it. A reading of a share is about the time
since the reading before it, and speaks for no more.

A machine that is equally busy all the time marks nothing: paired arms meet it alike, and a night without evidence helps
nobody. What is marked is the burst, as with a clock below the run's own median.
"""

from __future__ import annotations

import bisect
import itertools
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from collector.node.protocol import PassSamples
from collector.node.readings import TimedReading
from store.bundle.schemas import InvalidReason

THROTTLE_MASK = 0xE8
"""HW slowdown 0x8, SW thermal 0x20, HW thermal 0x40, power brake 0x80; SW power cap 0x4 is only noted."""
REASONS = {
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}
IDLE = 0x1
CLOCK_SHARE = 0.9
"""An SM clock below this share of the run's median is a clock held back."""


CORE_WAIT, STEAL = "core_wait", "steal"
WAIT_SHARE = {CORE_WAIT: 0.5, STEAL: 0.1}
"""Shares of the time in which the run's processes wanted a core and had none, and that a hypervisor took away."""
BURST = 2.0
"""A share counts where it is also this many times the run's median."""
FOREIGN = "foreign_processes"
SEEN_BY = {"wall": (CORE_WAIT, STEAL, FOREIGN), "thread_time": (STEAL,), "device_event": (FOREIGN,)}
"""Which contention enters which clock: thread time stops while a thread has no core."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBack:
    """A stretch of monotonic time in which the device may have been held back, and the words for it."""

    start_s: float
    end_s: float
    words: str
    reason: InvalidReason = InvalidReason.THROTTLED
    metric: str = ""
    """The metric that told it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    at_s: float
    reasons: int
    clock_hz: float | None


def held_back(readings: Iterable[TimedReading]) -> tuple[HeldBack, ...]:
    """The stretches in which a reason of THROTTLE_MASK was set or the clock was low; () where nothing is known.

    Clocks of readings at which the device was idle count neither for the median nor as low: they say nothing of load.
    """
    states = _states(readings)
    loaded = [s.clock_hz for s in states if s.clock_hz is not None and not s.reasons & IDLE]
    median_hz = statistics.median(loaded) if loaded else 0.0
    spans = []
    for i, state in enumerate(states):
        words = _why(state, median_hz)
        if words:
            start_s = states[i - 1].at_s if i else -float("inf")
            end_s = states[i + 1].at_s if i + 1 < len(states) else float("inf")
            spans.append(HeldBack(start_s=start_s, end_s=end_s, words=words))
    return tuple(spans)


def contended(readings: Iterable[TimedReading]) -> tuple[HeldBack, ...]:
    """The stretches in which others had so much of the device, or of its cores, that a clock saw it."""
    spans: list[HeldBack] = []
    kept = [timed for timed in readings if timed.reading.value is not None]
    for metric, least in WAIT_SHARE.items():
        series = _series(kept, metric)
        bound = max(least, BURST * statistics.median(share for _, share in series)) if series else least
        for (before_s, _), (at_s, share) in zip([(-float("inf"), 0.0), *series], series, strict=False):
            if share > bound:
                who = "the run's processes waited for a core" if metric == CORE_WAIT else "a hypervisor had the core"
                spans.append(_contended(before_s, at_s, f"{who} {share:.0%} of the time", metric))
    others = _series(kept, FOREIGN)
    for i, (_, count) in enumerate(others):
        if count > 0:
            start_s = others[i - 1][0] if i else -float("inf")
            end_s = others[i + 1][0] if i + 1 < len(others) else float("inf")
            who = f"{count:.0f} other process{'es' if count > 1 else ''} on the device"
            spans.append(_contended(start_s, end_s, who, FOREIGN))
    return tuple(spans)


def seen_by(spans: Sequence[HeldBack], timer: str) -> tuple[tuple[HeldBack, ...], ...]:
    """Those stretches of contention that enter a clock: in order of time, one metric after the other."""
    return tuple(tuple(span for span in spans if span.metric == metric) for metric in SEEN_BY.get(timer, ()))


def waits(readings: Iterable[TimedReading]) -> tuple[tuple[float, float], ...]:
    """(monotonic seconds, share) of how much of its time the run waited for a core."""
    return tuple(_series([t for t in readings if t.reading.value is not None], CORE_WAIT))


def _series(readings: Iterable[TimedReading], metric: str) -> list[tuple[float, float]]:
    found = [(t.monotonic_s, t.reading.value) for t in readings if t.reading.metric == metric]
    return sorted((at_s, value) for at_s, value in found if value is not None)


def _contended(start_s: float, end_s: float, words: str, metric: str) -> HeldBack:
    return HeldBack(start_s=start_s, end_s=end_s, words=words, reason=InvalidReason.CONTENDED, metric=metric)


def clocks(readings: Iterable[TimedReading]) -> tuple[tuple[float, float], ...]:
    """(monotonic seconds, Hz) of the SM clock at readings at which the device was not idle, in time order."""
    return tuple((s.at_s, s.clock_hz) for s in _states(readings) if s.clock_hz is not None and not s.reasons & IDLE)


def median_while(samples: Iterable[PassSamples], known: Sequence[tuple[float, float]]) -> float | None:
    """Median of the readings made between the first and the last sample of a pass; None where there is none."""
    found = []
    for one_pass in samples:
        if one_pass.monotonic_s:
            first = bisect.bisect_left(known, one_pass.monotonic_s[0], key=lambda reading: reading[0])
            last = bisect.bisect_right(known, one_pass.monotonic_s[-1], key=lambda reading: reading[0])
            found += [value for _, value in known[first:last]]
    return statistics.median(found) if found else None


def _states(readings: Iterable[TimedReading]) -> list[_State]:
    """Reasons and clock of each moment at which either is known, in time order."""
    reasons: dict[float, int] = {}
    clocks: dict[float, float] = {}
    for timed in readings:
        if timed.reading.value is None:
            continue
        if timed.reading.metric == "clocks_event_reasons":
            reasons[timed.monotonic_s] = int(timed.reading.value)
        elif timed.reading.metric == "sm_clock":
            clocks[timed.monotonic_s] = timed.reading.value
    moments = sorted(reasons.keys() | clocks.keys())
    return [_State(at_s=at_s, reasons=reasons.get(at_s, 0), clock_hz=clocks.get(at_s)) for at_s in moments]


def _why(state: _State, median_hz: float) -> str:
    set_bits = [name for bit, name in REASONS.items() if state.reasons & bit]
    if set_bits:
        return ", ".join(set_bits)
    if state.clock_hz is None or state.reasons & IDLE or state.clock_hz >= CLOCK_SHARE * median_hz:
        return ""
    return f"SM clock {state.clock_hz / 1e6:.0f} MHz, below {CLOCK_SHARE:.0%} of the run's median {median_hz / 1e6:.0f}"


def mark(samples: PassSamples, spans: Sequence[HeldBack]) -> PassSamples:
    """The same samples, those that touch a stretch marked with its reason; marks that were there stay."""
    marks = []
    for start_s, wall_s, before in zip(samples.monotonic_s, samples.wall_s, samples.mark, strict=True):
        span = None if before else _touched(start_s, wall_s * samples.calls_per_sample, spans)
        marks.append(span.reason.value if span is not None else before)
    return msgspec.structs.replace(samples, mark=marks)


def words_for(samples: Sequence[PassSamples], *kinds: Sequence[HeldBack]) -> str:
    """What stretches say of the samples that bear their mark, the most frequent words first."""
    counted: dict[str, int] = {}
    for spans, one_pass in itertools.product(kinds, samples):
        for start_s, wall_s, marked in zip(one_pass.monotonic_s, one_pass.wall_s, one_pass.mark, strict=True):
            span = _touched(start_s, wall_s * one_pass.calls_per_sample, spans) if marked else None
            if span is not None and span.reason == marked:
                counted[span.words] = counted.get(span.words, 0) + 1
    return "; ".join(sorted(counted, key=lambda words: -counted[words]))


def _touched(start_s: float, lasted_s: float, spans: Sequence[HeldBack]) -> HeldBack | None:
    """The first stretch that shares time with [start, start + lasted]; stretches are in order of start and of end."""
    index = bisect.bisect_left(spans, start_s, key=lambda span: span.end_s)
    if index < len(spans) and spans[index].start_s <= start_s + lasted_s:
        return spans[index]
    return None
