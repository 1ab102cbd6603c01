"""JSON log lines: asked for, every line of stderr is one object; not asked for, a person's one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from store.lake.lake import Lake

REPOSITORY = Path(__file__).parents[2]


def ended(*arguments: str, **environment: str) -> tuple[int, list[str]]:
    """Exit code and lines of stderr of a real command."""
    done = subprocess.run(
        [sys.executable, "-m", "collector.cli.main", *arguments],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)} | environment,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stderr.splitlines()


def events(lines: list[str]) -> list[dict[str, Any]]:
    """Each line as the object that it is."""
    return [json.loads(line) for line in lines]


def test_a_command_logs_its_start_its_work_and_its_end(tmp_path: Path) -> None:
    """An ingest that refuses a bundle says so between start and end."""
    Lake.create(tmp_path / "store")
    inbox = tmp_path / "store" / "inbox"
    inbox.mkdir(exist_ok=True)
    (inbox / "bad-0123456789abcdef.bundle").write_bytes(b"x")
    code, lines = ended("--log-format", "json", "store", "ingest", "--store", str(tmp_path / "store"))
    found = events(lines)
    assert [line["event"] for line in found] == ["command_started", "ingested", "quarantined", "command_ended"]
    assert [line["level"] for line in found] == ["info", "info", "warning", "info"]
    assert found[2]["bundle"] == "bad-0123456789abcdef.bundle"
    assert (code, found[3]["exit_code"], found[3]["command"]) == (0, 0, "store")


def test_an_error_is_one_object_where_asked_for_and_one_line_else(tmp_path: Path) -> None:
    """The same refusal, by the environment variable and for a person."""
    arguments = ("store", "stats", "--store", str(tmp_path / "none"))
    code, lines = ended(*arguments, KERNEL_OBSERVATORY_LOG_FORMAT="json")
    last = events(lines)[-1]
    assert (code, last["exit_code"], last["level"]) == (2, 2, "error")
    code, lines = ended(*arguments, KERNEL_OBSERVATORY_LOG_FORMAT="text")
    assert (code, lines) == (2, [f"collector: {last['message']}"])
