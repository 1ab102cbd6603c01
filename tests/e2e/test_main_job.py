"""The main job on this machine, through the command line: measure, keep, judge, confirm, tell."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from store.lake.lake import Lake

SUITE = str(Path(__file__).parent.parent / "support" / "slowed.toml")
COLLECTOR = [sys.executable, "-m", "collector.cli.main"]
NORM = "rms_norm[fp32,rows=256,hidden=2048]"
HOST_ONLY = (
    "deltalake",
    "duckdb",
    "pandas",
    "scipy",
    "numba",
    "streamlit",
    "plotly",
    "apscheduler",
    "httpx",
    "apprise",
)


class Receiver(BaseHTTPRequestHandler):
    """Keeps what it is sent."""

    received: list[dict[str, Any]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.received.append(json.loads(body))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture(scope="module")
def receiver() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    received: list[dict[str, Any]] = []
    handler = type("Handler", (Receiver,), {"received": received})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"json+http://127.0.0.1:{server.server_port}/hook", received
    server.shutdown()
    server.server_close()
    thread.join()


def run(store: Path, state: Path, *arguments: str, **environment: str) -> dict[str, Any]:
    """One `collector run --json`; its document."""
    done = subprocess.run(
        [*COLLECTOR, "run", "--suite", SUITE, "--store", str(store), "--device", "cpu", "--json", *arguments],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        env=os.environ | {"XDG_STATE_HOME": str(state)} | environment,
    )
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.fixture(scope="module")
def two_nights(
    tmp_path_factory: pytest.TempPathFactory, receiver: tuple[str, Any]
) -> tuple[Path, dict[str, Any], dict[str, Any]]:
    """Two runs, the candidate 80 % slower in the second: far beyond what two busy cores can hide."""
    folder = tmp_path_factory.mktemp("main-job")
    store = folder / "store"
    url = receiver[0]
    common = {"KERNEL_OBSERVATORY_WEBHOOK": url}
    first = run(store, folder / "state", "--revision", "good", **common)
    second = run(store, folder / "state", "--revision", "bad", PLANTED_SHARE="0.8", **common)
    return store, first, second


def planted(document: dict[str, Any]) -> dict[str, Any]:
    """The finding of the slowed candidate: the largest of it, as a busy machine may rightly have smaller ones."""
    return max((f for f in document["findings"] if "candidate:ours" in f["arms"]), key=lambda f: f["change"])


@pytest.mark.timeout(1200)
def test_a_slowed_candidate_becomes_a_confirmed_finding(
    two_nights: tuple[Path, dict[str, Any], dict[str, Any]],
) -> None:
    """The second run suspects it, a confirm run in fresh processes witnesses it, and it names both revisions."""
    store, first, second = two_nights
    finding = planted(second)

    assert first["findings"] == []
    assert finding["state"] == "confirmed"
    assert finding["direction"] == 1
    assert finding["change"] > 0.2
    assert NORM in finding["case_ids"]
    state = Lake.open(store).sql("SELECT * FROM findings_state WHERE state = 'confirmed'").to_pylist()
    mine = next(row for row in state if row["finding_id"] == finding["finding_id"])
    assert (mine["revision_good"], mine["revision_bad"]) == ("good", "bad")
    assert mine["confirm_run_id"] is not None
    kinds = Lake.open(store).sql("SELECT kind, count(*) AS n FROM runs GROUP BY kind ORDER BY kind").to_pylist()
    assert {"kind": "night", "n": 2} in kinds
    assert next(row["n"] for row in kinds if row["kind"] == "confirm") >= 1


@pytest.mark.timeout(1200)
def test_the_receiver_is_told_once(
    two_nights: tuple[Path, dict[str, Any], dict[str, Any]], receiver: tuple[str, list[dict[str, Any]]]
) -> None:
    """One message for the finding, with its id and its numbers; a further notify sends nothing."""
    store, _, second = two_nights
    finding = planted(second)
    told = [m for m in receiver[1] if finding["finding_id"] in json.dumps(m)]

    assert len(told) == 1
    before = len(receiver[1])
    again = subprocess.run(
        [*COLLECTOR, "notify", "--store", str(store), "--json"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env=os.environ | {"KERNEL_OBSERVATORY_WEBHOOK": receiver[0]},
    )
    assert json.loads(again.stdout)["sent"] == 0
    assert len(receiver[1]) == before


@pytest.mark.timeout(1200)
def test_every_case_and_arm_has_one_row_a_run(two_nights: tuple[Path, dict[str, Any], dict[str, Any]]) -> None:
    """The lake has what the command printed: one row for each case x arm x run, raw samples beside it."""
    store, first, _ = two_nights
    lake = Lake.open(store)
    rows = lake.sql("SELECT case_id, arm, latency_p50_s FROM results WHERE run_id = ?", [first["run_id"]]).to_pylist()

    assert {(r["case_id"], r["arm"]): r["latency_p50_s"] for r in rows} == {
        (r["case_id"], r["arm"]): r["latency_p50_s"] for r in first["rows"]
    }
    samples = lake.sql(
        "SELECT sum(len(wall_s)) AS n FROM samples WHERE run_id = ? AND \"pass\" = 'rounds'", [first["run_id"]]
    ).to_pylist()[0]["n"]
    assert samples == sum(r["rounds"] for r in first["rows"] if r["rounds"])


@pytest.mark.timeout(900)
def test_a_killed_run_leaves_nothing_and_the_next_goes_on(tmp_path: Path) -> None:
    """kill -9 of the parent in the middle: its workers die with it, the lock is free, the next run is whole."""
    store, state = tmp_path / "store", tmp_path / "state"
    command = [*COLLECTOR, "run", "--suite", "smoke", "--store", str(store), "--device", "cpu"]
    environment = os.environ | {"XDG_STATE_HOME": str(state)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not (workers := children(process.pid)) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(2.0)
    process.send_signal(signal.SIGKILL)
    process.wait()

    assert workers
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
    case = "softmax[fp32,rows=16,columns=2000]"
    done = subprocess.run(
        [*command, "--case", case], env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    assert Lake.open(store).sql("SELECT count(*) AS n FROM runs").to_pylist() == [{"n": 1}]


def children(parent: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found.append(int(stat.parent.name))
    return found


@pytest.mark.timeout(900)
def test_a_node_without_the_host_half_runs_a_suite(tmp_path: Path) -> None:
    """Where none of [host] can be imported the run succeeds, its bundle is in the inbox, and the parent stays small."""
    blocker = tmp_path / "blocked" / "sitecustomize.py"
    blocker.parent.mkdir()
    blocker.write_text(
        "from importlib.machinery import PathFinder\n"
        f"blocked = {HOST_ONLY!r}\n"
        "find = PathFinder.find_spec\n"
        "def find_spec(name, path=None, target=None):\n"
        "    return None if name.split('.')[0] in blocked else find(name, path, target)\n"
        "PathFinder.find_spec = find_spec\n"
    )
    environment = os.environ | {"XDG_STATE_HOME": str(tmp_path / "state"), "PYTHONPATH": str(blocker.parent)}
    store = tmp_path / "store"
    lake = Lake.create(store)
    case = "softmax[fp32,rows=16,columns=2000]"
    command = [*COLLECTOR, "run", "--suite", "smoke", "--store", str(store), "--device", "cpu", "--case", case]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    peak = 0
    while process.poll() is None:
        peak = max(peak, resident_bytes(process.pid))
        time.sleep(0.02)
    out, err = process.communicate()

    assert process.returncode == 0, err
    assert "not judged: " in out and "kernel-observatory[host]" in out
    assert len(list((store / "inbox").glob("*.bundle"))) == 1
    assert 0 < peak <= 150e6
    assert len(lake.ingest().ingested) == 1
    assert lake.sql("SELECT DISTINCT status FROM results").to_pylist() == [{"status": "measured"}]


def resident_bytes(pid: int) -> int:
    """VmHWM of a process; 0 where it has gone."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0
