"""Cross-entropy and its gradient on torch: the formula step by step, the library's call, a compiled or Triton one."""

from __future__ import annotations

import torch

from bench_suite.contract import Case, DType
from bench_suite.contracts.cross_entropy import CROSS_ENTROPY, CROSS_ENTROPY_BACKWARD
from bench_suite.contracts.softmax import LOGIT_SD
from bench_suite.operators.base import Inputs, Origin, Runner, normal
from bench_suite.operators.frames import chosen_library, in_float64, library, plain_operator

_STRIDE = 7919
"""A prime: targets of neighbouring rows lie far apart, and none is favoured."""


def _make(case: Case, seed: int, device: torch.device, rank: int) -> Inputs:
    rows, columns = case["rows"], case["columns"]
    x = normal(case, seed, device, tensor="x", shape=(rows, columns), sd=LOGIT_SD, rank=rank)
    return x, ((torch.arange(rows) + seed + rank) * _STRIDE % columns).to(device)


def _make_backward(case: Case, seed: int, device: torch.device, rank: int) -> Inputs:
    dloss = normal(case, seed, device, tensor="dloss", shape=(case["rows"],), mean=1.0, sd=0.1, rank=rank)
    return dloss, *_make(case, seed, device, rank)


def _truth(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return torch.logsumexp(x, dim=-1) - x.gather(-1, target[:, None]).squeeze(-1)


def _formula(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Unfused, in float32: maximum, difference, exponential, sum, logarithm, and the target's logit."""
    wide = x.float()
    shifted = wide - wide.amax(-1, keepdim=True)
    logarithm = torch.log(torch.exp(shifted).sum(-1))
    return (logarithm - shifted.gather(-1, target[:, None]).squeeze(-1)).to(x.dtype)


def _library(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(x, target, reduction="none")


def _library_upcast(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(x.float(), target, reduction="none").to(x.dtype)


def _prepare_library(case: Case, device: torch.device) -> Runner:
    """torch's 16-bit CPU kernel rounds inside (up to 2.8 times the tolerance): training code widens logits anyway."""
    return _library_upcast if device.type == "cpu" and case.dtype is not DType.FP32 else _library


def _gradient(dloss: torch.Tensor, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    p = torch.softmax(x, dim=-1)
    p.scatter_add_(-1, target[:, None], p.new_full((p.shape[0], 1), -1.0))
    return p * dloss[:, None]


def _gradient_formula(dloss: torch.Tensor, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Unfused, in float32: the steps of softmax, one at the target taken off, the loss's own gradient."""
    wide = x.float()
    powers = torch.exp(wide - wide.amax(-1, keepdim=True))
    p = powers / powers.sum(-1, keepdim=True)
    onehot = torch.arange(x.shape[-1], device=x.device) == target[:, None]
    return ((p - onehot.float()) * dloss.float()[:, None]).to(x.dtype)


def _gradient_library(dloss: torch.Tensor, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    p = torch.softmax(x, dim=-1, dtype=torch.float32)
    p.scatter_add_(-1, target[:, None], p.new_full((p.shape[0], 1), -1.0))
    return p.mul_(dloss.float()[:, None]).to(x.dtype)


OPERATORS = {
    "cross_entropy": plain_operator(
        CROSS_ENTROPY,
        make=_make,
        reference=in_float64(_truth),
        naive=_formula,
        optimized=chosen_library("torch.nn.functional.cross_entropy", _prepare_library),
        triton="cross_entropy",
    ),
    "cross_entropy_backward": plain_operator(
        CROSS_ENTROPY_BACKWARD,
        make=_make_backward,
        reference=in_float64(_gradient),
        naive=_gradient_formula,
        optimized=library("torch.softmax, scatter_add", _gradient_library, origin=Origin.GENERIC),
        triton="cross_entropy.launch_backward",
    ),
}
