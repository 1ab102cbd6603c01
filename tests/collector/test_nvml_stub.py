"""NVML for real: nvidia-ml-py against a library that the test compiles, in fresh processes."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

import nvml_stub
import pytest

from collector.node.marks import held_back
from collector.node.nvml import METRICS
from collector.node.readings import TimedReading
from collector.node.telemetry import TelemetryProcess

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed: the stub cannot be built")

ERRORS = {
    "Uninitialized": 1,
    "InvalidArgument": 2,
    "NotSupported": 3,
    "NoPermission": 4,
    "NotFound": 6,
    "DriverNotLoaded": 9,
    "IRQIssue": 11,
    "FunctionNotFound": 13,
    "CorruptedInforom": 14,
    "GpuIsLost": 15,
    "ResetRequired": 16,
    "OperatingSystem": 17,
    "LibRmVersionMismatch": 18,
    "InUse": 19,
    "Memory": 20,
    "NoData": 21,
    "InsufficientResources": 23,
    "Unknown": 999,
}
CALLS = {
    "nvmlDeviceGetClockInfo": {"sm_clock", "memory_clock"},
    "nvmlDeviceGetPowerUsage": {"power"},
    "nvmlDeviceGetEnforcedPowerLimit": {"power_limit"},
    "nvmlDeviceGetRemappedRows": {"rows_remapped_uncorrectable"},
    "nvmlDeviceGetPcieReplayCounter": {"pcie_replays"},
    "nvmlDeviceGetTotalEnergyConsumption": {"energy"},
    "nvmlDeviceGetTemperature": {"temperature"},
    "nvmlDeviceGetUtilizationRates": {"sm_utilization", "memory_utilization"},
    "nvmlDeviceGetMemoryInfo": {"memory_used"},
    "nvmlDeviceGetComputeRunningProcesses_v3": {"processes", "foreign_processes"},
    "nvmlDeviceGetTotalEccErrors": {"ecc_uncorrected"},
    "nvmlDeviceGetPcieThroughput": {"pcie_sent", "pcie_received"},
    "nvmlDeviceGetFieldValues": {"nvlink_sent", "nvlink_received"},
    "nvmlDeviceRegisterEvents": {"xid_events", "xid_last"},
}
READ_ALL = """
import json, sys
from collector.node.nvml import NvmlProbe
from pathlib import Path
found = {}
for name, code in json.loads(sys.argv[2]):
    Path(sys.argv[3]).write_text(f"xid 79\\nerror.{name} {code}\\n")
    found[f"{name} {code}"] = {r.metric: r.reason for r in NvmlProbe(sys.argv[1]).read() if r.value is None}
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> nvml_stub.NvmlStub:
    return nvml_stub.build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def stub(built: nvml_stub.NvmlStub) -> nvml_stub.NvmlStub:
    built.say()
    return built


def test_every_metric_has_its_value_in_si_units(stub: nvml_stub.NvmlStub) -> None:
    """A healthy card gives every metric but the code of an Xid event that never was."""
    stub.say(reasons=0x4, pid=1)
    found = stub.read("GPU-0")

    assert set(found) == {metric for metric, _ in METRICS}
    assert {m for m, r in found.items() if r["value"] is None} == {"xid_last"}
    expected = {
        "sm_clock": 1.5e9,
        "memory_clock": 2.6e9,
        "clocks_event_reasons": 4.0,
        "power": 10.0,
        "power_limit": 700.0,
        "energy": 5.0,
        "temperature": 61.0,
        "sm_utilization": 0.87,
        "memory_utilization": 0.4,
        "memory_used": 2.0**30,
        "foreign_processes": 1.0,
        "rows_remapped_uncorrectable": 2.0,
        "pcie_sent": 1000 * 1024.0,
        "pcie_received": 2000 * 1024.0,
        "nvlink_sent": 7 * 1024.0,
        "nvlink_received": 9 * 1024.0,
    }
    assert {m: found[m]["value"] for m in expected} == expected


def test_each_error_of_each_call_costs_its_own_metrics_only(stub: nvml_stub.NvmlStub) -> None:
    """Whatever code a call returns, its metrics are null with NVML's reason and all others have their values."""
    import json

    pairs = [(call, code) for call in CALLS for code in ERRORS.values()]
    found = json.loads(stub.python(READ_ALL, "GPU-0", json.dumps(pairs), str(stub.answers)))

    for call, metrics in CALLS.items():
        for name, code in ERRORS.items():
            nulls = found[f"{call} {code}"]
            # One process, one library: the Xid event is told to the first probe that asks, none to later ones.
            assert nulls.keys() - {"xid_last"} == metrics - {"xid_last"}, (call, name)
            assert all(reason.startswith("NVML: ") for reason in nulls.values())


@pytest.mark.parametrize(("name", "code"), [*ERRORS.items(), ("DriverNotLoaded", 9)])
def test_a_library_that_cannot_be_opened_says_so_for_every_metric(
    stub: nvml_stub.NvmlStub, name: str, code: int
) -> None:
    """An error of nvmlInit makes every metric null, with the reason, and ends nothing."""
    stub.say(error__nvmlInitWithFlags=code)
    found = stub.read("GPU-0")

    assert {r["value"] for r in found.values()} == {None}
    assert {r["reason"] for r in found.values()} != {""} and len({r["reason"] for r in found.values()}) == 1


def test_no_library_is_a_reason(tmp_path: Path) -> None:
    """Without libnvidia-ml every metric says that the library is not there."""
    (tmp_path / "answers").write_text("")
    found = nvml_stub.NvmlStub(folder=tmp_path, answers=tmp_path / "answers").read("GPU-0")

    assert {r["value"] for r in found.values()} == {None}
    assert all("NVML Shared Library Not Found" in r["reason"] for r in found.values())


def test_an_older_driver_is_asked_by_the_older_name(tmp_path: Path) -> None:
    """A library without the new symbol gives the same reasons under the old one."""
    stub = nvml_stub.build(tmp_path, "-DOLD_DRIVER")
    stub.say(reasons=0x44)

    assert stub.read("GPU-0")["clocks_event_reasons"]["value"] == 0x44


def test_visible_devices_do_not_renumber(stub: nvml_stub.NvmlStub) -> None:
    """With CUDA_VISIBLE_DEVICES=2,3 the readings are those of the cards with these UUIDs: 30 W and 40 W."""
    watts = [stub.read(unit, CUDA_VISIBLE_DEVICES="2,3")["power"]["value"] for unit in ("GPU-2", "GPU-3")]

    assert watts == [30.0, 40.0]


def test_an_unknown_unit_is_a_reason_not_another_card(stub: nvml_stub.NvmlStub) -> None:
    """A UUID that NVML does not know gives nulls, never the readings of the card at its index."""
    found = stub.read("GPU-7")

    assert {r["value"] for r in found.values()} == {None}


def test_a_slice_has_its_own_memory_and_its_cards_clocks(stub: nvml_stub.NvmlStub) -> None:
    """Under MIG, torch's GPU-2 is NVML's MIG-2: the card's clocks, the slice's memory and profile."""
    stub.say(mig=1, used_bytes=2**30)
    found = stub.read("GPU-2")
    told = stub.python("from collector.node.nvml import identify; print(identify('GPU-2'))")

    assert (found["power"]["value"], found["memory_used"]["value"]) == (30.0, 2.0**30)
    assert "unit='MIG-2', model='Stub Card', slice='1g.10gb', driver='999.1'" in told


@pytest.mark.parametrize("convert", ["str", "bytes"])
def test_names_may_be_bytes_or_text(stub: nvml_stub.NvmlStub, convert: str) -> None:
    """Two packages give the module pynvml: a name is the same whether it comes as bytes or as str."""
    program = (
        "import pynvml, sys\n"
        "kept = pynvml.nvmlDeviceGetName\n"
        "if sys.argv[1] == 'bytes':\n    pynvml.nvmlDeviceGetName = lambda h: kept(h).encode()\n"
        "from collector.node.nvml import identify\n"
        "print(identify('GPU-1').model)"
    )

    assert stub.python(program, convert).strip() == "Stub Card"


@pytest.mark.parametrize("code", [ERRORS["NoPermission"], ERRORS["GpuIsLost"]])
def test_reasons_that_are_refused_are_a_reason(stub: nvml_stub.NvmlStub, code: int) -> None:
    """Both names of the call refuse: no bits, never 0, which would say that nothing holds the clock back."""
    stub.say(error__nvmlDeviceGetCurrentClocksEventReasons=code, error__nvmlDeviceGetCurrentClocksThrottleReasons=code)
    found = stub.read("GPU-0")

    assert {m for m, r in found.items() if r["value"] is None} == {"clocks_event_reasons", "xid_last"}


def test_the_sm_clock_settles_or_says_what_it_did(stub: nvml_stub.NvmlStub) -> None:
    """A device's clock is read at once by UUID; one that refuses has nothing to wait for."""
    program = (
        "import sys\nfrom pathlib import Path\nfrom collector.node.nvml import sm_clock\n"
        "read = sm_clock(sys.argv[1])\nprint(read() if read else None)\n"
        "Path(sys.argv[2]).write_text('error.nvmlDeviceGetClockInfo 3\\n')\nprint(read() if read else None)"
    )
    stub.say(sm_mhz=1230)

    assert stub.python(program, "GPU-3", str(stub.answers)).split() == ["1230000000.0", "None"]
    assert stub.python(program, "GPU-9", str(stub.answers)).split() == ["None", "None"]


def test_xid_events_are_counted_with_their_code(stub: nvml_stub.NvmlStub) -> None:
    """A fault that the driver reports is counted once, and its code kept."""
    stub.say(xid=79)
    found = stub.read("GPU-0")

    assert (found["xid_events"]["value"], found["xid_last"]["value"]) == (1.0, 79.0)


def test_an_error_of_one_field_is_that_fields_reason(stub: nvml_stub.NvmlStub) -> None:
    """A call that succeeds for a field that failed gives no number: cards without NVLink have none."""
    stub.say(field_error=3)
    found = stub.read("GPU-0")

    assert found["nvlink_sent"]["value"] is None and "Not Supported" in found["nvlink_sent"]["reason"]


def test_throttle_in_the_middle_is_seen_beside_the_run(
    stub: nvml_stub.NvmlStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The telemetry process tells when a reason of the mask appeared and when it went."""
    for name, value in stub.environment.items():
        monkeypatch.setenv(name, value)
    path = tmp_path / "telemetry.jsonl"
    process = TelemetryProcess(path, kind="cuda", unit="GPU-2", period_s=0.02)
    moments = []
    for reasons in (0x4, 0x40, 0x4):
        stub.say(reasons=reasons)
        moments.append(time.monotonic())
        wait_for_lines(path, metric='"clocks_event_reasons"', more=4)
    readings = process.stop()
    spans = held_back(readings)

    assert spans and {span.words for span in spans} == {"hardware thermal slowdown"}
    assert moments[0] < spans[0].end_s and spans[0].start_s <= moments[2]
    assert spans[-1].end_s < float("inf")
    assert {r.reading.value for r in of(readings, "power")} == {30.0}


def of(readings: list[TimedReading], metric: str) -> list[TimedReading]:
    return [r for r in readings if r.reading.metric == metric]


def wait_for_lines(path: Path, *, metric: str, more: int) -> None:
    """Until so many more readings of a metric are written."""

    def count() -> int:
        return path.read_text().count(metric) if path.exists() else 0

    wanted, deadline = count() + more, time.monotonic() + 60
    while count() < wanted:
        assert time.monotonic() < deadline, f"no reading of {metric}; {sys.executable}"
        time.sleep(0.01)
