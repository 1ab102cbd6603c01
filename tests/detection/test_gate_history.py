"""A gate over the runs of a device: what is a reference, what restarts it, and what counts as firing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from detection.gate import Against, Answer, GateMetric, GatePolicy, GateRule
from detection.gate_dry_run import Covered, DryRun, GateRun, fold_dry_run
from detection.gate_history import Accepted, GateOutcome, gate_outcomes

START = datetime(2026, 1, 1, tzinfo=UTC)
GATE = GatePolicy(
    name="g",
    version="1",
    rules=(
        GateRule(name="ratio", metric=GateMetric.LATENCY_RATIO, against=Against.HISTORY, at_most=0.05, minimum_runs=3),
    ),
)
FAILURES = GatePolicy(
    name="f",
    version="1",
    rules=(GateRule(name="runs", metric=GateMetric.FAILURES, against=Against.LIMIT, at_most=0, phases=("decode",)),),
)


def at(run: int) -> datetime:
    return START + timedelta(days=run)


def row(run: int, ratio: float | None, *, arm: str = "candidate", status: str = "measured") -> dict[str, object]:
    """A result of a quiet ratio of three processes."""
    empty = dict.fromkeys(("latency_p50_s", "latency_p95_s", "latency_p99_s", "flop_per_s", "peak_memory_bytes"))
    return empty | {
        "run_id": f"r{run:03d}",
        "started_at": at(run),
        "subject_id": f"s-{arm}",
        "case_id": "c",
        "arm": arm,
        "phase": "decode",
        "status": status,
        "n": 300,
        "latency_basis": "single",
        "ratio_optimized": ratio,
        "ratio_optimized_low": ratio and ratio * 0.99,
        "ratio_optimized_high": ratio and ratio * 1.01,
        "ratio_processes": 3,
        "error_margin": 0.1,
    }


def ratios(levels: Sequence[float], noise: float = 0.004) -> list[dict[str, object]]:
    noises = np.exp(np.random.default_rng(4).normal(0, noise, len(levels)))
    return [row(run, float(level * e)) for run, (level, e) in enumerate(zip(levels, noises, strict=True))]


def answers(outcomes: Sequence[GateOutcome]) -> list[Answer]:
    return [outcome.answer for outcome in outcomes]


def dry(
    rows: Sequence[Mapping[str, object]], *, covered: Sequence[Covered] = (), gate: GatePolicy = GATE, **told: object
) -> DryRun:
    runs = [GateRun(run_id=str(r["run_id"]), started_at=r["started_at"], device_unit="u") for r in rows]  # type: ignore[arg-type]
    return fold_dry_run(gate, gate_outcomes(gate, rows, **told), runs=runs, covered=covered)  # type: ignore[arg-type]


def test_a_slower_kernel_does_not_become_normal_by_waiting() -> None:
    """It fails from the step on, a hundred runs long, and that is one firing."""
    said = dry(ratios([1.0] * 20 + [1.12] * 100))
    assert set(answers(said.outcomes)[20:]) == {Answer.FAILED}
    assert said.fired == 1
    assert said.outcomes[-1].lines[0].sentence.endswith("at most +5.0 %; first beyond it 99 runs before.")


def test_an_odd_night_fires_once_and_stays_in_the_history() -> None:
    """The run after it passes; from the third such night in sixty on the series is known to do this."""
    levels = [1.0] * 60
    for night in (20, 30, 40, 50):
        levels[night] = 1.15
    said = answers(gate_outcomes(GATE, ratios(levels)))
    assert [said[night] for night in (20, 21, 30)] == [Answer.FAILED, Answer.PASSED, Answer.UNDECIDED]
    assert said.count(Answer.FAILED) == 1


def test_a_regression_that_was_mended_fires_again() -> None:
    """Ten runs slower, mended, slower again: the bad runs are no history, so the second time is a failure too."""
    said = dry(ratios([1.0] * 20 + [1.12] * 10 + [1.0] * 10 + [1.12] * 5))
    assert said.fired == 2
    assert answers(said.outcomes)[40] is Answer.FAILED


def test_what_was_accepted_is_where_history_begins() -> None:
    """After the act the series is judged from that run on; before it the runs failed, and a dry run says so."""
    rows = ratios([1.0] * 20 + [1.12] * 20)
    act = Accepted(subject_id="s-candidate", metric="latency_ratio", since=at(20), said_at=at(30))
    said = dry(rows, accepted=[act])
    assert set(answers(said.outcomes)[20:30]) == {Answer.FAILED}
    assert set(answers(said.outcomes)[31:]) == {Answer.PASSED}
    other = Accepted(subject_id="s-candidate", metric="peak_memory", since=at(20), said_at=at(30))
    assert set(answers(dry(rows, accepted=[other]).outcomes)[20:]) == {Answer.FAILED}


def test_the_run_that_is_asked_about_knows_what_was_accepted_since() -> None:
    """A morning's act counts for the night before it when the gate is asked again."""
    rows = ratios([1.0] * 20 + [1.12] * 6)
    act = Accepted(subject_id="s-candidate", metric="latency", since=at(20), said_at=at(26))
    assert answers(gate_outcomes(GATE, rows, accepted=[act]))[-1] is Answer.FAILED
    assert answers(gate_outcomes(GATE, rows, accepted=[act], until="r025"))[-1] is Answer.PASSED


def test_an_optimized_arm_that_got_faster_is_no_failure() -> None:
    """Naive and candidate rise alike and stay there: it passes, for as long as that lasts; then the kernel moves."""
    levels = [1.0] * 30 + [1.2] * 50
    rows = []
    for own, run in zip(ratios(levels), range(80), strict=True):
        slower = 1.12 if run >= 75 else 1.0
        own["ratio_optimized"] = own["ratio_optimized"] * slower  # type: ignore[operator]
        rows += [row(run, 3 * levels[run], arm="naive"), own]
    said = answers(gate_outcomes(GATE, rows))
    assert set(said[30:75]) == {Answer.PASSED}
    assert set(said[75:]) == {Answer.FAILED}


def test_firing_is_confirmed_by_a_finding_over_the_series() -> None:
    """A finding over the failed series and metric, standing when it fails, confirms it; another one does not."""
    rows = ratios([1.0] * 20 + [1.12] * 5)

    def cover(metric: str, since: int, until: int | None = None, subject: str = "s-candidate") -> Covered:
        return Covered(subject_id=subject, metric=metric, since=at(since), until=None if until is None else at(until))

    told = {
        name: dry(rows, covered=[one]).confirmed
        for name, one in {
            "same": cover("latency_ratio", 20),
            "earlier": cover("latency", 3),
            "over": cover("latency_ratio", 3, 10),
            "later": cover("latency_ratio", 22),
            "memory": cover("peak_memory", 20),
            "other": cover("latency_ratio", 20, subject="s-naive"),
        }.items()
    }
    assert told == {"same": 1, "earlier": 1, "over": 0, "later": 0, "memory": 0, "other": 0}


def test_each_failing_case_fires_once_and_again_when_it_broke_again() -> None:
    """`everything runs` names the cases that failed; one that ran again and broke again fires twice."""
    rows = [row(run, 1.0, status="failed" if run in (2, 3, 6) else "measured") for run in range(8)]
    said = dry(rows, gate=FAILURES)
    assert (said.fired, said.rules[0].rule) == (2, "runs")
    assert said.outcomes[2].lines[0].sentence == "c: failed; 1 of 1 cases wrong or failed, at most 0."


def test_a_gate_with_nothing_to_judge_is_undecided() -> None:
    """No case of the rule's phases, or of its arm: every run says so, and so does the whole."""
    rows = [r | {"phase": "prefill"} for r in ratios([1.0] * 4)]
    said = dry(rows, gate=FAILURES)
    assert set(answers(said.outcomes)) == {Answer.UNDECIDED}
    assert said.idle == 4
    assert said.sentence.startswith("Undecided at all 4 runs. Nothing to judge: the gate concerns cases of decode")
    assert dry([]).sentence == "Nothing to judge: no run in this span."


def test_few_runs_are_undecided() -> None:
    """Before the least number of runs there is no answer, from there on there is one."""
    assert answers(gate_outcomes(GATE, ratios([1.0] * 8)))[:3] == [Answer.UNDECIDED] * 3
    assert answers(gate_outcomes(GATE, ratios([1.0] * 12)))[-1] is Answer.PASSED


@pytest.mark.parametrize("until", [5, 24, 33, 47, 70, 89])
def test_one_run_is_answered_as_in_the_walk_over_all(until: int) -> None:
    """Runs that nobody asks about are passed over quickly, and leave the same reference."""
    levels = [1.0] * 20 + [1.1] * 8 + [1.0] * 10 + [1.15] + [1.0] * 20 + [1.0 + 0.003 * n for n in range(31)]
    rows = ratios(levels, noise=0.012)
    whole = {outcome.run_id: outcome for outcome in gate_outcomes(GATE, rows)}
    (alone,) = gate_outcomes(GATE, rows, until=f"r{until:03d}")
    assert alone == whole[alone.run_id]
