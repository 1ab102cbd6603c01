"""A run's budget of time: what it leaves out is a row, nights are counted, and what cases took is remembered."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench_suite.budget import Cost
from bench_suite.roofline import Ceilings
from bench_suite.suite import load_suite
from collector.cli.words import seconds
from collector.errors import UsageError
from collector.node.night_budget import NightBudget, NightMemory, left_out, open_budget, records_of
from store.bundle.schemas import RowStatus

CEILINGS = Ceilings(flop_per_s={"fp32": 70e9}, bandwidth_bytes_per_s=12e9, link_bytes_per_s=2e9)


def test_nothing_of_the_nightly_suite_is_silently_absent() -> None:
    """Of 20 minutes every case is kept or has the reason and the figure, and all that can fit come in turn."""
    suite = load_suite("nightly")
    kept: set[str] = set()
    hopeless: set[str] = set()
    for night in range(60):
        without = left_out(suite, CEILINGS, budget_s=1200.0, night=night, known={})
        records = records_of(suite, without)
        assert len(records) == len(suite.cases)
        for record in records:
            if record.skipped is None:
                kept.add(record.planned.case.case_id)
            else:
                assert record.skipped.status is RowStatus.SKIPPED and record.skipped.kind == "budget"
                assert " s" in record.skipped.reason and "1,080 s" in record.skipped.reason
                if "its turn" not in record.skipped.reason:
                    hopeless.add(record.planned.case.case_id)
    assert kept | hopeless == {entry.case.case_id for entry in suite.cases}


def test_nights_are_counted_for_each_suite_and_unit(tmp_path: Path) -> None:
    """Each run is one night more; another device, and a file that is broken, begin at 0; costs outlive nights."""
    suite = load_suite("smoke")
    memory = NightMemory(tmp_path, suite, "cpu-1")
    memory.learn({"a": Cost(prepare_s=1.0, replicate_s=2.0)})
    assert [memory.next_night() for _ in range(3)] == [0, 1, 2]
    assert memory.known() == {"a": Cost(prepare_s=1.0, replicate_s=2.0)}
    assert NightMemory(tmp_path, suite, "cpu-2").next_night() == 0
    next((tmp_path / "nights").glob("*.json")).write_text("{")
    assert {NightMemory(tmp_path, suite, unit).next_night() for unit in ("cpu-1", "cpu-2")} == {0, 1}


def _budget(tmp_path: Path) -> NightBudget:
    suite = load_suite("smoke")
    budget, without = open_budget(1000.0, suite, CEILINGS, tmp_path, "cpu-1", resumed=False)
    assert budget is not None and without == {}
    budget.begun_s = 0.0
    return budget


def test_the_clock_leaves_out_what_no_longer_fits(tmp_path: Path) -> None:
    """A step that would pass the budget is not begun; a case without samples then says what had been used up."""
    budget = _budget(tmp_path)
    early, late = records_of(load_suite("smoke"), {})[:2]
    assert budget.allows(early, None, now_s=1.0) and early.skipped is None
    assert not budget.allows(late, 0, now_s=999.5)
    assert late.skipped is not None
    assert late.skipped.reason.startswith(
        "1,000 s of the budget of 1,000 s were used up, and its next step needs about"
    )


def test_a_step_that_the_budget_ends_is_no_failure(tmp_path: Path) -> None:
    """What was at work when time was up is left out with the figure, and keeps no blame."""
    budget = _budget(tmp_path)
    record = records_of(load_suite("smoke"), {})[0]
    assert budget.ends_s == 1000.0
    budget.leave_out(record)
    assert record.skipped is not None and record.skipped.kind == "budget"
    assert record.skipped.reason == "the budget of 1,000 s ended while this was at work"


def test_what_cases_took_is_remembered(tmp_path: Path) -> None:
    """Only a case measured in every replicate teaches; the mean of its replicates is kept."""
    budget = _budget(tmp_path)
    whole, cut = records_of(load_suite("smoke"), {})[:2]
    for spent in (4.0, 2.0, 3.0):
        budget.took(whole, spent)
    budget.took(cut, 9.0)
    budget.remember()
    assert budget.memory.known() == {whole.planned.case.case_id: Cost(prepare_s=4.0, replicate_s=2.5)}


def test_a_run_without_a_budget_leaves_nothing_out(tmp_path: Path) -> None:
    """Neither a clock nor a count of nights."""
    assert open_budget(None, load_suite("smoke"), CEILINGS, tmp_path, "cpu-1", resumed=False) == (None, {})
    assert not (tmp_path / "nights").exists()


@pytest.mark.parametrize(("text", "value"), [("90s", 90.0), ("20m", 1200.0), ("1.5h", 5400.0)])
def test_a_budget_is_a_time_with_its_unit(text: str, value: float) -> None:
    """Seconds, minutes or hours."""
    assert seconds(text, "--budget") == value


@pytest.mark.parametrize("text", ["", "20", "m", "-3m", "0s", "nanm", "infh", "20 min"])
def test_a_bad_budget_gets_one_line(text: str) -> None:
    """What, value, rule."""
    with pytest.raises(UsageError, match=r"--budget is .*, must be a time above 0 with its unit, as 90s, 20m or 1.5h"):
        seconds(text, "--budget")
