"""What competes on each device type, and the compiled candidates of a CPU on real compiles."""

from __future__ import annotations

import pytest
import torch

from bench_suite.contract import ContractError, DType, Phase, Role
from bench_suite.contracts import CONTRACTS, contract
from bench_suite.operators.base import Origin, Unsupported
from bench_suite.operators.registry import MODULES, operator

CPU = torch.device("cpu")

# The compiler's own imports warn of torch.jit in torch 2.13; nothing of ours can change that.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script.*:DeprecationWarning")


@pytest.mark.parametrize("device_type", ["cpu", "cuda", "xpu"])
@pytest.mark.parametrize("name", CONTRACTS)
def test_one_naive_and_one_optimized(name: str, device_type: str) -> None:
    """Every operator has exactly one naive and one optimized implementation, and no two of one name."""
    entries = operator(name).implementations(device_type)
    roles = [entry.role for entry in entries]
    assert roles.count(Role.NAIVE) == 1 and roles.count(Role.OPTIMIZED) == 1
    assert set(roles) <= {Role.NAIVE, Role.OPTIMIZED, Role.CANDIDATE}
    assert len({entry.name for entry in entries}) == len(entries)
    assert all(entry.role is Role.OPTIMIZED for entry in entries if entry.origin is Origin.VENDOR)
    handwritten = [entry for entry in entries if entry.origin is Origin.HANDWRITTEN]
    assert all(entry.role is Role.CANDIDATE for entry in handwritten)


def test_the_registry_knows_every_contract() -> None:
    """Every contract has code, and an unknown name lists the known."""
    assert set(MODULES) == set(CONTRACTS)
    assert all(operator(name).contract is CONTRACTS[name] for name in CONTRACTS)
    with pytest.raises(ContractError, match="operator 'conv' is unknown"):
        operator("conv")


@pytest.mark.parametrize("name", ["gemm", "attention_prefill", "attention_decode", "rms_norm", "swiglu", "softmax"])
def test_an_accelerator_without_a_driver_has_no_triton(name: str) -> None:
    """Where Triton drives no device its kernel says so, instead of failing when it is called."""
    if torch.accelerator.is_available():
        pytest.skip("an accelerator is here: Triton may drive it")
    promise = contract(name)
    case = promise.case(promise.edge_cases[0], DType.BF16, Phase.DECODE)
    candidate = next(i for i in operator(name).implementations("cuda") if i.role is Role.CANDIDATE)
    with pytest.raises(Unsupported, match="Triton"):
        candidate.prepare(case, torch.device("cuda"))


@pytest.mark.parametrize(
    ("name", "index", "dtype"),
    [
        ("gemm", 3, DType.FP32),
        ("gemm", 1, DType.BF16),
        ("attention_prefill", 3, DType.FP32),
        ("attention_decode", 1, DType.BF16),
        ("rms_norm", 3, DType.BF16),
        ("swiglu", 2, DType.FP16),
        ("softmax", 3, DType.FP32),
    ],
)
def test_compiled_candidates_are_right(name: str, index: int, dtype: DType) -> None:
    """torch.compile of the formula keeps the contract at odd shapes, and two cases do not disturb each other."""
    promise = contract(name)
    case = promise.case(promise.edge_cases[index], dtype, Phase.DECODE)
    op = operator(name)
    candidate = next(i for i in op.implementations("cpu") if i.role is Role.CANDIDATE)
    inputs = op.make_inputs(case, 13, "cpu")
    output = candidate.prepare(case, CPU)(*op.private(inputs))
    comparison = op.check(case, inputs, output, op.reference(case, inputs))
    assert comparison.ok, comparison.reason
    assert isinstance(output, tuple) or output.is_contiguous()


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, dtype) for name, promise in CONTRACTS.items() if not promise.collective for dtype in promise.dtypes],
)
def test_compiled_candidates_are_right_at_every_edge(name: str, dtype: DType) -> None:
    """The compiled candidates keep the contract at every edge shape and dtype, compiled one after the other."""
    promise, op = contract(name), operator(name)
    candidate = next(i for i in op.implementations("cpu") if i.role is Role.CANDIDATE)
    for axes in promise.edge_cases:
        case = promise.case(axes, dtype, Phase.DECODE)
        inputs = op.make_inputs(case, 13, "cpu")
        output = candidate.prepare(case, CPU)(*op.private(inputs))
        comparison = op.check(case, inputs, output, op.reference(case, inputs))
        assert comparison.ok, f"{case.case_id}: {comparison.reason}"
