"""The bookkeeping and the table of benchmarks/measurement.py, on trials whose noise is known."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from benchmarks.measurement_analysis import Contender, best_statistic, coverage, error_row, seconds_to_error
from benchmarks.measurement_estimates import Rounds, from_blocks, from_rounds, welch
from benchmarks.measurement_report import OURS, PROCESSES, REFERENCE, TITLES, report
from benchmarks.measurement_trials import Estimate, Journal, Trial, read_parquet, write_parquet

CLOCKS = {
    "ours": ("thread_time", "wall"),
    "sequential": ("thread_time", "wall"),
    "torch": ("thread_time",),
    "pyperf": ("wall",),
    "pytest_benchmark": ("thread_time",),
}
ARM_PROCESSES = {"ours": 3, "sequential": 1, "torch": 1, "pyperf": 3, "pytest_benchmark": 1}
NOISE = {"ours": 0.01, "sequential": 0.04, "torch": 0.04, "pyperf": 0.05, "pytest_benchmark": 0.03}
"""Standard deviation of the log ratio of one process."""


def estimate(rng: np.random.Generator, method: str, clock: str, share: float) -> Estimate:
    """What a method with normal noise says; a sample's standard error is what the noise is, not what it knows of it."""
    n = ARM_PROCESSES[method]
    arm = (NOISE[method] / math.sqrt(share) * rng.standard_normal(n)).tolist()
    said = float(np.mean(arm))
    return Estimate(
        share=share,
        clock=clock,
        median=said,
        mean=2 * said,
        minimum=3 * said,
        base=[0.0] * n,
        arm=arm,
        paired=method == "ours",
        within_se=None if n > 1 else NOISE[method] / 4,
        within_df=None if n > 1 else 40.0,
        samples=50,
    )


@pytest.fixture(scope="module")
def trials() -> list[Trial]:
    rng = np.random.default_rng(20_261_130)
    return [
        Trial(
            block=block,
            trial=trial,
            operator=operator,
            loaded=loaded,
            method=method,
            order=0,
            other_core_busy=0.5,
            asked_s=0.5,
            seconds=0.5,
            start_up_s=0.1,
            estimates=[estimate(rng, method, clock, share) for clock in clocks for share in (0.25, 0.5, 1.0)],
        )
        for block in range(20)
        for trial in range(10)
        for operator in TITLES
        for loaded in (False, True)
        for method, clocks in CLOCKS.items()
    ]


def test_a_stopped_run_goes_on_where_it_was(trials: list[Trial], tmp_path: Path) -> None:
    """The journal gives back every whole line, leaves out the one that a kill cut, and knows its blocks."""
    journal = Journal(tmp_path / "trials.jsonl")
    assert journal.read() == []

    journal.append(trials[:40])
    journal.append(trials[-7:])
    with journal.path.open("ab") as file:
        file.write(b'{"block": 20, "tri')

    assert journal.read() == trials[:40] + trials[-7:]
    assert journal.blocks() == {0, 19}


def test_parquet_gives_the_trials_back(trials: list[Trial], tmp_path: Path) -> None:
    """What is committed renders the same trials, to six decimals."""
    write_parquet(trials[:60], tmp_path / "trials.parquet")

    back = read_parquet(tmp_path / "trials.parquet")

    assert [(t.method, t.block, len(t.estimates)) for t in back] == [
        (t.method, t.block, len(t.estimates)) for t in trials[:60]
    ]
    for found, true in zip(back, trials, strict=False):
        assert [e.median for e in found.estimates] == pytest.approx([e.median for e in true.estimates], abs=1e-6)
        assert [e.within_se for e in found.estimates] == [e.within_se for e in true.estimates]


def test_quantiles_of_a_known_noise_come_back(trials: list[Trial]) -> None:
    """p50 and p90 of |x| of a normal x, inside an interval about them; a contender is 1 against itself."""
    mine = error_row(trials, OURS, REFERENCE, "gemm", loaded=True)
    same = error_row(trials, REFERENCE, REFERENCE, "gemm", loaded=True)
    sd = NOISE["ours"] / math.sqrt(3)

    assert mine.trials == 200
    assert mine.p50 == pytest.approx(stats.halfnorm.ppf(0.5) * sd, rel=0.2)
    assert mine.p90.value == pytest.approx(stats.halfnorm.ppf(0.9) * sd, rel=0.15)
    assert mine.p90.low < mine.p90.value < mine.p90.high < 1.3 * mine.p90.low
    assert mine.against.low <= sd / NOISE["sequential"] <= mine.against.high
    assert (same.against.low, same.against.value, same.against.high) == (1, 1, 1)


def test_a_peer_is_shown_by_the_statistic_that_serves_it_best(trials: list[Trial]) -> None:
    """Here the median has half the error of the mean, and a third of that of the minimum."""
    assert best_statistic(trials, "torch", "thread_time").statistic == "median"


def test_intervals_over_processes_cover_and_those_of_one_process_do_not(trials: list[Trial]) -> None:
    """Planted effects leave Student's t over processes at its 95 %, and what samples say of one process far below."""
    for planted in (0.0, 0.02):
        assert coverage(trials, OURS, planted).covered == pytest.approx(0.95, abs=0.02)
        assert coverage(trials, REFERENCE, planted).covered < 0.7
    plain, planted_too = coverage(trials, OURS, 0.0), coverage(trials, OURS, 0.02)
    sd = math.sqrt(NOISE["ours"] ** 2 + 2 * 0.02**2) / math.sqrt(3)
    assert plain.half_width < planted_too.half_width
    assert planted_too.needed == pytest.approx(1.96 * sd, rel=0.1)


def test_time_to_an_error_is_the_first_share_or_pool_that_has_it(trials: list[Trial]) -> None:
    """A share of a trial where that is enough, several trials where one is not, and `never` where none is."""

    def seconds(contender: Contender, error: float) -> tuple[float, bool]:
        return seconds_to_error(trials, contender, "triad", loaded=False, error=error)

    assert seconds(OURS, 0.03) == (0.125, True)
    assert seconds(OURS, 0.012) == (0.5, True)
    assert seconds(REFERENCE, 0.054) == (1.0, True)
    assert seconds(REFERENCE, 0.001) == (5.0, False)


def test_rounds_of_a_shifted_arm_give_the_shift() -> None:
    """5 % more in every process reads 5 %, paired, by each process; too few rounds read as nothing."""
    rng = np.random.default_rng(3)
    base = [np.exp(rng.normal(0, 0.01, 40)).tolist() for _ in range(3)]
    parts = [Rounds(base=b, arm=(1.05 * np.exp(rng.normal(0, 0.01, 40))).tolist()) for b in base]

    found = from_rounds(parts, 1.0, "wall")

    assert found is not None
    assert found.median == pytest.approx(math.log(1.05), abs=0.005)
    assert len(found.arm) == 3 and found.paired
    assert from_rounds([Rounds(base=[1.0], arm=[1.0])], 0.25, "wall") is None


def test_a_shorter_trial_is_the_end_of_one_arm_and_the_beginning_of_the_other() -> None:
    """Of one process a share are samples next to the change of arms; of several, whole processes."""
    half = from_blocks([[9.0, 9.0, 1.0, 1.0]], [[2.0, 2.0, 9.0, 9.0]], 0.5, "wall")
    processes = from_blocks([[9.0], [9.0], [9.0], [1.0]], [[2.0], [9.0], [9.0], [9.0]], 0.25, "wall")

    assert half.median == pytest.approx(math.log(2))
    assert half.samples == 4
    assert processes.median == pytest.approx(math.log(2))


def test_welch_agrees_with_scipy() -> None:
    """Standard error and degrees of freedom of a difference of means with unequal variances."""
    rng = np.random.default_rng(5)
    a, b = rng.normal(0, 1, 9), rng.normal(0, 3, 14)
    expected = stats.ttest_ind(b, a, equal_var=False)

    se, df = welch(a, b)

    assert se == pytest.approx((b.mean() - a.mean()) / expected.statistic)
    assert df == pytest.approx(expected.df)
    assert welch([1.0], b) == (None, None)


def test_the_table_has_every_method_and_says_what_was_not_measured(trials: list[Trial], tmp_path: Path) -> None:
    """A row for each contender in each table, the settings of each peer, no number that is none."""
    facts = {
        "date": "2026-11-30",
        "cpu": "a CPU, 2 cores",
        "kernel": "6",
        "method_version": "2",
        "priority": "nice 0",
        "budget_s": 0.5,
        "import_torch_s": 3.0,
        "versions": {"torch": "2"},
        "settings": {method: f"settings of {method}" for method in PROCESSES},
    }
    (tmp_path / "facts.json").write_text(json.dumps(facts))

    text = report(trials, tmp_path / "facts.json")

    assert "200 trials of each method" in text
    assert text.count("| **this harness** |") == len(TITLES) + 2
    assert text.count("triton.testing.do_bench | not measured") == len(TITLES) + 1
    assert all(f"settings of {method}" in text for method in PROCESSES)
    assert "nan" not in text
    assert "| yes |" in text
