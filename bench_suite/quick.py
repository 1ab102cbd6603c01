"""Writes configs/suites/quick.toml: the cells of a laptop's suite, weighted by a derivation from a real trace.

    python -m bench_suite.quick > configs/suites/quick.toml

Each case stands for the shapes of one operator whose size (M, rows, q or batch) lies in a range; it is the shape at the
middle of their production time, exact and unrounded, and weighs their share of all production time. Ranges that a CPU
cannot run in seconds (GEMMs of whole prompts) are left out: the weights then sum to less than 1, which is the truth.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bench_suite.contract import AxisValue, DType
from bench_suite.contracts import contract
from bench_suite.shapes.derive import ShapeGroup, ShapeTable, derive

TRACE = "azure2023_conv"
MODEL = "llama-3.1-8b"
TOKEN_BUDGET = 2048
LOAD = 0.25
"""A quarter of the trace's arrival rate: a replica with a few requests at a time, GEMMs of M 1 to 8."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """The shapes of one operator family between two sizes."""

    family: str
    label: str
    phase: str
    low: int
    high: int


CELLS = (
    Cell(family="gate_up", label="gate and up projection, M 1", phase="decode", low=1, high=1),
    Cell(family="gate_up", label="gate and up projection, M 2 to 8", phase="decode", low=2, high=8),
    Cell(family="down", label="down projection, M 1", phase="decode", low=1, high=1),
    Cell(family="down", label="down projection, M 2 to 8", phase="decode", low=2, high=8),
    Cell(family="qkv", label="query, key, value projection, M 1", phase="decode", low=1, high=1),
    Cell(family="qkv", label="query, key, value projection, M 2 to 8", phase="decode", low=2, high=8),
    Cell(family="o", label="output projection, M 1 to 8", phase="decode", low=1, high=8),
    Cell(family="o", label="output projection, prompt chunk of 17 to 64", phase="prefill", low=17, high=64),
    Cell(family="decode", label="decode attention, batch 1 or 2", phase="decode", low=1, high=2),
    Cell(family="decode", label="decode attention, batch 3 to 8", phase="decode", low=3, high=8),
    Cell(family="prefill", label="prefill attention, prompt chunk up to 256", phase="prefill", low=1, high=256),
    Cell(family="rms_norm", label="norm of a prompt", phase="prefill", low=129, high=1024),
    Cell(family="swiglu", label="activation of a prompt", phase="prefill", low=129, high=512),
    Cell(family="sampling", label="softmax over the vocabulary", phase="decode", low=1, high=8),
)

TENSOR_PARALLEL_CELLS = (
    Cell(family="tensor_parallel", label="tensor-parallel sum, decode", phase="decode", low=1, high=8),
    Cell(family="tensor_parallel", label="tensor-parallel sum, short prompt", phase="prefill", low=129, high=512),
)
"""Of the same model on two ranks, sizes in tokens. Another derivation, so that they carry no weight beside the rest."""

HEAD = """\
# Llama-3.1-8B serving the Azure conversation trace at a quarter of its rate, cut to what a laptop measures in minutes.
# Made by `python -m bench_suite.quick`; do not edit. N and K are the model's, unmodified.
# The vocabulary projection (2.1 GB of fp32 weight) and GEMMs of whole prompts are left out.

[suite]
name = "quick"
summary = "Llama-3.1-8B at low load: decode and short prompts, three minutes on two cores"
version = 1
seed = 20
dtype = { cpu = "fp32", accelerator = "bf16" }

[method]
replicates = 3
target_half_width = 0.03
min_rounds = 8
max_rounds = 200
case_budget_s = 0.8
single_calls = 100
threads = 1
"""


def write() -> Iterator[str]:
    """The lines of the suite file."""
    table = _derive(tensor_parallel=1)
    origin = table.derivation
    yield HEAD
    yield "[source]"
    yield f'trace = "{origin.trace}"'
    yield f'model = "{origin.model}"'
    yield f"tp = {origin.tensor_parallel}"
    yield f"budget = {origin.token_budget}"
    yield f"load = {origin.load:g}"
    yield f'padding = "{origin.padding}"'
    yield f'commit = "{origin.trace_source}"'
    yield f'licence = "{origin.trace_licence}"'
    for cell in CELLS:
        yield from _case(table, cell, weighted=True)
    parallel = _derive(tensor_parallel=2)
    for cell in TENSOR_PARALLEL_CELLS:
        yield from _case(parallel, cell, weighted=False)


def _derive(tensor_parallel: int) -> ShapeTable:
    return derive(TRACE, MODEL, tensor_parallel=tensor_parallel, token_budget=TOKEN_BUDGET, load=LOAD)


def _case(table: ShapeTable, cell: Cell, *, weighted: bool) -> Iterator[str]:
    group = next(group for group in table.groups if group.family == cell.family)
    inside = np.flatnonzero((group.size >= cell.low) & (group.size <= cell.high))
    time_s = (group.calls * group.time_s)[inside]
    order = np.argsort(group.time_s[inside], kind="stable")
    middle = int(inside[order[np.searchsorted(np.cumsum(time_s[order]), time_s.sum() / 2)]])
    yield ""
    yield "[[case]]"
    yield f'operator = "{group.operator}"'
    yield f'phase = "{cell.phase}"'
    yield f'label = "{cell.label}"'
    yield f"axes = {{ {', '.join(f'{name} = {_value(size)}' for name, size in _axes(group, middle))} }}"
    if weighted:
        yield f"weight = {time_s.sum() / table.total_time_s:.3g}"
    else:
        parallel = table.derivation.tensor_parallel
        yield f'provenance = "{TRACE}, {MODEL} tp{parallel}, budget {TOKEN_BUDGET}, load {LOAD:g}, padding none"'


def _axes(group: ShapeGroup, index: int) -> tuple[tuple[str, AxisValue], ...]:
    """The contract's axes; a message is counted in bytes of bf16 there and in elements here."""
    axes = dict(group.axes(index))
    if "size_bytes" in axes:
        size_bytes = axes.pop("size_bytes")
        assert isinstance(size_bytes, int)
        axes["elements"] = size_bytes // DType.BF16.size_bytes
    promise = contract(group.operator)
    return tuple((axis.name, axes[axis.name]) for axis in promise.axes)


def _value(size: AxisValue) -> str:
    return f"[{', '.join(map(str, size))}]" if isinstance(size, tuple) and len(size) > 1 else _one(size)


def _one(size: AxisValue) -> str:
    return str(size[0] if isinstance(size, tuple) else size)


def main() -> None:
    sys.stdout.writelines(f"{line}\n" for line in write())


if __name__ == "__main__":
    main()
