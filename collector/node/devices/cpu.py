"""The CPU as a first-class device."""

from __future__ import annotations

import hashlib
import os
import platform
import time
from pathlib import Path
from typing import Any

import torch

from collector.node.devices.base import Call, DeviceIdentity, EnergyUse, MemoryUse, Sample

CACHE_BYTES_IF_UNKNOWN = 32 * 2**20


class Cpu:
    """Wall and thread time; memory by the profiler's allocation events."""

    def __init__(self) -> None:
        self._identity = DeviceIdentity(
            kind="cpu",
            model=cpu_model(),
            unit=cpu_unit(),
            driver=None,
            memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            cache_bytes=last_level_cache_bytes(),
            cores=len(os.sched_getaffinity(0)),
            clock_max_hz=clock_max_hz(),
            capabilities={key: str(value) for key, value in torch.cpu.get_capabilities().items()},
        )

    @property
    def identity(self) -> DeviceIdentity:
        return self._identity

    @property
    def torch_device(self) -> Any:
        return torch.device("cpu")

    def ratio_timer(self, threads: int, world_size: int) -> str:
        """Thread time for one thread: it leaves out the time in which others held the core (docs/method.md, clock).

        With more threads, or with ranks that wait for each other, waiting is part of the call: wall time.
        """
        return "thread_time" if threads == 1 and world_size == 1 else "wall"

    def synchronize(self) -> None:
        """Calls on CPU return when they are done."""

    def sample(self, call: Call, calls: int) -> Sample:
        start_thread = time.thread_time_ns()
        start = time.perf_counter_ns()
        for _ in range(calls):
            call()
        end = time.perf_counter_ns()
        end_thread = time.thread_time_ns()
        return Sample(
            start_s=time.monotonic() - (end - start) / 1e9,
            wall_s=(end - start) / 1e9,
            thread_s=(end_thread - start_thread) / 1e9,
            device_s=None,
        )

    def measure_memory(self, call: Call) -> MemoryUse:
        """Largest running sum of the allocator's events during one call: exact to the byte (docs/method.md, memory)."""
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
            result = call()
        total = peak = 0
        for event in profile.profiler.kineto_results.events():
            if event.name() == "[memory]":
                total += event.nbytes()
                peak = max(peak, total)
        kept = total
        del result
        return MemoryUse(peak_bytes=peak, workspace_bytes=max(0, peak - kept), reserved_bytes=None)

    def measure_energy(self, call: Call) -> EnergyUse:
        return EnergyUse(joules=None, reason="no energy counter of a CPU is read")

    def backend(self) -> str:
        return "gloo"


def cpu_model() -> str:
    """The model name as the kernel tells it, with the number of cores this process may use."""
    name = ""
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []:
        if line.startswith("model name"):
            name = line.partition(":")[2].strip()
            break
    name = name or platform.processor() or platform.machine()
    cores = len(os.sched_getaffinity(0))
    return f"{name}, {cores} cores" if cores != 1 else f"{name}, 1 core"


def cpu_unit() -> str:
    """This very machine: a hash of its machine id, else of its host name."""
    for path in (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id")):
        if path.exists() and (text := path.read_text().strip()):
            break
    else:
        text = platform.node()
    return "cpu-" + hashlib.sha256(text.encode()).hexdigest()[:12]


def last_level_cache_bytes() -> int:
    """Size of the largest cache of core 0, from sysfs or sysconf; 32 MiB where neither tells."""
    best = 0
    for size in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = size.read_text().strip()
        unit = {"K": 2**10, "M": 2**20}.get(text[-1:], 1)
        best = max(best, int(text.rstrip("KM") or 0) * unit)
    if best == 0:
        for name in ("SC_LEVEL3_CACHE_SIZE", "SC_LEVEL2_CACHE_SIZE"):
            if name in os.sysconf_names and (value := os.sysconf(name)) > 0:
                return int(value)
    return best or CACHE_BYTES_IF_UNKNOWN


def clock_max_hz() -> float | None:
    """Highest clock the kernel knows for core 0, or the current one where it is higher; None where neither is told."""
    clocks = []
    path = Path("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")
    if path.exists():
        clocks.append(float(path.read_text()) * 1e3)
    if Path("/proc/cpuinfo").exists():
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("cpu MHz"):
                clocks.append(float(line.partition(":")[2]) * 1e6)
    return max(clocks) if clocks else None
