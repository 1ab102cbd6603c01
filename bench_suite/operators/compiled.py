"""The candidate of a CPU: torch.compile of an eager formula, and the check of what this CPU can do natively."""

from __future__ import annotations

from types import FunctionType

import torch

from bench_suite.contract import Case, DType
from bench_suite.operators.base import Runner


def compiled(formula: Runner) -> Runner:
    """`formula` compiled for exactly the shapes of its first call; a graph break is an error, not a slow surprise.

    Shapes are static (dynamic=False), as a serving system compiles for the sizes it captured. Dynamo keeps its variants
    by code object and gives up at the eighth, so that each case gets a code object of its own.
    """
    assert isinstance(formula, FunctionType)
    own = FunctionType(
        formula.__code__.replace(),
        formula.__globals__,
        formula.__name__,
        argdefs=formula.__defaults__,
        closure=formula.__closure__,
    )
    runner: Runner = torch.compile(own, dynamic=False, fullgraph=True)
    return runner


def multiplies_natively(case: Case, device: torch.device) -> bool:
    """Whether the device has matrix units for the case's dtype; a CPU without them computes 27 to 50 times slower."""
    if device.type != "cpu" or case.dtype is DType.FP32:
        return True
    if case.dtype is DType.BF16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    if case.dtype is DType.FP16:
        return bool(torch.ops.mkldnn._is_mkldnn_fp16_supported())
    return False
