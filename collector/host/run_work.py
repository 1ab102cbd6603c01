"""What is worked out of a run from the store as it is, before anything of it is said: by the judge, or by a worker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from collector.host.audit import AlarmAudit
from collector.host.findings_store import fold_all, read_events, read_triage
from collector.host.history import RunFacts, Subject, UnitHistory, load_unit
from collector.host.in_run import judge_pairs, load_pairs
from collector.host.partitions import Task
from collector.host.run_verdicts import RunVerdicts, SubjectVerdict
from collector.host.second_look import Sampled, name_predecessors, name_two_levels
from collector.host.segments import Segments, findings_by_unit, read_baseline_moves, segments_at
from collector.host.shift import Shift
from collector.host.tonight import judge_run
from collector.host.watch import Key, Watch
from detection.findings import Finding
from detection.policy import Policy
from store.lake.lake import Lake

_TIMES = "SELECT run_id, device_unit, started_at FROM runs WHERE kind <> 'confirm'"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WorkedOut:
    """What a worker has made of one run, from the findings as they were in the store."""

    history: UnitHistory
    segments: Segments
    """The baselines that it judged against: with others, nothing here holds but the history."""
    pairs: tuple[SubjectVerdict, ...]
    judged: RunVerdicts
    shifts: tuple[Shift, ...]
    detectors: Mapping[Key, bytes] = field(default_factory=dict)
    """Of a worker: the states of the detectors after this run."""


def work_out(lake: Lake, task: Task) -> dict[str, WorkedOut]:
    """What a worker does: each run of the task, of different units, judged from the store as it is.

    Confirm runs are left to the one that knows their requests.
    """
    findings = fold_all(read_events(lake), read_triage(lake), now=task.now)
    alarms = AlarmAudit(lake)
    work = RunWork(lake, task.policy, [run_id for run_id, _ in task.runs], late=task.late)
    found = {}
    for run_id, unit in task.runs:
        history = work.load(unit, to_judge=task.to_judge)
        column = history.column(run_id)
        if history.runs[column].kind != "confirm":
            worked = work.work_out(history, column, work.segments(history, column, findings, alarms), unit)
            found[run_id] = replace(worked, detectors=work.watch.states_of(history))
    return found


class RunWork:
    """The histories of the units, and the detectors, of the runs that are to be judged."""

    def __init__(self, lake: Lake, policy: Policy, run_ids: Sequence[str], *, late: frozenset[str]) -> None:
        """`late` are the runs that no detector sees."""
        self.units: dict[str | None, UnitHistory] = {}
        self.watch = Watch(lake)
        self._lake = lake
        self._policy = policy
        self._late = late
        self._moves = read_baseline_moves(lake)
        self._sampled = Sampled(lake, run_ids)
        self._pairs: Mapping[str, Sequence[Mapping[str, Any]]] = load_pairs(lake, list(run_ids)) if run_ids else {}
        self._subjects: dict[str | None, dict[str, Subject]] = {}
        self._worked: dict[str, WorkedOut] = {}

    def load(self, unit: str | None, *, to_judge: int) -> UnitHistory:
        """The history of a unit, read once."""
        if unit not in self.units:
            self._remember(unit, load_unit(self._lake, unit, to_judge=to_judge))
        return self.units[unit]

    def give(self, found: Mapping[str, WorkedOut], unit_of: Mapping[str, str | None]) -> None:
        """What workers have made of runs."""
        self._worked |= found
        for run_id, worked in found.items():
            self._remember(unit_of[run_id], worked.history)

    def _remember(self, unit: str | None, history: UnitHistory) -> None:
        self.units[unit] = history
        self._subjects[unit] = {s.subject_id: s for s in history.subjects}

    def segments(
        self, history: UnitHistory, column: int, findings: Mapping[str, Finding], alarms: AlarmAudit
    ) -> Segments:
        """The baselines of a run's series: what findings, accepted changes of A/A copies and recorded acts leave."""
        changes: Iterable[Finding] = [
            *findings_by_unit(findings.values(), history),
            *findings_by_unit(alarms.findings(), history),
        ]
        return segments_at(history, column, changes, self._moves)

    def in_run(self, run: RunFacts, unit: str | None) -> list[SubjectVerdict]:
        """What the pairs of arms within a run say."""
        return judge_pairs(self._pairs.get(run.run_id, []), run, self._subjects[unit], self._policy)

    def work_out(self, history: UnitHistory, column: int, segments: Segments, unit: str | None) -> WorkedOut:
        """All that a run's numbers say against these baselines; the detectors are fed, unless it came late."""
        run = history.runs[column]
        asked = self._policy if run.kind == "night" else self._policy.unasked()
        judged = judge_run(history, column, segments, asked)
        judged = name_two_levels(self._lake, self._sampled, judged, history, segments, self._policy)
        judged = name_predecessors(judged, history)
        shifts: list[Shift] = []
        if run.run_id not in self._late:
            shifts = self.watch.feed(judged, history, segments, self._policy)
        return WorkedOut(
            history=history,
            segments=segments,
            pairs=tuple(self.in_run(run, unit)),
            judged=judged,
            shifts=tuple(shifts),
        )

    def taken(self, run_id: str, segments: Segments) -> WorkedOut | None:
        """What a worker made of the run, if it still holds; the detectors are then as it left them."""
        worked = self._worked.pop(run_id, None)
        if worked is None or worked.segments != segments:
            return None
        self.watch.take(worked.detectors, worked.judged.run.ingest_seq)
        return worked


def late_runs(lake: Lake, chosen: set[str]) -> frozenset[str]:
    """Runs that are older than one of their unit that was judged before: no detector sees them, time has gone on."""
    rows = lake.sql(_TIMES).to_pylist()
    newest: dict[str | None, datetime] = {}
    for row in rows:
        if row["run_id"] not in chosen:
            newest[row["device_unit"]] = max(row["started_at"], newest.get(row["device_unit"], row["started_at"]))
    return frozenset(
        row["run_id"]
        for row in rows
        if row["run_id"] in chosen and row["device_unit"] in newest and row["started_at"] < newest[row["device_unit"]]
    )
