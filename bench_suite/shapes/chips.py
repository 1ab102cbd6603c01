"""Roofline constants of the chips on which a simulated scheduler's clock runs.

They weight shapes and pace arrivals; they judge nothing. Measured ceilings of a real device are bench_suite.roofline's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bench_suite.shapes.errors import ShapeError


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """Datasheet peaks and the shares of them that large kernels reach."""

    name: str
    flop_per_s: float
    """bf16 matrix peak without sparsity."""
    bandwidth_bytes_per_s: float
    memory_bytes: float
    processors: int
    """Streaming multiprocessors: tiles that are computed at the same time."""
    compute_efficiency: float
    bandwidth_efficiency: float
    link_latency_s: float
    """Start of a collective inside one node, launched from a graph."""
    link_bytes_per_s: float
    """Bus bandwidth of a large all-reduce inside one node."""
    source: str

    @property
    def reached_flop_per_s(self) -> float:
        return self.flop_per_s * self.compute_efficiency

    @property
    def reached_bytes_per_s(self) -> float:
        return self.bandwidth_bytes_per_s * self.bandwidth_efficiency


_VIDUR = "microsoft/vidur @ 7d475133 profiles (MIT)"

CHIPS: Mapping[str, Chip] = {
    "a100": Chip(
        name="a100",
        flop_per_s=312e12,
        bandwidth_bytes_per_s=2.039e12,
        memory_bytes=80e9,
        processors=108,
        compute_efficiency=0.78,
        bandwidth_efficiency=0.80,
        link_latency_s=15e-6,
        link_bytes_per_s=230e9,
        source=f"NVIDIA A100 80GB SXM datasheet; shares of peak set by {_VIDUR}; bus bandwidth assumed",
    ),
    "h100": Chip(
        name="h100",
        flop_per_s=989e12,
        bandwidth_bytes_per_s=3.35e12,
        memory_bytes=80e9,
        processors=132,
        compute_efficiency=0.78,
        bandwidth_efficiency=0.80,
        link_latency_s=15e-6,
        link_bytes_per_s=317e9,
        source=f"NVIDIA H100 SXM datasheet; bus bandwidth from {_VIDUR}; shares of peak assumed equal to the A100",
    ),
}


def chip_named(name: str) -> Chip:
    if name not in CHIPS:
        raise ShapeError(f"chip {name!r}: not known, must be one of {', '.join(CHIPS)}")
    return CHIPS[name]
