"""Several ranks that time one collective together: rank 0 decides, broadcasts, and keeps the slowest rank's time."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import TYPE_CHECKING

from collector.node.devices.base import Device, Sample

if TYPE_CHECKING:
    import torch

INITIAL_TIMEOUT = datetime.timedelta(seconds=120)
"""For torch.distributed itself. The limit that counts is the parent's, which stands outside the process group."""


def join(device: Device, *, rank: int, world_size: int, rendezvous: str) -> None:
    """Join the process group through a file; every rank must come."""
    import torch.distributed as dist

    dist.init_process_group(
        device.backend(), init_method=rendezvous, rank=rank, world_size=world_size, timeout=INITIAL_TIMEOUT
    )


def leave() -> None:
    """Leave together: without the barrier, healthy gloo ranks were seen to abort (docs/method.md, collectives)."""
    import torch.distributed as dist

    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


class Ranks:
    """The ranks of the default process group."""

    def __init__(self, device: Device, tick: Callable[[], None] = lambda: None) -> None:
        """`tick` is called before each wait for the others: who waits is a step ahead of who is waited for."""
        import torch
        import torch.distributed as dist

        self._tick = tick
        self.world_size = dist.get_world_size()
        self.rank = dist.get_rank()
        self._one: torch.Tensor = torch.zeros(1, dtype=torch.float64, device=device.torch_device)
        self._times: list[torch.Tensor] = [torch.zeros_like(self._one) for _ in range(self.world_size)]

    def barrier(self) -> None:
        import torch.distributed as dist

        self._tick()
        dist.barrier()

    def agree(self, value: float) -> float:
        import torch.distributed as dist

        self._tick()
        self._one[0] = value
        dist.broadcast(self._one, src=0)
        return float(self._one[0])

    def slowest(self, sample: Sample) -> tuple[Sample, float, int]:
        """A collective is done when its last rank is: the slowest rank's time stands for the call."""
        import torch.distributed as dist

        self._tick()
        self._one[0] = sample.wall_s
        dist.all_gather(self._times, self._one)
        walls = [float(t[0]) for t in self._times]
        slowest, fastest = max(walls), min(walls)
        spread = slowest / fastest if fastest > 0 else 1.0
        joined = Sample(start_s=sample.start_s, wall_s=slowest, thread_s=sample.thread_s, device_s=sample.device_s)
        return joined, spread, walls.index(slowest)

    def worst(self, value: float) -> float:
        """The largest value of all ranks, on every rank."""
        import torch.distributed as dist

        self._tick()
        self._one[0] = value
        dist.all_gather(self._times, self._one)
        return max(float(t[0]) for t in self._times)
