"""A run's budget of time: what it leaves out is a row, nights are counted, and what cases took is remembered."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench_suite.budget import Cost, Forecast
from bench_suite.roofline import Ceilings
from bench_suite.suite import Suite, load_suite
from collector.cli.words import seconds
from collector.errors import UsageError
from collector.node.ledger import USUAL_ARMS, ArmRecord, CaseRecord
from collector.node.night_budget import NightBudget, NightMemory, had_turn, open_budget
from collector.node.protocol import PassSamples
from store.bundle.schemas import RowStatus

CEILINGS = Ceilings(flop_per_s={"fp32": 70e9}, bandwidth_bytes_per_s=12e9, link_bytes_per_s=2e9)
SAMPLES = PassSamples(
    arm="optimized",
    passed="rounds",
    calls_per_sample=1,
    wall_s=[],
    thread_s=[],
    device_s=[],
    monotonic_s=[],
    round=[],
    position=[],
    mark=[],
    rank_spread=[],
    straggler=[],
)


class SimulatedNight:
    """A run with a budget on a clock of its own, where steps take `factor` times what the first forecast says."""

    def __init__(self, state: Path, suite: Suite, budget_s: float, factor: float) -> None:
        self.now_s, self.factor = 0.0, factor
        self.truth = Forecast(suite, CEILINGS, {})
        self.records = [CaseRecord(planned=planned) for planned in suite.cases]
        budget = open_budget(budget_s, suite, CEILINGS, state, "cpu-1", begun_s=0.0)
        assert budget is not None
        self.budget = budget
        waiting = self.records
        while wave := budget.next_wave(waiting, now_s=self.now_s):
            taken = {id(record) for record in wave}
            waiting = [record for record in waiting if id(record) not in taken]
            self._take(wave)
        budget.leave_out(self.records)
        budget.remember(self.records)

    def _take(self, wave: list[CaseRecord]) -> None:
        for replicate in (None, *range(self.truth.replicates)):
            self.now_s += self.truth.start_s(1)
            self.budget.started(1, self.truth.start_s(1))
            for record in wave:
                ready = replicate is None or bool(record.arms)
                if ready and self.budget.allows(record, replicate, now_s=self.now_s):
                    self._step(record, replicate)

    def _step(self, record: CaseRecord, replicate: int | None) -> None:
        cost = self.truth.cost(record.planned.case.case_id)
        begun_s = self.now_s
        self.now_s += self.factor * (cost.prepare_s if replicate is None else cost.replicate_s)
        self.now_s = min(self.now_s, self.budget.ends_s)  # a step at work when the budget ends is ended
        arm = record.arms.setdefault("optimized", ArmRecord(arm=USUAL_ARMS[1]))
        if replicate is not None and self.now_s < self.budget.ends_s:
            arm.passes.append((replicate, SAMPLES))
        self.budget.took(record, replicate, self.now_s - begun_s)

    @property
    def measured(self) -> dict[str, int]:
        """case_id -> replicates"""
        found = {r.planned.case.case_id: len(r.arms["optimized"].passes) for r in self.records if r.arms}
        return {case_id: count for case_id, count in found.items() if count}


@pytest.mark.parametrize("factor", [0.25, 1.0, 4.0])
def test_a_budget_is_used_and_not_overrun(tmp_path: Path, factor: float) -> None:
    """Of the nightly suite in 20 minutes, on a machine as slow as estimated, four times as fast, or as slow."""
    suite = load_suite("nightly")
    for _ in range(3):
        night = SimulatedNight(tmp_path, suite, 1200.0, factor)

        assert 0.85 * 1200.0 <= night.now_s <= 1200.0
        whole = [count == suite.method.replicates for count in night.measured.values()]
        assert sum(whole) >= 0.8 * len(whole)


def test_nothing_of_the_nightly_suite_is_silently_absent(tmp_path: Path) -> None:
    """Every case is measured or says what it needs and when its turn is; in some nights all that can fit have come."""
    whole = load_suite("nightly")
    suite = replace(whole, cases=whole.cases[::4])
    kept: set[str] = set()
    hopeless: set[str] = set()
    for _ in range(12):
        night = SimulatedNight(tmp_path, suite, 1200.0, 1.0)
        kept |= set(night.measured)
        for record in night.records:
            case_id = record.planned.case.case_id
            assert (case_id in night.measured) == (record.skipped is None)
            if record.skipped is not None:
                assert (record.skipped.status, record.skipped.kind) == (RowStatus.SKIPPED, "budget")
                assert " s" in record.skipped.reason and "in a budget of 1,200 s" in record.skipped.reason
                if "its turn" not in record.skipped.reason:
                    hopeless.add(case_id)
    assert kept | hopeless == {entry.case.case_id for entry in suite.cases}


def test_nights_are_counted_for_each_suite_and_unit(tmp_path: Path) -> None:
    """Another device, and a file that is broken, begin anew; costs and turns outlive nights."""
    suite = load_suite("smoke")
    memory = NightMemory(tmp_path, suite, "cpu-1")
    memory.begin_night()
    memory.learn({"a": Cost(prepare_s=1.0, replicate_s=2.0)}, ["a", "b"])
    memory.begin_night()
    memory.learn({}, ["b"])
    assert (memory.night(), memory.last()) == (2, {"a": 1, "b": 2})
    assert memory.known() == {"a": Cost(prepare_s=1.0, replicate_s=2.0)}
    assert NightMemory(tmp_path, suite, "cpu-2").night() == 0
    next((tmp_path / "nights").glob("*.json")).write_text("{")
    assert (memory.night(), memory.last(), memory.known()) == (0, {}, {})


def test_what_an_earlier_version_kept_is_read(tmp_path: Path) -> None:
    """Its file knows no turns: what cases took is still of use."""
    memory = NightMemory(tmp_path, load_suite("smoke"), "cpu-1")
    memory.begin_night()
    path = next((tmp_path / "nights").glob("*.json"))
    path.write_text('{"night": 7, "costs": {"a": {"prepare_s": 1.0, "replicate_s": 2.0}}}')
    assert (memory.night(), memory.last(), set(memory.known())) == (7, {}, {"a"})


def _budget(tmp_path: Path) -> tuple[NightBudget, list[CaseRecord]]:
    suite = load_suite("smoke")
    budget = open_budget(1000.0, suite, CEILINGS, tmp_path, "cpu-1", begun_s=0.0)
    assert budget is not None and budget.ends_s == 1000.0
    return budget, [CaseRecord(planned=planned) for planned in suite.cases]


def test_the_clock_leaves_out_what_no_longer_fits(tmp_path: Path) -> None:
    """A step that would pass the budget is not begun, nor a case whose replicates would; then it says so."""
    budget, records = _budget(tmp_path)
    record = records[0]
    cost = budget.forecast.cost(record.planned.case.case_id)
    assert budget.allows(record, None, now_s=1.0)
    assert not budget.allows(record, None, now_s=1000.0 - cost.prepare_s - cost.replicate_s)
    assert budget.allows(record, 0, now_s=999.0 - cost.replicate_s)
    assert not budget.allows(record, 0, now_s=999.5)
    budget.leave_out([record])
    assert record.skipped is not None
    assert record.skipped.reason.endswith("; its turn in a budget of 1,000 s is in 1 night")


def test_a_wave_keeps_the_time_for_what_it_has_begun(tmp_path: Path) -> None:
    """Replicates of cases that were prepared are not given away to other cases."""
    budget, (one, other, *_) = _budget(tmp_path)
    last_s = 970.0 - budget.forecast.total_s(other.planned.case.case_id)
    assert budget.allows(other, None, now_s=last_s - 1.0)
    one.arms["optimized"] = ArmRecord(arm=USUAL_ARMS[1])
    budget.took(one, None, budget.forecast.cost(one.planned.case.case_id).prepare_s)
    assert not budget.allows(other, None, now_s=last_s - 1.0)


def test_what_cases_took_is_remembered(tmp_path: Path) -> None:
    """Only a case measured in every replicate teaches; the mean of its replicates is kept."""
    budget, (whole, cut, *_) = _budget(tmp_path)
    budget.took(whole, None, 4.0)
    for replicate, spent in enumerate((2.0, 3.0)):
        budget.took(whole, replicate, spent)
    budget.took(cut, None, 9.0)
    budget.remember([whole, cut])
    assert budget.memory.known() == {whole.planned.case.case_id: Cost(prepare_s=4.0, replicate_s=2.5)}


def test_a_case_that_can_have_no_samples_has_had_its_turn(tmp_path: Path) -> None:
    """What does not fit the memory, or fails, is not the first of every night; what was cut short is."""
    _, (large, broken, cut, *_) = _budget(tmp_path)
    large.skip("memory", "needs 9 GiB")
    broken.arms["optimized"] = ArmRecord(arm=USUAL_ARMS[1])
    broken.arms["optimized"].fail("crashed", "x")
    cut.arms["optimized"] = ArmRecord(arm=USUAL_ARMS[1])
    assert [had_turn(record) for record in (large, broken, cut)] == [True, True, False]


def test_a_run_without_a_budget_leaves_nothing_out(tmp_path: Path) -> None:
    """Neither a clock nor a count of nights."""
    assert open_budget(None, load_suite("smoke"), CEILINGS, tmp_path, "cpu-1") is None
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
