"""What a call returns, and how torch names element types."""

from __future__ import annotations

import torch

from bench_suite.contract import DType

Result = torch.Tensor | tuple[torch.Tensor, ...]
"""One tensor, or several where the contract has several results."""

TORCH_DTYPES: dict[DType, torch.dtype] = {
    DType.FP64: torch.float64,
    DType.FP32: torch.float32,
    DType.BF16: torch.bfloat16,
    DType.FP16: torch.float16,
    DType.INT8: torch.int8,
    DType.FP8: torch.float8_e4m3fn,
}
