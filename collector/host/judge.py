"""Reads what the lake has not yet judged, lets `detection` judge it, and writes verdicts, findings and requests.

Order of writing: findings, requests, audits, and `verdicts` last. A run counts as judged when it has verdicts; a judge
that died half-way is repeated and says nothing twice, since every event has an id made of what it says.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from collector.host.audit import AlarmAudit
from collector.host.cliff_store import refresh_cliffs
from collector.host.code_evidence import with_code
from collector.host.confirm import judge_confirm
from collector.host.fellows import slow_unit_events
from collector.host.findings_store import event_row, fold_all, read_events, read_triage, refresh_findings_state
from collector.host.gaps import gap_events
from collector.host.history import RunFacts, Subject, UnitHistory, load_unit
from collector.host.in_run import judge_pairs, load_pairs
from collector.host.life import Moment, events_of_night
from collector.host.new_shapes import judge_new_shapes, notices_of
from collector.host.other_unit import judge_other_unit, other_unit_request
from collector.host.partitions import Run, Task, Workers, chunks, first_runs
from collector.host.requests import append_requests, read_requests, request_row
from collector.host.second_look import Sampled, name_predecessors, name_two_levels
from collector.host.segments import WHOLE_RUN, Segments, findings_by_unit, read_baseline_moves, segments_at
from collector.host.shape_evidence import ShapeEvidence
from collector.host.shift import Shift
from collector.host.silence import silence_events
from collector.host.tonight import RunVerdicts, SubjectVerdict, judge_run, planted_audit
from collector.host.verdict_rows import VerdictLine, verdict_line, verdict_table
from collector.host.watch import Key, Watch, shifted_run
from detection.findings import EventKind, Finding, FindingEvent, TriageNote
from detection.policy import Policy
from detection.price import request_priority
from detection.verdict import Tier
from store.lake.lake import Lake
from store.lake.lease import held

_UNJUDGED = """
    SELECT run_id, device_unit FROM runs
    WHERE run_id NOT IN (SELECT DISTINCT run_id FROM verdicts WHERE tier IN ('tonight', 'confirm'))
    ORDER BY started_at, run_id
"""


_TIMES = "SELECT run_id, device_unit, started_at FROM runs WHERE kind <> 'confirm'"
_LATE = """
    SELECT device_unit FROM runs GROUP BY device_unit
    HAVING max(started_at) >= $since AND max(started_at) < $due AND bool_or(kind <> 'import')
       AND count(*) > 5 ORDER BY device_unit
"""
LATE = timedelta(days=14)
"""A device that has been silent for longer is not news: it was said, or it was gone before this store looked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeReport:
    """What one judging said."""

    runs: tuple[str, ...]
    verdicts: tuple[tuple[RunFacts, SubjectVerdict], ...]
    events: tuple[FindingEvent, ...]
    """Finding events that are new."""
    findings: Mapping[str, Finding]
    """Every finding that those events are of, as it is now."""
    notices: tuple[str, ...]
    """What concerns a whole run, in sentences."""
    requests: tuple[str, ...]
    """Ids of the confirm requests that were opened."""
    as_of_seq: int

    @property
    def lines(self) -> tuple[VerdictLine, ...]:
        """Every verdict as a table shows it."""
        return tuple(verdict_line(run, said) for run, said in self.verdicts)

    def history_line(self, run_id: str, case_id: str, arm: str, metric: str = "latency_ratio") -> VerdictLine | None:
        """The verdict of a series against its history, as a table wants it: the confirm run's word before the
        night's."""
        wanted = [
            line
            for line in self.lines
            if (line.run_id, line.case_id, line.arm, line.metric, line.against)
            == (run_id, case_id, arm, metric, "history")
        ]
        return max(wanted, key=lambda line: line.tier == Tier.CONFIRM, default=None)


@dataclass(slots=True, kw_only=True)
class _Said:
    """Everything to be written, collected over the runs of one judging."""

    events: list[FindingEvent] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    audits: list[dict[str, Any]] = field(default_factory=list)
    verdicts: list[tuple[RunFacts, Moment, SubjectVerdict]] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)


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


def judge(
    lake: Lake,
    run_ids: Sequence[str] | None = None,
    policy: Policy | None = None,
    *,
    now: datetime | None = None,
    at_run_time: bool = False,
    wait_s: float = 60.0,
    workers: Workers | None = None,
) -> JudgeReport:
    """Judges runs that were not judged yet, oldest first: all of them, or those of `run_ids`.

    `at_run_time` dates what is said with the runs' own times: for a history that is replayed. A run that was judged
    stays as it was judged, whatever arrives later. With `workers` units are worked out side by side; what is said is
    the same.
    """
    with held(lake.place, "judge", wait_s=wait_s):
        judging = _Judging(lake, policy or Policy(), now or datetime.now(UTC), at_run_time=at_run_time)
        return judging.run(run_ids, workers)


def work_out(lake: Lake, task: Task) -> dict[str, WorkedOut]:
    """What a worker does: each run of the task, of different units, judged from the store as it is."""
    judging = _Judging(lake, task.policy, task.now, at_run_time=task.at_run_time)
    return judging.worked_out(task)


class _Judging:
    def __init__(self, lake: Lake, policy: Policy, now: datetime, *, at_run_time: bool) -> None:
        self._lake = lake
        self._policy = policy
        self._now = now
        self._at_run_time = at_run_time
        self._as_of = lake.latest_seq()
        self._events = read_events(lake)
        self._triage: list[TriageNote] = read_triage(lake)
        self._findings = fold_all(self._events, self._triage, now=now)
        self._moves = read_baseline_moves(lake)
        self._requests = {r.request_id: r for r in read_requests(lake)}
        self._units: dict[str | None, UnitHistory] = {}
        self._subjects: dict[str | None, dict[str, Subject]] = {}
        self._pairs: dict[str, list[Mapping[str, Any]]] = {}
        self._sampled = Sampled(lake, ())
        self._watch = Watch(lake)
        self._shapes = ShapeEvidence(lake)
        self._alarms = AlarmAudit(lake)
        self._late: frozenset[str] = frozenset()
        self._worked: dict[str, WorkedOut] = {}
        self._said = _Said()

    def run(self, run_ids: Sequence[str] | None, workers: Workers | None = None) -> JudgeReport:
        rows = self._lake.sql(_UNJUDGED).to_pylist()
        wanted = None if run_ids is None else set(run_ids)
        chosen = [(r["run_id"], r["device_unit"]) for r in rows if wanted is None or r["run_id"] in wanted]
        self._late = self._late_runs({run_id for run_id, _ in chosen})
        self._sampled = Sampled(self._lake, [run_id for run_id, _ in chosen])
        self._pairs = load_pairs(self._lake, [run_id for run_id, _ in chosen]) if chosen else {}
        if workers is not None and chosen:
            self._have_worked_out(workers, chosen)
        for run_id, unit in chosen:
            self._load(unit, to_judge=len(chosen))
            self._judge_one(run_id, unit)
        self._compare_fellows([unit for _, unit in chosen])
        if not self._at_run_time:
            self._look_for_silence()
        self._said.notices += refresh_cliffs(self._lake, [self._units[unit] for unit in {unit for _, unit in chosen}])
        self._write([run_id for run_id, _ in chosen])
        touched = {event.finding_id for event in self._said.events}
        return JudgeReport(
            runs=tuple(run_id for run_id, _ in chosen),
            verdicts=tuple((run, said) for run, _, said in self._said.verdicts),
            events=tuple(self._said.events),
            findings={name: self._findings[name] for name in sorted(touched)},
            notices=tuple(self._said.notices),
            requests=tuple(row["request_id"] for row in self._said.requests if row["event"] == "open"),
            as_of_seq=self._as_of,
        )

    def _load(self, unit: str | None, *, to_judge: int) -> UnitHistory:
        if unit not in self._units:
            self._units[unit] = load_unit(self._lake, unit, to_judge=to_judge)
            self._subjects[unit] = {s.subject_id: s for s in self._units[unit].subjects}
        return self._units[unit]

    def _have_worked_out(self, workers: Workers, chosen: Sequence[Run]) -> None:
        """The first run of every unit, by workers."""
        tasks = [
            Task(
                store=self._lake.uri,
                policy=self._policy,
                now=self._now,
                at_run_time=self._at_run_time,
                as_of_seq=self._as_of,
                runs=runs,
                late=self._late,
                to_judge=len(chosen),
            )
            for runs in chunks(first_runs(chosen))
        ]
        unit_of = dict(chosen)
        for found in workers.work_out(tasks):
            self._worked |= found
            for run_id, worked in found.items():
                unit = unit_of[run_id]
                self._units[unit] = worked.history
                self._subjects[unit] = {s.subject_id: s for s in worked.history.subjects}

    def worked_out(self, task: Task) -> dict[str, WorkedOut]:
        """The runs of a task, of different units. Confirm runs are left to the one that knows their requests."""
        self._as_of, self._late = task.as_of_seq, task.late
        self._sampled = Sampled(self._lake, [run_id for run_id, _ in task.runs])
        self._pairs = load_pairs(self._lake, [run_id for run_id, _ in task.runs])
        found = {}
        for run_id, unit in task.runs:
            history = self._load(unit, to_judge=task.to_judge)
            column = history.column(run_id)
            if history.runs[column].kind != "confirm":
                worked = self._work_out(history, column, self._segments(history, column), unit)
                found[run_id] = replace(worked, detectors=self._watch.states_of(history))
        return found

    def _segments(self, history: UnitHistory, column: int) -> Segments:
        changes = [
            *findings_by_unit(self._findings.values(), history),
            *findings_by_unit(self._alarms.findings(), history),
        ]
        return segments_at(history, column, changes, self._moves)

    def _in_run(self, run: RunFacts, unit: str | None) -> list[SubjectVerdict]:
        return judge_pairs(self._pairs.get(run.run_id, []), run, self._subjects[unit], self._policy)

    def _work_out(self, history: UnitHistory, column: int, segments: Segments, unit: str | None) -> WorkedOut:
        """All that a run's numbers say against these baselines; the detectors are fed, unless it came late."""
        run = history.runs[column]
        asked = self._policy if run.kind == "night" else self._policy.unasked()
        judged = judge_run(history, column, segments, asked)
        judged = name_two_levels(self._lake, self._sampled, judged, history, segments, self._policy)
        judged = name_predecessors(judged, history)
        shifts: list[Shift] = []
        if run.run_id not in self._late:
            shifts = self._watch.feed(judged, history, segments, self._policy)
        return WorkedOut(
            history=history,
            segments=segments,
            pairs=tuple(self._in_run(run, unit)),
            judged=judged,
            shifts=tuple(shifts),
        )

    def _taken(self, run_id: str, segments: Segments) -> WorkedOut | None:
        """What a worker made of the run, if it still holds; the detectors are then as it left them."""
        worked = self._worked.pop(run_id, None)
        if worked is None or worked.segments != segments:
            return None
        self._watch.take(worked.detectors, worked.judged.run.ingest_seq)
        return worked

    def _compare_fellows(self, units: Sequence[str | None]) -> None:
        """Every model of which a unit was judged: is one of its units slower than the others?"""
        newest: dict[str, datetime] = {}
        for unit in set(units):
            run = self._units[unit].runs[-1]
            newest[run.device_model] = max(run.started_at, newest.get(run.device_model, run.started_at))
        for model, at in sorted(newest.items()):
            moment = Moment(at=at if self._at_run_time else self._now, as_of_seq=self._as_of)
            self._say(slow_unit_events(self._lake, model, self._findings, self._policy, moment))

    def _late_runs(self, chosen: set[str]) -> frozenset[str]:
        """Runs that are older than one of their unit that was judged before: no detector sees them, time has gone
        on."""
        newest: dict[str | None, datetime] = {}
        late = set()
        for row in self._lake.sql(_TIMES).to_pylist():
            if row["run_id"] not in chosen:
                newest[row["device_unit"]] = max(row["started_at"], newest.get(row["device_unit"], row["started_at"]))
        for row in self._lake.sql(_TIMES).to_pylist():
            judged_up_to = newest.get(row["device_unit"])
            if row["run_id"] in chosen and judged_up_to is not None and row["started_at"] < judged_up_to:
                late.add(row["run_id"])
        return frozenset(late)

    def _look_for_silence(self) -> None:
        """Units that were to report by now; those of imported histories are not asked."""
        moment = Moment(at=self._now, as_of_seq=self._as_of)
        due = self._now - timedelta(hours=self._policy.silence.device_h)
        window = {"since": self._now - LATE, "due": due}
        for row in self._lake.sql(_LATE, window).to_pylist():
            unit = row["device_unit"]
            history = self._units.get(unit) or load_unit(self._lake, unit)
            if history.runs:
                self._say(silence_events(history, len(history.runs) - 1, self._findings, self._policy, moment))

    def _judge_one(self, run_id: str, unit: str | None) -> None:
        history = self._units[unit]
        column = history.column(run_id)
        run = history.runs[column]
        moment = Moment(at=run.started_at if self._at_run_time else self._now, as_of_seq=self._as_of)
        segments = self._segments(history, column)
        if run.kind == "confirm":
            said = [*self._in_run(run, unit), *self._confirm(history, column, segments, moment)]
            self._keep(history, column, said, moment)
            return
        worked = self._taken(run_id, segments) or self._work_out(history, column, segments, unit)
        judged, shifts = worked.judged, worked.shifts
        self._keep(history, column, [*worked.pairs, *judged.verdicts], moment)
        if judged.shift is not None:
            self._said.notices.append(f"{run.run_id}: {judged.shift.sentence}")
        modelled = judge_new_shapes(self._lake, judged, self._policy)
        self._keep(history, column, modelled, moment)
        self._said.notices += notices_of(judged, modelled)
        late = silence_events(history, column - 1, self._findings, self._policy, moment, returned=run)
        self._say(late)
        self._said.notices += [event.facts.sentence for event in late]
        self._keep(history, column, [shift.said for shift in shifts], moment)
        shifted = shifted_run(judged, shifts, history, self._policy)
        planted = planted_audit(history, judged, self._policy)
        self._said.audits += self._alarms.rows(judged, planted, shifts, history, self._policy, moment)
        events = events_of_night(judged, shifted, history, self._findings, self._policy, moment)
        events = [with_code(self._lake, self._shapes.add(event, judged), judged) for event in events]
        self._say(events)
        stopped = gap_events(judged, history, self._findings, self._policy, moment)
        self._say(stopped)
        self._said.notices += [event.facts.sentence for event in stopped]
        if run.kind == "night":
            self._ask(events, run.suite, run.device_kind)

    def _confirm(
        self, history: UnitHistory, column: int, segments: Mapping[Any, Any], moment: Moment
    ) -> Iterable[SubjectVerdict]:
        run = history.runs[column]
        request = self._requests.get(run.confirms or "")
        finding = self._findings.get(request.finding_id) if request else None
        if request is None or finding is None:
            self._said.notices.append(f"{run.run_id}: confirms {run.confirms!r}, which is no request of this store.")
            return ()
        asked = list(self._requests.values())
        if request.device_unit != finding.facts.device_unit:
            outcome = judge_other_unit(history, column, request, finding, self._policy, moment)
        else:
            outcome = judge_confirm(history, column, request, finding, segments, self._policy, moment, requests=asked)
        self._said.requests += outcome.request_rows
        if outcome.event is not None:
            self._say([outcome.event])
            further = other_unit_request(self._lake, outcome.event, self._findings, request, self._policy)
            self._said.requests += [further] if further and further["request_id"] not in self._requests else []
        return outcome.verdicts

    def _say(self, events: Sequence[FindingEvent]) -> None:
        known = {event.event_id for event in self._events}
        fresh = [event for event in events if event.event_id not in known]
        self._said.events += fresh
        self._events += fresh
        names = {event.finding_id for event in fresh}
        if names:
            self._findings |= fold_all(
                [e for e in self._events if e.finding_id in names],
                [n for n in self._triage if n.finding_id in names],
                now=self._now,
            )

    def _ask(self, events: Sequence[FindingEvent], suite: str, device_kind: str) -> None:
        """Requests for what is suspected, dearest doubt first, up to the night's budget."""
        asked = [
            event
            for event in events
            if event.event in (EventKind.SUSPECTED, EventKind.REOPENED) and not event.facts.group.endswith(WHOLE_RUN)
        ]
        asked.sort(key=_priority, reverse=True)
        for event in asked[: self._policy.confirm.requests_a_night]:
            row = request_row(event, suite=suite, device_kind=device_kind, policy=self._policy)
            if row["request_id"] not in self._requests:
                self._said.requests.append(row)

    def _keep(self, history: UnitHistory, column: int, verdicts: Sequence[SubjectVerdict], moment: Moment) -> None:
        run = history.runs[column]
        self._said.verdicts += [(run, moment, said) for said in verdicts]

    def _write(self, run_ids: Sequence[str]) -> None:
        said, lake = self._said, self._lake
        if said.events:
            lake.append("findings", [event_row(e) for e in said.events], key=_key("findings", said.events))
        append_requests(lake, said.requests)
        runs = _digest(*sorted(run_ids), self._policy.name, self._policy.version)
        if said.audits:
            lake.append("audits", said.audits, key=f"audits-{runs}")
        if said.verdicts:
            lake.append("verdicts", verdict_table(said.verdicts), key=f"verdicts-{runs}")
        self._findings = refresh_findings_state(lake, now=self._now)
        self._watch.save(self._as_of)
        if said.verdicts:
            lake.refresh_series()


def _priority(event: FindingEvent) -> float:
    facts = event.facts
    members = facts.evidence.members
    weights = defaultdict(float, {m.case_id: m.weight or 0.0 for m in members})
    return request_priority(sum(weights.values()) or None, facts.change, facts.change_low, facts.change_high)


def _key(table: str, events: Sequence[FindingEvent]) -> str:
    return f"{table}-{_digest(*sorted(e.event_id for e in events))}"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:32]
