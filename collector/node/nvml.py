"""An NVIDIA device through NVML: by UUID, never by index.

CUDA_VISIBLE_DEVICES renumbers what CUDA sees, not what NVML sees. Every call fails on its own (not supported, no
permission, unknown, lost): a metric without a value has NVML's words as its reason.

The module `pynvml` is that of the distribution nvidia-ml-py. The distribution named pynvml is a deprecated shim.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collector.node.readings import Reading, one

ALL_LINKS = 0xFFFFFFFF
"""Scope of an NVLink field value that means all links of the device."""
PCIE_UNIT_BYTES = 1024
NVLINK_UNIT_BYTES = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlDevice:
    """An open device. Clocks, power and links belong to the whole card; memory and processes to the slice."""

    nvml: Any
    handle: Any
    """Of what CUDA uses: the card, or its MIG slice."""
    card: Any
    """Of the card that the slice is cut from; the same handle where there is no slice."""
    unit: str
    """The UUID under which NVML knows it: GPU-... or MIG-..."""


def open_nvml(unit: str) -> NvmlDevice:
    """The device with this UUID. Raises whatever NVML raises: pynvml's errors, or ImportError without nvidia-ml-py.

    torch prints the UUID of a slice like that of a card, so GPU-x is looked for as MIG-x too.
    """
    import pynvml

    pynvml.nvmlInit()
    names = [unit, "MIG-" + unit.removeprefix("GPU-")] if unit.startswith("GPU-") else [unit]
    for name in names:
        try:
            handle = pynvml.nvmlDeviceGetHandleByUUID(name)
        except pynvml.NVMLError:
            if name == names[-1]:
                raise
            continue
        return NvmlDevice(nvml=pynvml, handle=handle, card=_card_of(pynvml, handle), unit=name)
    raise LookupError(unit)


def _card_of(nvml: Any, handle: Any) -> Any:
    """The card of a MIG slice, else the handle itself; a driver that knows no MIG has no slices."""
    try:
        is_slice = nvml.nvmlDeviceIsMigDeviceHandle(handle)
        return (
            nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
            if getattr(is_slice, "value", is_slice)
            else handle
        )
    except nvml.NVMLError:
        return handle


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlIdentity:
    """What NVML adds to a device's identity."""

    unit: str
    model: str
    slice: str | None
    """MIG profile, as 1g.10gb; None for a whole card."""
    driver: str | None


def identify(unit: str) -> NvmlIdentity | None:
    """Identity of the device with this UUID; None where NVML does not know it."""
    try:
        device = open_nvml(unit)
        name = text(device.nvml.nvmlDeviceGetName(device.handle))
    except Exception:  # absent library or driver, or a refusal: torch's own words then stand
        return None
    try:
        driver = text(device.nvml.nvmlSystemGetDriverVersion())
    except device.nvml.NVMLError:
        driver = None
    model, _, profile = name.partition(" MIG ")
    return NvmlIdentity(unit=device.unit, model=model, slice=profile or None, driver=driver)


def sm_clock(unit: str) -> Callable[[], float | None] | None:
    """A function that reads the SM clock in Hz, None where a reading fails; None where NVML knows no such device."""
    try:
        device = open_nvml(unit)
    except Exception:  # absent library or driver: the clock is then not told
        return None

    def read() -> float | None:
        try:
            return float(device.nvml.nvmlDeviceGetClockInfo(device.card, device.nvml.NVML_CLOCK_SM)) * 1e6
        except device.nvml.NVMLError:
            return None

    return read


def text(value: str | bytes) -> str:
    """Names come as bytes from some versions of the module and as str from others."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


class NvmlProbe:
    """Telemetry of one NVIDIA device."""

    def __init__(self, unit: str, *, proc: Path = Path("/proc"), parent: int | None = None) -> None:
        """`parent` is the process whose descendants are ours; by default the parent of this one."""
        self.proc = proc
        self.parent = os.getppid() if parent is None else parent
        self._failure = ""
        self._device: NvmlDevice | None = None
        try:
            self._device = open_nvml(unit)
        except Exception as error:  # whatever it is, every metric then tells it
            self._failure = str(error) or type(error).__name__
        self._faults = _FaultCounter(self._device) if self._device else None

    def read(self) -> list[Reading]:
        if self._device is None:
            return [Reading(metric=m, unit=u, value=None, reason=f"NVML: {self._failure}") for m, u in METRICS]
        readers = dict(self._readers(self._device))
        return [one(metric, unit, readers[metric], "NVML") for metric, unit in METRICS]

    def _readers(self, device: NvmlDevice) -> Iterator[tuple[str, Callable[[], float]]]:
        nvml, card, handle = device.nvml, device.card, device.handle
        yield "sm_clock", lambda: nvml.nvmlDeviceGetClockInfo(card, nvml.NVML_CLOCK_SM) * 1e6
        yield "memory_clock", lambda: nvml.nvmlDeviceGetClockInfo(card, nvml.NVML_CLOCK_MEM) * 1e6
        yield "clocks_event_reasons", lambda: event_reasons(nvml, card)
        yield "power", lambda: nvml.nvmlDeviceGetPowerUsage(card) / 1e3
        yield "power_limit", lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(card) / 1e3
        yield "energy", lambda: energy_j(device)
        yield "temperature", lambda: nvml.nvmlDeviceGetTemperature(card, nvml.NVML_TEMPERATURE_GPU)
        yield "sm_utilization", lambda: nvml.nvmlDeviceGetUtilizationRates(card).gpu / 100
        yield "memory_utilization", lambda: nvml.nvmlDeviceGetUtilizationRates(card).memory / 100
        yield "memory_used", lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used
        yield "processes", lambda: len(nvml.nvmlDeviceGetComputeRunningProcesses(handle))
        yield "foreign_processes", lambda: len(self._foreign(device))
        yield "ecc_uncorrected", lambda: _ecc(nvml, card)
        yield "rows_remapped_uncorrectable", lambda: nvml.nvmlDeviceGetRemappedRows(card)[1]
        yield "xid_events", self._faults.events if self._faults else lambda: 0.0
        yield "xid_last", self._faults.last if self._faults else lambda: 0.0
        yield "pcie_sent", lambda: _pcie(nvml, card, nvml.NVML_PCIE_UTIL_TX_BYTES)
        yield "pcie_received", lambda: _pcie(nvml, card, nvml.NVML_PCIE_UTIL_RX_BYTES)
        yield "pcie_replays", lambda: nvml.nvmlDeviceGetPcieReplayCounter(card)
        yield "nvlink_sent", lambda: _field(nvml, card, nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX) * NVLINK_UNIT_BYTES
        yield (
            "nvlink_received",
            lambda: _field(nvml, card, nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX) * NVLINK_UNIT_BYTES,
        )

    def _foreign(self, device: NvmlDevice) -> list[int]:
        """Processes on the device that do not descend from this run."""
        pids = [int(p.pid) for p in device.nvml.nvmlDeviceGetComputeRunningProcesses(device.handle)]
        return foreign(pids, parent=self.parent, proc=self.proc)


METRICS = (
    ("sm_clock", "Hz"),
    ("memory_clock", "Hz"),
    ("clocks_event_reasons", "bits"),
    ("power", "W"),
    ("power_limit", "W"),
    ("energy", "J"),
    ("temperature", "C"),
    ("sm_utilization", "share"),
    ("memory_utilization", "share"),
    ("memory_used", "bytes"),
    ("processes", "count"),
    ("foreign_processes", "count"),
    ("ecc_uncorrected", "count"),
    ("rows_remapped_uncorrectable", "count"),
    ("xid_events", "count"),
    ("xid_last", "code"),
    ("pcie_sent", "bytes/s"),
    ("pcie_received", "bytes/s"),
    ("pcie_replays", "count"),
    ("nvlink_sent", "bytes"),
    ("nvlink_received", "bytes"),
)
"""Every metric of the probe with its unit. Energy, replays, errors and NVLink bytes count from the driver's start."""


class ForeignPidsError(RuntimeError):
    """Process ids that this process cannot see: a container has ids of its own."""


def foreign(pids: list[int], *, parent: int, proc: Path) -> list[int]:
    """The processes that do not descend from `parent`; raises ForeignPidsError where /proc does not know one."""
    found = []
    for pid in pids:
        above = pid
        while above not in (0, 1, parent):
            try:
                above = int((proc / str(above) / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                raise ForeignPidsError(f"process {above} is of another container or gone") from None
        if above != parent:
            found.append(pid)
    return found


def event_reasons(nvml: Any, card: Any) -> int:
    """Bits of why the clocks are where they are; older drivers know the call by its older name."""
    try:
        return int(nvml.nvmlDeviceGetCurrentClocksEventReasons(card))
    except nvml.NVMLError_FunctionNotFound:
        return int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(card))


def energy_j(device: NvmlDevice) -> float:
    """Joules that the card has used since its driver was loaded."""
    return float(device.nvml.nvmlDeviceGetTotalEnergyConsumption(device.card)) / 1e3


def _ecc(nvml: Any, card: Any) -> int:
    """Uncorrected memory errors since the last reboot."""
    kind, counter = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
    return int(nvml.nvmlDeviceGetTotalEccErrors(card, kind, counter))


def _pcie(nvml: Any, card: Any, counter: int) -> float:
    """Bytes/s over the driver's last 20 ms."""
    return float(nvml.nvmlDeviceGetPcieThroughput(card, counter)) * PCIE_UNIT_BYTES


def _field(nvml: Any, card: Any, field: int) -> float:
    """A 64-bit field value over all links; raises NVML's error of the field where the call itself went well."""
    value = nvml.nvmlDeviceGetFieldValues(card, [(field, ALL_LINKS)])[0]
    if value.nvmlReturn != nvml.NVML_SUCCESS:
        raise nvml.NVMLError(value.nvmlReturn)
    return float(value.value.ullVal)


class _FaultCounter:
    """Xid events (faults that the driver reports) since the probe was opened."""

    def __init__(self, device: NvmlDevice) -> None:
        self._nvml = device.nvml
        self._count = 0
        self._code = 0
        self._failure: Exception | None = None
        try:
            self._set = self._nvml.nvmlEventSetCreate()
            self._nvml.nvmlDeviceRegisterEvents(device.card, self._nvml.nvmlEventTypeXidCriticalError, self._set)
        except Exception as error:  # told by every reading
            self._failure = error

    def events(self) -> float:
        """How many so far; takes in what waits."""
        if self._failure is not None:
            raise self._failure
        while True:
            try:
                event = self._nvml.nvmlEventSetWait_v2(self._set, 0)
            except self._nvml.NVMLError_Timeout:
                return float(self._count)
            self._count += 1
            self._code = int(event.eventData)

    def last(self) -> float:
        """Code of the last one; raises where there was none, which is no error but has no value."""
        self.events()
        if not self._count:
            raise LookupError("no Xid event since the run began")
        return float(self._code)
