"""Gates: may this go out? Rules with limits and with the least numbers below which they do not answer.

A gate never guesses: a percentile of nine samples is their maximum, and a change against three runs is a change against
luck, so each rule states how much it needs, and says `undecided` below it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from detection.policy import PolicyError
from detection.stats import MAD_TO_SD
from detection.verdict import percent


class GateMetric(StrEnum):
    """What a rule looks at; all are better when smaller, but throughput."""

    LATENCY_P50 = "latency_p50"
    LATENCY_P95 = "latency_p95"
    LATENCY_P99 = "latency_p99"
    LATENCY_RATIO = "latency_ratio"
    THROUGHPUT = "throughput"
    PEAK_MEMORY = "peak_memory"
    ERROR = "error"
    FAILURES = "failures"
    """Cases that are wrong or failed: the limit is a number of them."""
    CONVERGENCE = "convergence"
    """These three are of loss curves: see detection.gate_curves."""
    CHECKPOINT = "checkpoint"
    DETERMINISM = "determinism"


class Against(StrEnum):
    """What the value is held against."""

    HISTORY = "history"
    OPTIMIZED = "optimized"
    LIMIT = "limit"


class Answer(StrEnum):
    """What a rule says of a case, and a gate of a run."""

    PASSED = "passed"
    FAILED = "failed"
    UNDECIDED = "undecided"


CURVE_METRICS = frozenset({GateMetric.CONVERGENCE, GateMetric.CHECKPOINT, GateMetric.DETERMINISM})

LEAST_SAMPLES = {GateMetric.LATENCY_P95: 60, GateMetric.LATENCY_P99: 300}
"""Fewest single calls of a percentile: three samples beyond it are expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRule:
    """One line of a gate."""

    name: str
    metric: GateMetric
    against: Against
    at_most: float
    """Largest allowed increase, relative (of throughput: decrease); against `limit` the largest value."""
    phases: tuple[str, ...] = ()
    """Phases that it concerns; empty: all."""
    arm: str = "candidate"
    minimum_samples: int = 0
    minimum_runs: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class GatePolicy:
    """A named and versioned set of rules."""

    name: str
    version: str
    rules: tuple[GateRule, ...] = field(default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class GateCase:
    """What a rule needs of one case; values in natural units, NaN where there is none."""

    case_id: str
    phase: str
    value: float
    samples: int
    history: tuple[float, ...]
    """Earlier runs, oldest first."""
    optimized: float = math.nan
    """The optimized arm's value of the same run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateLine:
    """What a rule says of one case."""

    rule: str
    case_id: str
    answer: Answer
    sentence: str


def check_rule(rule: GateRule, cases: Sequence[GateCase]) -> tuple[GateLine, ...]:
    """The rule's answer for every case that it concerns."""
    return tuple(_check(rule, case) for case in cases if not rule.phases or case.phase in rule.phases)


def whole_answer(lines: Sequence[GateLine]) -> Answer:
    """A gate fails when one rule fails, passes when all pass, and is undecided else, or where nothing matched."""
    answers = {line.answer for line in lines}
    if Answer.FAILED in answers:
        return Answer.FAILED
    return Answer.PASSED if answers == {Answer.PASSED} else Answer.UNDECIDED


def _check(rule: GateRule, case: GateCase) -> GateLine:
    def line(answer: Answer, sentence: str) -> GateLine:
        return GateLine(rule=rule.name, case_id=case.case_id, answer=answer, sentence=sentence)

    needed = max(rule.minimum_samples, LEAST_SAMPLES.get(rule.metric, 0))
    if not math.isfinite(case.value) and not 0 < case.samples < needed:
        return line(Answer.UNDECIDED, f"{case.case_id} has no {rule.metric.value} in this run.")
    if case.samples < needed:
        words = f"{case.case_id}: not enough samples, {rule.metric.value} of {case.samples}; {needed} are needed."
        return line(Answer.UNDECIDED, words)
    if rule.against is Against.LIMIT:
        answer = Answer.PASSED if case.value <= rule.at_most else Answer.FAILED
        return line(answer, f"{case.case_id}: {rule.metric.value} is {case.value:.4g}, at most {rule.at_most:g}.")
    if rule.against is Against.OPTIMIZED:
        return line(*_against(rule, case, case.optimized, 0.0, "the optimized arm"))
    past = np.array([v for v in case.history if math.isfinite(v) and v > 0])
    if past.size < rule.minimum_runs:
        words = f"{case.case_id}: not enough history, {past.size} runs; {rule.minimum_runs} are needed."
        return line(Answer.UNDECIDED, words)
    logs = np.log(past)
    spread = 2 * MAD_TO_SD * float(np.median(np.abs(logs - np.median(logs))))
    return line(*_against(rule, case, float(np.exp(np.median(logs))), spread, f"{past.size} runs"))


def _against(rule: GateRule, case: GateCase, before: float, spread: float, words: str) -> tuple[Answer, str]:
    """Failed beyond the limit and beyond the usual spread; undecided beyond the limit but within the spread."""
    if not (math.isfinite(before) and before > 0) or case.value <= 0:
        return Answer.UNDECIDED, f"{case.case_id}: no ratio of {case.value:g} to {before:g}."
    change = math.log(case.value / before) * (-1 if rule.metric is GateMetric.THROUGHPUT else 1)
    sentence = (
        f"{case.case_id}: {rule.metric.value} {percent(math.expm1(change), signed=True)} against {words}, "
        f"at most {percent(rule.at_most, signed=True)}"
    )
    if change <= math.log1p(rule.at_most):
        return Answer.PASSED, f"{sentence}."
    if change <= spread:
        return Answer.UNDECIDED, f"{sentence}; within the usual spread of ± {percent(math.expm1(spread))}."
    return Answer.FAILED, f"{sentence}."


def gate_from_mapping(mapping: Mapping[str, Any], where: str) -> GatePolicy:
    """A gate from a parsed file. Raises PolicyError naming `where` and the key."""
    unknown = sorted(set(mapping) - {"name", "version", "rule"})
    if unknown:
        raise PolicyError(f"{where}: unknown key {unknown[0]!r}, must be one of name, version, rule")
    for key in ("name", "version"):
        if not isinstance(mapping.get(key), str) or not mapping[key]:
            raise PolicyError(f"{where}: {key} is {mapping.get(key)!r}, must be a text that is not empty")
    rules = mapping.get("rule", [])
    if not isinstance(rules, list) or not rules:
        raise PolicyError(f"{where}: has no [[rule]]; a gate without rules lets everything through")
    return GatePolicy(
        name=mapping["name"],
        version=mapping["version"],
        rules=tuple(_rule(rule, f"{where}: rule {i + 1}") for i, rule in enumerate(rules)),
    )


_KINDS: dict[str, type | tuple[type, ...]] = {
    "name": str,
    "metric": str,
    "against": str,
    "at_most": (int, float),
    "phases": list,
    "arm": str,
    "minimum_samples": int,
    "minimum_runs": int,
}


def _rule(mapping: Mapping[str, Any], where: str) -> GateRule:
    for key, value in mapping.items():
        if key not in _KINDS:
            raise PolicyError(f"{where}: unknown key {key!r}, must be one of {', '.join(_KINDS)}")
        if not isinstance(value, _KINDS[key]) or isinstance(value, bool):
            raise PolicyError(f"{where}: {key} is {value!r}, which has the wrong type")
    for key in ("name", "metric", "against", "at_most"):
        if key not in mapping:
            raise PolicyError(f"{where}: {key} is missing")
    if mapping["metric"] not in set(GateMetric):
        raise PolicyError(f"{where}: metric is {mapping['metric']!r}, must be one of {', '.join(GateMetric)}")
    if mapping["against"] not in set(Against):
        raise PolicyError(f"{where}: against is {mapping['against']!r}, must be one of {', '.join(Against)}")
    for key in ("at_most", "minimum_samples", "minimum_runs"):
        if mapping.get(key, 0) < 0:
            raise PolicyError(f"{where}: {key} is {mapping[key]}, must be >= 0")
    values = dict(mapping)
    values["phases"] = tuple(values.get("phases", ()))
    return GateRule(**values | {"metric": GateMetric(values["metric"]), "against": Against(values["against"])})
