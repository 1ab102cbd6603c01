"""AdamW's step in Triton, in place: parameter, m and v are each read and written once, in fp32 in between."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from bench_suite.contracts.adamw import BETA1, BETA2, EPSILON, LEARNING_RATE, STEP, WEIGHT_DECAY


@dataclass(frozen=True, slots=True, kw_only=True)
class AdamwConfig:
    block: int = 1024
    """Elements a program, a power of two: four tensors of 16 bytes a thread of four warps."""
    num_warps: int = 4


@triton.jit
def adamw_kernel(
    parameter_ptr, gradient_ptr, m_ptr, v_ptr, elements, decay, rate, beta1, beta2, scale_m, scale_v, epsilon,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Program axis: blocks. `decay` is 1 - rate x weight decay; `scale_m`, `scale_v` undo the bias of a start at 0."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < elements
    parameter = tl.load(parameter_ptr + i, mask=inside, other=0.0).to(tl.float32)
    gradient = tl.load(gradient_ptr + i, mask=inside, other=0.0).to(tl.float32)
    m = tl.load(m_ptr + i, mask=inside, other=0.0).to(tl.float32)
    v = tl.load(v_ptr + i, mask=inside, other=0.0).to(tl.float32)
    m = beta1 * m + (1.0 - beta1) * gradient
    v = beta2 * v + (1.0 - beta2) * gradient * gradient
    update = m * scale_m / (tl.sqrt(v * scale_v) + epsilon)
    tl.store(parameter_ptr + i, (parameter * decay - rate * update).to(parameter_ptr.dtype.element_ty), mask=inside)
    tl.store(m_ptr + i, m.to(m_ptr.dtype.element_ty), mask=inside)
    tl.store(v_ptr + i, v.to(v_ptr.dtype.element_ty), mask=inside)


def launch(
    parameter: torch.Tensor,
    gradient: torch.Tensor,
    m: torch.Tensor,
    v: torch.Tensor,
    config: AdamwConfig | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """All flat and contiguous, [elements]; writes into parameter, m and v, and returns them."""
    chosen, elements = config or AdamwConfig(), parameter.numel()
    if elements:
        adamw_kernel[(triton.cdiv(elements, chosen.block),)](
            parameter, gradient, m, v, elements, 1.0 - LEARNING_RATE * WEIGHT_DECAY, LEARNING_RATE, BETA1, BETA2,
            1.0 / (1.0 - BETA1**STEP), 1.0 / (1.0 - BETA2**STEP), EPSILON,
            BLOCK=chosen.block, num_warps=chosen.num_warps,
        )  # fmt: skip
    return parameter, m, v
