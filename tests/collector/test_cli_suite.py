"""`collector suite static` and `coverage`: what is told of kernels and of implementations, and how it is decided."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from bench_suite.contract import DType, Phase, Role
from bench_suite.contracts import CONTRACTS, contract
from bench_suite.plan import PlannedCase
from bench_suite.static import StaticMetrics
from collector.cli.inventory import coverage_lines, static_lines
from collector.cli.main import app
from collector.errors import exit_code
from collector.node.coverage import ArmCoverage, Coverage, OperatorCoverage, arms_of, smallest_cases, usual_dtype
from collector.node.crew import Death, Outcome
from collector.node.ledger import CaseRecord
from collector.node.protocol import Arm, ArmFailed, ArmsListed, CaseFailed

CASE = contract("rms_norm").case({"rows": 1, "hidden": 1}, DType.FP32, Phase.MIXED)
ARMS = (
    Arm(label="naive", role=Role.NAIVE, implementation="eager", origin="generic"),
    Arm(label="optimized", role=Role.OPTIMIZED, implementation="library", origin="vendor"),
    Arm(label="aa", role=Role.AA, implementation="library", origin="vendor"),
    Arm(label="candidate", role=Role.CANDIDATE, implementation="triton", origin="handwritten"),
    Arm(label="candidate:two", role=Role.CANDIDATE, implementation="two", origin="generic"),
)


def suite(*arguments: str) -> Result:
    """`collector suite ...`, in this process."""
    return CliRunner().invoke(app, ["suite", *arguments])


def refusal(result: Result) -> str:
    """The message of the error, of exit code 2."""
    assert result.exception is not None
    assert exit_code(result.exception) == 2, repr(result.exception)
    return str(result.exception)


def record(*messages: Any, death: Death | None = None, arms: tuple[Arm, ...] = ARMS) -> CaseRecord:
    """A case of which a worker said this."""
    found = CaseRecord(planned=PlannedCase(case=CASE, weight=None, label="", provenance=""))
    listed = [ArmsListed(arms=list(arms), unsupported={})] if arms else []
    found.take(Outcome(messages=[*listed, *messages], death=death), None)
    return found


def states(*records: CaseRecord) -> dict[str, Coverage]:
    return {arm.label: arm.state for arm in arms_of(records)}


def test_what_runs_is_told_by_who_wrote_it() -> None:
    """An implementation that runs and is right is vendor, handwritten or generic; the A/A copy is none of its own."""
    assert states(record()) == {
        "naive": Coverage.GENERIC,
        "optimized": Coverage.VENDOR,
        "candidate": Coverage.HANDWRITTEN,
        "candidate:two": Coverage.GENERIC,
    }


def test_what_does_not_run_is_missing_or_failing_with_the_reason() -> None:
    """Unsupported and absent are missing; raised, wrong and dead are failing, with kind, case and words."""
    dead = Death(kind="timed_out", arm="candidate:two", step="compile", message="no answer in step compile")
    seen = record(
        ArmFailed(arm="naive", kind="unsupported", message="needs matrix units", step="prepare"),
        ArmFailed(arm="candidate", kind="crashed", message="ValueError: odd", step="prepare"),
        death=dead,
    )

    found = {arm.label: arm for arm in arms_of([seen])}

    assert (found["naive"].state, found["naive"].reason) == (Coverage.MISSING, "needs matrix units")
    assert found["candidate"].state is Coverage.FAILING
    assert found["candidate"].reason == f"crashed in {CASE.case_id}: ValueError: odd"
    assert found["candidate:two"].reason.startswith("timed_out in ")
    assert found["optimized"].state is Coverage.VENDOR
    absent = arms_of([record(arms=ARMS[:3])])[-1]
    assert (absent.label, absent.state, absent.reason) == (
        "candidate",
        Coverage.MISSING,
        "no candidate on this device",
    )


def test_one_bad_shape_decides() -> None:
    """Over several shapes the one that fails is what is told, whichever it is; failing goes before missing."""
    good, unsupported = record(), record(ArmFailed(arm="naive", kind="unsupported", message="m", step="prepare"))
    failing = record(ArmFailed(arm="naive", kind="wrong", message="off by 3", step="prepare"))

    assert states(good, unsupported)["naive"] is Coverage.MISSING
    assert states(good, unsupported, failing)["naive"] is Coverage.FAILING


def test_a_case_that_cannot_be_set_up_fails_all() -> None:
    """Where not even inputs or reference can be had, every role fails with that reason."""
    seen = record(CaseFailed(kind="out_of_memory", message="no memory for inputs"), arms=())

    assert states(seen) == dict.fromkeys(("naive", "optimized", "candidate"), Coverage.FAILING)


@pytest.mark.parametrize("name", list(CONTRACTS))
def test_every_operator_has_a_smallest_case(name: str) -> None:
    """The smallest case comes first, is an edge case of the contract, and has a type that the contract has."""
    entry = contract(name)
    dtype = usual_dtype(entry, DType.FP64)

    cases = smallest_cases(entry, dtype, 3)

    assert dtype in entry.dtypes
    assert 1 <= len(cases) <= 3
    sizes = [entry.input_bytes(case) for case in cases]
    assert sizes == sorted(sizes)
    assert sizes[0] == min(entry.input_bytes(entry.case(a, dtype, Phase.MIXED)) for a in entry.edge_cases)


def test_a_row_names_states_axes_and_rounding() -> None:
    """One row an operator; the reasons of what is missing or failing below it."""
    arms = (
        ArmCoverage(label="naive", role=Role.NAIVE, implementation="n", state=Coverage.GENERIC),
        ArmCoverage(label="optimized", role=Role.OPTIMIZED, implementation="o", state=Coverage.VENDOR),
        ArmCoverage(
            label="candidate", role=Role.CANDIDATE, implementation="c", state=Coverage.FAILING, reason="crashed: odd"
        ),
        ArmCoverage(label="candidate:x", role=Role.CANDIDATE, implementation="x", state=Coverage.HANDWRITTEN),
    )
    entry = OperatorCoverage(
        operator="rms_norm",
        family="RMSNorm",
        dtype=DType.FP32,
        case_ids=(CASE.case_id,),
        arms=arms,
        sensitivity="eps decides near zero",
        dynamic_axes=("rows",),
    )

    row, reason = coverage_lines(entry)

    assert " ".join(row.split()) == "rms_norm fp32 generic vendor failing, handwritten rows eps decides near zero"
    assert reason == "  candidate failing: crashed: odd"


def test_coverage_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On a CPU RMSNorm has all three arms, by two smallest shapes; the parent imports no torch for it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    known = "torch" in sys.modules

    done = suite("coverage", "--device", "cpu", "--operator", "rms_norm", "--edges", "2", "--json")

    assert done.exit_code == 0, done.exception
    document = json.loads(done.stdout)
    assert document["device"]["kind"] == "cpu"
    (entry,) = document["operators"]
    assert (entry["dtype"], len(entry["case_ids"]), entry["dynamic_axes"]) == ("fp32", 2, ["rows"])
    assert [(arm["label"], arm["state"]) for arm in entry["arms"]] == [
        ("naive", "generic"),
        ("optimized", "vendor"),
        ("candidate", "generic"),
    ]
    assert known or "torch" not in sys.modules


def test_static_of_one_kernel() -> None:
    """One kernel compiled for two vendors' chips, without either: its numbers as JSON."""
    done = suite("static", "--chips", "sm_90,gfx942", "--operator", "rms_norm", "--json")

    assert done.exit_code == 0, done.exception
    found = json.loads(done.stdout)
    assert [(m["operator"], m["chip"], m["failure"]) for m in found] == [
        ("rms_norm", "sm_90", ""),
        ("rms_norm", "gfx942", ""),
    ]
    assert all(m["registers"] > 0 and len(m["binary_sha256"]) == 64 for m in found)


def test_a_table_of_kernels_by_chips() -> None:
    """A row a kernel, a column a chip: registers, shared memory, spills where there are any; a failure below."""
    plain = StaticMetrics(operator="gemm", kernel="k", variant="k[a]", chip="sm_90", registers=128, shared_bytes=49152)
    found = [
        plain,
        replace(plain, chip="gfx942", registers=90, accumulation_registers=10, shared_bytes=0, spills=3),
        replace(plain, variant="k[bb]", failure="CompilationError: no"),
    ]

    assert static_lines(found) == [
        "         sm_90     gfx942",
        "k[a]   128 48K  100 0K 3s",
        "k[bb]    fails          –",
        "registers a thread, shared memory of a block in KiB, s: spills",
        "k[bb] for sm_90: CompilationError: no",
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["static", "--chips", "sm_1"], "chip 'sm_1': not known, must be one of"),
        (["static", "--chips", ""], "chip '': not known"),
        (["static", "--dtype", "fp12"], "dtype 'fp12': must be bf16, fp16 or fp32"),
        (["static", "--operator", "conv"], "operator 'conv' is unknown"),
        (["coverage", "--operator", "conv"], "operator 'conv' is unknown"),
        (["coverage", "--dtype", "fp12"], "--dtype: dtype is 'fp12'"),
        (["coverage", "--edges", "0"], "--edges is 0"),
        (["coverage", "--limit", "0"], "--limit 0"),
        (["coverage", "--device", "cuda:x"], "--device is 'cuda:x'"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], words: str) -> None:
    """What, value, rule; nothing is compiled or started."""
    assert words in refusal(suite(*arguments))
