"""A gate over past runs, counted: how often would it have fired, and was it right?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from detection.gate import Answer, GateLine, GateMetric, GatePolicy
from detection.gate_history import GateOutcome, finding_metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """A series over which a confirmed finding for the worse stands, and from when to when."""

    subject_id: str
    metric: str
    since: datetime
    until: datetime | None
    """When it was resolved; None while it stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRun:
    """A run that a gate is asked about."""

    run_id: str
    started_at: datetime
    device_unit: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleCount:
    """How often one rule fired anew, counted in runs."""

    rule: str
    fired: int
    confirmed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """What a gate would have said over a history."""

    outcomes: tuple[GateOutcome, ...]
    fired: int
    confirmed: int
    """Of the runs at which it fired anew, those where a confirmed finding covers a series that it failed."""
    days: int
    rules: tuple[RuleCount, ...] = ()
    """Of the rules that fired, most often first."""

    @property
    def idle(self) -> int:
        """Runs in which no rule concerned a case."""
        return sum(all(not line.rule for line in outcome.lines) for outcome in self.outcomes)

    @property
    def sentence(self) -> str:
        """In words."""
        runs = len(self.outcomes)
        if not runs:
            return "Nothing to judge: no run in this span."
        if self.idle == runs:
            return f"Undecided at all {runs} runs. {self.outcomes[-1].lines[0].sentence}"
        undecided = sum(o.answer is Answer.UNDECIDED for o in self.outcomes)
        nothing = f", {self.idle} of them with nothing to judge" if self.idle else ""
        return (
            f"Would have fired {self.fired} times in {self.days} days over {runs} runs, "
            f"{self.confirmed} confirmed; undecided at {undecided} runs{nothing}."
        )


def fold_dry_run(
    gate: GatePolicy, outcomes: Sequence[GateOutcome], *, runs: Iterable[GateRun], covered: Iterable[Covered]
) -> DryRun:
    """Counts the runs at which the gate fires anew: a case that failed a rule does not fire again before it passed.

    `runs` are those of the outcomes, with their devices.
    """
    known = {run.run_id: run for run in runs}
    standing: dict[str, list[Covered]] = defaultdict(list)
    for cover in covered:
        standing[cover.subject_id].append(cover)
    metrics = {rule.name: finding_metrics(rule.metric) for rule in gate.rules}
    of_the_run = {rule.name for rule in gate.rules if rule.metric is GateMetric.FAILURES}
    fired: dict[str, list[bool]] = defaultdict(list)
    whole: list[bool] = []
    failing: dict[tuple[str | None, str], set[str]] = defaultdict(set)
    for outcome in outcomes:
        run = known[outcome.run_id]
        for rule in of_the_run:  # it names those that fail and no others
            bad = {line.subject_id for line in outcome.lines if line.rule == rule and line.answer is Answer.FAILED}
            failing[run.device_unit, rule] &= bad
        right: dict[str, bool] = {}
        for line in outcome.lines:
            before = failing[run.device_unit, line.rule]
            key = line.subject_id or line.case_id
            if line.answer is Answer.PASSED:
                before.discard(key)
            elif line.answer is Answer.FAILED and key not in before:
                before.add(key)
                told = _is_covered(line, run.started_at, standing, metrics[line.rule])
                right[line.rule] = right.get(line.rule, False) or told
        for rule, told in right.items():
            fired[rule].append(told)
        if right:
            whole.append(any(right.values()))
    times = [run.started_at for run in known.values()]
    counts = (RuleCount(rule=rule, fired=len(told), confirmed=sum(told)) for rule, told in fired.items())
    return DryRun(
        outcomes=tuple(outcomes),
        fired=len(whole),
        confirmed=sum(whole),
        days=(max(times) - min(times)).days + 1 if times else 0,
        rules=tuple(sorted(counts, key=lambda count: (-count.fired, count.rule))),
    )


def _is_covered(
    line: GateLine, at: datetime, standing: Mapping[str, Sequence[Covered]], metrics: frozenset[str]
) -> bool:
    return any(
        cover.metric in metrics and cover.since <= at and (cover.until is None or at <= cover.until)
        for cover in standing.get(line.subject_id, ())
    )
