"""Candidates for all_reduce(x) in which one rank goes missing, each in its own way."""

from __future__ import annotations

import os
import signal
import time

import torch
import torch.distributed as dist


def killed(x: torch.Tensor) -> torch.Tensor:
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return honest(x)


def stopped(x: torch.Tensor) -> torch.Tensor:
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    return honest(x)


_calls = 0


def absent(x: torch.Tensor) -> torch.Tensor:
    """From its second call on, rank 1 is busy elsewhere and rank 0 does not wait for it: nobody died or stopped."""
    global _calls
    _calls += 1
    if _calls == 1:
        return honest(x)
    while dist.get_rank() == 1:
        time.sleep(0.1)
    return x * 2


def wrong_on_one(x: torch.Tensor) -> torch.Tensor:
    result = honest(x)
    if dist.get_rank() == 1:
        result[0] += 1.0
    return result


def honest(x: torch.Tensor) -> torch.Tensor:
    result = x.clone()
    dist.all_reduce(result)
    return result
