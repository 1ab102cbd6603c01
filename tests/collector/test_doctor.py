"""`collector doctor` on broken and on healthy machines: exit 0, and every null with its reason."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import nvml_stub
import pytest

from bench_suite.roofline import Ceilings
from collector.host.schedule.history import History, ScheduleEvent, ScheduleOutcome
from collector.node.ceilings import ceilings_path, load, mark_stale
from collector.node.devices.base import DeviceIdentity
from collector.node.doctor.device import ceiling_facts, device_facts, telemetry_facts
from collector.node.doctor.examine import whole
from collector.node.doctor.fact import Fact, Health, guarded
from collector.node.doctor.machine import pci_accelerators
from collector.node.doctor.places import place
from collector.node.doctor.software import _build, owner_fact
from collector.node.folders import cache_folder
from collector.node.lock import holder, run_lock
from collector.node.protocol import Hello

NVIDIA = """
import dataclasses, json
from collector.node.doctor.device import nvidia_facts
print(json.dumps([dataclasses.asdict(f) for f in nvidia_facts()]))
"""


def doctor(tmp_path: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"XDG_STATE_HOME": str(tmp_path / "state"), "LD_LIBRARY_PATH": ""} | variables
    return subprocess.run(
        [sys.executable, "-m", "collector.cli.main", "doctor", "--store", str(tmp_path / "store"), *arguments],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


def test_without_a_driver_it_exits_0_with_reasons(tmp_path: Path) -> None:
    """Every section is there, every fact without a value says why, nothing is written, stderr is empty."""
    done = doctor(tmp_path, "--device", "cpu", "--json")
    facts = json.loads(done.stdout)["facts"]

    assert (done.returncode, done.stderr) == (0, "")
    assert {f["section"] for f in facts} >= {
        "device",
        "nvidia",
        "telemetry",
        "machine",
        "clock",
        "software",
        "places",
        "alerts",
        "schedule",
    }
    assert [f["name"] for f in facts if f["value"] is None and not f["words"]] == []
    by_name = {(f["section"], f["name"]): f for f in facts}
    assert "Library Not Found" in by_name["nvidia", "driver"]["words"]
    assert by_name["device", "device"]["value"].startswith("cpu: ")
    assert list(tmp_path.iterdir()) == []


def test_a_device_that_is_not_there_is_a_fact_and_a_table(tmp_path: Path) -> None:
    """Asked for an accelerator that torch does not see, it says so in the table, and exits with 0."""
    done = doctor(tmp_path, "--device", "nosuch")

    assert (done.returncode, done.stderr) == (0, "")
    assert " ! device" in done.stdout and "nosuch:0: torch sees" in done.stdout
    assert "1 bad" in done.stdout.splitlines()[-1]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed: the stub cannot be built")
def test_cards_are_told_with_persistence_and_foreign_processes(tmp_path: Path) -> None:
    """Of each card: identity, clocks, persistence, MIG, who computes there; a refusal is that fact's reason."""
    stub = nvml_stub.build(tmp_path)
    stub.say(pid=4711, mig=1, error__nvmlDeviceGetEnforcedPowerLimit=4)
    facts = {f["name"]: f for f in json.loads(stub.python(NVIDIA))}

    assert facts["driver"]["value"] == "999.1"
    assert facts["GPU-3 clocks"]["value"] == "1500 of 1980 MHz"
    assert (facts["GPU-3 persistence"]["value"], facts["GPU-3 persistence"]["health"]) == ("off", "note")
    assert (facts["GPU-3 processes"]["value"], facts["GPU-3 processes"]["health"]) == ("4711", "note")
    assert facts["GPU-2 MIG"]["value"] == "on"
    assert facts["GPU-0 power limit"]["value"] is None
    assert "Insufficient Permissions" in facts["GPU-0 power limit"]["words"]


def test_the_deprecated_package_is_named_with_the_way_out() -> None:
    """nvidia-ml-py alone is well; the shim beside it, or another owner, is a note that says what to do."""
    good = owner_fact(["nvidia-ml-py"], shim=False)
    shim = owner_fact(["nvidia-ml-py"], shim=True)
    other = owner_fact(["something"], shim=False)

    assert (good.health, shim.health, other.health) == (Health.GOOD, Health.NOTE, Health.NOTE)
    assert "pip uninstall pynvml" in shim.way_out


@pytest.mark.parametrize(
    ("cuda", "hip", "vendors", "health"),
    [
        ("13.0", "None", ["NVIDIA"], Health.GOOD),
        ("None", "None", [], Health.GOOD),
        ("None", "None", ["NVIDIA"], Health.BAD),
        ("13.0", "None", ["AMD"], Health.BAD),
    ],
)
def test_a_torch_built_for_another_device_is_bad(cuda: str, hip: str, vendors: list[str], health: Health) -> None:
    """A card on the bus that this torch cannot drive would be passed over in silence: the doctor says it."""
    assert _build({"torch.cuda": cuda, "torch.hip": hip}, vendors).health is health


def test_the_bus_tells_accelerators_from_the_rest(tmp_path: Path) -> None:
    """Compute and display devices of known vendors count; network cards and consoles do not."""
    devices = {"a": ("0x10de", "0x030200"), "b": ("0x1002", "0x120000"), "c": ("0x10de", "0x020700"), "d": ("1", "2")}
    for name, (vendor, kind) in devices.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "vendor").write_text(vendor)
        (tmp_path / name / "class").write_text(kind)

    assert list(pci_accelerators(tmp_path)) == ["NVIDIA", "AMD"]


def test_a_file_in_the_way_of_a_folder_is_bad(tmp_path: Path) -> None:
    """A place that cannot be written is bad before a run finds it out; one that can be made is well."""
    (tmp_path / "file").write_text("")

    assert place("state", tmp_path / "file" / "below").health is Health.BAD
    assert place("state", tmp_path / "new" / "below").health is Health.GOOD


def test_the_holder_of_the_lock_is_known(tmp_path: Path) -> None:
    """While a run holds the lock its process is named; before and after nobody is."""
    path = tmp_path / "run.lock"

    assert holder(path) is None
    with run_lock(path):
        assert holder(path) == os.getpid()
    assert holder(path) is None


def test_a_check_that_fails_is_a_fact() -> None:
    """Whatever a check raises, the examination goes on and tells it."""

    def broken() -> Fact:
        raise OSError("no such disk")

    def broken_section() -> list[Fact]:
        raise RuntimeError("nothing works")

    assert guarded("places", "store", broken).words == "OSError: no such disk"
    assert whole("places", broken_section)[0].words == "RuntimeError: nothing works"


def test_without_a_worker_the_reason_stands_for_the_device() -> None:
    """What kept the worker from starting is the device's reason; telemetry is not asked."""
    facts = device_facts(None, "worker did not start: it printed nothing")

    assert (facts[0].value, facts[0].health) == (None, Health.BAD)
    assert facts[0].words == "worker did not start: it printed nothing"
    assert telemetry_facts(None) == []


def test_missed_jobs_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that was missed within the week is in the schedule's section, with when and why."""
    from collector.cli.doctor import _schedule
    from collector.cli.schedule import schedule_folder

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)
    folder = schedule_folder(None)
    assert _schedule()[0].value is None
    event = ScheduleEvent(at=datetime.now(UTC), job="night", outcome=ScheduleOutcome.MISSED, words="nobody was there")
    History(folder).add(event)
    fact = _schedule()[0]

    assert (fact.value, fact.health) == ("0 done, 1 not, in 7 days", Health.NOTE)
    assert "night missed" in fact.words and "nobody was there" in fact.words


def test_ceilings_that_were_exceeded_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None yet, kept, or stale with the words and the way out; a run measures stale ones anew."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    identity = DeviceIdentity(kind="cpu", model="Test", unit="cpu-1", cache_bytes=1)
    hello = Hello(pid=1, device=msgspec.to_builtins(identity), versions={})
    path = ceilings_path(cache_folder() / "ceilings", identity, 1)
    kept = Ceilings(flop_per_s={"fp32": 1e11}, bandwidth_bytes_per_s=1e10, measured_at="2026-11-30T00:00:00+00:00")

    assert ceiling_facts(hello)[0].value is None and ceiling_facts(None) == []
    path.parent.mkdir(parents=True)
    path.write_text(kept.to_json())
    assert (ceiling_facts(hello)[0].value, ceiling_facts(hello)[0].health) == (f"of {kept.measured_at}", Health.GOOD)
    mark_stale(path, kept, "gemm[...] does 120 GFLOP/s, the measured peak is 100")
    told = ceiling_facts(hello)[0]

    assert (told.value, told.health) == (f"stale, of {kept.measured_at}", Health.NOTE)
    assert "120 GFLOP/s" in told.words and "collector calibrate" in told.way_out
    found = load(path)
    assert found is not None and found.stale and found.flop_per_s == kept.flop_per_s
