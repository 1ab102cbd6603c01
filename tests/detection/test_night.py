"""Tonight against history: quiet under no change, quick under a real one."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.random import Generator

from detection.night import Night, NightJudgement, judge_night
from detection.policy import Policy
from detection.verdict import Metric, ReasonCode, VerdictStatus

POLICY = Policy()


def make_night(
    value: list[float] | np.ndarray,
    history: list[list[float]] | np.ndarray,
    *,
    metric: Metric = Metric.LATENCY_RATIO,
    device_kind: str = "cpu",
    process_sd: float = 0.03,
    processes: int = 3,
    control: np.ndarray | None = None,
) -> Night:
    rows = len(value)
    past = np.asarray(history, dtype=float).reshape(rows, -1)
    return Night(
        metric=metric,
        device_kind=device_kind,
        subjects=tuple(f"s{i}" for i in range(rows)),
        value=np.asarray(value, dtype=float),
        processes=np.full(rows, processes),
        process_sd=np.full(rows, process_sd),
        history=past,
        history_process_variance=np.full(rows, process_sd**2),
        history_process_df=np.full(rows, 2.0 * past.shape[1]),
        control=np.zeros(rows, dtype=bool) if control is None else control,
        absent=(None,) * rows,
    )


def simulated(rng: Generator, *, series: int, runs: int, between: float, within: float, step: float = 0.0) -> Night:
    """A night of three processes a run, with process and run effects; the last value of series 0 stepped."""
    x = rng.normal(0, between, (series, runs + 1, 1)) + rng.normal(0, within, (series, runs + 1, 3))
    x[0, -1] += np.log1p(step)
    level = x.mean(axis=2)
    night = make_night(np.exp(level[:, -1]), np.exp(level[:, :-1]))
    return Night(
        metric=night.metric,
        device_kind=night.device_kind,
        subjects=night.subjects,
        value=night.value,
        processes=night.processes,
        process_sd=x[:, -1].std(axis=1, ddof=1),
        history=night.history,
        history_process_variance=x[:, :-1].var(axis=2, ddof=1).mean(axis=1),
        history_process_df=night.history_process_df,
        control=np.arange(series) >= series // 2,
        absent=night.absent,
    )


def codes(judgement: NightJudgement) -> list[ReasonCode]:
    return [v.code for v in judgement.verdicts]


@pytest.mark.parametrize("runs", [1, 2, 4])
def test_a_slowdown_of_15_percent_is_found_against_few_noisy_runs(runs: int) -> None:
    """With one earlier run of three noisy processes, +15 % is at least suspected five times in six."""
    rng = np.random.default_rng(11)
    seen = 0
    for _ in range(100):
        verdict = judge_night(
            simulated(rng, series=24, runs=runs, between=0.015, within=0.03, step=0.15), POLICY
        ).verdicts[0]
        seen += verdict.code in (ReasonCode.BEYOND_FLOOR, ReasonCode.SUSPICIOUS)
    assert seen >= 83


@pytest.mark.parametrize("runs", [1, 2, 4, 20])
def test_no_change_calls_nothing(runs: int) -> None:
    """Under no change, fewer than one night in fifty of 48 series calls a regression or an improvement."""
    rng = np.random.default_rng(12)
    called = suspected = 0
    for _ in range(100):
        found = codes(judge_night(simulated(rng, series=48, runs=runs, between=0.015, within=0.03), POLICY))
        called += ReasonCode.BEYOND_FLOOR in found
        suspected += found.count(ReasonCode.SUSPICIOUS)
    assert called <= 2
    assert suspected <= 48  # of 4,800: one percent is what a confirm run is for


def test_a_noisier_night_than_believed_widens_its_intervals() -> None:
    """When everything scatters three times as wide as before, nothing is called: the night's own scatter is the
    scale."""
    rng = np.random.default_rng(13)
    quiet = np.exp(rng.normal(0, 0.01, (40, 20)))
    loud = np.exp(rng.normal(0, 0.06, 40))
    control = np.arange(40) >= 10
    judgement = judge_night(make_night(loud, quiet, process_sd=0.01, control=control), POLICY)
    assert judgement.scatter > 2
    assert ReasonCode.BEYOND_FLOOR not in codes(judgement)


def test_every_candidate_slower_is_a_change_not_a_shift() -> None:
    """A paired ratio has the host on both sides: all candidates 15 % slower are 15 % slower, controls are not."""
    rng = np.random.default_rng(14)
    history = np.exp(rng.normal(0, 0.01, (40, 10)))
    value = np.exp(rng.normal(0, 0.01, 40))
    value[:20] *= 1.15
    judgement = judge_night(make_night(value, history, process_sd=0.01, control=np.arange(40) >= 20), POLICY)
    assert judgement.shift is None
    assert codes(judgement)[:20] == [ReasonCode.BEYOND_FLOOR] * 20
    assert ReasonCode.BEYOND_FLOOR not in codes(judgement)[20:]


def test_a_moved_host_is_said_once() -> None:
    """All unpaired latencies 12 % up: one shift for the run, no series of it regressed."""
    rng = np.random.default_rng(15)
    history = 1e-4 * np.exp(rng.normal(0, 0.02, (40, 24)))
    value = 1.12e-4 * np.exp(rng.normal(0, 0.02, 40))
    night = make_night(value, history, metric=Metric.LATENCY, device_kind="cuda", process_sd=0.02)
    judgement = judge_night(night, POLICY)
    assert judgement.shift is not None
    assert judgement.shift.change == pytest.approx(0.12, abs=0.02)
    assert {v.status for v in judgement.verdicts} <= {VerdictStatus.UNCHANGED, VerdictStatus.INCONCLUSIVE}


def test_one_kernel_that_moved_on_a_moved_host_is_still_seen() -> None:
    """The common shift is taken out: a kernel 30 % slower where the others are 12 % slower has regressed."""
    rng = np.random.default_rng(16)
    history = 1e-4 * np.exp(rng.normal(0, 0.01, (40, 24)))
    value = 1.12e-4 * np.exp(rng.normal(0, 0.01, 40))
    value[3] *= 1.3 / 1.12
    verdicts = judge_night(make_night(value, history, metric=Metric.LATENCY, device_kind="cuda"), POLICY).verdicts
    assert verdicts[3].status is VerdictStatus.REGRESSED
    assert verdicts[3].change == pytest.approx(0.16, abs=0.03)


def test_unpaired_latency_on_a_cpu_waits_for_history() -> None:
    """Between runs of a shared CPU an unpaired time says little: below the stated number of runs it is not judged."""
    verdict = judge_night(make_night([2e-3], [[1e-3] * 4], metric=Metric.LATENCY), POLICY).verdicts[0]
    assert (verdict.status, verdict.code) == (VerdictStatus.NOT_JUDGED, ReasonCode.NOT_ENOUGH_HISTORY)
    assert "4 earlier runs, 10 are needed" in verdict.sentence


def test_the_first_run_is_not_judged() -> None:
    """Without history there is nothing to compare with, and the verdict says so."""
    verdict = judge_night(make_night([1.0], [[]]), POLICY).verdicts[0]
    assert verdict.code is ReasonCode.FIRST_RUN


def test_zero_baselines_have_no_ratio() -> None:
    """0 to 0 is no change, 0 to x is "from zero", x to 0 is less: none divides."""
    night = make_night([0.0, 1e9, 0.0], [[0.0] * 3, [0.0] * 3, [1e9] * 3], metric=Metric.PEAK_MEMORY)
    verdicts = judge_night(night, POLICY).verdicts
    assert [v.code for v in verdicts] == [ReasonCode.STILL_ZERO, ReasonCode.FROM_ZERO, ReasonCode.FROM_ZERO]
    assert [v.status for v in verdicts] == [VerdictStatus.UNCHANGED, VerdictStatus.REGRESSED, VerdictStatus.IMPROVED]
    assert all(v.change is None for v in verdicts)


def test_memory_is_judged_after_one_run() -> None:
    """An allocator's peak is nearly exact: 10 % more than the one run before has regressed, 4 KiB more has not."""
    night = make_night([1.1e9, 104_096.0], [[1e9], [100_000.0]], metric=Metric.PEAK_MEMORY)
    verdicts = judge_night(night, POLICY).verdicts
    assert verdicts[0].status is VerdictStatus.REGRESSED
    assert verdicts[1].status is VerdictStatus.UNCHANGED


def test_an_outlier_in_the_history_does_not_blind_the_judge() -> None:
    """One throttled run of twenty widens nothing: the next +15 % is still called."""
    rng = np.random.default_rng(17)
    history = np.exp(rng.normal(0, 0.01, (1, 20)))
    history[0, 7] = 1.8
    verdict = judge_night(make_night([1.15], history, process_sd=0.01), POLICY).verdicts[0]
    assert verdict.status is VerdictStatus.REGRESSED


def test_scale_does_not_matter() -> None:
    """Microseconds or seconds: multiplying a series by a constant changes no verdict."""
    rng = np.random.default_rng(18)
    history = np.exp(rng.normal(0, 0.02, (20, 12)))
    value = np.exp(rng.normal(0, 0.05, 20))
    one = judge_night(make_night(value, history), POLICY).verdicts
    other = judge_night(make_night(value * 3.7, history * 3.7), POLICY).verdicts
    assert [(v.status, v.code) for v in one] == [(v.status, v.code) for v in other]


def test_same_input_same_verdict() -> None:
    """Judging twice gives equal records."""
    night = simulated(np.random.default_rng(19), series=10, runs=5, between=0.01, within=0.02, step=0.1)
    assert judge_night(night, POLICY).verdicts == judge_night(night, POLICY).verdicts


def test_few_of_the_changes_called_in_a_night_are_false_though_neighbouring_nights_are_alike() -> None:
    """Blocks of five nights share half of the noise, 1 % of 1,000 series step by 10 to 20 %: false calls and power."""
    false = called = found = stepped = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        blocks = np.repeat(rng.standard_normal((1_000, 9)), 5, axis=1)[:, int(rng.integers(0, 4)) :][:, :41]
        x = 0.02 * (np.sqrt(0.5) * blocks + np.sqrt(0.5) * rng.standard_normal(blocks.shape))
        x[:10, -1] += np.log1p(rng.uniform(0.10, 0.20, 10))
        night = make_night(np.exp(x[:, -1]), np.exp(x[:, :-1]), device_kind="cuda", process_sd=0.01)
        calls = np.array([code is ReasonCode.BEYOND_FLOOR for code in codes(judge_night(night, POLICY))])
        called += int(calls.sum())
        false += int(calls[10:].sum())
        found += int(calls[:10].sum())
        stepped += 10
    assert false <= 0.1 * called
    assert found >= 0.6 * stepped


def test_a_device_noisier_than_believed_is_learnt_from_all_its_series() -> None:
    """Four earlier runs, noise three times the belief, no change: of 3,000 series fewer than five are called."""
    rng = np.random.default_rng(5)
    x = rng.normal(0, 0.03, (3_000, 5))
    judgement = judge_night(
        make_night(np.exp(x[:, -1]), np.exp(x[:, :-1]), device_kind="cuda", process_sd=0.01), POLICY
    )
    assert judgement.noise.factor > 3
    assert sum(code is ReasonCode.BEYOND_FLOOR for code in codes(judgement)) < 5
