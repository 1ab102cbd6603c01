"""A run that was cut short is continued or published as partial, by choice, and never twice."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bench_suite.suite import Suite
from collector.node.devices.base import DeviceIdentity
from collector.node.folders import state_folder
from collector.node.interrupt import RunInterruptedError
from collector.node.journal import FOLDER, Journal, unfinished
from collector.node.run import RunError, RunOptions, RunOutcome, publish_unfinished, run_suite
from store.bundle.reader import read_bundle
from store.lake.lake import Lake

pytestmark = pytest.mark.usefixtures("own_cores")

SUITE = Path(__file__).with_name("resume.toml")
STEPS_BEFORE = 4
"""Two cases prepared, two measured in the first replicate; the second replicate was not reached."""


class StopAfter:
    """Presses Ctrl-C after so many steps."""

    def started(self, suite: Suite, device: DeviceIdentity) -> None: ...

    def step(self, done: int, total: int, words: str) -> None:
        if done == STEPS_BEFORE:
            raise KeyboardInterrupt


class Counting:
    """Remembers which steps were begun."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def started(self, suite: Suite, device: DeviceIdentity) -> None: ...

    def step(self, done: int, total: int, words: str) -> None:
        self.words.append(words)


@pytest.fixture(scope="module")
def cut_short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state folder of a run that was stopped and kept."""
    home = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(home))
        with pytest.raises(RunInterruptedError, match="`collector run --resume` goes on with"):
            run_suite(options(home / "spool", keep_interrupted=True), StopAfter())
        with (unfinished(state_folder())[0].folder / "steps.jsonl").open("ab") as file:
            file.write(b'{"case_id":"rms_n')  # what a kill in the middle of a line leaves
    return home


@pytest.fixture
def state(cut_short: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, for this test alone."""
    shutil.copytree(cut_short, tmp_path / "home")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    return state_folder()


def options(spool: Path, **given: Any) -> RunOptions:
    return RunOptions(suite=str(SUITE), device="cpu", spool=spool, revision="r1", **given)


def passes(outcome: RunOutcome) -> Counter[tuple[str, str, int]]:
    """How often each case x arm x replicate has samples of rounds in the bundle."""
    assert outcome.bundle is not None
    rows = read_bundle(outcome.bundle).tables["samples"].to_pylist()
    return Counter((r["case_id"], r["arm"], r["replicate"]) for r in rows if r["pass"] == "rounds")


def test_a_resumed_run_is_the_whole_run_once(state: Path, tmp_path: Path) -> None:
    """Same id, every case x arm x replicate once, the rest measured only; then there is nothing to resume."""
    name = unfinished(state)[0].folder.name
    reporter = Counting()
    outcome = run_suite(options(tmp_path / "spool", resume=True), reporter)

    assert (outcome.run_id, outcome.status) == (name, "complete")
    counted = passes(outcome)
    assert set(counted.values()) == {1} and {replicate for _, _, replicate in counted} == {0, 1}
    assert {row["status"] for row in outcome.rows} == {"measured"}
    assert unfinished(state) == []
    with pytest.raises(RunError, match="there is no unfinished run"):
        run_suite(options(tmp_path / "spool", resume=True))


def test_left_alone_it_is_published_as_partial_once(state: Path, tmp_path: Path) -> None:
    """What was measured is in the bundle with the run's own id; a second look finds nothing."""
    journal = unfinished(state)[0]
    outcome = publish_unfinished(journal, tmp_path / "spool")

    assert outcome is not None and outcome.status == "partial"
    assert {replicate for _, _, replicate in passes(outcome)} == {0}
    assert {row["replicates"] for row in outcome.rows} == {1}
    assert unfinished(state) == []
    assert [p.name for p in (tmp_path / "spool").iterdir()] == [journal.folder.name]


def test_a_kill_between_publishing_and_forgetting_doubles_nothing(state: Path, tmp_path: Path) -> None:
    """A journal whose bundle is there already is removed without a second bundle."""
    journal = unfinished(state)[0]
    shutil.copytree(journal.folder, tmp_path / "copy")
    first = publish_unfinished(journal, tmp_path / "spool")
    shutil.copytree(tmp_path / "copy", journal.folder)

    assert first is not None and publish_unfinished(journal, tmp_path / "spool") is None
    assert unfinished(state) == []


def test_what_was_not_reached_says_so(state: Path, tmp_path: Path) -> None:
    """A case that was prepared and not measured is skipped as interrupted: never a gap, never `crashed`."""
    steps = unfinished(state)[0].folder / "steps.jsonl"
    lines = steps.read_bytes().splitlines(keepends=True)
    steps.write_bytes(b"".join(lines[:3]))
    outcome = publish_unfinished(unfinished(state)[0], tmp_path / "spool")

    assert outcome is not None
    kinds = Counter((row["status"], row["status_kind"]) for row in outcome.rows)
    assert kinds == {("measured", None): 4, ("skipped", "interrupted"): 4}


def test_a_run_for_another_store_is_left_alone(state: Path) -> None:
    """Only the store that a run is for gets to see its remains; what cannot be read is shown to all."""
    assert [len(unfinished(state, place)) for place in ("", "/elsewhere")] == [1, 0]
    (unfinished(state)[0].folder / "header.json").write_text("{")
    assert len(unfinished(state, "/elsewhere")) == 1


def test_a_run_on_a_throttled_device_is_invalid_and_kept(state: Path, tmp_path: Path) -> None:
    """Telemetry that tells of throttling all the time leaves no row measured; every sample is there, marked."""
    journal = unfinished(state)[0]
    lines = [[moment, 0.0, "clocks_event_reasons", "bits", 0x40, ""] for moment in (0.0, 1e9)]
    (journal.folder / "telemetry-9.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    outcome = publish_unfinished(journal, tmp_path / "spool")

    assert outcome is not None and outcome.bundle is not None
    assert {(row["status"], row["status_kind"]) for row in outcome.rows} == {("invalid", "throttled")}
    assert all("hardware thermal slowdown" in row["status_reason"] for row in outcome.rows)
    samples = read_bundle(outcome.bundle).tables["samples"].to_pylist()
    assert {mark for row in samples for mark in row["mark"]} == {"throttled"}


@pytest.mark.parametrize(
    ("given", "field"), [({"revision": "r2"}, "revision"), ({"replicates": 1}, "suite hash|replicates")]
)
def test_another_run_is_not_continued(state: Path, tmp_path: Path, given: dict[str, Any], field: str) -> None:
    """What differs is named, nothing is measured, and the unfinished run stays for whoever publishes it."""
    asked = RunOptions(suite=str(SUITE), device="cpu", spool=tmp_path, resume=True, **({"revision": "r1"} | given))
    with pytest.raises(RunError, match=f"was another run: its ({field}) differs"):
        run_suite(asked)

    assert len(unfinished(state)) == 1


def test_a_run_that_cannot_be_read_stays_and_is_named(state: Path, tmp_path: Path) -> None:
    """A journal of another installation is one line with the folder to delete; nothing of it is lost."""
    folder = unfinished(state)[0].folder
    (folder / "header.json").write_text('{"run_id": 1}')

    with pytest.raises(RunError, match=f"cannot be published: .*delete {folder}"):
        publish_unfinished(Journal(folder), tmp_path / "spool")
    assert folder.exists()


def test_sigterm_publishes_what_is_measured(tmp_path: Path) -> None:
    """A stopped `collector run` publishes a partial run, in order: exit code 0, no journal, no process left."""
    Lake.create(tmp_path / "store")
    command = ["run", "--suite", str(SUITE), "--device", "cpu", "--store", str(tmp_path / "store"), "--no-judge"]
    process = subprocess.Popen(
        [sys.executable, "-m", "collector.cli.main", *command, "--replicates", "60", "--quiet"],
        env=os.environ | {"XDG_STATE_HOME": str(tmp_path / "home")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    folder = tmp_path / "home" / "kernel-observatory" / FOLDER
    deadline = time.monotonic() + 200
    while not any(b'"replicate":0' in p.read_bytes() for p in folder.glob("*/steps.jsonl")):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=100)

    assert (process.returncode, err) == (0, ""), err
    assert "PARTIAL" in out
    assert list(folder.iterdir()) == []
    assert len(list((tmp_path / "store" / "inbox").glob("*"))) == 1
