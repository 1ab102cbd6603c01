"""The online detector over every series: its state is kept in the lake, so that a new night replays nothing.

Fed are paired ratios, and unpaired latencies where a case has no pair: one value a run, a gap where the row has none.
What it reports is located at an earlier run and measured anew there, before against after.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collector.host.history import Subject, UnitHistory, visible_columns
from collector.host.old_reference import old_reference_shifts
from collector.host.run_verdicts import RunVerdicts, SubjectVerdict
from collector.host.segments import Segments
from collector.host.shift import Shift, runs_words
from collector.host.shift_levels import name_two_levels_of_shifts
from detection.night_words import figure
from detection.online import Alert, DetectorError, OnlineDetector
from detection.planned import compare_at
from detection.policy import Policy
from detection.verdict import Metric, ReasonCode, Tier, Verdict, VerdictStatus, in_words, percent
from store.lake.lake import Lake

Key = tuple[str, str]

BEFORE_RUNS = 60
"""Runs before a located shift that it is measured against."""


class Watch:
    """All detectors of a store. `feed` judges one run; `save` writes the states back."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._stored: dict[Key, bytes] | None = None
        self._live: dict[Key, OnlineDetector] = {}
        self._as_of: dict[Key, int] = {}

    def feed(
        self,
        judged: RunVerdicts,
        history: UnitHistory,
        segments: Segments,
        policy: Policy,
    ) -> list[Shift]:
        """Feeds the run's values and returns the shifts that they reveal, open findings aside."""
        column = judged.column
        visible = visible_columns(history, column)
        found = []
        for row, metric in _watched(history, column):
            subject = history.subjects[row]
            key = subject.subject_id, metric.value
            value = float(history.metrics[metric].value[row, column])
            detector = self._detector(key)
            alert = detector.update(value if math.isfinite(value) else None)
            self._as_of[key] = judged.run.ingest_seq
            segment = segments.get((row, metric))
            if alert is None or (segment is not None and segment.finding_id is not None):
                continue
            usable = visible if segment is None else visible & segment.mask(visible.size)
            shift = _located(alert, history, row, metric, column, visible, usable, policy)
            if shift is not None:
                found.append(shift)
        known = {(shift.said.subject.subject_id, shift.said.metric) for shift in found}
        old = old_reference_shifts(judged, _watched(history, column), history, segments, policy)
        found += [s for s in old if (s.said.subject.subject_id, s.said.metric) not in known]
        return name_two_levels_of_shifts(self._lake, found, column, history, policy)

    def states_of(self, history: UnitHistory) -> dict[Key, bytes]:
        """The states of the detectors of a unit's series that were fed."""
        known = {subject.subject_id for subject in history.subjects}
        return {key: detector.to_state() for key, detector in self._live.items() if key[0] in known}

    def take(self, states: Mapping[Key, bytes], as_of_seq: int) -> None:
        """Goes on from where another, which was fed one run, has left these detectors."""
        for key, state in states.items():
            self._live[key] = OnlineDetector.from_state(state)
            self._as_of[key] = as_of_seq

    def save(self, as_of_seq: int) -> None:
        """Overwrites `detector_state` with every state, changed or not; nothing where nothing was fed."""
        if not self._live:
            return
        states = dict(self._states())
        states |= {key: detector.to_state() for key, detector in self._live.items()}
        rows: list[dict[str, Any]] = [
            {
                "subject_id": key[0],
                "metric": key[1],
                "as_of_seq": self._as_of.get(key, as_of_seq),
                "n": self._live[key].fed if key in self._live else OnlineDetector.from_state(state).fed,
                "state": state,
            }
            for key, state in sorted(states.items())
        ]
        self._lake.overwrite("detector_state", rows)

    def _states(self) -> dict[Key, bytes]:
        if self._stored is None:
            rows = self._lake.sql("SELECT subject_id, metric, as_of_seq, state FROM detector_state").to_pylist()
            self._stored = {(r["subject_id"], r["metric"]): r["state"] for r in rows}
            self._as_of |= {(r["subject_id"], r["metric"]): r["as_of_seq"] for r in rows}
        return self._stored

    def _detector(self, key: Key) -> OnlineDetector:
        live = self._live.get(key)
        if live is None:
            state = self._states().get(key)
            try:
                live = OnlineDetector() if state is None else OnlineDetector.from_state(state)
            except DetectorError:  # of another version: the series starts afresh, its history stays judged
                live = OnlineDetector()
            self._live[key] = live
        return live


def _watched(history: UnitHistory, column: int) -> list[tuple[int, Metric]]:
    """The series of a run that are fed: paired ratios, and latencies of cases without any."""
    ratio = history.metrics[Metric.LATENCY_RATIO].value
    rows = [i for i in range(len(history.subjects)) if history.status[i, column] is not None]
    compared = {
        history.subjects[i].case_id
        for i in rows
        if history.subjects[i].role != "optimized" and bool(np.isfinite(ratio[i, : column + 1]).any())
    }
    watched = []
    for row in rows:
        subject: Subject = history.subjects[row]
        if subject.case_id not in compared:
            watched.append((row, _unpaired_metric(history, row, column)))
        elif subject.role != "optimized":
            watched.append((row, Metric.LATENCY_RATIO))
    return watched


def _unpaired_metric(history: UnitHistory, row: int, column: int) -> Metric:
    """What a series without pairs states: a time, or else a rate."""
    for metric in (Metric.FLOP_RATE, Metric.BANDWIDTH):
        if bool(np.isfinite(history.metrics[metric].value[row, : column + 1]).any()):
            return metric
    return Metric.LATENCY


def _located(
    alert: Alert,
    history: UnitHistory,
    row: int,
    metric: Metric,
    column: int,
    visible: NDArray[np.bool_],
    usable: NDArray[np.bool_],
    policy: Policy,
) -> Shift | None:
    """The alert in terms of runs: `at - change` fed values ago is a column of the unit's history.

    Compared are the runs after with the `usable` ones before: not with those of a finding that is over, from which the
    series only came back.
    """
    fed = [int(c) for c in np.flatnonzero(visible) if history.status[row, c] is not None] + [column]
    back = alert.at - alert.change
    if back >= len(fed):
        return None
    start = len(fed) - 1 - back
    values = history.metrics[metric].value[row]
    before = np.array([[values[c] for c in fed[:start] if usable[c]][-BEFORE_RUNS:]])
    after = np.array([[values[c] for c in fed[start:]]])
    if before.size == 0:
        return None
    floor = policy.floor(metric, history.runs[column].device_kind)
    result = compare_at(before, after, floor=floor, policy=policy)
    change, low, high = (float(v[0]) for v in (result.change, result.low, result.high))
    if not math.isfinite(change) or change * alert.direction <= 0:
        return None
    status = VerdictStatus.REGRESSED if change > 0 else VerdictStatus.IMPROVED
    if abs(math.log1p(change)) <= math.log1p(floor):
        status = VerdictStatus.UNCHANGED
    run = history.runs[fed[start]]
    was, now = (figure(metric, float(np.nanmedian(part))) for part in (before, after))
    runs_before, runs_after = runs_words(int(result.n_before[0])), runs_words(int(result.n_after[0]))
    sentence = (
        f"{now} in {runs_after} since run {run.run_id} against {was} in {runs_before} before: a lasting shift, "
        f"{in_words(metric, change)} (95 % interval {percent(low, signed=True)} to {percent(high, signed=True)})."
    )
    verdict = Verdict(
        status=status,
        code=ReasonCode.SHIFTED,
        sentence=sentence,
        change=change,
        low=low,
        high=high,
        baseline=runs_before,
        baseline_n=int(result.n_before[0]),
        n=int(result.n_after[0]),
        p_value=float(result.p[0]),
        policy=policy.name,
        policy_version=policy.version,
    )
    good = next((fed[i] for i in range(start - 1, -1, -1) if usable[fed[i]] and math.isfinite(values[fed[i]])), None)
    said = SubjectVerdict(
        subject=history.subjects[row],
        metric=metric,
        verdict=verdict,
        tier=Tier.ONLINE,
        baseline_run_id=None if good is None else history.runs[good].run_id,
    )
    return Shift(said=said, column=fed[start])


def shifted_run(
    judged: RunVerdicts, shifts: Sequence[Shift], history: UnitHistory, policy: Policy
) -> RunVerdicts | None:
    """The shifts that are worth saying as if their run had just been judged: the run where the first of them begins.

    Series that moved tonight by themselves, or have an open finding, are said already. The naive arm of each case is
    measured at the same place, so that a moved denominator is told from a moved kernel.
    """
    said = {(v.subject.subject_id, v.metric) for v in judged.verdicts if v.moved or v.finding_id is not None}
    fresh = [s for s in shifts if s.said.moved and (s.said.subject.subject_id, s.said.metric) not in said]
    if not fresh:
        return None
    column = min(shift.column for shift in fresh)
    by_key = {(s.said.subject.subject_id, s.said.metric): s.said for s in fresh}
    cases = {shift.said.subject.case_id: shift for shift in fresh}
    verdicts = []
    for verdict in judged.verdicts:
        key = verdict.subject.subject_id, verdict.metric
        witness = cases.get(verdict.subject.case_id)
        if key in by_key:
            verdicts.append(by_key[key])
        elif witness is not None and verdict.subject.role == "naive" and verdict.metric is Metric.LATENCY_RATIO:
            verdicts.append(_measured_at(verdict, witness.column, judged.column, history, policy))
        elif not verdict.moved:
            verdicts.append(verdict)
    return RunVerdicts(run=history.runs[column], column=column, verdicts=tuple(verdicts), shift=None)


def _measured_at(
    verdict: SubjectVerdict, start: int, column: int, history: UnitHistory, policy: Policy
) -> SubjectVerdict:
    row = history.row(verdict.subject.subject_id)
    if row is None:
        return verdict
    values = history.metrics[verdict.metric].value[row][None, :]
    floor = policy.floor(verdict.metric, history.runs[column].device_kind)
    before, after = values[:, max(0, start - BEFORE_RUNS) : start], values[:, start : column + 1]
    result = compare_at(before, after, floor=floor, policy=policy)
    change = float(result.change[0])
    return replace(verdict, verdict=replace(verdict.verdict, change=change)) if math.isfinite(change) else verdict
