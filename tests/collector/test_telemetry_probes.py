"""Probes of the host and of AMD devices: values where there are any, reasons where there are none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from collector.node.amd import METRICS, AmdProbe, serials
from collector.node.readings import one
from collector.node.telemetry import HostProbe

STUB = Path(__file__).parents[1] / "support" / "amdsmi_stub"
READ = """
import dataclasses, json, sys
from collector.node.amd import AmdProbe
print(json.dumps([dataclasses.asdict(r) for r in AmdProbe(sys.argv[1]).read()]))
"""


def amd(unit: str) -> dict[str, dict[str, object]]:
    done = subprocess.run(
        [sys.executable, "-c", READ, unit],
        env=os.environ | {"PYTHONPATH": str(STUB)},
        capture_output=True,
        text=True,
        check=True,
    )
    return {reading["metric"]: reading for reading in json.loads(done.stdout)}


def test_an_amd_device_is_found_by_its_serial_number() -> None:
    """The unit's bytes, read as text, are the serial that AMD SMI gives: 301 W is the second card's."""
    unit = "GPU-" + b"0011223344556611".hex()
    found = amd(unit)

    assert "0011223344556611" in serials(unit)
    assert {metric for metric, _ in METRICS} == set(found)
    assert (found["power"]["value"], found["sm_clock"]["value"], found["energy"]["value"]) == (301.0, 2.1e9, 15.3)
    assert found["temperature"]["value"] is None
    assert found["temperature"]["reason"] == "AMD SMI: AMDSMI_STATUS_NOT_SUPPORTED"


def test_an_unknown_amd_device_gives_nothing_rather_than_another_ones() -> None:
    """Among several devices none is guessed by its place."""
    found = amd("GPU-ffffffff")

    assert {reading["value"] for reading in found.values()} == {None}
    assert "none of 2 devices has the identity GPU-ffffffff" in str(found["power"]["reason"])


def test_without_the_package_it_is_the_reason() -> None:
    """Where ROCm's package is not installed every metric says so."""
    assert {reading.reason for reading in AmdProbe("GPU-0").read()} == {
        "AMD SMI: the package amdsmi is not installed; it comes with ROCm"
    }


def test_the_host_counts_switches_of_the_runs_own_processes() -> None:
    """A child that spins beside others is counted, with every other host metric a number or a reason."""
    spin = subprocess.Popen(
        [sys.executable, "-c", "import time\nend = time.time() + 60\nwhile time.time() < end: pass"]
    )
    try:
        probe = HostProbe(parent=os.getpid())
        probe.read()
        time.sleep(0.1)
        found = {reading.metric: reading for reading in probe.read()}
        assert spin.pid in probe._descendants()  # beside whatever else this process has started
    finally:
        spin.kill()
        spin.wait()

    assert set(found) == {
        "load_1m",
        "steal",
        "busy",
        "memory_available",
        "clock",
        "involuntary_switches",
        "core_wait",
    }
    assert all(reading.value is not None or reading.reason for reading in found.values())
    switches = found["involuntary_switches"].value
    assert switches is not None and switches >= 0


def test_the_share_without_a_core_is_that_of_the_runs_own_threads(tmp_path: Path) -> None:
    """Waited / (ran + waited) over all threads of all descendants since the last reading; a new one counts from now."""

    def schedstat(tid: int, ran_ns: int, waited_ns: int) -> None:
        folder = tmp_path / "7" / "task" / str(tid)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "schedstat").write_text(f"{ran_ns} {waited_ns} 5\n")

    (tmp_path / "1" / "task" / "1").mkdir(parents=True)
    (tmp_path / "1" / "task" / "1" / "children").write_text("7")
    probe = HostProbe(proc=tmp_path, parent=1)
    schedstat(7, 1000, 500)
    first = probe._core_wait()
    schedstat(7, 1000 + 60, 500 + 20)
    schedstat(8, 10**9, 10**9)
    second = probe._core_wait()
    schedstat(8, 10**9 + 20, 10**9 + 60)

    assert (first, second, probe._core_wait()) == (0.0, 0.25, 0.75)


def test_a_proc_that_tells_nothing_is_reasons(tmp_path: Path) -> None:
    """On a system without /proc every host metric is null with its reason, but for what counts nobody."""
    found = {reading.metric: reading for reading in HostProbe(proc=tmp_path, parent=1).read()}

    assert all(found[m].value is None and found[m].reason for m in ("load_1m", "steal", "busy", "clock"))


@pytest.mark.parametrize("error", [ValueError("odd"), OSError(), ZeroDivisionError("none")])
def test_one_reading_fails_alone(error: Exception) -> None:
    """What a read raises is the reason, its class where it has no words."""

    def fail() -> float:
        raise error

    reading = one("power", "W", fail, "NVML")
    assert (reading.value, reading.reason) == (None, f"NVML: {str(error) or type(error).__name__}")
