"""Differential tests: every implementation of every operator against the float64 reference, at the contract's edges."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from bench_suite.contract import Contract, DType, Extreme, Phase, Role
from bench_suite.contracts import CONTRACTS
from bench_suite.contracts.error_bounds import contract_at
from bench_suite.operators.base import with_extreme
from bench_suite.operators.registry import operator

PLAIN = [contract for contract in CONTRACTS.values() if not contract.collective]
CPU = torch.device("cpu")
BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
ROLES = [Role.NAIVE, Role.OPTIMIZED]


def _edges() -> list[object]:
    return [
        pytest.param(contract, index, dtype, id=f"{contract.operator}-{index}-{dtype.value}")
        for contract in PLAIN
        for index in range(len(contract.edge_cases))
        for dtype in contract.dtypes
    ]


@pytest.mark.parametrize(("contract", "index", "dtype"), _edges())
def test_edge_shapes_are_right(contract: Contract, index: int, dtype: DType) -> None:
    """Naive and optimized keep the contract at every edge shape and dtype, and leave their inputs alone."""
    case = contract.case(contract.edge_cases[index], dtype, Phase.DECODE)
    op = operator(contract.operator)
    inputs = op.make_inputs(case, 7, "cpu")
    kept = [tensor.clone() for tensor in inputs]
    reference = op.reference(case, inputs)
    for implementation in op.implementations("cpu"):
        if implementation.role in ROLES:
            own = op.private(inputs)
            comparison = op.check(case, inputs, implementation.prepare(case, CPU)(*own), reference)
            assert comparison.ok, f"{implementation.name}: {comparison.reason}"
            assert all(
                torch.equal(t.view(BITS[t.element_size()]), k.view(BITS[k.element_size()]))
                for t, k in zip(op.kept(own), op.kept(tuple(kept)), strict=True)
            )


def _extremes() -> list[object]:
    return [
        pytest.param(contract, extreme, dtype, id=f"{contract.operator}-{extreme.name}-{dtype.value}")
        for contract in PLAIN
        for extreme in contract.extremes
        for dtype in contract.dtypes
    ]


@pytest.mark.parametrize(("contract", "extreme", "dtype"), _extremes())
def test_extreme_values_are_right(contract: Contract, extreme: Extreme, dtype: DType) -> None:
    """Large, tiny, zero and non-finite values give what the formula gives in float64."""
    case = contract.case(contract.edge_cases[3], dtype, Phase.DECODE)
    op = operator(contract.operator)
    inputs = with_extreme(op.make_inputs(case, 7, "cpu"), extreme)
    reference = op.reference(case, inputs)
    stretched = replace(op, contract=contract_at(contract, extreme))
    for implementation in op.implementations("cpu"):
        if implementation.role in ROLES:
            output = implementation.prepare(case, CPU)(*op.private(inputs))
            comparison = stretched.check(case, inputs, output, reference)
            assert comparison.ok, f"{implementation.name}: {comparison.reason}"
