"""What the sentinel says of a run: the pairs of the night, a changed toolchain, and the cause of what moved."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from collector.host.history import RunFacts, Subject, UnitHistory
from collector.host.run_verdicts import RunVerdicts, SubjectVerdict
from detection.classify import Cause, Difference, alternatives
from detection.findings import EventKind, FindingEvent, Tile, finite, make_event
from detection.pairs import judge_pair
from detection.policy import Policy
from detection.sentinel import (
    REFUSED,
    PairedChange,
    answer,
    at_planned_change,
    cause_with_pair,
    changed_fields,
    frozen_of,
    paired_change,
    toolchain_of,
    words_of,
)
from detection.verdict import UNPAIRED, Metric, Tier, Verdict, VerdictStatus, percent
from store.lake.lake import Lake

Floats = NDArray[np.float64]
Key = tuple[str, str]
"""Case and arm of the normal environment."""

MOST_NIGHTS = 60
"""Nights before a place that are looked at."""
_PAIRED = """
    results s JOIN results n
      ON n.run_id = s.run_id AND n.case_id = s.case_id AND 'sentinel:' || n.arm = s.arm AND n.settings = s.settings
    WHERE s.run_id IN (SELECT unnest($runs)) AND n.run_id IN (SELECT unnest($runs))
      AND s.role = 'sentinel' AND s.status = 'measured' AND n.status = 'measured'
    ORDER BY n.case_id, n.arm, n.run_id
"""
_TONIGHT = f"SELECT n.case_id, n.arm, n.time_processes_s AS own, s.time_processes_s AS frozen FROM {_PAIRED}"  # noqa: S608


def _mean_log(times: str) -> str:
    return f"list_avg(list_transform(list_filter({times}, lambda t: t > 0), lambda t: ln(t)))"


def _mean(ratios: str) -> str:
    return f"list_avg(list_filter({ratios}, lambda t: isfinite(t)))"


_LEVELS = f"""
    SELECT n.run_id, n.case_id, n.arm, {_mean_log("n.time_processes_s")} AS own,
           {_mean_log("s.time_processes_s")} AS frozen,
           {_mean("n.log_ratio_optimized_processes")} AS own_ratio,
           {_mean("s.log_ratio_optimized_processes")} AS frozen_ratio
    FROM {_PAIRED}
"""  # noqa: S608


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Levels:
    """Mean log levels of every pair over some nights [keys, runs]; NaN where a run has no pair."""

    keys: tuple[Key, ...]
    own: Floats
    """Of the times in the normal environment."""
    frozen: Floats
    own_ratio: Floats
    """Of the ratios to the optimized arm."""
    frozen_ratio: Floats


@dataclass(slots=True, kw_only=True, eq=False)
class Beside:
    """A run with a sentinel, and the nights before it that had the same one."""

    lake: Lake
    runs: tuple[RunFacts, ...]
    """Oldest first, the run itself last."""
    _levels: Levels | None = None

    def first_alike(self, start: int) -> int:
        """The first of the runs that may be compared with those from `start` on: under one toolchain before it."""
        chain = toolchain_of(self.runs[start - 1].environment)
        first = start
        while first > max(0, start - MOST_NIGHTS) and toolchain_of(self.runs[first - 1].environment) == chain:
            first -= 1
        return first

    def new_toolchain(self) -> tuple[Difference, ...]:
        """What of the normal environment's toolchain is new in the run, against the night before it."""
        if len(self.runs) < 2:
            return ()
        before, after = (toolchain_of(run.environment) for run in self.runs[-2:])
        return changed_fields(before, after)

    def tonight(self) -> dict[Key, list[float]]:
        """log(normal / sentinel) of each replicate of the run."""
        rows = self.lake.sql(_TONIGHT, {"runs": [self.runs[-1].run_id]}).to_pylist()
        return {(row["case_id"], row["arm"]): paired_logs(row["own"], row["frozen"]) for row in rows}

    def levels(self) -> Levels:
        """Of all the nights: read once, and only where something is asked of them."""
        if self._levels is None:
            self._levels = self._read_levels()
        return self._levels

    def _read_levels(self) -> Levels:
        table = self.lake.sql(_LEVELS, {"runs": [run.run_id for run in self.runs]})
        named = list(zip(table["case_id"].to_pylist(), table["arm"].to_pylist(), strict=True))
        rows = {key: i for i, key in enumerate(dict.fromkeys(named))}
        columns = {run.run_id: i for i, run in enumerate(self.runs)}
        at = [rows[key] for key in named], [columns[run_id] for run_id in table["run_id"].to_pylist()]
        found = {}
        for name in ("own", "frozen", "own_ratio", "frozen_ratio"):
            found[name] = np.full((len(rows), len(columns)), np.nan)
            found[name][at] = np.array(table[name].to_numpy(), dtype=float)
        return Levels(keys=tuple(rows), **found)


def beside(lake: Lake, history: UnitHistory, column: int) -> Beside | None:
    """The run at `column` with the earlier nights of the same sentinel; None where it has none."""
    frozen = frozen_of(history.runs[column].environment)
    if not frozen:
        return None
    earlier = [r for r in history.runs[:column] if r.kind != "confirm" and frozen_of(r.environment) == frozen]
    return Beside(lake=lake, runs=(*earlier[-2 * MOST_NIGHTS :], history.runs[column]))


def paired_logs(own: Sequence[float] | None, frozen: Sequence[float] | None) -> list[float]:
    """log(normal / sentinel), replicate by replicate; against the sentinel's mean where one of them lacks some."""
    mine, other = ([math.log(v) for v in values or [] if v > 0] for values in (own, frozen))
    if not other:
        return []
    same = other if len(other) == len(mine) else [sum(other) / len(other)] * len(mine)
    return [a - b for a, b in zip(mine, same, strict=True)]


def pair_verdicts(pairs: Beside, history: UnitHistory, policy: Policy) -> list[SubjectVerdict]:
    """Each series against the same one in the sentinel, in this run; and where the toolchain is new, against before."""
    run, subjects = pairs.runs[-1], {(s.case_id, s.arm): s for s in history.subjects}
    tonight = pairs.tonight()
    said = [
        _said(subjects[key], judge_pair(logs, "the sentinel", policy=policy, device_kind=run.device_kind), Tier.IN_RUN)
        for key, logs in tonight.items()
    ]
    changed = pairs.new_toolchain()
    if changed:
        levels, start = pairs.levels(), len(pairs.runs) - 1
        first = pairs.first_alike(start)
        verdicts = at_planned_change(
            levels.own[:, first:],
            levels.frozen[:, first:],
            start - first,
            floor=policy.floor(Metric.LATENCY, run.device_kind),
            what=words_of(changed),
            policy=policy,
        )
        judged = [(key, v) for key, v in zip(levels.keys, verdicts, strict=True) if key in tonight]
        said += [_said(subjects[key], verdict, Tier.TONIGHT) for key, verdict in judged]
    return said


def _said(subject: Subject, verdict: Verdict, tier: Tier) -> SubjectVerdict:
    return SubjectVerdict(subject=subject, metric=Metric.LATENCY, verdict=verdict, tier=tier, against="sentinel")


def sentinel_notices(
    pairs: Beside | None, said: Sequence[SubjectVerdict], history: UnitHistory, column: int
) -> list[str]:
    """What concerns the whole run: a sentinel that is none any more, or what a new toolchain did."""
    run = history.runs[column]
    if run.environment.get(REFUSED):
        return [f"{run.run_id}: the sentinel took no part: {run.environment[REFUSED]}"]
    if pairs is None:
        return []
    notices = []
    earlier = [frozen_of(r.environment) for r in history.runs[:column] if r.kind != "confirm"]
    before = next((found for found in reversed(earlier) if found), None)
    own = changed_fields(before, frozen_of(run.environment)) if before else ()
    if own:
        words = f"the sentinel's own environment changed ({words_of(own)}): a sentinel that moves is none"
        notices.append(f"{run.run_id}: {words}; its history begins anew, nights before are not compared with.")
    planned = [v for v in said if v.tier is Tier.TONIGHT]
    if planned:
        moved = [v for v in planned if v.verdict.status in (VerdictStatus.REGRESSED, VerdictStatus.IMPROVED)]
        moved.sort(key=lambda v: -abs(v.verdict.change or 0.0))
        shown = ", ".join(
            f"{v.subject.case_id} {v.subject.arm} {percent(v.verdict.change or 0.0, signed=True)}" for v in moved[:3]
        )
        what = words_of(pairs.new_toolchain())
        notices.append(
            f"{run.run_id}: {what}: {len(moved)} of {len(planned)} series moved beside the sentinel"
            f"{': ' + shown if shown else ''}."
        )
    return notices


def with_sentinel(
    event: FindingEvent, pairs: Beside | None, judged: RunVerdicts, history: UnitHistory, policy: Policy
) -> FindingEvent:
    """The event with its cause reconsidered by the pair with the sentinel. Only where the finding begins."""
    facts = event.facts
    if pairs is None or event.event not in (EventKind.SUSPECTED, EventKind.REOPENED) or not facts.change:
        return event
    found = _change_beside(event, pairs, history, policy)
    if found is None:
        return event
    said = answer(found, facts.change)
    cause = Cause(finding_class=facts.finding_class, sentence=facts.cause)
    cause, left = cause_with_pair(cause, facts.differing, found, said)
    same = [v for v in judged.verdicts if v.metric is facts.metric]
    moved, measured = ({v.subject.operator for v in same if v.moved}, {v.subject.operator for v in same})
    tile = Tile(
        label="Beside the sentinel",
        change=finite(found.pair.change),
        low=finite(found.pair.low),
        high=finite(found.pair.high),
        words=f"against a frozen environment, same device and nights; {found.nights} nights before",
    )
    changed = replace(
        facts,
        finding_class=cause.finding_class,
        cause=cause.sentence,
        evidence=replace(
            facts.evidence,
            tiles=(*facts.evidence.tiles[:1], tile, *facts.evidence.tiles[1:]),  # a page shows the first four
            other_causes=alternatives(cause, left, moved=len(moved), measured=len(measured)),
        ),
    )
    return make_event(
        event.event, changed, at=event.at, as_of_seq=event.as_of_seq, run_id=event.run_id, actor=event.actor
    )


def _change_beside(event: FindingEvent, pairs: Beside, history: UnitHistory, policy: Policy) -> PairedChange | None:
    """What the finding's series did beside the sentinel since the finding began; None where that is not known."""
    facts = event.facts
    of_ratio = facts.metric is Metric.LATENCY_RATIO and facts.arm != "optimized"
    if facts.metric is not Metric.LATENCY_RATIO and facts.metric not in UNPAIRED:
        return None
    arms = {(m.case_id, m.arm) for m in facts.evidence.members}
    if facts.metric is Metric.LATENCY_RATIO and not of_ratio:  # the denominator moved, not what was divided by it
        arms = {(case_id, "optimized") for case_id, _ in arms}
    since = history.column(facts.since_run_id)
    later = {run.run_id for run in history.runs[since:]}
    start = next((i for i, run in enumerate(pairs.runs) if run.run_id in later), None)
    if not start:
        return None
    levels = pairs.levels()
    rows = [i for i, key in enumerate(levels.keys) if key in arms]
    if not rows:
        return None
    first = pairs.first_alike(start)
    own, frozen = (levels.own_ratio, levels.frozen_ratio) if of_ratio else (levels.own, levels.frozen)
    return paired_change(own[rows, first:], frozen[rows, first:], start - first, policy)
