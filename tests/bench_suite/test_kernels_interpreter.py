"""Every Triton kernel against its contract, run by Triton's interpreter on the CPU in one child process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

from bench_suite.contracts import CONTRACTS
from bench_suite.operators.registry import operator

HERE = Path(__file__).parent
OPERATORS = (
    "gemm", "rms_norm", "swiglu", "softmax", "attention_prefill", "attention_decode", "attention_decode_paged",
    "grouped_gemm", "layer_norm", "geglu", "rope", "cross_entropy", "cross_entropy_backward", "gemm_int8",
    "attention_prefill_varlen", "sampling", "rms_norm_backward", "adamw", "gemm_persistent",
)  # fmt: skip
Verdicts = Mapping[str, list[dict[str, object]]]


def _run(dtypes: str) -> Verdicts:
    """Group -> what the child found of each case."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONWARNINGS"}
    child = subprocess.run(
        [sys.executable, str(HERE / "interpreter_child.py"), dtypes],
        capture_output=True,
        text=True,
        timeout=880 if dtypes != "fp32" else 280,
        env=environment | {"PYTHONPATH": str(HERE.parents[1])},
    )
    assert child.returncode == 0, child.stderr[-2000:]
    groups = defaultdict(list)
    for line in child.stdout.splitlines():
        found = json.loads(line)
        groups[found["group"]].append(found)
    return groups


@pytest.fixture(scope="module")
def verdicts() -> Verdicts:
    """In fp32; 16-bit types take the same paths through a kernel and are left to the long tests."""
    return _run("fp32")


def _hold(found: list[dict[str, object]]) -> None:
    assert len(found) >= 4
    assert [f"{case['label']}: {case['reason']}" for case in found if not case["right"]] == []


@pytest.mark.parametrize("group", [*(f"{name}-fp32" for name in OPERATORS), "strided"])
def test_kernel_keeps_its_contract(verdicts: Verdicts, group: str) -> None:
    """Edge cases, extreme values and awkward configurations stay within the contract's tolerance of float64."""
    _hold(verdicts[group])


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_kernels_keep_their_contracts_in_16_bits(dtype: str) -> None:
    """The same in bf16, which the interpreter needs widened, and in fp16, whose range is narrow."""
    found = _run(dtype)
    for name in OPERATORS:
        _hold(found[f"{name}-{dtype}"])


def test_every_kernel_that_an_operator_names_is_run_here() -> None:
    """A Triton candidate without a test in the interpreter does not pass unseen."""
    named = {
        name
        for name in CONTRACTS
        for implementation in operator(name).implementations("cuda")
        if implementation.name.startswith("triton ")
    }
    assert named <= set(OPERATORS)


def test_kernels_import_without_a_device() -> None:
    """No kernel file needs a GPU or the interpreter to be imported, and none is wrapped by autotune."""
    script = (
        "import importlib, pkgutil, bench_suite.kernels as package\n"
        "from triton.runtime.jit import JITFunction\n"
        "names = [m.name for m in pkgutil.iter_modules(package.__path__)]\n"
        "modules = [importlib.import_module(f'bench_suite.kernels.{name}') for name in names]\n"
        "kernels = {v for m in modules for n, v in vars(m).items() if n.endswith('_kernel')}\n"
        "assert len(kernels) == 24 and all(isinstance(k, JITFunction) for k in kernels), kernels\n"
    )
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}

    child = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, cwd=HERE.parents[1]
    )

    assert child.returncode == 0, child.stderr[-2000:]
