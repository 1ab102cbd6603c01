"""Reads what the lake has not yet judged, lets `detection` judge it, and writes verdicts, findings and requests.

A verdict is a function of what had been ingested when it was made: a run that was judged stays as it was judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from collector.host.audit import AlarmAudit
from collector.host.cliff_store import refresh_cliffs
from collector.host.code_evidence import with_code
from collector.host.confirm import judge_confirm
from collector.host.fellows import slow_unit_events
from collector.host.findings_store import fold_all, read_events, read_triage, refresh_findings_state
from collector.host.gaps import gap_events
from collector.host.history import UnitHistory, load_unit
from collector.host.judge_report import JudgeReport
from collector.host.life import Moment, events_of_night
from collector.host.new_shapes import judge_new_shapes, notices_of
from collector.host.other_unit import judge_other_unit, other_unit_request
from collector.host.partitions import Run, Task, Workers, chunks, first_runs
from collector.host.requests import read_requests, requests_for
from collector.host.run_verdicts import SubjectVerdict
from collector.host.run_work import RunWork, late_runs
from collector.host.said import Said
from collector.host.segments import Segments
from collector.host.sentinel import beside, pair_verdicts, sentinel_notices, with_sentinel
from collector.host.shape_evidence import ShapeEvidence
from collector.host.silence import overdue_units, silence_events
from collector.host.tonight import planted_audit
from collector.host.watch import shifted_run
from detection.findings import FindingEvent, TriageNote
from detection.policy import Policy
from store.lake.lake import Lake
from store.lake.lease import held

_UNJUDGED = """
    SELECT run_id, device_unit FROM runs
    WHERE run_id NOT IN (SELECT DISTINCT run_id FROM verdicts WHERE tier IN ('tonight', 'confirm'))
    ORDER BY started_at, run_id
"""


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
        rows = lake.sql(_UNJUDGED).to_pylist()
        wanted = None if run_ids is None else set(run_ids)
        chosen = [(r["run_id"], r["device_unit"]) for r in rows if wanted is None or r["run_id"] in wanted]
        judging = _Judging(lake, chosen, policy or Policy(), now or datetime.now(UTC), at_run_time=at_run_time)
        return judging.run(workers)


class _Judging:
    """One judging of some runs: the findings as they become, and all that is said on the way."""

    def __init__(self, lake: Lake, chosen: Sequence[Run], policy: Policy, now: datetime, *, at_run_time: bool) -> None:
        run_ids = [run_id for run_id, _ in chosen]
        self._lake = lake
        self._chosen = chosen
        self._policy = policy
        self._now = now
        self._at_run_time = at_run_time
        self._as_of = lake.latest_seq()
        self._events = read_events(lake)
        self._triage: list[TriageNote] = read_triage(lake)
        self._findings = fold_all(self._events, self._triage, now=now)
        self._requests = {r.request_id: r for r in read_requests(lake)}
        self._late = late_runs(lake, set(run_ids))
        self._work = RunWork(lake, policy, run_ids, late=self._late)
        self._shapes = ShapeEvidence(lake)
        self._alarms = AlarmAudit(lake)
        self._said = Said()

    def run(self, workers: Workers | None) -> JudgeReport:
        """Judges the runs in their order and writes what is said."""
        if workers is not None and self._chosen:
            self._have_worked_out(workers)
        for run_id, unit in self._chosen:
            self._judge_one(run_id, unit)
        units = list(dict.fromkeys(unit for _, unit in self._chosen))
        self._compare_fellows(units)
        if not self._at_run_time:
            self._look_for_silence()
        self._said.notices += refresh_cliffs(self._lake, [self._work.units[unit] for unit in units])
        self._write()
        touched = {event.finding_id for event in self._said.events}
        return JudgeReport(
            runs=tuple(run_id for run_id, _ in self._chosen),
            verdicts=tuple((run, said) for run, _, said in self._said.verdicts),
            events=tuple(self._said.events),
            findings={name: self._findings[name] for name in sorted(touched)},
            notices=tuple(self._said.notices),
            requests=tuple(row["request_id"] for row in self._said.requests if row["event"] == "open"),
            as_of_seq=self._as_of,
        )

    def _have_worked_out(self, workers: Workers) -> None:
        """The first run of every unit, by workers."""
        tasks = [
            Task(
                store=self._lake.uri,
                policy=self._policy,
                now=self._now,
                runs=runs,
                late=self._late,
                to_judge=len(self._chosen),
            )
            for runs in chunks(first_runs(self._chosen))
        ]
        unit_of = dict(self._chosen)
        for found in workers.work_out(tasks):
            self._work.give(found, unit_of)

    def _judge_one(self, run_id: str, unit: str | None) -> None:
        history = self._work.load(unit, to_judge=len(self._chosen))
        column = history.column(run_id)
        run = history.runs[column]
        moment = Moment(at=run.started_at if self._at_run_time else self._now, as_of_seq=self._as_of)
        segments = self._work.segments(history, column, self._findings, self._alarms)
        if run.kind == "confirm":
            said = [*self._work.in_run(run, unit), *self._confirm(history, column, segments, moment)]
            self._said.keep(run, said, moment)
            return
        worked = self._work.taken(run_id, segments) or self._work.work_out(history, column, segments, unit)
        judged, shifts = worked.judged, worked.shifts
        self._said.keep(run, [*worked.pairs, *judged.verdicts], moment)
        if judged.shift is not None:
            self._said.notices.append(f"{run.run_id}: {judged.shift.sentence}")
        modelled = judge_new_shapes(self._lake, judged, self._policy)
        self._said.keep(run, modelled, moment)
        self._said.notices += notices_of(judged, modelled)
        late = silence_events(history, column - 1, self._findings, self._policy, moment, returned=run)
        self._say(late)
        self._said.notices += [event.facts.sentence for event in late]
        self._said.keep(run, [shift.said for shift in shifts], moment)
        shifted = shifted_run(judged, shifts, history, self._policy)
        planted = planted_audit(history, judged, self._policy)
        self._said.audits += self._alarms.rows(judged, planted, shifts, history, self._policy, moment)
        events = events_of_night(judged, shifted, history, self._findings, self._policy, moment)
        events = [with_code(self._lake, self._shapes.add(event, judged), judged) for event in events]
        pairs = beside(self._lake, history, column)
        events = [with_sentinel(event, pairs, judged, history, self._policy) for event in events]
        paired = pair_verdicts(pairs, history, self._policy) if pairs else []
        self._said.keep(run, paired, moment)
        self._said.notices += sentinel_notices(pairs, paired, history, column)
        self._say(events)
        stopped = gap_events(judged, history, self._findings, self._policy, moment)
        self._say(stopped)
        self._said.notices += [event.facts.sentence for event in stopped]
        if run.kind == "night":
            asked = requests_for(events, suite=run.suite, device_kind=run.device_kind, policy=self._policy)
            self._said.requests += [row for row in asked if row["request_id"] not in self._requests]

    def _confirm(
        self, history: UnitHistory, column: int, segments: Segments, moment: Moment
    ) -> Sequence[SubjectVerdict]:
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

    def _compare_fellows(self, units: Sequence[str | None]) -> None:
        """Every model of which a unit was judged: is one of its units slower than the others?"""
        newest: dict[str, datetime] = {}
        for unit in units:
            run = self._work.units[unit].runs[-1]
            newest[run.device_model] = max(run.started_at, newest.get(run.device_model, run.started_at))
        for model, at in sorted(newest.items()):
            moment = Moment(at=at if self._at_run_time else self._now, as_of_seq=self._as_of)
            self._say(slow_unit_events(self._lake, model, self._findings, self._policy, moment))

    def _look_for_silence(self) -> None:
        """Units that were to report by now; those of imported histories are not asked."""
        moment = Moment(at=self._now, as_of_seq=self._as_of)
        for unit in overdue_units(self._lake, self._now, self._policy):
            history = self._work.units.get(unit) or load_unit(self._lake, unit)
            if history.runs:
                self._say(silence_events(history, len(history.runs) - 1, self._findings, self._policy, moment))

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

    def _write(self) -> None:
        self._said.write(self._lake, [run_id for run_id, _ in self._chosen], self._policy)
        self._findings = refresh_findings_state(self._lake, now=self._now)
        self._work.watch.save(self._as_of)
        if self._said.verdicts:
            self._lake.refresh_series()
