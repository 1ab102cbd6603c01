"""What the harness asks of a device. One protocol for any chip; each metric may be missing, and then says why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec

Call = Callable[[], object]


class DeviceIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Which device this is. `unit` is a UUID or the like: never an index, which depends on who counts."""

    kind: str
    model: str
    unit: str
    slice: str | None = None
    index: int = 0
    driver: str | None = None
    memory_bytes: int | None = None
    cache_bytes: int
    """Of the last-level cache: the arena is made larger than this, so that inputs come from memory."""
    cores: int | None = None
    clock_max_hz: float | None = None
    capabilities: dict[str, Any] = {}


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds for one sample of k calls, by each clock that the device has."""

    start_s: float
    wall_s: float
    thread_s: float | None
    device_s: float | None


class MemoryUse(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes over what was allocated before the call. None with a reason where the device does not tell."""

    peak_bytes: int | None
    workspace_bytes: int | None
    """Peak less what the call left behind: its temporaries."""
    reserved_bytes: int | None
    reason: str = ""


class EnergyUse(msgspec.Struct, frozen=True, kw_only=True):
    """Joules of one call, with what the device draws when idle. None with a reason where nothing counts them."""

    joules: float | None
    reason: str = ""


class Device(Protocol):
    """A device that torch can use. What is read beside a run, its probe: collector.node.readings."""

    @property
    def identity(self) -> DeviceIdentity: ...

    @property
    def torch_device(self) -> Any:
        """A torch.device."""

    def ratio_timer(self, threads: int, world_size: int) -> str:
        """The clock of paired ratios: thread_time, wall or device_event."""

    def synchronize(self) -> None:
        """Return when all queued work is done."""

    def sample(self, call: Call, calls: int) -> Sample:
        """Time `calls` calls in a row. The clock starts with an idle device and stops when the work is done."""

    def measure_memory(self, call: Call) -> MemoryUse:
        """What one call allocates. Never used around a timed call."""

    def measure_energy(self, call: Call) -> EnergyUse:
        """What one call takes. Calls it for a second or so; never used around a timed call."""

    def backend(self) -> str:
        """The torch.distributed backend for collectives."""


@runtime_checkable
class Replaying(Protocol):
    """A device that can record what calls launch and launch it again, without the host's part of the calls.

    An addition to Device that a device may have. Short calls are timed by it: their host's part is longer than the
    device's, so that events around plain calls measure the host.
    """

    def can_replay(self) -> bool:
        """Whether it works here, tried."""

    def capture(self, calls: Sequence[Call]) -> list[Call]:
        """Each call recorded once, as a call that launches the same again. Raises where that cannot be recorded."""


@runtime_checkable
class Clocked(Protocol):
    """A device that tells its clock at once, so that a case can wait until it has settled. An addition to Device."""

    def clock_hz(self) -> float | None:
        """The clock that its calls run at now; None where it is not told."""
