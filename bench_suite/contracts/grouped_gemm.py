"""Grouped GEMM of a mixture of experts: each run of rows meets its own expert's weight.

Rows are sorted by expert. Of `experts` weights `active` get rows, spread evenly over the experts; the first of them
take one row more where rows do not divide. Only active weights are read.
"""

from __future__ import annotations

from bench_suite.contract import Axis, Case
from bench_suite.contracts.frames import INT32_BYTES, plain_contract, tensor, work
from bench_suite.contracts.gemm import product_extremes, product_tolerance


def rows_of_experts(case: Case) -> tuple[int, ...]:
    """Rows of each expert, in order: as even as whole rows allow, zero for the inactive."""
    rows, experts, active = case["rows"], case["experts"], case["active"]
    counts = [0] * experts
    for i in range(active):
        counts[i * experts // active] = rows // active + (i < rows % active)
    return tuple(counts)


def _traffic_bytes(case: Case) -> float:
    rows, n, k = case["rows"], case["N"], case["K"]
    elements = rows * k + case["active"] * n * k + rows * n
    return float(elements * case.dtype.size_bytes + INT32_BYTES * case["experts"])


def _constraint(case: Case) -> str:
    if case["active"] > min(case["experts"], case["rows"]):
        return f"active is {case['active']}, must be at most experts, {case['experts']}, and rows, {case['rows']}"
    return ""


GROUPED_GEMM = plain_contract(
    operator="grouped_gemm",
    family="GEMM",
    title="Grouped GEMM",
    formula="y = x · weightᵀ of each row's expert",
    axes=(
        Axis(name="rows", meaning="tokens times experts a token", dynamic=True),
        Axis(name="experts", meaning="experts of the layer"),
        Axis(name="active", meaning="experts that have rows", dynamic=True),
        Axis(name="N", meaning="output features of an expert"),
        Axis(name="K", meaning="input features"),
    ),
    inputs="x normal(0, 1), weight normal(0, 1/√K), seeded per tensor; ends int32: where each expert's rows end",
    reads=(
        tensor("x", "rows", "K"),
        tensor("weight", "experts", "N", "K"),
        tensor("ends", "experts", element_bytes=INT32_BYTES),
    ),
    writes=(tensor("", "rows", "N"),),
    flops=work(2.0, "rows", "N", "K"),
    traffic_bytes=_traffic_bytes,
    tolerance=lambda case: product_tolerance(case, case["K"]),
    sensitivity="as GEMM; a row that meets its neighbour's expert is wrong as a whole",
    edge_cases=(
        {"rows": 1, "experts": 1, "active": 1, "N": 16, "K": 32},
        {"rows": 7, "experts": 5, "active": 3, "N": 48, "K": 64},
        {"rows": 64, "experts": 8, "active": 8, "N": 32, "K": 96},
        {"rows": 33, "experts": 16, "active": 5, "N": 80, "K": 32},
        {"rows": 129, "experts": 4, "active": 2, "N": 16, "K": 4096},
    ),
    extremes=product_extremes("x"),
    constraint=_constraint,
)
