"""Communication beside computation: a buffer is reduced over the ranks while a GEMM that does not need it runs.

So is a layer's gradient reduced while the next one's is computed, or the output of one half of a batch while the other
half is. What counts is how much of the communication the computation hides.
"""

from __future__ import annotations

from bench_suite.contract import Axis, Case, Contract, Tolerance
from bench_suite.contracts.collectives import ALL_REDUCE
from bench_suite.contracts.gemm import GEMM, K_AXIS, M_AXIS, N_AXIS
from bench_suite.contracts.wording import count


def gemm_of(case: Case) -> Case:
    """The computation alone."""
    return GEMM.case({name: case[name] for name in ("M", "N", "K")}, case.dtype, case.phase, cache=case.cache)


def reduction_of(case: Case) -> Case:
    """The communication alone."""
    axes = {name: case[name] for name in ("ranks", "elements")}
    return ALL_REDUCE.case(axes, case.dtype, case.phase, cache=case.cache)


def _message_bytes(case: Case) -> float:
    return float(case["elements"]) * case.dtype.size_bytes


def _tolerances(case: Case) -> tuple[Tolerance, ...]:
    return ALL_REDUCE.tolerance(reduction_of(case)), GEMM.tolerance(gemm_of(case))


ALL_REDUCE_OVERLAP = Contract(
    operator="all_reduce_overlap",
    family="Collective",
    title="All-reduce beside a GEMM",
    formula="y = Σ over ranks of x, z = a · weightᵀ",
    axes=(
        Axis(name="ranks", meaning="processes of the group"),
        Axis(name="elements", meaning="of the buffer that is reduced", dynamic=True),
        M_AXIS,
        N_AXIS,
        K_AXIS,
    ),
    dtypes=ALL_REDUCE.dtypes,
    inputs="x and a normal(0, 1), weight normal(0, 1/√K); seeded per tensor, x and a per rank",
    tensors=("x [elements]", "a [M, K]", "weight [N, K]"),
    output="[elements], [M, N]",
    flops=lambda case: ALL_REDUCE.flops(reduction_of(case)) + GEMM.flops(gemm_of(case)),
    traffic_bytes=lambda case: ALL_REDUCE.traffic_bytes(reduction_of(case)) + GEMM.traffic_bytes(gemm_of(case)),
    input_bytes=lambda case: ALL_REDUCE.input_bytes(reduction_of(case)) + GEMM.input_bytes(gemm_of(case)),
    tolerance=lambda case: _tolerances(case)[0],
    tolerances=_tolerances,
    describe=lambda case: (
        f"{ALL_REDUCE.describe(reduction_of(case))} beside M {count(case['M'])} · N {count(case['N'])} · "
        f"K {count(case['K'])}"
    ),
    sensitivity="as the two alone: they share no data",
    collective=True,
    message_bytes=_message_bytes,
    bus_factor=lambda case: 2 * (case["ranks"] - 1) / case["ranks"],
    edge_cases=(
        {"ranks": 2, "elements": 2, "M": 1, "N": 1, "K": 1},
        {"ranks": 2, "elements": 2 * 1023, "M": 17, "N": 33, "K": 65},
    ),
)
