"""Few shapes that stand for many: medoids in roofline-time space, one budget for all operators.

A shape lies at log(time) + 0.1 log(size), size being M, rows, q or batch: shapes that take as long are alike; the mild
second term tells apart decode shapes, for which a roofline is flat and a chip is not. Distances are weighted by time in
production. On measured A100 times of unseen requests this beats log-size medoids, call-count quantiles and a grid of
powers of two (benchmarks/shapes.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench_suite.shapes.derive import Derivation, ShapeGroup, ShapeTable
from bench_suite.shapes.errors import ShapeError
from bench_suite.shapes.medoids import Cluster, MedoidLine, share_budget
from bench_suite.shapes.training_run import TrainingRun

Floats = NDArray[np.float64]

SIZE_EXPONENT = 0.1
"""Chosen among eight values from 0 to 0.4 on the part of the trace from which benchmarks/shapes.py chooses."""
COVERED_RATIO = 1.125
"""A shape counts as covered when its size is within this factor of its representative's."""
FINEST_POINTS = 4096
"""Points of a group beyond which neighbours are merged before clustering."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Representative:
    """A shape that ran, and the share of production that it stands for."""

    operator: str
    family: str
    phase: str
    """decode or prefill: of the passes in which most of its time is spent (prompt tokens make it prefill); training."""
    axes: tuple[tuple[str, int | tuple[int, ...]], ...]
    weight_time: float
    weight_calls: float
    weight_flops: float
    weight_bytes: float
    members: int
    """Distinct shapes it stands for."""
    cover_low: int
    """Smallest size (M, rows, q or batch) among them."""
    cover_high: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """Where shapes come from that a run recorded itself: no names of hosts, users or jobs."""

    format: str
    sha256: str
    """Of the file."""
    calls: int
    """Recorded calls of known shape and type."""
    dtype: str
    weighted_by: str
    """measured device time, or roofline time where the file has no times."""
    chip: str
    """Whose roofline."""

    @property
    def summary(self) -> str:
        """The provenance of each shape, in one line."""
        return f"{self.format} {self.sha256[:12]}, {self.calls} calls, weighted by {self.weighted_by}"


Origin = Derivation | Recorded | TrainingRun
"""What a list follows from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeList:
    """A table cut down to representatives, with what the cut costs."""

    origin: Origin
    shapes: tuple[Representative, ...]
    coverage_time: float
    """Share of time in shapes whose size is within COVERED_RATIO of their representative's."""
    error_time: float
    """Time-weighted mean of |time of representative / time - 1|, on the roofline, over the shapes it was chosen on."""
    error_total: float
    """Relative error of the total time that the representatives predict, signed."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Line:
    """The shapes of a group in order along the line, neighbours closer than rounding merged."""

    group: ShapeGroup
    point_of: NDArray[np.int64]
    """[shapes] index of its point."""
    medoids: MedoidLine
    shape_of: NDArray[np.int64]
    """[points] the heaviest shape of the point."""

    def members(self, cluster: Cluster) -> NDArray[np.int64]:
        return np.flatnonzero((self.point_of >= cluster.start) & (self.point_of < cluster.stop))


def place(time_s: Floats, size: Floats) -> Floats:
    """Where shapes of a group lie on the line."""
    return np.asarray(np.log(time_s) + SIZE_EXPONENT * np.log(size))


def represent(table: ShapeTable, budget: int) -> ShapeList:
    """At most `budget` representatives, shared among the groups so that the weighted distance is least.

    Raises ShapeError when there are fewer than one for each group.
    """
    if isinstance(budget, bool) or budget < len(table.groups):
        raise ShapeError(
            f"budget is {budget} representatives, must be >= {len(table.groups)}, one for each operator family"
        )
    lines = [_line(group, budget) for group in table.groups]
    shares = share_budget([line.medoids.costs for line in lines], budget)
    totals = _totals(table)
    shapes: list[Representative] = []
    covered = absolute = signed = 0.0
    for line, k in zip(lines, shares, strict=True):
        for cluster in line.medoids.clusters(k):
            chosen, members = int(line.shape_of[cluster.medoid]), line.members(cluster)
            shapes.append(_representative(line.group, chosen, members, totals))
            fit = _fit(line.group, chosen, members)
            covered, absolute, signed = covered + fit[0], absolute + fit[1], signed + fit[2]
    shapes.sort(key=lambda shape: (-shape.weight_time, shape.operator, shape.family, str(shape.axes)))
    return ShapeList(
        origin=table.derivation,
        shapes=tuple(shapes),
        coverage_time=covered / totals[0],
        error_time=absolute / totals[0],
        error_total=signed / totals[0],
    )


def _line(group: ShapeGroup, budget: int) -> _Line:
    x = place(group.time_s, group.size)
    weight = group.calls * group.time_s
    span = float(x.max() - x.min())
    # Shapes closer than 1/4096 of the span, or equal but for rounding, are one point.
    cell = np.round((x - x.min()) / max(span / FINEST_POINTS, 1e-9)).astype(np.int64)
    _, point_of = np.unique(cell, return_inverse=True)
    count = int(point_of.max()) + 1
    mass: Floats = np.bincount(point_of, weights=weight, minlength=count).astype(np.float64)
    by_weight = np.argsort(weight, kind="stable")
    shape_of = np.zeros(count, dtype=np.int64)
    shape_of[point_of[by_weight]] = by_weight  # the heaviest is written last
    center: Floats = np.bincount(point_of, weights=weight * x, minlength=count).astype(np.float64) / mass
    return _Line(group=group, point_of=point_of, medoids=MedoidLine(center, mass, budget), shape_of=shape_of)


def _totals(table: ShapeTable) -> tuple[float, float, float, float]:
    """Time, calls, work and traffic of everything."""
    groups = table.groups
    return (
        sum(float((g.calls * g.time_s).sum()) for g in groups),
        sum(float(g.calls.sum()) for g in groups),
        sum(float((g.calls * g.flops).sum()) for g in groups),
        sum(float((g.calls * g.traffic_bytes).sum()) for g in groups),
    )


def _representative(
    group: ShapeGroup, chosen: int, members: NDArray[np.int64], totals: tuple[float, float, float, float]
) -> Representative:
    calls, time = group.calls[members], group.time_s[members]
    spent = calls * time
    in_decode = float((group.decode_calls[members] * time).sum()) > float(spent.sum()) / 2
    size = group.size[members]
    return Representative(
        operator=group.operator,
        family=group.family,
        phase="decode" if in_decode else "prefill",
        axes=group.axes(chosen),
        weight_time=float(spent.sum()) / totals[0],
        weight_calls=float(calls.sum()) / totals[1],
        weight_flops=float((calls * group.flops[members]).sum()) / totals[2] if totals[2] else 0.0,
        weight_bytes=float((calls * group.traffic_bytes[members]).sum()) / totals[3],
        members=int(members.size),
        cover_low=int(size.min()),
        cover_high=int(size.max()),
    )


def _fit(group: ShapeGroup, chosen: int, members: NDArray[np.int64]) -> tuple[float, float, float]:
    """Covered time, absolute and signed error of time, in seconds, of one cluster."""
    calls, time, size = group.calls[members], group.time_s[members], group.size[members]
    ratio = size / group.size[chosen]
    within = np.maximum(ratio, 1 / ratio) <= COVERED_RATIO
    difference = calls * (group.time_s[chosen] - time)
    return float((calls * time)[within].sum()), float(np.abs(difference).sum()), float(difference.sum())
