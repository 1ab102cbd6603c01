"""A fleet that does not exist: three models of four units, sixty cases, and ten things that happen to them.

Everything about it is invented and follows from a seed. The events are known here only: no label of theirs enters a
store.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

import numpy as np

from detection.classify import FindingClass
from detection.verdict import Metric

START = datetime(2026, 8, 1, 2, 30, tzinfo=UTC)
REVISION_EVERY = 4
"""Nights between revisions of the code under test."""
SIMULATED = "simulated"
CLIFF = 1.4
"""What the largest matrices take beyond their work: there from the first night, and no event."""


class Happening(StrEnum):
    """The kinds of events that are planted."""

    DRIVER_STEP = "step at a driver change"
    REVISION_STEP = "step at a revision"
    DRIFT = "slow drift"
    SLOW_UNIT = "throttled unit"
    BASELINE_MOVED = "baseline moved"
    BIMODAL = "bimodal kernel"
    MISSING_NIGHTS = "missing nights"
    LESS_EXACT = "faster and less exact"
    IMPROVEMENT = "improvement"
    MEMORY_GROWTH = "memory growth"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happens, and what the judge should make of it."""

    happening: Happening
    night: int
    until: int | None = None
    model: str | None = None
    unit: str | None = None
    operator: str | None = None
    at_least: tuple[str, int] | None = None
    """An axis and the least size of it that is touched; None: every shape of the operator."""
    arm: str = "candidate"
    log_time: float = 0.0
    """Change of the arm's time, of logarithms."""
    log_time_a_night: float = 0.0
    log_memory_a_night: float = 0.0
    error_factor: float = 1.0
    expected: tuple[tuple[Metric, int, FindingClass], ...] = ()
    """Findings that should be confirmed: metric, direction, class. Empty where none should be."""

    def reaches(self, night: int, model: str, unit: str) -> bool:
        """Whether it is going on that night on that unit."""
        going = night >= self.night and (self.until is None or night < self.until)
        return going and self.model in (None, model) and self.unit in (None, unit)

    def touches(self, case: FleetCase) -> bool:
        """Whether the case is of its operator and large enough."""
        axis, least = self.at_least or ("", 0)
        return self.operator in (None, case.operator) and case.axes.get(axis, 0) >= least


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetModel:
    """A device model: its roofs and its units."""

    name: str
    kind: str
    units: tuple[str, ...]
    peak_flop_per_s: float
    bandwidth_bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetCase:
    """A case with its work and how the arms stand to each other."""

    case_id: str
    operator: str
    family: str
    title: str
    shape: str
    phase: str
    axes: dict[str, int]
    weight: float
    flops: float
    traffic_bytes: float
    candidate: float
    naive: float
    waste: float = 1.0
    """Time over what neighbouring shapes take for the same work: a cliff where it is not 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """All of it."""

    seed: int
    nights: int
    models: tuple[FleetModel, ...]
    cases: tuple[FleetCase, ...]
    everywhere: int
    """The first so many cases run on every unit, the others on one unit of each model."""
    events: tuple[Event, ...]

    def cases_of(self, unit_number: int) -> tuple[FleetCase, ...]:
        """What the n-th unit of a model measures each night."""
        common = self.cases[: self.everywhere]
        rest = self.cases[self.everywhere :]
        return common + tuple(c for i, c in enumerate(rest) if i % 4 == unit_number)

    def revision(self, night: int) -> str:
        """Of the code under test that night."""
        return f"{np.random.default_rng([self.seed, night // REVISION_EVERY]).integers(16**7):07x}"

    def driver(self, night: int, model: str) -> str:
        """It changes where an event says so, and nowhere else."""
        changed = sum(
            e.happening is Happening.DRIVER_STEP and e.model == model and night >= e.night for e in self.events
        )
        return f"580.{65 + 30 * changed}"

    def torch(self, night: int) -> str:
        """Likewise for the library that the optimized arms come from."""
        changed = sum(e.happening is Happening.BASELINE_MOVED and night >= e.night for e in self.events)
        return f"2.{13 + changed}.0"

    def is_missing(self, night: int, model: str, unit: str) -> bool:
        """Whether the unit reports nothing that night."""
        return any(e.happening is Happening.MISSING_NIGHTS and e.reaches(night, model, unit) for e in self.events)


def night_time(night: int, unit_number: int) -> datetime:
    """When a unit's night run starts."""
    return START + timedelta(days=night, minutes=7 * unit_number)


def make_fleet(seed: int, *, nights: int = 120, prefix: str = "") -> Fleet:
    """The fleet of a seed. `prefix` goes before every name, which must change nothing but names."""
    rng = np.random.default_rng([seed, 77])
    models = tuple(
        FleetModel(
            name=f"{prefix}{name}",
            kind="cuda",
            units=tuple(f"{prefix}{short}-u{i}" for i in range(4)),
            peak_flop_per_s=peak,
            bandwidth_bytes_per_s=bandwidth,
        )
        for name, short, peak, bandwidth in (
            ("Simulated A100", "a", 2.6e14, 1.8e12),
            ("Simulated H200", "h", 7.5e14, 4.2e12),
            ("Simulated MI300X", "m", 6.1e14, 4.0e12),
        )
    )
    cases = _cases(rng, prefix)
    return Fleet(
        seed=seed,
        nights=nights,
        models=models,
        cases=cases,
        everywhere=8,
        events=_events(rng, models, nights, prefix),
    )


def _cases(rng: np.random.Generator, prefix: str) -> tuple[FleetCase, ...]:
    shapes: list[tuple[str, str, str, str, dict[str, int], float, float]] = []
    for m in (1, 16, 64, 256, 2048, 4096):
        for n, k in ((6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336)):
            words = f"M {m:,} · N {n:,} · K {k:,}, bf16"
            work = 2.0 * m * n * k, 2.0 * (m * k + n * k + m * n)
            shapes.append(("gemm", "GEMM", "GEMM", words, {"M": m, "N": n, "K": k}, *work))
    for batch in (8, 32, 64, 128):
        for context in (2048, 8192, 16384):
            words = f"{batch} requests, context {context:,}, 32 query / 8 kv heads, bf16"
            work = 4.0 * batch * context * 32 * 128, 4.0 * batch * context * 8 * 128
            axes = {"requests": batch, "context": context}
            shapes.append(("attention_decode", "Attention", "Attention decode", words, axes, *work))
    for family, operator, title in (("RMSNorm", "rms_norm", "RMSNorm"), ("SwiGLU", "swiglu", "SwiGLU")):
        for rows in (1, 16, 64, 256, 2048, 4096, 8192, 16384):
            axes = {"rows": rows, "width": 4096}
            work = 4.0 * rows * 4096, 4.0 * rows * 4096
            shapes.append((operator, family, title, f"{rows:,} × 4,096, bf16", axes, *work))
    for rows in (16, 64, 256, 1024, 2048, 4096, 8192, 16384):
        axes = {"rows": rows, "width": 8192}
        work = 5.0 * rows * 8192, 4.0 * rows * 8192
        shapes.append(("softmax", "Softmax", "Softmax", f"{rows:,} × 8,192, bf16", axes, *work))
    order = _one_of_each_first([s[0] for s in shapes])
    weights = rng.dirichlet(np.full(len(shapes), 0.7))
    cases = []
    for i in order:
        operator, family, title, words, axes, flops, traffic = shapes[i]
        text = ",".join(f"{name}={value}" for name, value in axes.items())
        cases.append(
            FleetCase(
                case_id=f"{prefix}{operator}[bf16,{text}]",
                operator=f"{prefix}{operator}",
                family=family,
                title=title,
                shape=words,
                phase="decode" if min(axes.values()) <= 64 else "prefill",
                axes=axes,
                weight=float(weights[i]),
                flops=flops,
                traffic_bytes=traffic,
                candidate=float(rng.uniform(0.85, 1.1)),
                naive=float(rng.uniform(1.8, 3.5)),
                waste=CLIFF if operator == "gemm" and axes["M"] > 2048 else 1.0,
            )
        )
    return tuple(cases)


def _one_of_each_first(operators: list[str]) -> list[int]:
    """Indices, two of each operator first, so that what runs everywhere has all of them."""
    seen: dict[str, int] = {}
    first: list[int] = []
    rest: list[int] = []
    for i, operator in enumerate(operators):
        seen[operator] = seen.get(operator, 0) + 1
        (first if seen[operator] <= 2 else rest).append(i)
    return first + rest


def _events(rng: np.random.Generator, models: tuple[FleetModel, ...], nights: int, prefix: str) -> tuple[Event, ...]:
    """Ten events whose places, sizes and times follow from the seed; no two touch the same series."""

    def at(share: float) -> int:
        return round(nights * share) + int(rng.integers(0, 4))

    def at_revision(share: float) -> int:
        return REVISION_EVERY * round(nights * share / REVISION_EVERY)

    def size(low: float, high: float) -> float:
        return math.log1p(rng.uniform(low, high))

    a, b, c = (models[i] for i in rng.permutation(3))
    gemm, attention, norm, swiglu, softmax = (
        f"{prefix}{name}" for name in ("gemm", "attention_decode", "rms_norm", "swiglu", "softmax")
    )
    ratio, error, memory = Metric.LATENCY_RATIO, Metric.ERROR, Metric.PEAK_MEMORY
    code, environment = FindingClass.CODE, FindingClass.ENVIRONMENT
    driver_night = at(0.35)
    driver_night += driver_night % REVISION_EVERY == 0  # a driver does not change with the code
    return (
        Event(
            happening=Happening.DRIVER_STEP,
            night=driver_night,
            model=a.name,
            operator=swiglu,
            log_time=size(0.08, 0.15),
            expected=((ratio, 1, environment),),
        ),
        Event(
            happening=Happening.REVISION_STEP,
            night=at_revision(0.6),
            operator=attention,
            at_least=("requests", 64),
            log_time=size(0.07, 0.15),
            expected=((ratio, 1, code),),
        ),
        Event(
            happening=Happening.DRIFT,
            night=at(0.4),
            model=b.name,
            operator=softmax,
            log_time_a_night=0.22 / nights,
            expected=((ratio, 1, code),),
        ),
        Event(
            happening=Happening.SLOW_UNIT,
            night=at(0.7),
            model=c.name,
            unit=c.units[int(rng.integers(4))],
            arm="*",
            log_time=size(0.12, 0.25),
            expected=((Metric.LATENCY, 1, FindingClass.HOST),),
        ),
        Event(
            happening=Happening.BASELINE_MOVED,
            night=at(0.5),
            operator=norm,
            arm="optimized",
            log_time=-size(0.12, 0.25),
            expected=((ratio, -1, FindingClass.BASELINE),),
        ),
        Event(happening=Happening.BIMODAL, night=0, model=b.name, unit=b.units[0], operator=gemm),
        Event(
            happening=Happening.MISSING_NIGHTS,
            night=at(0.45),
            until=at(0.45) + 5,
            model=b.name,
            unit=b.units[1],
            expected=((Metric.SILENCE, 1, FindingClass.HOST),),
        ),
        Event(
            happening=Happening.LESS_EXACT,
            night=at_revision(0.8),
            model=c.name,
            operator=softmax,
            log_time=-size(0.1, 0.2),
            error_factor=6.0,
            expected=((ratio, -1, code), (error, 1, code)),
        ),
        Event(
            happening=Happening.IMPROVEMENT,
            night=at_revision(0.75),
            model=a.name,
            operator=gemm,
            log_time=-size(0.08, 0.15),
            expected=((ratio, -1, code),),
        ),
        Event(
            happening=Happening.MEMORY_GROWTH,
            night=at(0.55),
            model=b.name,
            operator=attention,
            log_memory_a_night=0.01,
            expected=((memory, 1, code),),
        ),
    )
