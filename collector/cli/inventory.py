"""`collector suite static` and `coverage`: what the kernels are before they run, and what runs on a device at all."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from collector.cli.options import Json
from collector.cli.progress import CLEAR_LINE

if TYPE_CHECKING:
    from bench_suite.contract import Contract
    from bench_suite.static import StaticMetrics
    from collector.node.coverage import ArmCoverage, OperatorCoverage

Operators = Annotated[list[str] | None, typer.Option("--operator", help="Only this operator; may be repeated.")]


def register(suite_app: typer.Typer) -> None:
    """Adds the commands to `collector suite`."""
    suite_app.command("static")(static)
    suite_app.command("coverage")(coverage)


def static(
    chips: Annotated[
        str | None, typer.Option(help="Architectures, as sm_90,gfx942.", show_default="all that are known")
    ] = None,
    operator: Operators = None,
    dtype: Annotated[str, typer.Option(help="bf16, fp16 or fp32.")] = "bf16",
    store: Annotated[
        str | None, typer.Option(help="Keep the metrics in this store, and say what changed since the last ones.")
    ] = None,
    fail_on_regression: Annotated[
        bool, typer.Option("--fail-on-regression", help="With --store: exit 1 where a binary needs more.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Every metric as JSON.")] = False,
) -> None:
    """Compile each Triton kernel for each chip and read the binary; no GPU is needed.

    Registers, spills and shared memory are exact: they have no noise. Equal binaries have equal hashes.

    With --store they are kept as series, and each binary is held against the one before: exactly, in one look.

    Example: collector suite static --chips sm_90,gfx942 --operator gemm --store observatory-data
    """
    from bench_suite.static import CHIPS, measure_static
    from collector.cli.places import store_uri
    from collector.cli.static_series import change_lines, keep_static
    from collector.errors import UsageError

    names = tuple(part.strip() for part in chips.split(",")) if chips is not None else tuple(CHIPS)
    wanted = [contract.operator for contract in _contracts(operator)] if operator else []
    found: list[StaticMetrics] = []
    for metrics in measure_static(names, dtype=dtype, operators=wanted):
        found.append(metrics)
        _tell(f"{len(found)} compiled, last {metrics.variant} for {metrics.chip}")
    _tell("")
    if not found:
        raise UsageError(f"--operator is {', '.join(wanted)}: no Triton kernel of it; `collector suite static` has all")
    changes = keep_static(found, store_uri(store)) if store is not None else []
    if as_json:
        typer.echo(json.dumps([asdict(metrics) for metrics in found]))
    else:
        for line in (*static_lines(found), *(change_lines(changes) if store is not None else ())):
            typer.echo(line)
    if fail_on_regression and any(change.verdict.value == "regressed" for change in changes):
        raise typer.Exit(1)


def static_lines(found: Sequence[StaticMetrics]) -> list[str]:
    """Kernel by chip: registers a thread, shared memory of a block, and spills where there are any."""
    chips = list(dict.fromkeys(m.chip for m in found))
    variants = list(dict.fromkeys(m.variant for m in found))
    cells = {(m.variant, m.chip): _static_cell(m) for m in found}
    name_width = max(len(name) for name in variants)
    widths = {chip: max(len(chip), *(len(cells.get((name, chip), "–")) for name in variants)) for chip in chips}
    lines = [" " * name_width + "".join(f"  {chip:>{widths[chip]}}" for chip in chips)]
    for name in variants:
        row = "".join(f"  {cells.get((name, chip), '–'):>{widths[chip]}}" for chip in chips)
        lines.append(f"{name:<{name_width}}{row}")
    lines.append("registers a thread, shared memory of a block in KiB, s: spills")
    lines += [f"{m.variant} for {m.chip}: {m.failure}" for m in found if m.failure]
    return lines


def _static_cell(metrics: StaticMetrics) -> str:
    if metrics.failure:
        return "fails"
    registers = metrics.registers + metrics.accumulation_registers
    spills = f" {metrics.spills}s" if metrics.spills else ""
    return f"{registers} {metrics.shared_bytes / 1024:.0f}K{spills}"


def coverage(
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, xpu ...; KIND:INDEX for one of several.")] = "auto",
    operator: Operators = None,
    dtype: Annotated[
        str | None, typer.Option(help="Element type.", show_default="fp32 on a CPU, bf16 elsewhere")
    ] = None,
    edges: Annotated[int, typer.Option(help="How many of the smallest edge shapes to run.")] = 1,
    limit: Annotated[float, typer.Option(help="Seconds after which a step is called hung.")] = 120.0,
    as_json: Json = False,
) -> None:
    """Run every implementation of every operator once and say which there are on this device.

    vendor, handwritten or generic where it runs and is right; missing or failing, with the reason, where not. Beside
    it: which axes change from call to call, and where rounding enters. Nothing is timed.

    Example: collector suite coverage --device cuda:0 --dtype fp16 --edges 3
    """
    from bench_suite.contract import DType, parse_dtype
    from collector.cli.run import parse_device
    from collector.errors import UsageError
    from collector.node.coverage import Inventory
    from collector.node.folders import state_folder, work_folder
    from collector.node.lock import run_lock
    from collector.node.worker_variables import worker_environment

    if edges < 1 or not limit > 0:
        raise UsageError(f"--edges is {edges} and --limit {limit:g}, must be at least 1 and more than 0")
    contracts = _contracts(operator)
    kind, index = parse_device(device)
    wanted = parse_dtype(dtype, where="--dtype") if dtype is not None else None
    environment = worker_environment(1)
    with run_lock(state_folder() / "run.lock"), work_folder() as folder:
        inventory = Inventory(kind, index, folder=folder, environment=environment, limit_s=limit)
        with inventory:
            identity = inventory.open()
            usual = DType.FP32 if identity.kind == "cpu" else DType.BF16
            found = []
            if not as_json:
                typer.echo(f"{identity.model} ({identity.unit})")
                typer.echo(coverage_head())
            for entry in inventory.examine(contracts, wanted or usual, edges=edges):
                found.append(entry)
                for line in () if as_json else coverage_lines(entry):
                    typer.echo(line)
    if as_json:
        document = {"model": identity.model, "unit": identity.unit, "kind": identity.kind}
        typer.echo(json.dumps({"device": document, "operators": [asdict(entry) for entry in found]}))


def coverage_head() -> str:
    """The names of the columns."""
    return f"{'operator':<26} {'naive':<12} {'optimized':<12} {'candidate':<12} {'dynamic':<10} numerically sensitive"


def coverage_lines(entry: OperatorCoverage) -> list[str]:
    """One row an operator; below it what is missing or failing, and why."""
    from bench_suite.contract import Role

    columns = [_states(entry.arms, role.value) for role in (Role.NAIVE, Role.OPTIMIZED, Role.CANDIDATE)]
    name = f"{entry.operator} {entry.dtype.value}"
    row = f"{name:<26} {columns[0]:<12} {columns[1]:<12} {columns[2]:<12} {', '.join(entry.dynamic_axes):<10}"
    reasons = [f"  {arm.label} {arm.state.value}: {arm.reason}" for arm in entry.arms if arm.reason]
    return [f"{row} {entry.sensitivity}", *reasons]


def _states(arms: Sequence[ArmCoverage], role: str) -> str:
    """The states of all arms of a role, each once."""
    return ", ".join(dict.fromkeys(arm.state.value for arm in arms if arm.role.value == role))


def _contracts(names: list[str] | None) -> list[Contract]:
    """The contracts of these names, or all. Raises ContractError for one that is not known."""
    from bench_suite.contracts import CONTRACTS, contract

    return [contract(name) for name in dict.fromkeys(names)] if names else list(CONTRACTS.values())


def _tell(words: str) -> None:
    """One line on stderr, rewritten, where somebody looks."""
    if sys.stderr.isatty():
        sys.stderr.write(CLEAR_LINE + words)
        sys.stderr.flush()
