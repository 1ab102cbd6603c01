"""The least time a case could take on a device: the roofline of Williams et al. 2009 (doi:10.1145/1498765.1498785).

latency >= max(flops / peak, traffic / bandwidth), and for a collective busbw bytes / link bandwidth. Peaks are either
*measured* ceilings (`collector calibrate`: best of many tries, exceeded means stale) or *datasheet* peaks
(configs/devices.toml: exceeded means the measurement is impossible). A device in neither has an unknown roofline.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from bench_suite.contract import Case
from bench_suite.contracts import contract


class Bound(StrEnum):
    """What sets a case's least time."""

    COMPUTE = "compute"
    MEMORY = "memory"
    LINK = "link"
    UNKNOWN = "unknown"


class CeilingKind(StrEnum):
    """Where ceilings come from, and so what it means to exceed them."""

    MEASURED = "measured"
    DATASHEET = "datasheet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """What a device can do. A dtype that is not in `flop_per_s` has no known peak."""

    flop_per_s: Mapping[str, float]
    """By dtype value ("fp32", "bf16"): dense, accumulated in binary32 or wider."""
    bandwidth_bytes_per_s: float
    link_bytes_per_s: float | None = None
    """Between ranks, one direction, one rank."""
    kind: CeilingKind = CeilingKind.MEASURED
    source: str = ""
    measured_at: str = ""
    """ISO 8601, UTC; empty for a datasheet."""
    threads: int | None = None
    """Of a CPU measurement."""
    samples: Mapping[str, tuple[float, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """Every try behind the best one, by what was measured."""
    stale: str = ""
    """What was measured beyond them since, in words: they read too low. Only of measured ones."""

    def __post_init__(self) -> None:
        rates = [*self.flop_per_s.values(), self.bandwidth_bytes_per_s, self.link_bytes_per_s or 1.0]
        if not all(rate > 0 for rate in rates):
            raise ValueError(f"ceilings from {self.source or 'nowhere'}: every rate must be > 0, got {rates}")

    def to_json(self) -> str:
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        values |= {"flop_per_s": dict(self.flop_per_s), "samples": {k: list(v) for k, v in self.samples.items()}}
        return json.dumps(values, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Ceilings:
        """The inverse of `to_json`; keys written by a later version are ignored."""
        raw = json.loads(text)
        values = {name: raw[name] for name in cls.__dataclass_fields__ if name in raw}
        values["kind"] = CeilingKind(values.get("kind", CeilingKind.MEASURED))
        values["samples"] = {name: tuple(tries) for name, tries in values.get("samples", {}).items()}
        return cls(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """The least time of a case and what sets it; None and UNKNOWN where no peak is known."""

    latency_s: float | None
    bound: Bound


UNKNOWN = Roofline(latency_s=None, bound=Bound.UNKNOWN)


def roofline(case: Case, ceilings: Ceilings | None) -> Roofline:
    """The roof over `case`. A warm case has no memory bound: its data come from the cache."""
    if ceilings is None:
        return UNKNOWN
    promise = contract(case.operator)
    if promise.collective:
        return _link_roof(case, ceilings)
    peak = ceilings.flop_per_s.get(case.dtype.value)
    if peak is None:
        return UNKNOWN
    compute_s = promise.flops(case) / peak
    if case.cache == "warm":
        return Roofline(latency_s=compute_s, bound=Bound.COMPUTE)
    memory_s = promise.traffic_bytes(case) / ceilings.bandwidth_bytes_per_s
    if compute_s >= memory_s:
        return Roofline(latency_s=compute_s, bound=Bound.COMPUTE)
    return Roofline(latency_s=memory_s, bound=Bound.MEMORY)


def _link_roof(case: Case, ceilings: Ceilings) -> Roofline:
    """Bus bytes over the link, as nccl-tests counts them; one rank moves its buffer in memory only."""
    promise = contract(case.operator)
    assert promise.message_bytes is not None and promise.bus_factor is not None
    memory_s = promise.traffic_bytes(case) / ceilings.bandwidth_bytes_per_s
    bus_bytes = promise.message_bytes(case) * promise.bus_factor(case)
    if bus_bytes == 0:
        return Roofline(latency_s=memory_s, bound=Bound.MEMORY)
    if ceilings.link_bytes_per_s is None:
        return UNKNOWN
    link_s = bus_bytes / ceilings.link_bytes_per_s
    if link_s >= memory_s:
        return Roofline(latency_s=link_s, bound=Bound.LINK)
    return Roofline(latency_s=memory_s, bound=Bound.MEMORY)


STALE_ABOVE = 1.02
"""A median beyond a ceiling by more than its own noise."""
READS_PER_TRIAD = 4 / 3
"""A triad counts three arrays; its stores may read the lines that they write, so that a stream of reads alone may be
this much faster than a triad on the same memory (docs/method.md, roofline)."""


def cold_read_bytes(case: Case) -> float:
    """Bytes that one cold call must bring in: its result may stay in the cache, where the next call overwrites it."""
    promise = contract(case.operator)
    traffic, given = promise.traffic_bytes(case), promise.input_bytes(case)
    return given if given <= traffic else traffic / 2  # of inputs of which a call reads a part, as a table of rows


def beyond_measured(case: Case, latency_s: float, ceilings: Ceilings | None) -> str:
    """That a time lies beyond a measured ceiling, in words with the figures; empty where it does not."""
    promise = contract(case.operator)
    if ceilings is None or ceilings.kind is not CeilingKind.MEASURED or promise.collective or latency_s <= 0:
        return ""
    peak, rate = ceilings.flop_per_s.get(case.dtype.value), promise.flops(case) / latency_s
    if peak is not None and rate > peak * STALE_ABOVE:
        return f"{case.case_id} does {rate / 1e9:.4g} GFLOP/s, the measured peak is {peak / 1e9:.4g}"
    bandwidth, reads = ceilings.bandwidth_bytes_per_s, cold_read_bytes(case) / latency_s
    if case.cache != "warm" and reads > bandwidth * READS_PER_TRIAD * STALE_ABOVE:
        return f"{case.case_id} reads {reads / 1e9:.4g} GB/s, the measured bandwidth is {bandwidth / 1e9:.4g}"
    return ""


def least_possible_s(case: Case, datasheet: Ceilings | None) -> float | None:
    """The time below which a measurement is physically impossible; None where no datasheet says.

    Only datasheet peaks bound physics. Of memory, what a cold call must read counts (`cold_read_bytes`). A reduction
    inside the switch sends the buffer once and not 2 (n-1)/n times, so that an all-reduce is bounded here by (n-1)/n of
    it.
    """
    if datasheet is None or datasheet.kind is not CeilingKind.DATASHEET:
        return None
    promise = contract(case.operator)
    if not promise.collective:
        peak = datasheet.flop_per_s.get(case.dtype.value)
        compute_s = promise.flops(case) / peak if peak is not None else 0.0
        memory_s = 0.0 if case.cache == "warm" else cold_read_bytes(case) / datasheet.bandwidth_bytes_per_s
        return max(compute_s, memory_s) or None
    if datasheet.link_bytes_per_s is None or promise.message_bytes is None:
        return None
    ranks = case["ranks"]
    return promise.message_bytes(case) * (ranks - 1) / ranks / datasheet.link_bytes_per_s


def algbw_bytes_per_s(case: Case, latency_s: float) -> float:
    """Algorithm bandwidth of a collective: S / t (nccl-tests, doc/PERFORMANCE.md)."""
    message_bytes = contract(case.operator).message_bytes
    if message_bytes is None:
        raise ValueError(f"{case.case_id} is no collective")
    return message_bytes(case) / latency_s


def busbw_bytes_per_s(case: Case, latency_s: float) -> float:
    """Bus bandwidth of a collective: algbw times the operator's factor, comparable with the link's speed."""
    bus_factor = contract(case.operator).bus_factor
    if bus_factor is None:
        raise ValueError(f"{case.case_id} is no collective")
    return algbw_bytes_per_s(case, latency_s) * bus_factor(case)
