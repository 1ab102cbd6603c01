"""Lock an NVIDIA device's clocks for a run, and give them back however the run ends.

A file in the state folder says which clocks are locked, before they are. Every orderly end removes it; after a kill the
next run finds it and gives the clocks back first. Runs of a machine are one at a time, so a file that is there when a
run starts is always left over.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from collector.node.devices import DeviceError
from collector.node.nvml import NvmlDevice, open_nvml

FILE = "locked-clocks.json"
BASE, MAXIMUM = "base", "max"


class ClockError(DeviceError):
    """Clocks that cannot be locked or given back; one line. Exit code 3."""


class ClockLock(msgspec.Struct, frozen=True, kw_only=True):
    """Which clocks are locked, in MHz, the unit of the driver's interface."""

    unit: str
    low_mhz: int
    high_mhz: int


def is_choice(text: str) -> bool:
    """Whether it can be asked for: base, max, or a clock in MHz."""
    return text in (BASE, MAXIMUM) or (text.isdecimal() and int(text) > 0)


@contextmanager
def locked_clocks(kind: str, unit: str, wanted: str | None, state: Path) -> Iterator[ClockLock | None]:
    """Hold the SM clock of a device at `wanted` for the block; None locks nothing. Raises ClockError.

    What an earlier run has left is given back first, whatever is wanted.
    """
    give_back(state)
    if wanted is None:
        yield None
        return
    if kind != "cuda":
        raise ClockError(f"--lock-clocks on a {kind} device: only NVIDIA's can be locked; leave it out")
    lock = _lock(unit, wanted, state)
    try:
        yield lock
    finally:
        give_back(state)


def _lock(unit: str, wanted: str, state: Path) -> ClockLock:
    try:
        device = open_nvml(unit)
        clock_mhz = _wanted_mhz(device, wanted)
    except Exception as error:  # ImportError, or NVML's class for the code
        raise ClockError(f"the clocks of {unit} cannot be asked for: NVML: {error}; give MHz") from None
    lock = ClockLock(unit=unit, low_mhz=clock_mhz, high_mhz=clock_mhz)
    state.mkdir(parents=True, exist_ok=True)
    (state / FILE).write_bytes(msgspec.json.encode(lock))
    try:
        device.nvml.nvmlDeviceSetGpuLockedClocks(device.card, lock.low_mhz, lock.high_mhz)
    except device.nvml.NVMLError as error:
        (state / FILE).unlink()
        way_out = "run as root, or leave --lock-clocks out"
        raise ClockError(
            f"the clocks of {unit} cannot be locked at {clock_mhz} MHz: NVML: {error}; {way_out}"
        ) from None
    return lock


def _wanted_mhz(device: NvmlDevice, wanted: str) -> int:
    """`base` is the clock that applications get by default, which the card is built to hold; `max` its highest."""
    nvml = device.nvml
    if wanted == BASE:
        return int(nvml.nvmlDeviceGetDefaultApplicationsClock(device.card, nvml.NVML_CLOCK_SM))
    if wanted == MAXIMUM:
        return int(nvml.nvmlDeviceGetMaxClockInfo(device.card, nvml.NVML_CLOCK_SM))
    return int(wanted)


def locked_by(state: Path) -> ClockLock | None:
    """What a run has locked and not given back yet; None: nothing."""
    try:
        return msgspec.json.decode((state / FILE).read_bytes(), type=ClockLock)
    except (OSError, msgspec.MsgspecError):
        return None


def give_back(state: Path) -> None:
    """Let the clocks float again that a run has locked, if one has. Raises ClockError where that is refused."""
    lock = locked_by(state)
    if lock is None:
        return
    try:
        device = open_nvml(lock.unit)
        device.nvml.nvmlDeviceResetGpuLockedClocks(device.card)
    except Exception as error:
        way_out = f"as root: nvidia-smi --reset-gpu-clocks, then delete {state / FILE}"
        raise ClockError(f"the clocks of {lock.unit} are locked and not given back: NVML: {error}; {way_out}") from None
    (state / FILE).unlink(missing_ok=True)
