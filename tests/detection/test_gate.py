"""Gates answer from enough, and say undecided below it."""

from __future__ import annotations

import numpy as np
import pytest

from collector.host.gates import load_gate
from detection.gate import Against, Answer, GateCase, GateMetric, GateRule, check_rule, gate_from_mapping, whole_answer
from detection.policy import PolicyError


def rule(metric: GateMetric = GateMetric.LATENCY_P50, at_most: float = 0.05, **fields: object) -> GateRule:
    values = {"name": "r", "metric": metric, "against": Against.HISTORY, "at_most": at_most, "minimum_runs": 5}
    return GateRule(**values | fields)  # type: ignore[arg-type]


def case(value: float, *, samples: int = 500, noise: float = 0.01, runs: int = 20, phase: str = "decode") -> GateCase:
    history = np.exp(np.random.default_rng(1).normal(0, noise, runs))
    return GateCase(case_id="c", phase=phase, value=value, samples=samples, history=tuple(history))


def answer(one: GateRule, of: GateCase) -> Answer:
    (line,) = check_rule(one, [of])
    return line.answer


@pytest.mark.parametrize("samples", [9, 59, 299])
def test_a31_a_percentile_of_few_samples_is_no_answer(samples: int) -> None:
    """p95 of nine samples is their maximum: not enough samples, whatever the value; the needed number is said."""
    (line,) = check_rule(rule(GateMetric.LATENCY_P99, 0.1), [case(9.9, samples=samples)])
    assert line.answer is Answer.UNDECIDED
    assert f"not enough samples, latency_p99 of {samples}; 300 are needed" in line.sentence


def test_beyond_the_limit_and_the_spread_fails() -> None:
    """+10 % fails in a quiet series, is undecided in one that scatters by as much, and +3 % passes in both."""
    assert answer(rule(), case(1.1)) is Answer.FAILED
    assert answer(rule(), case(1.1, noise=0.1)) is Answer.UNDECIDED
    assert answer(rule(), case(1.03)) is Answer.PASSED
    assert answer(rule(), case(1.1, runs=4)) is Answer.UNDECIDED


def test_throughput_is_worse_when_smaller() -> None:
    """10 % less throughput fails, 10 % more passes."""
    assert answer(rule(GateMetric.THROUGHPUT), case(0.9)) is Answer.FAILED
    assert answer(rule(GateMetric.THROUGHPUT), case(1.1)) is Answer.PASSED


def test_rules_concern_their_phases_and_nothing_is_not_green() -> None:
    """A rule for prefill says nothing of decode; a gate that matched nothing is undecided."""
    lines = check_rule(rule(phases=("prefill",)), [case(2.0)])
    assert lines == ()
    assert whole_answer(lines) is Answer.UNDECIDED


def test_shipped_gates_load() -> None:
    """Both files that come along are right."""
    assert {load_gate(name).name for name in ("inference", "training")} == {"inference", "training"}


@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        ({"name": "g", "version": "1"}, "has no"),
        ({"name": "g", "version": "1", "rule": [{"name": "a"}]}, "rule 1: metric is missing"),
        ({"name": "g", "version": "1", "rules": []}, "unknown key 'rules'"),
        (
            {"name": "g", "version": "1", "rule": [{"name": "a", "metric": "p50", "against": "history", "at_most": 1}]},
            "metric is 'p50'",
        ),
        (
            {
                "name": "g",
                "version": "1",
                "rule": [{"name": "a", "metric": "error", "against": "limit", "at_most": -1}],
            },
            "at_most is -1, must be >= 0",
        ),
    ],
)
def test_a_wrong_gate_says_where(mapping: dict[str, object], words: str) -> None:
    """One line with file, rule and key."""
    with pytest.raises(PolicyError, match=words):
        gate_from_mapping(mapping, "g.toml")
