"""Another package's device, with its own clock and telemetry, goes through the whole of `collector run`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from store.lake.lake import Lake

PACKAGE = Path(__file__).parents[1] / "support" / "device_package"
CASE = "rms_norm[bf16,rows=64,hidden=1024]"


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """The package as an installer leaves it: importable, with its entry points in a .dist-info folder."""
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    folder = tmp_path / "site" / f"toy_device-{project['version']}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
    (folder / "entry_points.txt").write_text("\n".join(lines))
    (tmp_path / "site" / "toy_device").symlink_to(PACKAGE / "toy_device")
    return {"PYTHONPATH": str(tmp_path / "site"), "XDG_STATE_HOME": str(tmp_path / "state")}


def collector(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "collector.cli.main", *arguments]
    return subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=False, timeout=280
    )


def test_a_run_on_a_device_of_another_package(tmp_path: Path, installed: dict[str, str]) -> None:
    """Its identity, clock, energy and telemetry are in the rows, from one command."""
    store = Lake.create(tmp_path / "store").uri
    arguments = ["--suite", "smoke", "--case", CASE, "--replicates", "1", "--store", store, "--no-judge", "--json"]
    done = collector(installed, "run", "--device", "toy:1", *arguments)
    assert done.returncode == 0, done.stderr
    rows = {row["arm"]: row for row in json.loads(done.stdout)["rows"]}

    assert {row["status"] for row in rows.values()} == {"measured"}
    optimized = rows["optimized"]
    assert (optimized["device_kind"], optimized["device_model"], optimized["device_unit"]) == (
        "toy",
        "Toy 9000",
        "toy-1",
    )
    assert (optimized["device_slice"], optimized["ratio_timer"], optimized["energy_j"]) == (
        "half",
        "device_event",
        0.25,
    )
    assert "a toy counts no bytes" in optimized["null_reasons"]
    assert json.loads(optimized["settings"])["timer"] == "graph"
    assert "--device toy" in optimized["repro"]

    with_lake = Lake.create(store)
    with_lake.ingest()
    clocks = with_lake.sql("SELECT wall_s, device_s FROM samples").to_pylist()
    assert all(d == pytest.approx(w / 2) for row in clocks for w, d in zip(row["wall_s"], row["device_s"], strict=True))
    told = with_lake.sql("SELECT DISTINCT metric, value, reason FROM telemetry WHERE metric IN ('wobble', 'sm_clock')")
    assert sorted((r["metric"], r["value"], r["reason"]) for r in told.to_pylist()) == [
        ("sm_clock", None, "toy-1 has no such clock"),
        ("wobble", 0.0, None),
    ]
    with_lake.close()


def test_what_the_package_raises_is_one_line(tmp_path: Path, installed: dict[str, str]) -> None:
    """A device that refuses to open ends the run with its words and exit code 3."""
    done = collector(installed, "run", "--device", "toy:7", "--suite", "smoke", "--store", str(tmp_path / "store"))

    assert done.returncode == 3
    assert "there are toys 0 and 1, not 7" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_probe_that_breaks_is_a_reason(tmp_path: Path, installed: dict[str, str]) -> None:
    """A package's probe that cannot be opened, or raises while it reads, costs its own metrics only."""
    program = (
        "import io, itertools\n"
        "import toy_device.probe as p\n"
        "from collector.node import telemetry\n"
        "class Bad:\n    def read(self):\n        raise RuntimeError('lost')\n"
        "print(telemetry._read(Bad())[0].reason)\n"
        "p.ToyProbe = lambda unit: 1 / 0\n"
        "print(telemetry.probes('toy', 'toy-0')[1].read()[0].reason)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | installed, capture_output=True, text=True, check=True
    )

    assert done.stdout.splitlines() == [
        "Bad failed: lost",
        "toy_device.probe:ToyProbe failed: division by zero",
    ]


@pytest.mark.long
def test_two_devices_at_once(tmp_path: Path, installed: dict[str, str]) -> None:
    """Two toys by one command: two runs, each on its own unit, said in every row; nothing is left unfinished."""
    Lake.create(tmp_path / "store")
    arguments = ["--suite", "smoke", "--case", CASE, "--replicates", "1", "--no-judge", "--json"]
    done = collector(
        installed, "run", "--device", "toy:0,1", "--at-once", "--store", str(tmp_path / "store"), *arguments
    )
    assert done.returncode == 0, done.stderr
    runs = [json.loads(line) for line in done.stdout.splitlines()]

    assert [{row["device_unit"] for row in run["rows"]} for run in runs] == [{"toy-0"}, {"toy-1"}]
    assert {json.loads(row["settings"])["at_once"] for run in runs for row in run["rows"]} == {2}
    assert len(list((tmp_path / "store" / "inbox").iterdir())) == 2
    assert list((tmp_path / "state").rglob("steps.jsonl")) == []
