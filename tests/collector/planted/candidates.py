"""Candidates for rms_norm(x, weight) that break their promise, each in its own way; `honest` keeps it."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import torch

EPSILON = 1e-5


def honest(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, EPSILON)


def wrong(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    result = honest(x, weight)
    result[-1, -1] *= 1.5
    return result


def not_a_number(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """One NaN where the reference is finite."""
    result = honest(x, weight)
    result[3, 5] = float("nan")
    return result


def unwritten(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    result = torch.full_like(x, 7.0)
    result[:-1] = honest(x, weight)[:-1]
    return result


def mutating(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    result = honest(x, weight)
    x[0, 0] += 1.0
    return result


def returns_input(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    x.copy_(honest(x, weight))
    return x


def returns_view(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Nothing is changed and nothing is computed."""
    return x.view_as(x)


def zero_size(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return honest(x[:0], weight)


_other_thread = ThreadPoolExecutor(1)


def side_stream(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Right and waited for, but computed where the clock of the calling thread does not see it."""
    return _other_thread.submit(lambda: [honest(x, weight) for _ in range(50)][-1]).result()


def late(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Returns before its result is written."""
    result = torch.zeros_like(x)

    def write() -> None:
        time.sleep(0.02)
        result.copy_(honest(x, weight))

    _other_thread.submit(write)
    return result


def fails_on_empty(x: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
    """Of layer_norm."""
    if x.numel() == 0:
        raise RuntimeError("a grid of 0 blocks cannot be launched")
    return torch.nn.functional.layer_norm(x, (x.shape[-1],), *parameters, EPSILON)


_remembered: list[torch.Tensor] = []


def cached(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    if not _remembered:
        _remembered.append(honest(x, weight))
    return _remembered[0]


def raising(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    raise ValueError("this kernel has no configuration for such a shape\nsecond line")


def segfault(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    ctypes.string_at(0)
    return x


def stopped(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    os.kill(os.getpid(), signal.SIGSTOP)
    return x


_calls = 0


def late_crash(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Right while it is checked, dead while it is timed."""
    global _calls
    _calls += 1
    if _calls > 400:
        os.kill(os.getpid(), signal.SIGSEGV)
    return honest(x, weight)


def hungry(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    waste = torch.ones(2**43, dtype=torch.uint8)
    return honest(x, weight) + waste[0]


def slow_warm_up(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Ten times slower in its first calls."""
    global _calls
    _calls += 1
    if _calls <= 3:
        time.sleep(0.05)
    return honest(x, weight)
