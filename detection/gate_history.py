"""A gate over the runs of a device, oldest first: what it says of each, against the runs before it.

A series that fails is held against what was before it failed, until it passes again: a slower kernel does not become
the new normal by waiting. Where a person accepted a change (a moved baseline, an expected finding) its history begins
anew.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import zip_longest
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
    nothing_to_judge,
    whole_answer,
)
from detection.gate_rules import check_rule, is_within
from detection.old_reference import ANCHOR

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
TAILS = (GateMetric.LATENCY_P95, GateMetric.LATENCY_P99)
TIMES = frozenset({"latency", "latency_p99", "latency_ratio", "flop_rate", "bandwidth"})
FINDING_METRICS = {
    GateMetric.PEAK_MEMORY: frozenset({"peak_memory"}),
    GateMetric.ERROR: frozenset({"error"}),
    GateMetric.FAILURES: frozenset({"status"}),
}
"""Metrics of findings and of moved baselines that are about what a rule looks at; of all others `TIMES`."""
WITNESS = "naive"
ODD_RUNS = 2
"""Runs in a row beyond the limit that are still noise of the series once it is back, and no change that was mended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOutcome:
    """What a gate says of one run."""

    run_id: str
    answer: Answer
    lines: tuple[GateLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A change of a series that somebody accepted: its baseline begins with a run."""

    subject_id: str
    metric: str
    since: datetime
    """When that run started."""
    said_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """One run of a series."""

    at: datetime
    value: float
    witness: float


@dataclass(slots=True)
class _Track:
    """What a rule holds a series against."""

    past: deque[_Seen]
    first: list[_Seen] = field(default_factory=list)
    """The oldest runs of the present baseline."""
    held: list[_Seen] = field(default_factory=list)
    """Runs since the series is beyond the limit, which are no reference."""

    def restart(self, since: datetime) -> None:
        """Lets the baseline begin with a run; what was held aside since then is in it."""
        kept = [seen for seen in (*self.past, *self.held) if seen.at >= since]
        self.past.clear()
        self.first.clear()
        self.held.clear()
        self._take(kept)

    def add(self, seen: _Seen, line: GateLine | None) -> None:
        """Takes in a run by what was said of it; None: it is within the limit, and so was what was before it.

        What was beyond the limit for longer than a moment stays out.
        """
        if line is not None and (line.beyond or (self.held and line.answer is not Answer.PASSED)):
            self.held.append(seen)
        else:
            self._take([*(self.held if len(self.held) <= ODD_RUNS else ()), seen])
            self.held.clear()

    def oldest(self) -> list[_Seen]:
        """The first runs, once some of them are no longer in `past`."""
        return self.first if self.past and self.first[0].at < self.past[0].at else []

    def _take(self, runs: Sequence[_Seen]) -> None:
        self.first.extend(runs[: max(ANCHOR - len(self.first), 0)])
        self.past.extend(runs)


def gate_arms(gate: GatePolicy) -> list[str]:
    """The arms whose rows the rules read."""
    return sorted({rule.arm for rule in gate.rules} | {"optimized", WITNESS})


def finding_metrics(metric: GateMetric) -> frozenset[str]:
    """The metrics of findings, and of moved baselines, that are about what a rule looks at."""
    return FINDING_METRICS.get(metric, TIMES)


def gate_outcomes(
    gate: GatePolicy,
    rows: Iterable[Row],
    *,
    accepted: Iterable[Accepted] = (),
    until: str | None = None,
) -> list[GateOutcome]:
    """What the gate says of the runs of one device, each against the runs before it.

    `rows` are results with their columns' names, runs oldest first. With `until` of that run alone, for which all that
    was accepted counts; for others what had been accepted before they started. Rules over loss curves are left out:
    runs keep none.
    """
    by_run: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_run[row["run_id"]].append(row)
    rules = [rule for rule in gate.rules if rule.metric not in CURVE_METRICS]
    tracks: dict[tuple[str, str], _Track] = defaultdict(lambda: _Track(past=deque(maxlen=gate.history_runs)))
    acts = sorted(accepted, key=lambda act: act.said_at)
    outcomes: list[GateOutcome] = []
    for run_id, own in by_run.items():
        at, last = own[0]["started_at"], run_id == until
        due = [act for act in acts if last or act.said_at <= at]
        acts = [act for act in acts if act not in due]
        _restart(tracks, rules, due)
        asked = last or until is None
        lines = [line for rule in rules for line in _lines(gate, rule, own, tracks, at, asked=asked)]
        if not asked:
            continue
        if not lines:
            lines = [nothing_to_judge(gate, (row["phase"] or "without phase" for row in own))]
        outcomes.append(GateOutcome(run_id=run_id, answer=whole_answer(lines), lines=tuple(lines)))
        if last:
            break
    return outcomes


def _restart(tracks: Mapping[tuple[str, str], _Track], rules: Sequence[GateRule], acts: Sequence[Accepted]) -> None:
    for act in acts:
        for rule in rules:
            track = tracks.get((rule.name, act.subject_id))
            if track is not None and act.metric in finding_metrics(rule.metric):
                track.restart(act.since)


def _lines(
    gate: GatePolicy,
    rule: GateRule,
    rows: Sequence[Row],
    tracks: Mapping[tuple[str, str], _Track],
    at: datetime,
    *,
    asked: bool,
) -> list[GateLine]:
    """The lines of a rule for a run, whose values the tracks take in; of a run that nobody asks about perhaps none."""
    if not asked and rule.against is not Against.HISTORY:
        return []
    own = [row for row in rows if row["arm"] == rule.arm and (not rule.phases or (row["phase"] or "") in rule.phases)]
    if rule.metric is GateMetric.FAILURES:
        return _failures(rule, own)
    own = [row for row in own if row["status"] != "skipped"]
    vendor = {row["case_id"]: _value(row, rule.metric) for row in rows if row["arm"] == "optimized"}
    witnessed = rule.metric is GateMetric.LATENCY_RATIO and rule.arm != WITNESS
    naive = {row["case_id"]: _value(row, rule.metric) for row in rows if witnessed and row["arm"] == WITNESS}
    history = rule.against is Against.HISTORY
    cases = []
    for row in own:
        track = tracks[rule.name, row["subject_id"]] if history else _Track(past=deque())
        first = track.oldest()
        cases.append(
            GateCase(
                case_id=row["case_id"],
                phase=row["phase"] or "",
                value=_value(row, rule.metric),
                samples=int(row["n"]),
                history=tuple(seen.value for seen in track.past),
                subject_id=row["subject_id"],
                optimized=vendor.get(row["case_id"], math.nan),
                missing=_missing(row, rule.metric),
                held=len(track.held),
                processes=int(row["ratio_processes"] or 0),
                low=_number(row["ratio_optimized_low"]),
                high=_number(row["ratio_optimized_high"]),
                witness=naive.get(row["case_id"], math.nan),
                witness_history=tuple(seen.witness for seen in track.past) if witnessed else (),
                first=tuple(seen.value for seen in first),
                witness_first=tuple(seen.witness for seen in first) if witnessed else (),
            )
        )
    quiet = not asked and all(not tracks[rule.name, c.subject_id].held and is_within(rule, c) for c in cases)
    lines = [] if quiet else check_rule(rule, cases, false_discovery_rate=gate.false_discovery_rate)
    for case, line in zip_longest(cases, lines):
        if history and math.isfinite(case.value):
            seen = _Seen(at=at, value=case.value, witness=case.witness)
            tracks[rule.name, case.subject_id].add(seen, line)
    return lines


def _failures(rule: GateRule, rows: Sequence[Row]) -> list[GateLine]:
    """A line for each wrong or failed case where they are too many, else one for all; none where there is no case."""
    bad = [row for row in rows if row["status"] in ("wrong", "failed")]
    words = f"{len(bad)} of {len(rows)} cases wrong or failed, at most {rule.at_most:g}."
    if len(bad) <= rule.at_most:
        line = GateLine(rule=rule.name, case_id="all cases", answer=Answer.PASSED, sentence=words)
        return [line] if rows else []
    return [
        GateLine(
            rule=rule.name,
            case_id=row["case_id"],
            answer=Answer.FAILED,
            sentence=f"{row['case_id']}: {row['status']}; {words}",
            subject_id=row["subject_id"],
        )
        for row in bad
    ]


def _value(row: Row, metric: GateMetric) -> float:
    """NaN where the row is no evidence; a percentile only from single calls."""
    value = row[_COLUMN[metric]] if row["status"] == "measured" else None
    if value is None or (metric in TAILS and row["latency_basis"] != "single"):
        return math.nan
    return float(value)


def _missing(row: Row, metric: GateMetric) -> str:
    """Why a row has no value, where it has none."""
    if row["status"] != "measured":
        return str(row["status"])
    if metric in TAILS and row["latency_basis"] not in (None, "single"):
        return f"its times are {row['latency_basis']}, a percentile needs single calls"
    return ""


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
