"""Grouped GEMM on torch: a matrix-vector product a row, torch's grouped call, one GEMM an expert, a Triton kernel."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import torch

from bench_suite.contract import Case
from bench_suite.contracts.grouped_gemm import GROUPED_GEMM, rows_of_experts
from bench_suite.operators.base import Implementation, Inputs, Operator, Runner, Unsupported, normal
from bench_suite.operators.frames import candidate, chosen_library, eager
from bench_suite.operators.triton_candidate import triton_candidate

_ALIGNMENT_BYTES = 16
"""torch's grouped call takes rows of whole 16-byte units only."""


def _make(case: Case, seed: int, device: torch.device, rank: int) -> Inputs:
    rows, experts, n, k = case["rows"], case["experts"], case["N"], case["K"]
    x = normal(case, seed, device, tensor="x", shape=(rows, k), rank=rank)
    weight = normal(case, seed, device, tensor="weight", shape=(experts, n, k), sd=1 / math.sqrt(k), rank=rank)
    ends = torch.tensor(list(itertools.accumulate(rows_of_experts(case))), dtype=torch.int32)
    return x, weight, ends.to(device)


def _runs(ends: torch.Tensor) -> Iterator[tuple[int, slice]]:
    """Each active expert with its rows."""
    start = 0
    for expert, end in enumerate(ends.tolist()):
        if end > start:
            yield expert, slice(start, end)
        start = end


def _reference(case: Case, inputs: Sequence[Inputs], rank: int) -> torch.Tensor:
    x, weight, ends = (tensor.to("cpu") for tensor in inputs[rank])
    result = torch.empty(x.shape[0], weight.shape[1], dtype=torch.float64)
    for expert, rows in _runs(ends):
        result[rows] = x[rows].double() @ weight[expert].double().T
    return result


def _rowwise(x: torch.Tensor, weight: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """Textbook: each row alone, so that an expert's weight is read once a row."""
    out = x.new_empty(x.shape[0], weight.shape[1])
    for expert, rows in _runs(ends):
        for row in range(rows.start, rows.stop):
            torch.mv(weight[expert], x[row], out=out[row])
    return out


def _each_expert(x: torch.Tensor, weight: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """One GEMM an active expert."""
    out = x.new_empty(x.shape[0], weight.shape[1])
    for expert, rows in _runs(ends):
        out[rows] = torch.nn.functional.linear(x[rows], weight[expert])
    return out


def _grouped(x: torch.Tensor, weight: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.grouped_mm(x, weight.mT, offs=ends)


def _prepare_grouped(case: Case, device: torch.device) -> Runner:
    for axis in ("N", "K"):
        row_bytes = case[axis] * case.dtype.size_bytes
        if row_bytes % _ALIGNMENT_BYTES:
            raise Unsupported(f"torch.grouped_mm needs rows of {axis} in multiples of 16 bytes, here {row_bytes}")
    return _grouped


_EACH_EXPERT = candidate("linear an expert", lambda case, device: _each_expert)


def _implementations(device_type: str) -> tuple[Implementation, ...]:
    usual = (
        eager(_rowwise, "torch.mv a row"),
        chosen_library("torch.nn.functional.grouped_mm", _prepare_grouped),
    )
    if device_type == "cpu":
        return *usual, _EACH_EXPERT
    return *usual, triton_candidate("grouped_gemm"), _EACH_EXPERT


OPERATOR = Operator(
    contract=GROUPED_GEMM, make=_make, compute_reference=_reference, list_implementations=_implementations
)
