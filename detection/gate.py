"""Gates: may this go out? Rules with limits and with the least numbers below which they do not answer.

A gate never guesses: a percentile of nine samples is their maximum, and a change against three runs is a change against
luck, so each rule states how much it needs, and says `undecided` below it. detection.gate_rules answers them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from detection.policy import PolicyError


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
    at_least: float = 0
    """Against history: a smaller increase, in the metric's unit, is within the limit whatever its share."""
    phases: tuple[str, ...] = ()
    """Phases that it concerns; empty: all."""
    arm: str = "candidate"
    minimum_samples: int = 0
    minimum_runs: int = 5
    minimum_processes: int = 0
    """Of a paired ratio: fewest processes of the run, each of which gives one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatePolicy:
    """A named and versioned set of rules."""

    name: str
    version: str
    rules: tuple[GateRule, ...] = field(default=())
    history_runs: int = 60
    """The newest earlier runs that a change is held against."""
    false_discovery_rate: float = 0.05
    """Share of the cases that a rule fails in a run which may be chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateCase:
    """What a rule needs of one case; values in natural units, NaN where there is none."""

    case_id: str
    phase: str
    value: float
    samples: int
    history: tuple[float, ...]
    """Earlier runs of the present baseline, oldest first; NaN where one has none."""
    subject_id: str = ""
    optimized: float = math.nan
    """The optimized arm's value of the same run."""
    missing: str = ""
    """Why there is no value."""
    held: int = 0
    """Earlier runs, the newest, since the series went beyond the limit; they are not in `history`."""
    processes: int = 0
    """Of a paired ratio: how many processes it is of."""
    low: float = math.nan
    high: float = math.nan
    """Of a paired ratio: the ends of its 95 % interval over the processes of the run."""
    witness: float = math.nan
    """Of a paired ratio: the naive arm's in the same run, which rises with it where the optimized arm moved."""
    witness_history: tuple[float, ...] = ()
    """The witness in the runs of `history`."""
    first: tuple[float, ...] = ()
    """The oldest runs of the present baseline, where they are no longer in `history`."""
    witness_first: tuple[float, ...] = ()
    """The witness in these runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateLine:
    """What a rule says of one case."""

    rule: str
    case_id: str
    answer: Answer
    sentence: str
    subject_id: str = ""
    """The series; empty where the line is of the whole run or of curves."""
    beyond: bool = False
    """Whether the value itself is beyond the limit, whatever its interval says: such a run is no reference."""


def nothing_to_judge(gate: GatePolicy, phases: Iterable[str]) -> GateLine:
    """The line of a run with no case that a rule of the gate concerns; `phases` are those that the run has."""
    asked = sorted({phase for rule in gate.rules for phase in rule.phases})
    arms = " or ".join(sorted({rule.arm for rule in gate.rules}))
    concerns = f"cases of {' and '.join(asked)}" if asked else "cases"
    there = f"cases of {' and '.join(found)}" if (found := sorted(set(phases))) else "no case"
    words = (
        f"Nothing to judge: the gate concerns {concerns} (arm {arms}), and this run has {there}. "
        "Measure a suite with such cases, or ask about a run that has them."
    )
    return GateLine(rule="", case_id="", answer=Answer.UNDECIDED, sentence=words)


def whole_answer(lines: Sequence[GateLine]) -> Answer:
    """A gate fails when one rule fails, passes when all pass, and is undecided else, or where nothing matched."""
    answers = {line.answer for line in lines}
    if Answer.FAILED in answers:
        return Answer.FAILED
    return Answer.PASSED if answers == {Answer.PASSED} else Answer.UNDECIDED


def gate_from_mapping(mapping: Mapping[str, Any], where: str) -> GatePolicy:
    """A gate from a parsed file. Raises PolicyError naming `where` and the key."""
    known = ("name", "version", "history_runs", "false_discovery_rate", "rule")
    unknown = sorted(set(mapping) - set(known))
    if unknown:
        raise PolicyError(f"{where}: unknown key {unknown[0]!r}, must be one of {', '.join(known)}")
    for key in ("name", "version"):
        if not isinstance(mapping.get(key), str) or not mapping[key]:
            raise PolicyError(f"{where}: {key} is {mapping.get(key)!r}, must be a text that is not empty")
    runs, rate = mapping.get("history_runs", 60), mapping.get("false_discovery_rate", 0.05)
    if not isinstance(runs, int) or isinstance(runs, bool) or runs < 2:
        raise PolicyError(f"{where}: history_runs is {runs!r}, must be a whole number from 2 on")
    if not isinstance(rate, float) or not 0 < rate < 1:
        raise PolicyError(f"{where}: false_discovery_rate is {rate!r}, must be in (0, 1)")
    rules = mapping.get("rule", [])
    if not isinstance(rules, list) or not rules:
        raise PolicyError(f"{where}: has no [[rule]]; a gate without rules lets everything through")
    return GatePolicy(
        name=mapping["name"],
        version=mapping["version"],
        history_runs=runs,
        false_discovery_rate=rate,
        rules=tuple(_rule(rule, f"{where}: rule {i + 1}") for i, rule in enumerate(rules)),
    )


_KINDS: dict[str, type | tuple[type, ...]] = {
    "name": str,
    "metric": str,
    "against": str,
    "at_most": (int, float),
    "at_least": (int, float),
    "phases": list,
    "arm": str,
    "minimum_samples": int,
    "minimum_runs": int,
    "minimum_processes": int,
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
    for key in ("at_most", "at_least", "minimum_samples", "minimum_runs", "minimum_processes"):
        if mapping.get(key, 0) < 0:
            raise PolicyError(f"{where}: {key} is {mapping[key]}, must be >= 0")
    values = dict(mapping)
    values["phases"] = tuple(values.get("phases", ()))
    return GateRule(**values | {"metric": GateMetric(values["metric"]), "against": Against(values["against"])})
