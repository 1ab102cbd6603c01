"""Whatever `torch.accelerator` drives: CUDA, ROCm, XPU, MPS, and out-of-tree backends that register themselves."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import torch

from collector.node import energy, nvml
from collector.node.devices.base import Call, DeviceIdentity, EnergyUse, MemoryUse, Sample

CACHE_BYTES_IF_UNKNOWN = 256 * 2**20
"""Larger than the last-level cache of any accelerator we know of (GB200: about 129 MB)."""


class NoAcceleratorError(RuntimeError):
    """torch sees no accelerator of the kind that was asked for."""


class Accelerator:
    """Device events around calls that are queued back to back; memory from the caching allocator."""

    def __init__(self, kind: str, index: int) -> None:
        current = current_accelerator()
        if current is None or current.type != kind:
            seen = "none" if current is None else current.type
            raise NoAcceleratorError(f"device {kind}:{index}: torch sees {seen}")
        if index >= torch.accelerator.device_count():
            raise NoAcceleratorError(
                f"device {kind}:{index}: torch sees {torch.accelerator.device_count()} of this kind"
            )
        self._device = torch.device(kind, index)
        torch.accelerator.set_device_index(index)
        self._identity = identify(kind, index)

    @property
    def identity(self) -> DeviceIdentity:
        return self._identity

    @property
    def torch_device(self) -> Any:
        return self._device

    def ratio_timer(self, threads: int, world_size: int) -> str:
        return "device_event" if world_size == 1 else "wall"

    def synchronize(self) -> None:
        torch.accelerator.synchronize(self._device)

    def sample(self, call: Call, calls: int) -> Sample:
        start = torch.Event(self._device, enable_timing=True)
        end = torch.Event(self._device, enable_timing=True)
        self.synchronize()
        begun = time.perf_counter_ns()
        start.record()
        for _ in range(calls):
            call()
        end.record()
        self.synchronize()
        done = time.perf_counter_ns()
        return Sample(
            start_s=time.monotonic() - (done - begun) / 1e9,
            wall_s=(done - begun) / 1e9,
            thread_s=None,
            device_s=start.elapsed_time(end) / 1e3,
        )

    def measure_memory(self, call: Call) -> MemoryUse:
        try:
            self.synchronize()
            torch.accelerator.reset_peak_memory_stats(self._device)
            before = torch.accelerator.memory_allocated(self._device)
            result = call()
            self.synchronize()
            peak = torch.accelerator.max_memory_allocated(self._device) - before
            kept = torch.accelerator.memory_allocated(self._device) - before
            reserved = torch.accelerator.max_memory_reserved(self._device)
            del result
        except (RuntimeError, AttributeError, NotImplementedError) as error:
            words = f"the {self._device.type} allocator keeps no statistics: {first_line(error)}"
            return MemoryUse(peak_bytes=None, workspace_bytes=None, reserved_bytes=None, reason=words)
        return MemoryUse(peak_bytes=peak, workspace_bytes=max(0, peak - kept), reserved_bytes=reserved)

    def measure_energy(self, call: Call) -> EnergyUse:
        """From NVML's counter of the card; a slice has none of its own."""
        if self._device.type != "cuda" or torch.version.cuda is None:
            return EnergyUse(joules=None, reason=f"no energy counter of a {self._device.type} device is read")
        return energy.nvml_joules(call, self.synchronize, self._identity)

    def can_replay(self) -> bool:
        return self._graphs_work

    @cached_property
    def _graphs_work(self) -> bool:
        """Whether a recorded addition adds: tried once, since not every backend of torch.accelerator has graphs."""
        try:
            x = torch.zeros(1, device=self._device)
            [add] = self.capture([lambda: x.add_(1.0)])
            x.zero_()
            add()
            self.synchronize()
            return float(x) == 1.0
        except Exception:  # a backend without graphs raises whatever it likes
            return False

    def capture(self, calls: Sequence[Call]) -> list[Call]:
        """One graph a call, all in one memory pool; what a call allocates stays at its place there."""
        stream = torch.Stream(self._device)
        pool: Any = None
        launches: list[Call] = []
        self.synchronize()
        for call in calls:
            with stream:
                call()  # what a library sets up on the first call of a stream must not be recorded
            self.synchronize()
            graph = torch.accelerator.Graph(pool=pool)
            with stream, graph:
                call()
            pool = graph.pool()
            launches.append(graph.replay)
        self.synchronize()
        return launches

    def clock_hz(self) -> float | None:
        """The SM clock by NVML; None where it cannot be asked."""
        return self._sm_clock() if self._sm_clock is not None else None

    @cached_property
    def _sm_clock(self) -> Callable[[], float | None] | None:
        if self._device.type != "cuda" or torch.version.cuda is None:
            return None
        return nvml.sm_clock(self._identity.unit)

    def backend(self) -> str:
        return str(torch.distributed.get_default_backend_for_device(self._device))


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def current_accelerator() -> torch.device | None:
    """The accelerator torch sees, or None; a broken plug-in counts as none."""
    try:
        return torch.accelerator.current_accelerator(check_available=True)
    except Exception:  # a plug-in may raise anything here; no accelerator is the honest answer
        return None


def identify(kind: str, index: int) -> DeviceIdentity:
    """Model, UUID and sizes from the device's properties; what they lack stays None or the stated default."""
    try:
        properties: Any = torch.get_device_module(kind).get_device_properties(index)
    except Exception:  # not every backend has properties
        properties = None
    uuid = getattr(properties, "uuid", None)
    unit = f"GPU-{uuid}" if uuid is not None else f"{kind}-slot{index}"
    told = nvml.identify(unit) if kind == "cuda" and torch.version.cuda is not None else None
    return DeviceIdentity(
        kind=kind,
        model=told.model if told else str(getattr(properties, "name", kind)),
        unit=told.unit if told else unit,
        slice=told.slice if told else None,
        index=index,
        driver=told.driver if told else None,
        memory_bytes=getattr(properties, "total_memory", None),
        cache_bytes=int(getattr(properties, "L2_cache_size", 0) or CACHE_BYTES_IF_UNKNOWN),
        cores=getattr(properties, "multi_processor_count", None),
    )
