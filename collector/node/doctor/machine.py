"""The host: cores, load, governor, memory, and whether its clock can be believed."""

from __future__ import annotations

import ctypes
import os
import platform
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from collector.node.doctor.fact import Fact, Health, guarded

BUSY_SHARE = 0.5
"""Load per core above which timings on CPU suffer visibly."""
LITTLE_MEMORY_BYTES = 4 * 2**30
TIME_ERROR = 5
"""What adjtimex returns while nothing keeps the clock in step (adjtimex(2))."""
TIMEX_BYTES = 512


def machine() -> list[Fact]:
    """Facts of the sections `machine` and `clock`."""
    checks = {"load": _load, "governor": _governor, "boost": _boost, "memory": _memory}
    return [
        Fact(section="machine", name="host", value=f"{platform.node()}, {platform.release()}"),
        *(guarded("machine", name, check) for name, check in checks.items()),
        guarded("clock", "time", _time),
        guarded("clock", "time zone", _zone),
        guarded("clock", "kept in step", _synchronised),
    ]


def _load() -> Fact:
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    value = f"{load:.1f} on {cores} cores"
    if load <= BUSY_SHARE * cores:
        return Fact(section="machine", name="load", value=value)
    words = "others use the cores: intervals get wider, percentiles of wall time mean little"
    way_out = "measure when it is quiet, or on cores that are kept free (taskset)"
    return Fact(section="machine", name="load", value=value, health=Health.NOTE, words=words, way_out=way_out)


def _governor() -> Fact:
    found = _sysfs("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    if found is None:
        words = "the kernel tells none; in a virtual machine the host decides the clock"
        return Fact(section="machine", name="governor", value=None, words=words)
    if found == "performance":
        return Fact(section="machine", name="governor", value=found)
    words, way_out = "the clock follows the load: short calls see it ramp", "sudo cpupower frequency-set -g performance"
    return Fact(section="machine", name="governor", value=found, health=Health.NOTE, words=words, way_out=way_out)


def _boost() -> Fact:
    found = _sysfs("/sys/devices/system/cpu/cpufreq/boost")
    if found is None:
        return Fact(section="machine", name="boost", value=None, words="the kernel tells nothing of it")
    if found == "0":
        return Fact(section="machine", name="boost", value="off")
    words = "the clock depends on temperature and on what the other cores do"
    return Fact(section="machine", name="boost", value="on", health=Health.NOTE, words=words)


def _memory() -> Fact:
    from collector.node.memory import available_bytes

    free = available_bytes()
    value = f"{free / 2**30:.1f} GiB available"
    if free >= LITTLE_MEMORY_BYTES:
        return Fact(section="machine", name="memory", value=value)
    words = "cases that do not fit are skipped, with the figures"
    return Fact(section="machine", name="memory", value=value, health=Health.NOTE, words=words)


def _time() -> Fact:
    """A clock before this installation was set back: its runs would sort before what is there."""
    now = datetime.now(UTC)
    installed = datetime.fromtimestamp(Path(__file__).stat().st_mtime, UTC)
    value = f"{now:%Y-%m-%d %H:%M:%S} UTC"
    if now >= installed:
        return Fact(section="clock", name="time", value=value)
    words = f"it is before this installation ({installed:%Y-%m-%d %H:%M} UTC): runs would be filed under a wrong day"
    return Fact(section="clock", name="time", value=value, health=Health.BAD, words=words, way_out="set the clock")


def _zone() -> Fact:
    offset = datetime.now().astimezone().strftime("%z")
    value = f"{'/'.join(dict.fromkeys(time.tzname))} ({offset[:3]}:{offset[3:]})"
    return Fact(section="clock", name="time zone", value=value, words="schedules use it; runs are kept in UTC")


def _synchronised() -> Fact:
    libc = ctypes.CDLL(None, use_errno=True)
    state = libc.adjtimex(ctypes.create_string_buffer(TIMEX_BYTES))
    if state < 0:
        words = os.strerror(ctypes.get_errno())
        return Fact(section="clock", name="kept in step", value=None, words=f"the kernel does not tell: {words}")
    if state != TIME_ERROR:
        return Fact(section="clock", name="kept in step", value="yes")
    words = "nothing keeps this clock in step: nights of several machines may be ordered wrongly"
    way_out = "run chrony or systemd-timesyncd (in a container: on its host)"
    return Fact(section="clock", name="kept in step", value="no", health=Health.NOTE, words=words, way_out=way_out)


def _sysfs(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def pci_accelerators(root: Path = Path("/sys/bus/pci/devices")) -> Iterator[str]:
    """Vendor names of the display and compute devices on the PCI bus: what a driver could drive."""
    vendors = {"0x10de": "NVIDIA", "0x1002": "AMD", "0x8086": "Intel"}
    for device in sorted(root.glob("*")):
        try:
            vendor, kind = (device / "vendor").read_text().strip(), (device / "class").read_text().strip()
        except OSError:
            continue
        accelerator = kind.startswith(("0x0302", "0x0380", "0x1200"))  # 3D, other display, processing accelerator
        if vendor in vendors and (accelerator or (vendor == "0x10de" and kind.startswith("0x0300"))):
            yield vendors[vendor]
