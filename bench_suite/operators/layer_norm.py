"""LayerNorm on torch: the formula step by step, the library's fused call, and a compiled or Triton candidate."""

from __future__ import annotations

import torch

from bench_suite.contract import Case
from bench_suite.contracts.layer_norm import EPSILON, LAYER_NORM
from bench_suite.operators.base import Inputs
from bench_suite.operators.frames import Draw, in_float64, library, plain_operator, recipe


def _inputs(case: Case, draw: Draw) -> Inputs:
    weight = draw("weight", "hidden", mean=1.0, sd=0.1)
    return draw("x", "rows", "hidden"), weight, draw("bias", "hidden", sd=0.1)


def _truth(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt(centred.square().mean(-1, keepdim=True) + EPSILON) * weight + bias


def _formula(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Unfused, in float32: each step a tensor of its own, back to the dtype at the end."""
    wide = x.float()
    centred = wide - wide.mean(-1, keepdim=True)
    variance = centred.pow(2).mean(-1, keepdim=True)
    return (centred * torch.rsqrt(variance + EPSILON) * weight.float() + bias.float()).to(x.dtype)


def _library(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x, (x.shape[-1],), weight, bias, EPSILON)


OPERATOR = plain_operator(
    LAYER_NORM,
    make=recipe(_inputs),
    reference=in_float64(_truth),
    naive=_formula,
    optimized=library("torch.nn.functional.layer_norm", _library),
    triton="layer_norm",
)
