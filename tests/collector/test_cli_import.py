"""`collector import` and `collector detect --replay`: a foreign history is taken in whole, and judged as it came."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from collector.cli.main import app
from collector.errors import exit_code
from collector.host.judge import judge
from collector.host.policies import load_policy
from store.lake.lake import Lake

START = datetime(2026, 9, 1, 2, 0, tzinfo=UTC)
COLUMNS = ("run_id", "started_at", "host", "gpu", "case", "metric", "unit", "sample", "value", "status")
NIGHTS, STEP_AT, STEP = 23, 19, 1.25

Collector = Callable[..., Result]


def write(path: Path, rows: Sequence[Mapping[str, object]], rename: Mapping[str, str] | None = None) -> Path:
    """The rows as a CSV file, columns renamed where so wished."""
    head = ",".join((rename or {}).get(name, name) for name in COLUMNS)
    lines = [",".join(str(row[name]) for name in COLUMNS) for row in rows]
    path.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    return path


def line(night: int, value: float, sample: int = 0, **other: object) -> dict[str, object]:
    """One sample of one night of one case."""
    row: dict[str, object] = {
        "run_id": f"r{night:03d}",
        "started_at": f"{START + timedelta(days=night):%Y-%m-%dT%H:%M:%SZ}",
    }
    row |= {"host": "node-1", "gpu": "NVIDIA H100", "case": "gemm_4096", "metric": "latency", "unit": "ms"}
    return row | {"sample": sample, "value": f"{value:.6f}", "status": "ok"} | other


def history() -> list[dict[str, object]]:
    """23 nights of ten samples around 1 ms, 25 % slower from the 20th on."""
    rng = np.random.default_rng(3)
    levels = [STEP if night >= STEP_AT else 1.0 for night in range(NIGHTS)]
    return [line(n, levels[n] * np.exp(rng.normal(0, 0.004)), sample) for n in range(NIGHTS) for sample in range(10)]


def document(result: Result) -> Any:
    """The one JSON document that a command printed, which was to succeed."""
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the history's file, and the store that it was imported into."""
    folder = tmp_path_factory.mktemp("imported")
    file = str(write(folder / "history.csv", history()))
    first = document(CliRunner().invoke(app, ["import", file, "--json", "--store", str(folder / "store")]))
    assert (len(first["runs"]), first["values"], len(first["ingested"])) == (NIGHTS, 10 * NIGHTS, NIGHTS)
    return folder


@pytest.fixture
def copied(imported: Path, tmp_path: Path) -> Path:
    """The imported store, copied to where `collector` looks."""
    return Path(shutil.copytree(imported / "store", tmp_path / "store"))


@pytest.fixture
def collector(tmp_path: Path) -> Collector:
    """Runs `collector` on a store of its own, in this process."""
    return lambda *arguments: CliRunner().invoke(app, [*arguments, "--store", str(tmp_path / "store")])


def refusal(result: Result) -> str:
    """The message of the error, of exit code 2."""
    assert result.exception is not None
    assert exit_code(result.exception) == 2, repr(result.exception)
    return str(result.exception)


@pytest.mark.usefixtures("copied")
def test_a_history_is_imported_once_and_judged(collector: Collector, imported: Path) -> None:
    """The same file again adds nothing, and `detect` finds the step and can fail on it."""
    assert document(collector("import", str(imported / "history.csv"), "--json"))["ingested"] == []

    judged = document(collector("detect", "--json"))
    assert len(judged["runs"]) == NIGHTS
    assert [(f["state"], f["direction"]) for f in judged["findings"]] == [("confirmed", 1)]
    assert collector("detect", "--fail-on-regression").exit_code == 1


@pytest.mark.usefixtures("copied")
def test_replay_tells_what_was_said_when(collector: Collector, imported: Path, tmp_path: Path) -> None:
    """What is said bears the time of the run that made it be said: suspected on the first slow night, confirmed on a
    later one; and it is what judging night by night says."""
    events = document(collector("detect", "--replay", "--json"))["events"]

    night = START + timedelta(days=STEP_AT)
    assert [event["event"] for event in events] == ["suspected", "confirmed"]
    assert events[0]["at"] == night.isoformat()
    assert events[1]["at"] > events[0]["at"]
    lake = Lake.open(shutil.copytree(imported / "store", tmp_path / "other"))
    singly = [
        e for n in range(STEP_AT - 1, NIGHTS) for e in judge(lake, _up_to(n), load_policy(), at_run_time=True).events
    ]
    assert [(e.event.value, e.at.isoformat(), e.facts.change) for e in singly] == [
        (e["event"], e["at"], e["change"]) for e in events
    ]


def _up_to(night: int) -> list[str]:
    return [f"r{n:03d}" for n in range(night + 1)]


@pytest.mark.usefixtures("copied")
def test_replay_prints_a_line_a_saying(collector: Collector) -> None:
    """For a person: time, finding, what was said, class and the sentence."""
    lines = collector("detect", "--replay").stdout.splitlines()

    assert lines[0].startswith("2026-09-20 02:00 UTC F-")
    assert "suspected (code) gemm_4096: " in lines[0]
    assert "Confirmed: 2" in lines[1] and "later nights" in lines[1]
    assert lines[2] == f"0 runs ingested, {NIGHTS} judged, 1 finding open"
    assert lines[3] == "against history: 16 unchanged, 4 regressed, 3 not judged (not enough history, first run)"
    assert lines[4].startswith("F-") and " is 2" in lines[4] and lines[4].endswith("run r021.")
    assert collector("detect", "--replay").stdout.splitlines()[1].startswith("nothing to replay: ")


def test_columns_units_and_statuses_by_option(collector: Collector, tmp_path: Path) -> None:
    """Other names of columns, statuses and devices, times without zone: each has its option; units are converted and
    said."""
    rows = [
        line(0, 1.0, started_at="2026-09-01 04:00", gpu="gpu0"),
        line(1, 1000.0, started_at="2026-09-02 04:00", gpu="gpu0", unit="us"),
        line(2, 0.0, started_at="2026-09-03 04:00", gpu="gpu0", status="boom") | {"value": ""},
    ]
    file = write(tmp_path / "bench.csv", rows, {"case": "benchmark", "run_id": "build"})
    names = ["--column", "case=benchmark", "--column", "run_id=build", "--time-zone", "Europe/Berlin"]
    meaning = ["--status", "boom=failed:crashed", "--model", "gpu0=NVIDIA H100", "--arm", "naive"]

    done = collector("import", str(file), *names, *meaning, "--source", "nightly of the lab")

    assert done.exit_code == 0, done.exception
    assert "unit of latency of case 'gemm_4096' changes from ms to us" in done.stdout
    assert "3 new in the store" in done.stdout
    query = (
        "SELECT r.started_at = '2026-09-01T02:00:00Z' AS berlin, r.note, x.arm, x.device_model, x.latency_p50_s AS p50,"
        " x.status, x.status_kind AS kind FROM results x JOIN runs r USING (run_id) ORDER BY r.started_at"
    )
    lines = [json.loads(row) for row in collector("store", "sql", query, "--json").stdout.splitlines()]
    first = {"berlin": True, "note": "imported from nightly of the lab", "arm": "naive", "device_model": "NVIDIA H100"}
    assert lines[0] == first | {"p50": pytest.approx(1e-3), "status": "measured", "kind": None}
    assert (lines[1]["p50"], lines[2]["status"], lines[2]["kind"]) == (pytest.approx(1e-3), "failed", "crashed")


def test_a_dry_run_writes_nothing(collector: Collector, tmp_path: Path) -> None:
    """Reading the file alone says what is in it and makes no store."""
    file = write(tmp_path / "history.csv", history())

    done = collector("import", str(file), "--dry-run")

    assert done.stdout == f"{10 * NIGHTS} values, 1 case, {NIGHTS} runs\n"
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--column", "case"], "--column is 'case', must be NAME=NAME"),
        (["--column", "case=a", "--column", "case=b"], "case is given twice, as 'a' and 'b'"),
        (["--column", "kase=case"], "'kase': must be one of run_id"),
        (["--column", "case=benchmark"], "has no column 'benchmark' for case"),
        (["--time-zone", "Mars/Olympus"], "--time-zone is 'Mars/Olympus'"),
        (["--time-zone", "../etc/passwd"], "--time-zone is"),
        (["--delimiter", ";;"], "--delimiter is ';;', must be one character"),
        (["--delimiter", "tab"], "has no column 'run_id'"),
        (["--model", "x"], "--model is 'x'"),
    ],
)
def test_a_wrong_option_is_one_line(collector: Collector, tmp_path: Path, options: list[str], words: str) -> None:
    """What, value, rule; nothing is written."""
    file = write(tmp_path / "history.csv", history()[:1])

    assert words in refusal(collector("import", str(file), *options))
    assert not (tmp_path / "store" / "inbox").exists()


def test_a_file_that_is_not_there(collector: Collector, tmp_path: Path) -> None:
    """A missing file is one line with its path."""
    assert str(tmp_path / "none.csv") in refusal(collector("import", str(tmp_path / "none.csv")))


def test_a_run_from_the_future_needs_consent(collector: Collector, tmp_path: Path) -> None:
    """A run with a wrong clock goes to quarantine and the import says so; --ignore-clock takes it."""
    file = str(write(tmp_path / "history.csv", [line(0, 1.0), line(1, 1.0, started_at="2199-01-01T00:00:00Z")]))

    assert "1 of 2 runs went to quarantine" in refusal(collector("import", file))
    assert document(collector("import", file, "--ignore-clock", "--json"))["ingested"] == ["r001"]
