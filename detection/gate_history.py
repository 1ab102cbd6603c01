"""A gate over past runs: what it would have said of each, how often it would have fired, and was it right?"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from detection.gate import (
    CURVE_METRICS,
    Against,
    Answer,
    GateCase,
    GateLine,
    GateMetric,
    GatePolicy,
    GateRule,
    check_rule,
    whole_answer,
)

Row = Mapping[str, Any]

_COLUMN = {
    GateMetric.LATENCY_P50: "latency_p50_s",
    GateMetric.LATENCY_P95: "latency_p95_s",
    GateMetric.LATENCY_P99: "latency_p99_s",
    GateMetric.LATENCY_RATIO: "ratio_optimized",
    GateMetric.THROUGHPUT: "flop_per_s",
    GateMetric.PEAK_MEMORY: "peak_memory_bytes",
    GateMetric.ERROR: "error_margin",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOutcome:
    """What a gate says of one run."""

    run_id: str
    answer: Answer
    lines: tuple[GateLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """What a gate would have said over a history."""

    outcomes: tuple[GateOutcome, ...]
    fired: int
    confirmed: int
    """Of the runs at which it fired anew, those where a finding that was confirmed begins."""
    days: int

    @property
    def sentence(self) -> str:
        """In words."""
        undecided = sum(o.answer is Answer.UNDECIDED for o in self.outcomes)
        return (
            f"Would have fired {self.fired} times in {self.days} days over {len(self.outcomes)} runs, "
            f"{self.confirmed} confirmed; undecided at {undecided} runs."
        )


def fold_dry_run(
    outcomes: Sequence[GateOutcome], *, unit_of: Mapping[str, str | None], confirmed: Set[str], days: int
) -> DryRun:
    """Counts the runs at which the gate fires anew: a case and rule that failed the time before do not fire again.

    `unit_of` names the device of a run, `confirmed` the runs with which a confirmed finding begins.
    """
    fired: list[str] = []
    failing: dict[str | None, set[tuple[str, str]]] = defaultdict(set)
    for outcome in outcomes:
        unit = unit_of[outcome.run_id]
        now = {(line.rule, line.case_id) for line in outcome.lines if line.answer is Answer.FAILED}
        if now - failing[unit]:
            fired.append(outcome.run_id)
        failing[unit] = now
    return DryRun(outcomes=tuple(outcomes), fired=len(fired), confirmed=len(confirmed & set(fired)), days=days)


def gate_arms(gate: GatePolicy) -> list[str]:
    """The arms whose rows the rules read."""
    return sorted({rule.arm for rule in gate.rules} | {"optimized"})


def gate_outcomes(gate: GatePolicy, rows: Iterable[Row], wanted: Set[str] | None = None) -> list[GateOutcome]:
    """What the gate says of the `wanted` runs (None: of all) of one device, each against the runs before it.

    `rows` are results with their columns' names, runs oldest first. Rules over loss curves are left out: runs
    keep none.
    """
    by_run: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_run[row["run_id"]].append(row)
    history: dict[tuple[str, GateMetric], list[float]] = defaultdict(list)
    outcomes = []
    for run_id, own in by_run.items():
        if wanted is None or run_id in wanted:
            rules = [rule for rule in gate.rules if rule.metric not in CURVE_METRICS]
            lines = [line for rule in rules for line in _lines(rule, own, history)]
            outcomes.append(GateOutcome(run_id=run_id, answer=whole_answer(lines), lines=tuple(lines)))
        for row in own:
            for metric in _COLUMN:
                history[row["subject_id"], metric].append(_value(row, metric))
    return outcomes


def _lines(
    rule: GateRule, rows: Sequence[Row], history: Mapping[tuple[str, GateMetric], list[float]]
) -> list[GateLine]:
    own = [row for row in rows if row["arm"] == rule.arm]
    if rule.metric is GateMetric.FAILURES:
        bad = [row["case_id"] for row in own if row["status"] in ("wrong", "failed")]
        case = GateCase(case_id=", ".join(bad) or "all cases", phase="", value=len(bad), samples=len(own), history=())
        return list(
            check_rule(
                GateRule(name=rule.name, metric=rule.metric, against=Against.LIMIT, at_most=rule.at_most), [case]
            )
        )
    vendor = {row["case_id"]: _value(row, rule.metric) for row in rows if row["arm"] == "optimized"}
    cases = [
        GateCase(
            case_id=row["case_id"],
            phase=row["phase"] or "",
            value=_value(row, rule.metric),
            samples=int(row["n"]),
            history=tuple(history[row["subject_id"], rule.metric]),
            optimized=vendor.get(row["case_id"], math.nan),
        )
        for row in own
        if row["status"] not in ("skipped",)
    ]
    return list(check_rule(rule, cases))


def _value(row: Row, metric: GateMetric) -> float:
    """NaN where the row is no evidence; a percentile only from single calls."""
    value = row[_COLUMN[metric]] if row["status"] == "measured" else None
    tail = metric in (GateMetric.LATENCY_P95, GateMetric.LATENCY_P99)
    if value is None or (tail and row["latency_basis"] != "single"):
        return math.nan
    return float(value)
