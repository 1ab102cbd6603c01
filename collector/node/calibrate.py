"""The device's ceilings: the best of many tries of a large GEMM and of a triad.

A ceiling is a capability: here, and only here, the best try is the right one (docs/method.md, ceilings). All tries are
kept beside it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from collector.node.devices.base import Device
from collector.node.protocol import Calibrate, CaseDone, CeilingSamples, Message, Step

GEMM_SIZES = {"cpu": (512, 1024, 2048)}
GEMM_SIZES_ACCELERATOR = (1024, 4096, 8192)
LONG_TRY_S = 0.25
"""A GEMM that would take longer is left out: the smaller one before it kept the device busy already."""
TORCH_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "fp64": torch.float64}
TRIAD_CACHES = 6
"""The three arrays of the triad together span this many last-level caches."""


def calibrate(task: Calibrate, device: Device, send: Callable[[Message], None]) -> None:
    """Measure FLOP/s by dtype and bytes/s; one CeilingSamples message a probe."""
    torch.set_num_threads(task.threads)
    timer = device.ratio_timer(task.threads, 1)
    for dtype in task.dtypes:
        send(Step(arm="", step=f"gemm ceiling {dtype}"))
        send(CeilingSamples(probe=f"gemm.{dtype}", unit="FLOP/s", values=gemm_tries(device, dtype, task.tries, timer)))
    send(Step(arm="", step="bandwidth ceiling"))
    send(CeilingSamples(probe="triad", unit="bytes/s", values=triad_tries(device, task.tries, timer)))
    send(CaseDone(ratio_timer=timer, stop_reason="", arena_sets=0, arena_bytes=0))


def gemm_tries(device: Device, dtype: str, tries: int, timer: str) -> list[float]:
    """FLOP/s of square GEMMs, sizes taken in turn; seconds by the clock of the ratios."""
    from collector.node.harness import clock_seconds

    kind = torch_dtype(dtype)
    values = []
    sizes = GEMM_SIZES.get(device.identity.kind, GEMM_SIZES_ACCELERATOR)
    s_per_flop = 0.0
    for size in sizes:
        if s_per_flop * 2.0 * size**3 > LONG_TRY_S:
            break
        a = torch.randn(size, size, device=device.torch_device).to(kind)
        b = torch.randn(size, size, device=device.torch_device).to(kind)
        call = _matmul(a, b)
        call()
        took = [clock_seconds(device.sample(call, 1), timer) for _ in range(tries)]
        values += [2.0 * size**3 / seconds for seconds in took]
        s_per_flop = min(took) / (2.0 * size**3)
    return values


def triad_tries(device: Device, tries: int, timer: str) -> list[float]:
    """Bytes/s of a = b + s c on three arrays, counted as three arrays of traffic (no write-allocate)."""
    from collector.node.harness import clock_seconds

    elements = TRIAD_CACHES * device.identity.cache_bytes // 3 // 4
    b = torch.ones(elements, device=device.torch_device)
    c = torch.ones(elements, device=device.torch_device)
    a = torch.empty_like(b)

    def call() -> object:
        return torch.add(b, c, alpha=3.0, out=a)

    call()
    return [3.0 * 4 * elements / clock_seconds(device.sample(call, 1), timer) for _ in range(tries)]


def _matmul(a: torch.Tensor, b: torch.Tensor) -> Callable[[], object]:
    return lambda: torch.mm(a, b)


def torch_dtype(name: str) -> torch.dtype:
    return TORCH_DTYPES[name]
