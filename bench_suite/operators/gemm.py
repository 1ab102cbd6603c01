"""GEMM on torch, plain, batched, and its gradients: matrix-vector products, the library's call, a candidate."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from bench_suite.contract import Case, DType
from bench_suite.contracts.gemm import BATCHED_GEMM, GEMM, GEMM_DGRAD, GEMM_WGRAD
from bench_suite.operators.base import Inputs, Runner
from bench_suite.operators.compiled import multiplies_natively
from bench_suite.operators.frames import (
    Draw,
    by_compiler,
    chosen_library,
    eager,
    in_float64,
    plain_operator,
    recipe,
)
from bench_suite.operators.result import TORCH_DTYPES
from bench_suite.operators.triton_candidate import triton_candidate

REFERENCE_ROWS = 2048
"""Rows of the weight that are widened to float64 at a time: the whole would be 4 GB for a vocabulary projection."""

_UPCAST_ROWS = 40
"""Measured with benchmarks/operators.py: linear takes 0.81 of the upcast at M = 32, 1.3 times at 64."""


def _inputs(case: Case, draw: Draw) -> Inputs:
    return draw("x", "M", "K"), draw("weight", "N", "K", sd=1 / math.sqrt(case["K"]))


def _reference(case: Case, inputs: Sequence[Inputs], rank: int) -> torch.Tensor:
    x, weight = inputs[rank]
    wide = x.to("cpu", torch.float64)
    result = torch.empty(wide.shape[0], weight.shape[0], dtype=torch.float64)
    for start in range(0, weight.shape[0], REFERENCE_ROWS):
        rows = weight[start : start + REFERENCE_ROWS].to("cpu", torch.float64)
        result[:, start : start + rows.shape[0]] = wide @ rows.T
    return result


def _rowwise(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Textbook: each token alone, so that the weight is read from memory M times."""
    out = x.new_empty(x.shape[0], weight.shape[0])
    for m in range(x.shape[0]):
        torch.mv(weight, x[m], out=out[m])
    return out


def upcast(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return (x.float() @ weight.float().T).to(x.dtype)


def _reduction(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Sum of products, output features outermost: a compiler that fuses it reads each row of the weight once."""
    products = weight.float()[:, None, :] * x.float()[None, :, :]  # [N, M, K], never stored once compiled
    return products.sum(-1).T.to(x.dtype).contiguous()


def _prepare_linear(case: Case, device: torch.device) -> Runner:
    """Without 16-bit matrix units torch multiplies row by row: from some 40 rows on, widening the weight is faster."""
    if multiplies_natively(case, device) or case["M"] < _UPCAST_ROWS:
        return torch.nn.functional.linear
    return upcast


def _widened(formula: Runner) -> Callable[[Case, torch.device], Runner]:
    """The library's product; in float32 on a CPU without units for the dtype (it would go row by row)."""

    def wide(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        result = formula(a.float(), b.float())
        assert isinstance(result, torch.Tensor)
        return result.to(a.dtype)

    def prepare(case: Case, device: torch.device) -> Runner:
        return formula if multiplies_natively(case, device) or case.dtype is DType.FP32 else wide

    return prepare


def _batched_inputs(case: Case, draw: Draw) -> Inputs:
    return draw("x", "batch", "M", "K"), draw("weight", "batch", "N", "K", sd=1 / math.sqrt(case["K"]))


def _batched(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.bmm(x, weight.mT)


def _one_by_one(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Textbook: each token of each entry alone."""
    out = x.new_empty(x.shape[0], x.shape[1], weight.shape[1])
    for b in range(x.shape[0]):
        for m in range(x.shape[1]):
            torch.mv(weight[b], x[b, m], out=out[b, m])
    return out


def _batched_reduction(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    products = weight.float()[:, :, None, :] * x.float()[:, None, :, :]  # [batch, N, M, K], never stored once compiled
    return products.sum(-1).mT.to(x.dtype).contiguous()


def _dgrad_inputs(case: Case, draw: Draw) -> Inputs:
    return draw("dy", "M", "N"), draw("weight", "N", "K", sd=1 / math.sqrt(case["N"]))


def _dgrad(dy: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return dy @ weight


def _dgrad_rowwise(dy: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Textbook: each token alone, so that the weight is read from memory M times."""
    return _rowwise(dy, weight.T)


def _dgrad_reduction(dy: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return (dy.float()[:, :, None] * weight.float()[None, :, :]).sum(1).to(dy.dtype)


def _wgrad_inputs(case: Case, draw: Draw) -> Inputs:
    return draw("dy", "M", "N", sd=1 / math.sqrt(case["M"])), draw("x", "M", "K")


def _wgrad(dy: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return dy.T @ x


def _wgrad_rowwise(dy: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Textbook: each output feature alone, so that the input is read from memory N times."""
    return _rowwise(dy.T.contiguous(), x.T)


def _wgrad_reduction(dy: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return (dy.float()[:, :, None] * x.float()[:, None, :]).sum(0).to(x.dtype)


def _no_descriptors(module: Any, case: Case, device: torch.device) -> str:
    from bench_suite.kernels.runtime import device_traits

    reason: str = module.why_not(case["N"], case["K"], TORCH_DTYPES[case.dtype], device_traits(device))
    return reason


_SUM = "torch.compile(sum of products)"

OPERATORS = {
    "gemm": plain_operator(
        GEMM,
        make=recipe(_inputs),
        reference=_reference,
        naive=eager(_rowwise, "torch.mv a row"),
        optimized=chosen_library("torch.nn.functional.linear", _prepare_linear),
        compiles=by_compiler(_reduction, _SUM),
        triton="gemm",
        more_triton=(triton_candidate("gemm_persistent", why_not=_no_descriptors),),
    ),
    "batched_gemm": plain_operator(
        BATCHED_GEMM,
        make=recipe(_batched_inputs),
        reference=in_float64(_batched),
        naive=eager(_one_by_one, "torch.mv a row"),
        optimized=chosen_library("torch.bmm", _widened(_batched)),
        compiles=by_compiler(_batched_reduction, _SUM),
    ),
    "gemm_dgrad": plain_operator(
        GEMM_DGRAD,
        make=recipe(_dgrad_inputs),
        reference=in_float64(_dgrad),
        naive=eager(_dgrad_rowwise, "torch.mv a row"),
        optimized=chosen_library("torch.matmul, weight untransposed", _widened(_dgrad)),
        compiles=by_compiler(_dgrad_reduction, _SUM),
    ),
    "gemm_wgrad": plain_operator(
        GEMM_WGRAD,
        make=recipe(_wgrad_inputs),
        reference=in_float64(_wgrad),
        naive=eager(_wgrad_rowwise, "torch.mv an output feature"),
        optimized=chosen_library("torch.matmul, both transposed", _widened(_wgrad)),
        compiles=by_compiler(_wgrad_reduction, _SUM),
    ),
}
