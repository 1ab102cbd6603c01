"""SwiGLU, GeGLU and SwiGLU's gradients on torch: the formula step by step, the library's, a compiled or Triton one."""

from __future__ import annotations

import math

import torch

from bench_suite.contract import Case
from bench_suite.contracts.swiglu import GEGLU, SWIGLU, SWIGLU_BACKWARD
from bench_suite.operators.base import Inputs
from bench_suite.operators.frames import Draw, in_float64, library, plain_operator, recipe

Gradients = tuple[torch.Tensor, torch.Tensor]


def _inputs(case: Case, draw: Draw) -> Inputs:
    return draw("gate", "rows", "ffn"), draw("up", "rows", "ffn")


def _swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return gate / (1.0 + torch.exp(-gate)) * up


def _swiglu_formula(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Unfused, in float32: negation, exponential, sum, quotient, product, each a tensor of its own."""
    return _swiglu(gate.float(), up.float()).to(gate.dtype)


def _swiglu_library(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.silu(gate) * up


def _geglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    inner = math.sqrt(2 / math.pi) * (gate + 0.044715 * gate**3)
    return 0.5 * gate * (1.0 + torch.tanh(inner)) * up


def _geglu_formula(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Unfused, in float32: cube, sum, hyperbolic tangent, products, each a tensor of its own."""
    return _geglu(gate.float(), up.float()).to(gate.dtype)


def _geglu_library(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gelu(gate, approximate="tanh") * up


def _backward_inputs(case: Case, draw: Draw) -> Inputs:
    return draw("dy", "rows", "ffn"), *_inputs(case, draw)


def _gradients(dy: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> Gradients:
    sigmoid = torch.sigmoid(gate)
    return dy * up * sigmoid * (1.0 + gate * (1.0 - sigmoid)), dy * gate * sigmoid


def _backward_formula(dy: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> Gradients:
    """Unfused, in float32: each step a tensor of its own, back to the dtype at the end."""
    dgate, dup = _gradients(dy.float(), gate.float(), up.float())
    return dgate.to(gate.dtype), dup.to(gate.dtype)


def _backward_library(dy: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> Gradients:
    return torch.ops.aten.silu_backward(dy * up, gate), dy * torch.nn.functional.silu(gate)


OPERATORS = {
    "swiglu": plain_operator(
        SWIGLU,
        make=recipe(_inputs),
        reference=in_float64(_swiglu),
        naive=_swiglu_formula,
        optimized=library("silu(gate) * up", _swiglu_library),
        triton="swiglu",
    ),
    "geglu": plain_operator(
        GEGLU,
        make=recipe(_inputs),
        reference=in_float64(_geglu),
        naive=_geglu_formula,
        optimized=library("gelu(gate) * up", _geglu_library),
        triton="swiglu.launch_geglu",
    ),
    "swiglu_backward": plain_operator(
        SWIGLU_BACKWARD,
        make=recipe(_backward_inputs),
        reference=in_float64(_gradients),
        naive=_backward_formula,
        optimized=library("silu_backward and silu", _backward_library),
    ),
}
