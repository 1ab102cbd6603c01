"""The device as a worker sees it, NVIDIA cards as their driver tells, and every metric that will be missing."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import msgspec

from collector.node.ceilings import ceilings_path, load
from collector.node.crew import Crew, CrewError
from collector.node.devices.base import DeviceIdentity
from collector.node.doctor.fact import Fact, Health
from collector.node.doctor.machine import pci_accelerators
from collector.node.folders import cache_folder, work_folder
from collector.node.nvml import text
from collector.node.protocol import Hello, WorkerSetup
from collector.node.telemetry import probes
from collector.node.worker_variables import worker_environment

SETTLE_S = 0.2
"""Between two readings: shares of time need two."""


def ask_worker(kind: str, index: int) -> tuple[Hello | None, str]:
    """What a worker says of the device, or why none started."""
    setup = WorkerSetup(device_kind=kind, device_index=index, threads=1, candidates=[], memory_limit_bytes=None)
    try:
        with work_folder() as folder, Crew(setup, folder=folder, environment=worker_environment(1)) as crew:
            return crew.start(), ""
    except (CrewError, OSError) as error:
        return None, str(error)


def device_facts(hello: Hello | None, why: str) -> list[Fact]:
    """Facts of the section `device`."""
    if hello is None:
        way_out = "collector doctor --device cpu shows what works without it"
        return [Fact(section="device", name="device", value=None, health=Health.BAD, words=why, way_out=way_out)]
    identity = msgspec.convert(hello.device, DeviceIdentity)
    facts = {
        "device": (f"{identity.kind}: {identity.model}", ""),
        "unit": (identity.unit, ""),
        "slice": (identity.slice, "a whole device"),
        "driver": (identity.driver, "a CPU has none" if identity.kind == "cpu" else "it is not told"),
        "memory": (_gib(identity.memory_bytes), "the device does not tell"),
        "last cache": (f"{identity.cache_bytes / 2**20:.1f} MiB", ""),
        "clock": (_mhz(identity.clock_max_hz), "the device does not tell"),
    }
    return [
        Fact(section="device", name=name, value=value, words="" if value else why_not)
        for name, (value, why_not) in facts.items()
    ]


def ceiling_facts(hello: Hello | None, threads: int = 1) -> list[Fact]:
    """Of the section `device`: the roofs that runs are held against, when they were measured, whether still good."""
    if hello is None:
        return []
    identity = msgspec.convert(hello.device, DeviceIdentity)
    kept = load(ceilings_path(cache_folder() / "ceilings", identity, threads))
    if kept is None:
        words = "none is measured yet: the next run does, quickly"
        return [_ceilings(None, words, "collector calibrate, on a quiet machine, makes more tries")]
    if kept.stale:
        return [_ceilings(f"stale, of {kept.measured_at}", kept.stale, "collector calibrate, on a quiet machine")]
    return [Fact(section="device", name="ceilings", value=f"of {kept.measured_at}", words=kept.source)]


def _ceilings(value: str | None, words: str, way_out: str) -> Fact:
    return Fact(section="device", name="ceilings", value=value, health=Health.NOTE, words=words, way_out=way_out)


def telemetry_facts(hello: Hello | None) -> list[Fact]:
    """Facts of the section `telemetry`: how many metrics there are, and each that will be null, with its reason."""
    if hello is None:
        return []
    identity = msgspec.convert(hello.device, DeviceIdentity)
    readers = probes(identity.kind, identity.unit)
    time.sleep(SETTLE_S)
    readings = [reading for reader in readers for reading in reader.read()]
    known = sum(reading.value is not None for reading in readings)
    facts = [Fact(section="telemetry", name="metrics", value=f"{known} of {len(readings)} have values")]
    for reading in readings:
        if reading.value is None:
            facts.append(
                Fact(section="telemetry", name=reading.metric, value=None, health=Health.MISSING, words=reading.reason)
            )
    return facts


def nvidia_facts() -> list[Fact]:
    """Facts of the section `nvidia`: the driver, and of each card identity, clocks, permissions, foreign processes."""
    try:
        import pynvml

        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
    except Exception as error:  # ImportError, or NVML's class for the code
        expected = "NVIDIA" in pci_accelerators()
        words = f"{error}: clocks, power, energy and throttling of NVIDIA devices will be null"
        way_out = "install the driver; in a container start it with the NVIDIA runtime" if expected else ""
        health = Health.MISSING if expected else Health.GOOD
        return [Fact(section="nvidia", name="driver", value=None, health=health, words=words, way_out=way_out)]
    facts = [_told("driver", lambda: text(pynvml.nvmlSystemGetDriverVersion())), _permission()]
    for index in range(count):
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            unit = text(pynvml.nvmlDeviceGetUUID(handle))
        except Exception as error:
            facts.append(Fact(section="nvidia", name=f"card {index}", value=None, health=Health.BAD, words=str(error)))
            continue
        facts += _card(pynvml, handle, unit)
    return facts


def _card(nvml: Any, handle: Any, unit: str) -> list[Fact]:
    def clocks() -> str:
        now = nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)
        return f"{now} of {nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM)} MHz"

    def processes() -> str:
        return ", ".join(str(p.pid) for p in nvml.nvmlDeviceGetComputeRunningProcesses(handle)) or "none"

    persistence = _told(f"{unit} persistence", lambda: _on(nvml.nvmlDeviceGetPersistenceMode(handle)))
    if persistence.value == "off":
        words, way_out = "the driver unloads between runs: first calls are slow, counters restart", "nvidia-smi -pm 1"
        persistence = _noted(persistence, words, way_out)
    others = _told(f"{unit} processes", processes)
    if others.value not in (None, "none"):
        others = _noted(others, "others compute on this card: its times are not its own", "measure on a free card")
    return [
        _told(f"{unit} model", lambda: text(nvml.nvmlDeviceGetName(handle))),
        _told(f"{unit} clocks", clocks),
        _told(f"{unit} power limit", lambda: f"{nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1e3:.0f} W"),
        persistence,
        _told(f"{unit} MIG", lambda: _on(nvml.nvmlDeviceGetMigMode(handle)[0])),
        others,
    ]


def _permission() -> Fact:
    """Setting clocks is the root user's, whatever else NVML allows."""
    if os.geteuid() == 0:
        words = "collector run --lock-clocks base"
        return Fact(section="nvidia", name="may lock clocks", value="yes", words=words)
    words = "clocks float with power and temperature, and intervals are wider for it"
    way_out = "run as root with --lock-clocks base, or once: sudo nvidia-smi --lock-gpu-clocks=LOW,HIGH"
    return Fact(section="nvidia", name="may lock clocks", value="no", health=Health.NOTE, words=words, way_out=way_out)


def _told(name: str, read: Callable[[], str]) -> Fact:
    try:
        return Fact(section="nvidia", name=name, value=read())
    except Exception as error:  # each call fails on its own
        return Fact(section="nvidia", name=name, value=None, health=Health.MISSING, words=f"NVML: {error}")


def _noted(fact: Fact, words: str, way_out: str) -> Fact:
    return Fact(
        section=fact.section, name=fact.name, value=fact.value, health=Health.NOTE, words=words, way_out=way_out
    )


def _on(state: int) -> str:
    return "on" if state else "off"


def _gib(size: int | None) -> str | None:
    return None if size is None else f"{size / 2**30:.1f} GiB"


def _mhz(clock_hz: float | None) -> str | None:
    return None if clock_hz is None else f"{clock_hz / 1e6:.0f} MHz"
