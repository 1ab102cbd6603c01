"""A rule answers from enough, with an interval, and says undecided else."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detection.gate import Against, Answer, GateCase, GateLine, GateMetric, GateRule
from detection.gate_rules import change_against, check_rule
from detection.stats import student_t_quantile


def rule(metric: GateMetric = GateMetric.LATENCY_P50, at_most: float = 0.05, **fields: object) -> GateRule:
    values = {"name": "r", "metric": metric, "against": Against.HISTORY, "at_most": at_most, "minimum_runs": 5}
    return GateRule(**values | fields)  # type: ignore[arg-type]


def noisy(noise: float, runs: int, seed: int = 1) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.exp(np.random.default_rng(seed).normal(0, noise, runs))


def case(value: float, *, noise: float = 0.01, runs: int = 20, **fields: object) -> GateCase:
    values = {"case_id": "c", "phase": "decode", "value": value, "samples": 500, "history": tuple(noisy(noise, runs))}
    return GateCase(**values | fields)  # type: ignore[arg-type]


def said(one: GateRule, of: GateCase) -> GateLine:
    (line,) = check_rule(one, [of])
    return line


def answer(one: GateRule, of: GateCase) -> Answer:
    return said(one, of).answer


PAIRED = rule(GateMetric.LATENCY_RATIO, minimum_processes=3)


def pair(value: float, half: float = 0.01, processes: int = 5, **fields: object) -> GateCase:
    """A paired ratio whose own interval is ± half."""
    return case(value, low=value * (1 - half), high=value * (1 + half), processes=processes, **fields)


@pytest.mark.parametrize("samples", [9, 59, 299])
def test_a31_a_percentile_of_few_samples_is_no_answer(samples: int) -> None:
    """p95 of nine samples is their maximum: not enough samples, whatever the value; the needed number is said."""
    line = said(rule(GateMetric.LATENCY_P99, 0.1), case(9.9, samples=samples))
    assert line.answer is Answer.UNDECIDED
    assert f"not enough samples, latency_p99 of {samples}; 300 are needed" in line.sentence


def test_what_is_missing_says_why() -> None:
    """A case that failed, or whose times are of loops, has no percentile: the line names the reason."""
    line = said(rule(), case(math.nan, missing="failed"))
    assert (line.answer, line.sentence) == (Answer.UNDECIDED, "c: has no latency_p50 in this run (failed).")


def test_the_whole_interval_must_be_beyond() -> None:
    """+10 % fails in a quiet series, is undecided in one that scatters by as much, and +3 % passes in the quiet one."""
    assert answer(rule(), case(1.1)) is Answer.FAILED
    assert "the interval holds the limit" in said(rule(), case(1.1, noise=0.1)).sentence
    assert answer(rule(), case(1.03)) is Answer.PASSED
    assert "the interval is wider than the limit" in said(rule(), case(1.03, noise=0.1)).sentence
    assert answer(rule(), case(1.1, runs=4)) is Answer.UNDECIDED


@pytest.mark.parametrize("runs", [5, 7])
def test_short_histories_have_students_interval(runs: int) -> None:
    """Oracle: below eight runs the interval is the textbook's prediction interval of one more normal value."""
    past = noisy(0.01, runs)
    logs = np.log(past)
    change = change_against(rule(), 1.1, past.tolist())
    half = student_t_quantile(0.975, runs - 1) * float(logs.std(ddof=1)) * math.sqrt(1 + 1 / runs)
    assert change.half_width == pytest.approx(half)
    assert change.size == pytest.approx(math.log(1.1) - float(np.median(logs)))


def test_a_paired_ratio_has_an_interval_of_its_own() -> None:
    """A quiet history does not make tonight's ratio sure: where its own processes disagree the answer is undecided."""
    assert answer(PAIRED, pair(1.1)) is Answer.FAILED
    assert answer(PAIRED, pair(1.1, half=0.06)) is Answer.UNDECIDED
    few = said(PAIRED, pair(1.1, processes=2))
    assert (few.answer, few.sentence) == (
        Answer.UNDECIDED,
        "c: not enough processes, the ratio is of 2; 3 are needed.",
    )


@pytest.mark.parametrize(
    ("against", "at_most", "limit"), [(Against.OPTIMIZED, 0.05, 1.05), (Against.LIMIT, 1.05, 1.05)]
)
def test_a_ratio_within_the_run_is_held_to_its_interval(against: Against, at_most: float, limit: float) -> None:
    """Against the optimized arm, or a value: failed, undecided and passed by where the interval lies."""
    one = rule(GateMetric.LATENCY_RATIO, at_most, against=against)
    told = [answer(one, pair(limit * factor, half=0.02, optimized=1.0)) for factor in (1.1, 1.01, 0.9)]
    assert told == [Answer.FAILED, Answer.UNDECIDED, Answer.PASSED]


def test_when_the_optimized_arm_moved_the_case_did_not() -> None:
    """A ratio that rose with the naive one's passes and says so; one that rose alone fails."""
    past = tuple(noisy(0.005, 20))
    naive = tuple(2 * v for v in noisy(0.005, 20, seed=2))
    together = pair(1.15, history=past, witness=2 * 1.15, witness_history=naive)
    alone = pair(1.15, history=past, witness=2.0, witness_history=naive)
    assert answer(PAIRED, alone) is Answer.FAILED
    line = said(PAIRED, together)
    assert line.answer is Answer.PASSED
    assert line.beyond
    assert line.sentence.endswith("against the naive arm: the optimized arm moved.")
    assert answer(rule(), together) is Answer.FAILED, "a time alone has no such witness"


def test_a_drift_is_held_against_the_first_runs() -> None:
    """0.2 % a run is within the limit of every sixty; against the first ten runs it is not."""
    drifting = np.exp(0.002 * np.arange(90)) * noisy(0.004, 90)
    late = case(float(np.exp(0.002 * 90)), history=tuple(drifting[-60:]), first=tuple(drifting[:10]))
    line = said(rule(at_most=0.08), late)
    assert line.answer is Answer.FAILED
    assert "against the first 10 runs of its baseline" in line.sentence
    flat = case(1.0, history=tuple(noisy(0.004, 60)), first=tuple(noisy(0.004, 10, seed=3)))
    assert answer(rule(at_most=0.08), flat) is Answer.PASSED


def test_one_of_two_levels_is_no_regression() -> None:
    """A series that is on a higher level every fourth run is undecided there: it may do this any night."""
    past = noisy(0.004, 40) * np.where(np.arange(40) % 4 == 3, 1.2, 1.0)
    line = said(rule(), case(1.2, history=tuple(past)))
    assert line.answer is Answer.UNDECIDED
    assert "10 of the earlier runs were as far away" in line.sentence
    low, high = tuple(noisy(0.004, 18)), tuple(1.2 * noisy(0.004, 52, seed=2))
    rising = said(rule(), case(1.2, history=low[10:] + high, first=low[:10]))
    assert rising.answer is Answer.UNDECIDED
    assert "two levels" in rising.sentence


@pytest.mark.parametrize(("held", "expected"), [(0, Answer.UNDECIDED), (1, Answer.FAILED)])
def test_where_runs_are_throttled_now_and_then_one_is_no_proof(held: int, expected: Answer) -> None:
    """One value in forty of all cases is 15 % up: the first such night of a case is undecided, the second fails."""
    rng = np.random.default_rng(8)
    past = np.exp(rng.normal(0, 0.01, (30, 40)))
    past[np.arange(30), rng.integers(0, 40, 30)] *= 1.15
    others = [case(1.0, history=tuple(row)) for row in past[1:]]
    line, *_ = check_rule(rule(), [case(1.14, history=tuple(past[0, past[0] < 1.1]), held=held), *others])
    assert line.answer is expected


def test_throughput_is_worse_when_smaller() -> None:
    """10 % less throughput fails, and the sentence counts throughput; 10 % more passes."""
    line = said(rule(GateMetric.THROUGHPUT), case(0.9))
    assert line.answer is Answer.FAILED
    assert "throughput −10." in line.sentence or "throughput −9." in line.sentence
    assert line.sentence.endswith("at most 5.0 % less.")
    assert answer(rule(GateMetric.THROUGHPUT), case(1.1)) is Answer.PASSED


def test_zero_is_no_base_of_a_ratio() -> None:
    """An error of 0 is the best there is; from a history of zeros there is no ratio, and that is said."""
    exact = rule(GateMetric.ERROR, 1.0)
    assert answer(exact, case(0.0)) is Answer.PASSED
    assert "was 0 in 9 of 9 earlier runs" in said(exact, case(0.1, history=(0.0,) * 9)).sentence


def test_exact_values_need_no_noise() -> None:
    """A peak of memory that is the same to the byte has no interval: one per cent more passes, three fail."""
    memory, past = rule(GateMetric.PEAK_MEMORY, 0.02, minimum_runs=2), (1000.0, 1000.0)
    told = [answer(memory, case(value, history=past)) for value in (1000.0, 1010.0, 1030.0)]
    assert told == [Answer.PASSED, Answer.PASSED, Answer.FAILED]


def test_a_small_increase_of_something_small_is_within_the_limit() -> None:
    """16 KiB more of 56 KiB are 29 %, and less than 64 KiB; 29 % of 56 MiB are not."""
    memory = rule(GateMetric.PEAK_MEMORY, 0.02, minimum_runs=2, at_least=65536)
    assert answer(memory, case(73728.0, history=(57344.0, 57344.0))) is Answer.PASSED
    line = said(memory, case(73728e3, history=(57344e3, 57344e3)))
    assert line.answer is Answer.FAILED
    assert line.sentence.endswith("against 2 runs, at most +2.0 % or 65,536.")


def test_rules_concern_their_phases() -> None:
    """A rule for prefill says nothing of decode."""
    assert check_rule(rule(phases=("prefill",)), [case(2.0)]) == []


@pytest.mark.parametrize("runs", [5, 9, 20, 60])
def test_where_nothing_changed_a_rule_seldom_fails(runs: int) -> None:
    """Of 60 runs of 30 unchanged cases, as noisy as the limit is wide, at most one in ten fails the rule."""
    rng = np.random.default_rng(runs)
    failed = 0
    for _ in range(60):
        draws = np.exp(rng.normal(0, 0.05, (30, runs + 1)))
        cases = [case(float(row[-1]), history=tuple(row[:-1])) for row in draws]
        failed += any(line.answer is Answer.FAILED for line in check_rule(rule(), cases))
    assert failed <= 6


@given(scale=st.floats(1e-9, 1e9), value=st.floats(0.8, 1.3))
def test_an_answer_knows_no_unit(scale: float, value: float) -> None:
    """Seconds or microseconds: the same answer."""
    past = tuple(noisy(0.01, 20))
    scaled = case(value * scale, history=tuple(v * scale for v in past))
    one, other = change_against(rule(), value, past), change_against(rule(), scaled.value, scaled.history)
    assert (one.size, one.half_width) == pytest.approx((other.size, other.half_width), abs=1e-9)
