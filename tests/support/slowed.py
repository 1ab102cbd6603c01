"""A candidate for rms_norm that does a stated share of its work again: slower by it, and right."""

from __future__ import annotations

import os

import torch

SHARE = float(os.environ.get("PLANTED_SHARE", "0"))


def rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    again = round(SHARE * x.shape[0])
    if again:  # Before the result is there, so that the peak of memory stays what it was.
        torch.nn.functional.rms_norm(x[:again], (x.shape[-1],), weight, 1e-5)
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, 1e-5)
