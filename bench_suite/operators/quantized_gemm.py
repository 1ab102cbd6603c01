"""GEMM with int8 weights and GEMM in fp8 on torch: widen and multiply, the library's call, a compiled candidate."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from bench_suite.contract import Case
from bench_suite.contracts.quantized_gemm import FP8_RESULT, GEMM_FP8, GEMM_INT8, INT8_RMS
from bench_suite.operators.base import Inputs, Runner, Unsupported, normal
from bench_suite.operators.frames import by_compiler, chosen_library, eager, plain_operator
from bench_suite.operators.gemm import REFERENCE_ROWS
from bench_suite.operators.result import TORCH_DTYPES

_PRIME = 7919
_FP8_ALIGNMENT = 16
"""torch._scaled_mm takes N and K in whole multiples of this on accelerators."""


def _make_int8(case: Case, seed: int, device: torch.device, rank: int) -> Inputs:
    """Weights run through -127 to 127 with a prime stride from a seeded start: evenly, and no two rows alike."""
    m, n, k = case["M"], case["N"], case["K"]
    x = normal(case, seed, device, tensor="x", shape=(m, k), rank=rank)
    steps = torch.arange(n * k, dtype=torch.int64).mul_(_PRIME).add_(seed * 31 + rank)
    weight = steps.remainder_(255).sub_(127).to(torch.int8).view(n, k).to(device)
    size = 1 / (INT8_RMS * math.sqrt(k))
    scale = normal(case, seed, torch.device("cpu"), tensor="scale", shape=(n,), mean=size, sd=size / 10, rank=rank)
    return x, weight, scale.abs().to(device)


def _reference_int8(case: Case, inputs: Sequence[Inputs], rank: int) -> torch.Tensor:
    x, weight, scale = (tensor.to("cpu") for tensor in inputs[rank])
    wide = x.double()
    parts = [
        wide @ weight[start : start + REFERENCE_ROWS].double().T for start in range(0, len(weight), REFERENCE_ROWS)
    ]
    return torch.cat(parts, dim=1) * scale.double()


def _widen_first(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Textbook: the whole weight widened and stored, then a float32 product, then the scale."""
    return (x.float() @ weight.float().T * scale.float()).to(x.dtype)


def _sum_of_products(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    products = weight.float()[:, None, :] * x.float()[None, :, :]  # [N, M, K], never stored once compiled
    return (products.sum(-1) * scale.float()[:, None]).T.to(x.dtype).contiguous()


def _prepare_int8(case: Case, device: torch.device) -> Runner:
    """torch's int8 weight-only product; its CPU kernel takes K in whole vectors, else the weight is widened."""
    if device.type == "cpu" and case["K"] % 16:
        return _widen_first
    return torch._weight_int8pack_mm


def _make_fp8(case: Case, seed: int, device: torch.device, rank: int) -> Inputs:
    m, n, k = case["M"], case["N"], case["K"]
    x = normal(case, seed, device, tensor="x", shape=(m, k), rank=rank)
    weight = normal(case, seed, device, tensor="weight", shape=(n, k), rank=rank)
    scales = torch.tensor([1.0, 1 / math.sqrt(k)]).to(device)
    return x, weight, scales[0].clone(), scales[1].clone()


def _reference_fp8(case: Case, inputs: Sequence[Inputs], rank: int) -> torch.Tensor:
    x, weight, scale_x, scale_weight = (tensor.to("cpu").double() for tensor in inputs[rank])
    return x @ weight.T * (scale_x * scale_weight)


def _widen_fp8(
    x: torch.Tensor, weight: torch.Tensor, scale_x: torch.Tensor, scale_weight: torch.Tensor
) -> torch.Tensor:
    """Both operands widened and stored, then a float32 product, then the scales."""
    return (x.float() @ weight.float().T * (scale_x * scale_weight)).to(TORCH_DTYPES[FP8_RESULT])


def _scaled_mm(
    x: torch.Tensor, weight: torch.Tensor, scale_x: torch.Tensor, scale_weight: torch.Tensor
) -> torch.Tensor:
    return torch._scaled_mm(x, weight.T, scale_x, scale_weight, out_dtype=TORCH_DTYPES[FP8_RESULT])


def _prepare_fp8(case: Case, device: torch.device) -> Runner:
    if device.type == "cuda" and torch.version.hip is None and torch.cuda.get_device_capability(device) < (8, 9):
        raise Unsupported("fp8 matrix units begin with compute capability 8.9")
    for axis in ("N", "K"):
        if case[axis] % _FP8_ALIGNMENT:
            raise Unsupported(f"torch._scaled_mm needs {axis} in multiples of {_FP8_ALIGNMENT}, here {case[axis]}")
    return _scaled_mm


OPERATORS = {
    "gemm_int8": plain_operator(
        GEMM_INT8,
        make=_make_int8,
        reference=_reference_int8,
        naive=eager(_widen_first, "widen the weight, then multiply"),
        optimized=chosen_library("torch._weight_int8pack_mm", _prepare_int8),
        compiles=by_compiler(_sum_of_products, "torch.compile(sum of products)"),
        triton="gemm_int8",
    ),
    "gemm_fp8": plain_operator(
        GEMM_FP8,
        make=_make_fp8,
        reference=_reference_fp8,
        naive=eager(_widen_fp8, "widen both, then multiply"),
        optimized=chosen_library("torch._scaled_mm", _prepare_fp8),
        compiles=by_compiler(_widen_fp8, "torch.compile(widen both, then multiply)"),
    ),
}
