"""A candidate for grouped_gemm that computes as often as a library of its Python environment says: same code, another
toolchain."""

from __future__ import annotations

import importlib

import torch

TIMES: int = importlib.import_module("observatory_test_toolchain").TIMES


def grouped_gemm(x: torch.Tensor, weight: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    for _ in range(TIMES):
        result = torch.nn.functional.grouped_mm(x, weight.mT, offs=ends)
    return result
