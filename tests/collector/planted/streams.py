"""Candidates for rms_norm(x, weight) on the toy device: what a stream and a graph make of them."""

from __future__ import annotations

import torch
from toy_device.device import elsewhere, wait_for_result


def honest(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, 1e-5)


def side_stream(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Right once everything is done, and its clock sees next to nothing of it."""
    result = torch.empty_like(x)
    elsewhere(lambda: [result.copy_(honest(x, weight)) for _ in range(20)])
    return result


def asks_for_its_result(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    result = honest(x, weight)
    wait_for_result()
    return result
