"""Streams with known steps, and how a detector that is fed one value at a time does on them.

A hit is an alert upwards at or within 40 values after the step, located at most 5 values before it. False alerts are
those before a step, in streams without one, and each further one after the hit; per 1,000 values after the first 20.
`chance` is the share of streams without a step in which an alert would have counted as a hit for a step at value 60.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

WARMUP, HORIZON, MARGIN, CHANCE_STEP, LENGTH = 20, 40, 5, 60, 120
STEPS = {"s1": 0.01, "s2": 0.02, "s3": 0.03, "s5": 0.05, "s10": 0.10, "s20": 0.20}
BINS = ((0.5, 1.0), (1.0, 2.0), (2.0, 3.0), (3.0, 5.0), (5.0, math.inf))
NOISES = ("normal", "heavy", "skewed", "two levels", "correlated", "outliers", "quantised", "wandering")

Values = NDArray[np.float64]
Found = tuple[int, int, int]
"""At, change, direction."""


class Detector(Protocol):
    """What is scored: fed one value, it says (change, direction) or nothing."""

    def feed(self, value: float) -> tuple[int, int] | None: ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stream:
    """`step_at` is -1 without a step; `relative_sd` the noise over the level."""

    values: Values
    kind: str
    scenario: str
    step_at: int
    relative_sd: float

    @property
    def in_sd(self) -> float:
        """Size of the step in standard deviations of the noise."""
        return STEPS.get(self.scenario, 0.0) / self.relative_sd


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One detector over all streams; shares 0..1, lags in values, false alerts per 1,000 values."""

    hit: tuple[float, ...]
    lag: float
    """Median over the steps of 3 to 20 %; 1 is at once."""
    located: float
    chance: float
    false: dict[str, float]
    ms_per_value: float


def noise(kind: str, n: int, rng: np.random.Generator) -> Values:
    """Noise of about unit robust standard deviation."""
    z = rng.standard_normal(n)
    if kind == "heavy":
        return rng.standard_t(3, n) / 1.1
    if kind == "skewed":
        return rng.gamma(1.5, 1.0, n)
    if kind == "two levels":
        return 0.7 * z + 3.0 * (rng.random(n) < 0.25)
    if kind == "correlated":
        x = np.empty(n)
        x[0] = z[0]
        for i in range(1, n):
            x[i] = 0.5 * x[i - 1] + math.sqrt(0.75) * z[i]
        return x
    if kind == "outliers":
        return z + (rng.random(n) < 0.03) * rng.uniform(5, 30, n)
    if kind == "quantised":
        return np.round(z)
    if kind == "wandering":
        return z + 0.05 * np.cumsum(rng.standard_normal(n))
    return z


def simulated(seed: int, per_kind: int) -> list[Stream]:
    """Streams of eight kinds of noise of 1 to 10 %, each without a step and with each step at value 60 to 75."""
    rng = np.random.default_rng(seed)
    streams = []
    for kind in NOISES:
        for _ in range(per_kind):
            sd = float(np.exp(rng.uniform(np.log(0.01), np.log(0.10))))
            for scenario in ("none", *STEPS):
                step_at = -1 if scenario == "none" else int(rng.integers(60, 76))
                x = 1e-3 * np.exp(sd * noise(kind, LENGTH, rng))
                if step_at >= 0:
                    x[step_at:] *= 1 + STEPS[scenario]
                streams.append(Stream(values=x, kind=kind, scenario=scenario, step_at=step_at, relative_sd=sd))
    return streams


def recorded(folder: Path) -> list[Stream]:
    """injected_meta.parquet (sid, source, scenario, cp, relsd) and injected_values.parquet (sid, i, value)."""
    import pandas as pd

    meta = pd.read_parquet(folder / "injected_meta.parquet").set_index("sid")
    values = pd.read_parquet(folder / "injected_values.parquet").sort_values(["sid", "i"]).groupby("sid").value
    return [
        Stream(
            values=values.get_group(sid).to_numpy(np.float64),
            kind=str(row.source),
            scenario=str(row.scenario),
            step_at=int(row.cp),
            relative_sd=float(row.relsd),
        )
        for sid, row in meta.iterrows()
    ]


def replay(detector: Detector, values: Values) -> list[Found]:
    """All alerts while feeding the values one by one."""
    found = []
    for at, value in enumerate(values):
        said = detector.feed(float(value))
        if said is not None:
            found.append((at, *said))
    return found


def score(make: Callable[[], Detector], streams: list[Stream]) -> Score:
    """Feed every stream to a fresh detector. One stream is fed before the clock starts: something may compile."""
    replay(make(), streams[0].values)
    start = time.process_time()
    alerts = [replay(make(), stream.values) for stream in streams]
    seconds = time.process_time() - start
    return tally(streams, alerts, 1e3 * seconds / sum(len(stream.values) for stream in streams))


def tally(streams: list[Stream], alerts: list[list[Found]], ms_per_value: float) -> Score:
    """The table's row for recorded alerts."""
    hits: list[list[float]] = [[] for _ in BINS]
    lags: list[int] = []
    located: list[bool] = []
    chance: list[bool] = []
    false: dict[str, list[int]] = {}
    for stream, found in zip(streams, alerts, strict=True):
        ups = [(at, change) for at, change, direction in found if direction > 0 and at >= WARMUP]
        step_at = stream.step_at if stream.step_at >= 0 else CHANCE_STEP
        hit = next((u for u in ups if step_at <= u[0] <= step_at + HORIZON and u[1] >= step_at - MARGIN), None)
        if stream.scenario in STEPS:
            for i, (low, high) in enumerate(BINS):
                if low <= stream.in_sd < high:
                    hits[i].append(hit is not None)
            if hit is not None and STEPS[stream.scenario] >= 0.03:
                lags.append(hit[0] - step_at + 1)
                located.append(abs(hit[1] - step_at) <= MARGIN)
        if stream.scenario == "none":
            chance.append(hit is not None)
        wrong, judged = _false(stream, ups, hit)
        if judged:
            group = "steps" if stream.scenario in STEPS else stream.scenario
            counted = false.setdefault(group, [0, 0])
            counted[0] += wrong
            counted[1] += judged
    return Score(
        hit=tuple(float(np.mean(h)) if h else math.nan for h in hits),
        lag=float(np.median(lags)) if lags else math.nan,
        located=float(np.mean(located)) if located else math.nan,
        chance=float(np.mean(chance)),
        false={group: 1e3 * wrong / judged for group, (wrong, judged) in false.items()},
        ms_per_value=ms_per_value,
    )


def _false(stream: Stream, ups: list[tuple[int, int]], hit: tuple[int, int] | None) -> tuple[int, int]:
    """False alerts of a stream, and the values in which one could have been."""
    if stream.step_at < 0 or stream.scenario == "var3":
        return len(ups), len(stream.values) - WARMUP
    wrong = sum(at < stream.step_at for at, _ in ups)
    if stream.scenario not in STEPS:
        return wrong, stream.step_at - WARMUP
    if hit is not None:
        wrong += sum(at > hit[0] for at, _ in ups)
    return wrong, len(stream.values) - WARMUP
