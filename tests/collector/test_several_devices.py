"""Several devices of a node by one command."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from collector.cli.run import parse_devices
from collector.cli.several import command_for, run_each
from collector.errors import UsageError
from collector.node.folders import state_folder
from collector.node.lock import LockHeldError, run_lock


@pytest.mark.parametrize(
    ("text", "found"),
    [("auto", ("auto", (0,))), ("cuda:1", ("cuda", (1,))), ("cuda:0,2,3", ("cuda", (0, 2, 3)))],
)
def test_devices_are_named_by_kind_and_indices(text: str, found: tuple[str, tuple[int, ...]]) -> None:
    """One kind, one or more indices, in the order given."""
    assert parse_devices(text) == found


@pytest.mark.parametrize("text", ["cuda:0,x", "cuda:1,1", ":0"])
def test_what_names_no_device_is_one_line(text: str) -> None:
    """An index that is none, or that comes twice, is refused with the value and the way out."""
    with pytest.raises(UsageError, match="--device is"):
        parse_devices(text)


@pytest.mark.parametrize("given", [["--device", "cuda:0,1"], ["--device=cuda:0,1"]])
def test_each_run_is_the_same_command_for_one_device(given: list[str]) -> None:
    """What is about all of them is left out, everything else is kept as it was written."""
    words = ["run", "--suite", "quick", *given, "--at-once", "--case", "gemm[fp32,M=1,N=1,K=1]", "--quiet"]
    kept = ["run", "--suite", "quick", "--case", "gemm[fp32,M=1,N=1,K=1]", "--quiet"]

    assert command_for("cuda", 1, words)[1:] == ["-m", "collector.cli.main", *kept, "--device", "cuda:1"]


def test_at_once_yields_to_a_run_that_holds_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs at once are one holder of the machine's lock; nothing is started beside somebody else's run."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with run_lock(state_folder() / "run.lock"), pytest.raises(LockHeldError):
        run_each("toy", (0, 1), ["run"], at_once=True)


def test_one_after_the_other_ends_with_the_first_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every device has its turn, whatever became of the one before it."""
    seen: list[int] = []

    def command(kind: str, index: int, given: object) -> list[str]:
        seen.append(index)
        return [sys.executable, "-c", f"raise SystemExit({[0, 3, 0][index]})"]

    monkeypatch.setattr("collector.cli.several.command_for", command)
    assert run_each("toy", (0, 1, 2), [], at_once=False) == 3
    assert seen == [0, 1, 2]
