"""`collector gate` as a person types it: what it prints, and how it exits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import simulated_lake
from typer.testing import CliRunner, Result

from collector.cli.main import app


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A week on one device; a ratio is 7 % up in the last night, in which two cases are wrong or failed."""
    root = tmp_path_factory.mktemp("gated")
    simulated_lake.build_lake(root, simulated_lake.Simulation(nights=7, devices=simulated_lake.DEVICES[:1]))
    return root / "store"


def gate(store: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["gate", *arguments, "--store", str(store)])


def test_failed_lines_come_first_and_many_undecided_ones_are_one(store: Path) -> None:
    """Exit 1; the counts, each failed case, and of each rule that cannot say one case and how many more."""
    said = gate(store, "inference")
    first, *lines = said.output.splitlines()
    assert said.exit_code == 1
    assert "failed (of" in first
    told = [line.split(":")[0] for line in lines]
    assert told == sorted(told), "failed before undecided"
    assert sum(line.startswith("undecided: p99 of decode: ") for line in lines) == 2
    assert any(line.startswith("undecided: p99 of decode: and ") for line in lines)
    document = json.loads(gate(store, "inference", "--json").output)
    assert len(document["lines"]) > len(lines)


@pytest.mark.parametrize("arguments", [("training",), ("training", "--dry-run")])
def test_nothing_to_judge_is_undecided(store: Path, arguments: tuple[str, ...]) -> None:
    """A run, and a history, without a training case: exit 4, never passed, with what is lacking."""
    said = gate(store, *arguments)
    assert said.exit_code == 4
    assert "passed" not in said.output
    assert "Nothing to judge: the gate concerns cases of post_training and training" in said.output


def test_loss_curves_alone_open_no_gate(store: Path, tmp_path: Path) -> None:
    """Curves that converge, restore and repeat pass their rules; without a training case the gate is undecided."""
    curves = tmp_path / "curves.csv"
    roles = {"ours": "candidate", "a": "reference", "b": "reference", "c": "reference", "d": "restored"}
    rows = [
        f"{name},{role},{step},{2 + step / 100}"
        for name, role in [*roles.items(), ("e", "repeated")]
        for step in range(40)
    ]
    curves.write_text("\n".join(["curve,role,step,loss", *rows]))
    said = gate(store, "training", "--curves", str(curves))
    assert said.exit_code == 4
    assert "undecided (of 4 checks 1 undecided, 3 passed)" in said.output


def test_a_dry_run_counts_each_rule(store: Path) -> None:
    """Exit 0, the counts as a whole and of each rule that fired, the same as JSON."""
    said = gate(store, "inference", "--dry-run")
    assert said.exit_code == 0
    assert "Would have fired" in said.output
    assert "everything runs: fired 1 times, 0 confirmed" in said.output
    document = json.loads(gate(store, "inference", "--dry-run", "--json").output)
    assert document["runs"] == 7
    assert {rule["rule"] for rule in document["rules"]} >= {"everything runs"}


@pytest.mark.parametrize(
    ("arguments", "exit_code", "words"),
    [
        (("inference", "--run", "nope"), 4, "undecided, no run 'nope' in the store"),
        (("inference", "--days", "3"), 2, "is for --dry-run"),
        (("inference", "--dry-run", "--run", "r"), 2, "it asks about all runs"),
    ],
)
def test_what_cannot_be_asked_says_so(store: Path, arguments: tuple[str, ...], exit_code: int, words: str) -> None:
    """One line with the way out."""
    said = gate(store, *arguments)
    assert said.exit_code == exit_code
    assert words in " ".join(said.output.split())
