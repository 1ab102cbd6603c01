"""Gates from files, their answer as a whole, and a run that they say nothing of."""

from __future__ import annotations

import pytest

from collector.host.gates import load_gate
from detection.gate import Answer, GateLine, gate_from_mapping, nothing_to_judge, whole_answer
from detection.policy import PolicyError

RULE = {"name": "r", "metric": "latency_ratio", "against": "history", "at_most": 0.05, "minimum_processes": 3}


def line(answer: Answer) -> GateLine:
    return GateLine(rule="r", case_id="c", answer=answer, sentence="")


def test_one_failed_rule_fails_and_nothing_is_not_green() -> None:
    """Failed before undecided before passed; no line at all is undecided."""
    passed, failed, undecided = (line(a) for a in (Answer.PASSED, Answer.FAILED, Answer.UNDECIDED))
    assert whole_answer([passed, undecided, failed]) is Answer.FAILED
    assert whole_answer([passed, undecided]) is Answer.UNDECIDED
    assert whole_answer([passed]) is Answer.PASSED
    assert whole_answer([]) is Answer.UNDECIDED


def test_a_run_without_a_case_of_the_gate_is_told() -> None:
    """What the gate concerns, what the run has, and the way out, in one line that is undecided."""
    said = nothing_to_judge(load_gate("training"), ["decode", "prefill", "decode"])
    assert said.answer is Answer.UNDECIDED
    assert "concerns cases of post_training and training (arm candidate)" in said.sentence
    assert "this run has cases of decode and prefill. Measure a suite" in said.sentence


def test_a_gate_reads_its_numbers() -> None:
    """History and rate are the file's, and have defaults."""
    bare = gate_from_mapping({"name": "g", "version": "1", "rule": [RULE]}, "g.toml")
    assert (bare.history_runs, bare.false_discovery_rate, bare.rules[0].minimum_processes) == (60, 0.05, 3)
    told = {"name": "g", "version": "1", "history_runs": 20, "false_discovery_rate": 0.1, "rule": [RULE]}
    assert gate_from_mapping(told, "g.toml").history_runs == 20


def test_shipped_gates_load() -> None:
    """Both files that come along are right."""
    assert {load_gate(name).name for name in ("inference", "training")} == {"inference", "training"}


@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        ({"name": "g", "version": "1"}, "has no"),
        ({"name": "g", "version": "1", "rule": [{"name": "a"}]}, "rule 1: metric is missing"),
        ({"name": "g", "version": "1", "rules": []}, "unknown key 'rules'"),
        ({"name": "g", "version": "1", "history_runs": 1, "rule": [RULE]}, "history_runs is 1, must be"),
        ({"name": "g", "version": "1", "false_discovery_rate": 2.0, "rule": [RULE]}, "false_discovery_rate is 2.0"),
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
