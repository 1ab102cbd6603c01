"""The device: it computes with torch's CPU, and has a clock that runs at half speed.

Work that is handed to `elsewhere` runs when the device is synchronized, beside the stream that its clock watches. What
it captures must not ask for results: `wait_for_result` is refused meanwhile, as a real device refuses it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from collector.node.devices.base import Call, DeviceIdentity, EnergyUse, MemoryUse, Sample

CLOCK_SPEED = 0.5
_pending: list[Callable[[], object]] = []
_capturing = False


def elsewhere(work: Callable[[], object]) -> None:
    """Do this on a stream of its own."""
    _pending.append(work)


def wait_for_result() -> None:
    if _capturing:
        raise RuntimeError("operation not permitted when stream is capturing")


class ToyDevice:
    """Keeps collector.node.devices.base.Device, and its addition Replaying."""

    def __init__(self, index: int) -> None:
        if index > 1:
            raise ValueError(f"there are toys 0 and 1, not {index}")
        self._identity = DeviceIdentity(
            kind="toy",
            model="Toy 9000",
            unit=f"toy-{index}",
            slice="half",
            index=index,
            driver="1.0",
            cache_bytes=2**20,
        )

    @property
    def identity(self) -> DeviceIdentity:
        return self._identity

    @property
    def torch_device(self) -> Any:
        return torch.device("cpu")

    def ratio_timer(self, threads: int, world_size: int) -> str:
        return "device_event" if world_size == 1 else "wall"

    def synchronize(self) -> None:
        """Return when the other stream is done too."""
        while _pending:
            _pending.pop()()

    def sample(self, call: Call, calls: int) -> Sample:
        self.synchronize()
        start_s = time.monotonic()
        begun = time.perf_counter_ns()
        for _ in range(calls):
            call()
        stream_s = (time.perf_counter_ns() - begun) / 1e9
        if _pending:
            self.synchronize()
            wall_s = (time.perf_counter_ns() - begun) / 1e9
        else:
            wall_s = stream_s
        return Sample(start_s=start_s, wall_s=wall_s, thread_s=None, device_s=stream_s * CLOCK_SPEED)

    def can_replay(self) -> bool:
        return True

    def capture(self, calls: Sequence[Call]) -> list[Call]:
        """What can be captured can be called again."""
        global _capturing
        _capturing = True
        try:
            for call in calls:
                call()
        finally:
            _capturing = False
        return list(calls)

    def measure_memory(self, call: Call) -> MemoryUse:
        return MemoryUse(peak_bytes=None, workspace_bytes=None, reserved_bytes=None, reason="a toy counts no bytes")

    def measure_energy(self, call: Call) -> EnergyUse:
        return EnergyUse(joules=0.25)

    def backend(self) -> str:
        return "gloo"
