"""A device whose time is made up, so that the run loop itself is tested on a laptop: product code, not a mock.

A call "takes" exactly the seconds that its arm was given, plus seeded noise; the clock advances by it.
"""

from __future__ import annotations

import random
from typing import Any

from collector.node.devices.base import Call, DeviceIdentity, EnergyUse, MemoryUse, Sample


class SimulatedClock:
    """Seconds that pass only when something says so."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.seconds += seconds


class SimulatedCall:
    """A call that takes `seconds`, times a log-normal factor, times the machine's common speed at that moment."""

    def __init__(self, clock: SimulatedClock, seconds: float, *, noise: float = 0.0, seed: int = 0) -> None:
        self.clock = clock
        self.seconds = seconds
        self.noise = noise
        self.calls = 0
        self._random = random.Random(seed)

    def __call__(self) -> None:
        self.calls += 1
        factor = self._random.lognormvariate(0.0, self.noise) if self.noise else 1.0
        self.clock.advance(self.seconds * factor)


class SimulatedDevice:
    """Reads the simulated clock; `drift_per_s` makes everything slower as time passes."""

    def __init__(self, clock: SimulatedClock, *, drift_per_s: float = 0.0, timer: str = "thread_time") -> None:
        self.clock = clock
        self.drift_per_s = drift_per_s
        self.timer = timer

    @property
    def identity(self) -> DeviceIdentity:
        return DeviceIdentity(kind="simulated", model="Simulated device", unit="simulated-0", cache_bytes=2**20)

    @property
    def torch_device(self) -> Any:
        return "cpu"

    def ratio_timer(self, threads: int, world_size: int) -> str:
        return self.timer if world_size == 1 else "wall"

    def synchronize(self) -> None:
        """Nothing is queued."""

    def sample(self, call: Call, calls: int) -> Sample:
        begun = self.clock.now()
        for _ in range(calls):
            call()
        took = (self.clock.now() - begun) * (1 + self.drift_per_s * begun)
        return Sample(start_s=begun, wall_s=took, thread_s=took, device_s=took)

    def measure_memory(self, call: Call) -> MemoryUse:
        call()
        return MemoryUse(
            peak_bytes=None, workspace_bytes=None, reserved_bytes=None, reason="a simulated device has none"
        )

    def measure_energy(self, call: Call) -> EnergyUse:
        return EnergyUse(joules=None, reason="a simulated device uses none")

    def backend(self) -> str:
        return "gloo"
