"""Softmax on torch: three passes with stored intermediates, the library's call, and a compiled or Triton candidate."""

from __future__ import annotations

import torch

from bench_suite.contract import Case
from bench_suite.contracts.softmax import LOGIT_SD, SOFTMAX
from bench_suite.operators.base import Inputs
from bench_suite.operators.frames import Draw, in_float64, library, plain_operator, recipe


def _inputs(case: Case, draw: Draw) -> Inputs:
    return (draw("x", "rows", "columns", sd=LOGIT_SD),)


def _formula(x: torch.Tensor) -> torch.Tensor:
    """Unfused, in float32: maximum, difference, exponential, sum, quotient."""
    wide = x.float()
    powers = torch.exp(wide - wide.amax(-1, keepdim=True))
    return (powers / powers.sum(-1, keepdim=True)).to(x.dtype)


def _library(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, dim=-1)


OPERATOR = plain_operator(
    SOFTMAX,
    make=recipe(_inputs),
    reference=in_float64(_library),
    naive=_formula,
    optimized=library("torch.softmax", _library),
    triton="softmax",
)
