"""AdamW's step on torch, in place: the textbook's operations, torch's fused optimizer, and a compiled candidate."""

from __future__ import annotations

import torch

from bench_suite.contract import Case
from bench_suite.contracts.adamw import ADAMW, BETA1, BETA2, EPSILON, LEARNING_RATE, STEP, WEIGHT_DECAY
from bench_suite.operators.base import Inputs, Runner
from bench_suite.operators.frames import Draw, chosen_library, in_float64, plain_operator, recipe

State = tuple[torch.Tensor, torch.Tensor, torch.Tensor]

_LEAST_V = 0.01
_CORRECTION1, _CORRECTION2 = 1 - BETA1**STEP, 1 - BETA2**STEP


def _inputs(case: Case, draw: Draw) -> Inputs:
    v = draw("v", "elements").square_().add_(_LEAST_V)
    return draw("parameter", "elements"), draw("gradient", "elements"), draw("m", "elements", sd=0.3), v


def _stepped(parameter: torch.Tensor, gradient: torch.Tensor, m: torch.Tensor, v: torch.Tensor) -> State:
    """The new parameter, m and v."""
    new_m = BETA1 * m + (1 - BETA1) * gradient
    new_v = BETA2 * v + (1 - BETA2) * gradient * gradient
    update = (new_m / _CORRECTION1) / (torch.sqrt(new_v / _CORRECTION2) + EPSILON)
    return parameter * (1 - LEARNING_RATE * WEIGHT_DECAY) - LEARNING_RATE * update, new_m, new_v


def _formula(parameter: torch.Tensor, gradient: torch.Tensor, m: torch.Tensor, v: torch.Tensor) -> State:
    """Textbook, in float32: each operation a tensor of its own, the three results copied into place."""
    results = _stepped(parameter.float(), gradient.float(), m.float(), v.float())
    for kept, result in zip((parameter, m, v), results, strict=True):
        kept.copy_(result)
    return parameter, m, v


def _prepare_fused(case: Case, device: torch.device) -> Runner:
    step = torch.tensor(float(STEP), device=device)

    def fused(parameter: torch.Tensor, gradient: torch.Tensor, m: torch.Tensor, v: torch.Tensor) -> State:
        torch._fused_adamw_(
            [parameter],
            [gradient],
            [m],
            [v],
            [],
            [step],
            lr=LEARNING_RATE,
            beta1=BETA1,
            beta2=BETA2,
            weight_decay=WEIGHT_DECAY,
            eps=EPSILON,
            amsgrad=False,
            maximize=False,
        )
        return parameter, m, v

    return fused


OPERATOR = plain_operator(
    ADAMW,
    make=recipe(_inputs),
    reference=in_float64(_stepped),
    naive=_formula,
    optimized=chosen_library("torch._fused_adamw_", _prepare_fused),
    triton="adamw",
)
