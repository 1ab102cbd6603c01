"""The sentences and figures of a night's verdicts."""

from __future__ import annotations

import math
from dataclasses import dataclass

from detection.verdict import Metric, ReasonCode, in_words, percent

NOUNS = {
    Metric.LATENCY_RATIO: "the paired ratio",
    Metric.LATENCY: "unpaired latency",
    Metric.LATENCY_P99: "the latency tail",
    Metric.FLOP_RATE: "a rate alone",
    Metric.BANDWIDTH: "a rate alone",
    Metric.PEAK_MEMORY: "peak memory",
    Metric.ERROR: "the error",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """What a sentence about one series is made of. Changes are logarithms."""

    metric: Metric
    now: float
    before: float
    runs: int
    change: float
    half: float
    """Half the width of the 95 % interval."""
    floor: float
    recent: float
    shift: float | None
    """The run's common shift, relative; None where there was none."""
    common: float
    """What was taken away because the series goes with its siblings; said from half a floor on."""


def sentence_of(code: ReasonCode, n: Numbers) -> str:
    """What a verdict says of a series that was judged against its history."""
    low, high = math.expm1(n.change - n.half), math.expm1(n.change + n.half)
    numbers = f"{figure(n.metric, n.now)} against {figure(n.metric, n.before)} over {runs_words(n.runs)}"
    interval = f"95 % interval {percent(low, signed=True)} to {percent(high, signed=True)}"
    floor = percent(math.expm1(n.floor))
    after = "" if n.shift is None else f" after the run's common shift of {percent(n.shift, signed=True)}"
    if abs(n.common) > n.floor / 2:
        after += f" after {percent(math.expm1(n.common), signed=True)} that it shares with the run's other series"
    change = f"{in_words(n.metric, math.expm1(n.change))}{after}"
    match code:
        case ReasonCode.BEYOND_FLOOR:
            return f"{numbers}: {change} ({interval}), beyond the floor of {floor}."
        case ReasonCode.SUSPICIOUS:
            return f"{numbers}: {change} ({interval}), unlikely to be noise but not yet clear of {floor}: confirm."
        case ReasonCode.RECENT_NIGHTS:
            last = in_words(n.metric, math.expm1(n.recent))
            return f"{numbers}: {change} ({interval}); the last nights together {last}: confirm."
        case ReasonCode.WITHIN_NOISE:
            return f"{numbers}: {change} ({interval}), within the noise of this series."
        case ReasonCode.TOO_WIDE:
            return f"{numbers}: {change} ({interval}), neither inside nor clear of {floor}."
        case _:
            return f"{numbers}: {change} ({interval}), within {floor}."


def runs_words(n: int) -> str:
    """`1 run`, `5 runs`."""
    return "1 run" if n == 1 else f"{n} runs"


def figure(metric: Metric, value: float) -> str:
    """A value with its unit: 1.153×, 112.4 µs, 24.0 MiB, 3.1 % of the tolerance, 1,237 TFLOP/s."""
    match metric:
        case Metric.LATENCY_RATIO:
            return f"{value:.3f}×"
        case Metric.PEAK_MEMORY:
            for size, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
                if value >= size:
                    return f"{value / size:.1f} {unit}"
            return f"{value:.0f} B"
        case Metric.ERROR:
            return f"{percent(value)} of the tolerance"
        case Metric.FLOP_RATE | Metric.BANDWIDTH:
            unit = "FLOP/s" if metric is Metric.FLOP_RATE else "B/s"
            rate = 1 / value if value > 0 else math.inf
            scale, prefix = next(((s, p) for s, p in ((1e12, "T"), (1e9, "G"), (1e6, "M")) if rate >= s), (1.0, ""))
            return f"{rate / scale:,.4g} {prefix}{unit}"
        case _:
            for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
                if value >= scale:
                    return f"{value / scale:.4g} {unit}"
            return f"{value / 1e-9:.4g} ns"
