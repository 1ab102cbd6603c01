"""RMSNorm and its gradients on torch: the formula step by step, the library's fused call, a compiled or Triton one."""

from __future__ import annotations

import torch

from bench_suite.contract import Case, Role
from bench_suite.contracts.rms_norm import EPSILON, RMS_NORM, RMS_NORM_BACKWARD
from bench_suite.operators.base import Implementation, Inputs, Origin, Runner
from bench_suite.operators.frames import Draw, in_float64, library, plain_operator, recipe

Gradients = tuple[torch.Tensor, torch.Tensor]


def _inputs(case: Case, draw: Draw) -> Inputs:
    return draw("x", "rows", "hidden"), draw("weight", "hidden", mean=1.0, sd=0.1)


def _truth(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x / torch.sqrt(x.square().mean(-1, keepdim=True) + EPSILON) * weight


def _formula(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """As model code has it: in float32, each step a tensor of its own, back to the dtype at the end."""
    wide = x.float()
    mean = wide.pow(2).mean(-1, keepdim=True)
    return (wide * torch.rsqrt(mean + EPSILON) * weight.float()).to(x.dtype)


def _library(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, EPSILON)


def _backward_inputs(case: Case, draw: Draw) -> Inputs:
    x = draw("x", "rows", "hidden")
    rstd = (x.double().square().mean(-1) + EPSILON).rsqrt().float()
    return draw("dy", "rows", "hidden"), x, draw("weight", "hidden", mean=1.0, sd=0.1), rstd


def _gradients(dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, rstd: torch.Tensor) -> Gradients:
    scale = rstd[:, None]
    g = dy * weight
    dx = scale * (g - x * scale.square() * (g * x).mean(-1, keepdim=True))
    return dx, (dy * x * scale).sum(0)


def _backward_formula(dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, rstd: torch.Tensor) -> Gradients:
    """Unfused, in float32: each step a tensor of its own, back to the dtype at the end."""
    dx, dweight = _gradients(dy.float(), x.float(), weight.float(), rstd)
    return dx.to(x.dtype), dweight.to(x.dtype)


def _prepare_backward(case: Case, device: torch.device) -> Runner:
    """torch's fused gradient is written for accelerators; a CPU has its general operations only."""
    if device.type == "cpu":
        return _autograd

    def fused(dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, rstd: torch.Tensor) -> Gradients:
        shape = [x.shape[-1]]
        dx, dweight = torch.ops.aten._fused_rms_norm_backward(dy, x, shape, rstd[:, None], weight, [True, True])
        return dx, dweight

    return fused


def _autograd(dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, rstd: torch.Tensor) -> Gradients:
    """As the formula, with two fewer tensors on the way: dweight by a matrix product over the rows."""
    wide, scale = x.float(), rstd[:, None]
    normed = wide * scale
    g = dy.float() * weight.float()
    dx = torch.addcmul(g, normed, (g * normed).mean(-1, keepdim=True), value=-1.0).mul_(scale)
    dweight = torch.einsum("rh,rh->h", dy.float(), normed)
    return dx.to(x.dtype), dweight.to(x.dtype)


OPERATORS = {
    "rms_norm": plain_operator(
        RMS_NORM,
        make=recipe(_inputs),
        reference=in_float64(_truth),
        naive=_formula,
        optimized=library("torch.nn.functional.rms_norm", _library),
        triton="rms_norm",
    ),
    "rms_norm_backward": plain_operator(
        RMS_NORM_BACKWARD,
        make=recipe(_backward_inputs),
        reference=in_float64(_gradients),
        naive=_backward_formula,
        optimized=Implementation(
            role=Role.OPTIMIZED,
            origin=Origin.GENERIC,
            name="torch operations",
            prepare=_prepare_backward,
        ),
        triton="rms_norm_backward",
    ),
}
