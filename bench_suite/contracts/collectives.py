"""Collectives over a group of ranks; sizes as nccl-tests counts them: `elements` is the TOTAL buffer.

busbw = algbw x factor: all_reduce 2(n-1)/n; all_gather, reduce_scatter, all_to_all (n-1)/n; send_recv 1 (nccl-tests,
doc/PERFORMANCE.md and src/sendrecv.cu). The total buffer is the output of all_gather and the input of reduce_scatter.
Flops and traffic are those of one rank.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from bench_suite.contract import Axis, AxisValue, Case, Contract, DType, Tolerance
from bench_suite.contracts.error_bounds import largest_normal, storage
from bench_suite.contracts.wording import count, shape_words

_DTYPES = (DType.FP32, DType.BF16, DType.FP16)

_SHARED_EDGES: tuple[dict[str, AxisValue], ...] = (
    {"ranks": 2, "elements": 2},
    {"ranks": 2, "elements": 2 * 1023},
    {"ranks": 2, "elements": 65536},
)


def _total_bytes(case: Case) -> float:
    return float(case["elements"]) * case.dtype.size_bytes


def _part_bytes(case: Case) -> float:
    return _total_bytes(case) / case["ranks"]


def _share(case: Case) -> float:
    """(n-1)/n: what of the buffer comes from other ranks."""
    return (case["ranks"] - 1) / case["ranks"]


def _reduction_tolerance(case: Case) -> Tolerance:
    """Backends add in the dtype itself, rounding every partial sum of 2, 3, ... n terms, in an order of their own.

    The last rounding is relative to the result. Before it each of `elements` sums is rounded n - 2 times, by at most
    u |s_k|, where s_k of k terms is normal with variance k; a chain has the largest partial sums of all orders. No
    |s_k| exceeds z sqrt(k), z the largest of elements (n - 2) normal numbers, so that in one sum the errors come to

    - at most u z (sqrt(2) + sqrt(3) + ... + sqrt(n - 1)), whatever the roundings do, and
    - at most u z lambda sqrt(2 + 3 + ... + (n - 1)) where their signs are random: lambda as z, of `elements` sums.

    The smaller holds: the first up to some 60 ranks. Each error is rounded on at most n - 1 times, by 1 + u. Two ranks
    round once: exactly to nearest.
    """
    ranks, elements, u = case["ranks"], case["elements"], case.dtype.unit_roundoff
    sizes = range(2, ranks)
    worst = sum(math.sqrt(size) for size in sizes)
    likely = largest_normal(elements) * math.sqrt(sum(sizes))
    absolute = u * largest_normal(elements * len(sizes)) * min(worst, likely) * (1.0 + u) ** (ranks - 1)
    return Tolerance(absolute=absolute, relative=storage(case.dtype))


def _exact(case: Case) -> Tolerance:
    """Data are moved, not computed: bit for bit."""
    return Tolerance(absolute=0.0, relative=0.0)


def _divides(case: Case) -> str:
    if case["elements"] % case["ranks"]:
        return f"elements is {case['elements']}, must be a multiple of ranks, {case['ranks']}"
    return ""


def _describe(case: Case) -> str:
    return shape_words(case, f"ranks {count(case['ranks'])}", binary_bytes(int(_total_bytes(case))))


def binary_bytes(size_bytes: int) -> str:
    """`96 KiB`, `1.5 MiB`, `1,023 B`: the largest unit that leaves at least 1."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:,.4g} {unit}"
    return f"{size_bytes:,} B"


def _collective(
    *,
    operator: str,
    title: str,
    formula: str,
    tensor: str,
    output: str,
    bus_factor: Callable[[Case], float],
    input_bytes: Callable[[Case], float],
    output_bytes: Callable[[Case], float],
    reduces: bool,
    divides: bool,
) -> Contract:
    return Contract(
        operator=operator,
        family="Collective",
        title=title,
        formula=formula,
        axes=(
            Axis(name="ranks", meaning="processes of the group"),
            Axis(name="elements", meaning="of the total buffer, as nccl-tests counts it", dynamic=True),
        ),
        dtypes=_DTYPES,
        inputs="normal(0, 1), seeded per rank",
        tensors=(tensor,),
        output=output,
        flops=(lambda case: case["elements"] * _share(case)) if reduces else (lambda case: 0.0),
        traffic_bytes=lambda case: input_bytes(case) + output_bytes(case),
        input_bytes=input_bytes,
        tolerance=_reduction_tolerance if reduces else _exact,
        describe=_describe,
        sensitivity="the order of the ranks' terms changes the rounding from 3 ranks on"
        if reduces
        else "none: moves bits",
        collective=True,
        message_bytes=_total_bytes,
        bus_factor=bus_factor,
        edge_cases=({"ranks": 2, "elements": 1}, *_SHARED_EDGES) if not divides else _SHARED_EDGES,
        constraint=_divides if divides else None,
    )


ALL_REDUCE = _collective(
    operator="all_reduce",
    title="All-reduce",
    formula="y = Σ over ranks of x",
    tensor="x [elements]",
    output="[elements]",
    bus_factor=lambda case: 2 * _share(case),
    input_bytes=_total_bytes,
    output_bytes=_total_bytes,
    reduces=True,
    divides=False,
)

ALL_GATHER = _collective(
    operator="all_gather",
    title="All-gather",
    formula="y = x of rank 0, x of rank 1, …",
    tensor="x [elements / ranks]",
    output="[elements]",
    bus_factor=_share,
    input_bytes=_part_bytes,
    output_bytes=_total_bytes,
    reduces=False,
    divides=True,
)

REDUCE_SCATTER = _collective(
    operator="reduce_scatter",
    title="Reduce-scatter",
    formula="y = own part of Σ over ranks of x",
    tensor="x [elements]",
    output="[elements / ranks]",
    bus_factor=_share,
    input_bytes=_total_bytes,
    output_bytes=_part_bytes,
    reduces=True,
    divides=True,
)

ALL_TO_ALL = _collective(
    operator="all_to_all",
    title="All-to-all",
    formula="y = own part of x of rank 0, of rank 1, …",
    tensor="x [elements]",
    output="[elements]",
    bus_factor=_share,
    input_bytes=_total_bytes,
    output_bytes=_total_bytes,
    reduces=False,
    divides=True,
)

SEND_RECV = _collective(
    operator="send_recv",
    title="Send and receive",
    formula="y = x of the rank before, around the ring: what pipeline stages hand on",
    tensor="x [elements]",
    output="[elements]",
    bus_factor=lambda case: 1.0,
    input_bytes=_total_bytes,
    output_bytes=_total_bytes,
    reduces=False,
    divides=False,
)
