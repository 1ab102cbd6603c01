"""The audit of the alarms: what the judges made of A/A copies and of planted slow-downs, in the table `audits`.

A change of an A/A copy has the life of a finding (suspected, then confirmed or refuted by later nights, by the code
that does it for findings), but it is kept in `audits` and told to nobody. A confirmed one is a false alarm: it would
have been told. Its level is the baseline from then on, so that one lasting bias is one false alarm.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from collector.host.history import UnitHistory
from collector.host.life import Moment, open_finding_events
from collector.host.run_verdicts import RunVerdicts, SubjectVerdict
from collector.host.shift import Shift
from detection.audit import AuditedNight, AuditKind, AuditLine, summarise
from detection.classify import FindingClass
from detection.findings import EventKind, Evidence, Facts, Finding, FindingState, Member
from detection.policy import Policy
from detection.verdict import Metric
from store.lake.lake import Lake

WINDOW = timedelta(days=30)
"""Nights that are published: those up to so long before the newest."""

_STATE_AFTER = {
    EventKind.SUSPECTED: FindingState.SUSPECTED,
    EventKind.REFUTED: FindingState.REFUTED,
    EventKind.CONFIRMED: FindingState.EXPECTED,
}
"""A confirmed change of an A/A copy is counted, and its level accepted."""

_LIVES = 'SELECT * FROM audits WHERE event IS NOT NULL ORDER BY "at", run_id, subject_id'
_WINDOW = """
    SELECT kind, planted, coalesce(suspected, alarmed) AS suspected, coalesce(alarmed, false) AS alarmed FROM audits
    WHERE "at" > (SELECT max("at") FROM audits) - to_days($days)
"""


def published_audit(lake: Lake, window: timedelta = WINDOW) -> tuple[AuditLine, ...]:
    """What the audit says of the nights of a window before the newest one; empty where none was audited."""
    rows = lake.sql(_WINDOW, {"days": window.days}).to_pylist()
    return summarise(
        AuditedNight(
            kind=AuditKind(row["kind"]),
            planted=row["planted"],
            suspected=row["suspected"],
            alarmed=row["alarmed"],
        )
        for row in rows
    )


@dataclass(slots=True, kw_only=True)
class _Life:
    """The change of one A/A copy that is being watched."""

    subject_id: str
    state: FindingState
    change: float
    since_run_id: str
    opened_run_id: str
    run_id: str
    at: datetime

    def finding(self) -> Finding:
        """As the judges know changes: with a baseline that ends before it."""
        member = Member(
            subject_id=self.subject_id, label="", case_id="", arm="aa", change=self.change, low=None, high=None,
            weight=None, since_run_id=self.since_run_id,
        )  # fmt: skip
        facts = Facts(
            group=f"{self.subject_id} · audit", finding_class=FindingClass.NOISE,
            direction=1 if self.change > 0 else -1, metric=Metric.LATENCY_RATIO, operator="", family="", title="",
            shape="", case_id="", arm="aa", subject_id=self.subject_id, subject_ids=(self.subject_id,),
            device_model="", device_unit="", host="", change=self.change, change_low=None, change_high=None,
            price=None, since_run_id=self.since_run_id, since_at=self.at, last_good_run_id=None,
            evidence=Evidence(members=(member,)),
        )  # fmt: skip
        return Finding(
            finding_id=audit_name(self.subject_id, self.since_run_id), state=self.state, facts=facts, owner=None,
            snoozed_until=None, opened_at=self.at, updated_at=self.at, confirmed=False,
            opened_run_id=self.opened_run_id, settled_run_id=self.run_id,
        )  # fmt: skip


def audit_name(subject_id: str, since_run_id: str) -> str:
    """What stands in the place of a finding's id in a sentence about an A/A copy."""
    return f"audit of {subject_id} since {since_run_id}"


class AlarmAudit:
    """The audited series of a store, over the runs of one judging."""

    def __init__(self, lake: Lake) -> None:
        self._lives: dict[tuple[str, str], _Life] = {}
        for row in lake.sql(_LIVES).to_pylist():
            self._remember(row)

    def findings(self) -> list[Finding]:
        """The changes of A/A copies that are watched or were accepted."""
        return [life.finding() for life in self._lives.values()]

    def rows(
        self,
        judged: RunVerdicts,
        planted: Sequence[SubjectVerdict],
        shifts: Iterable[Shift],
        history: UnitHistory,
        policy: Policy,
        moment: Moment,
    ) -> list[dict[str, Any]]:
        """The rows of `audits` of one run: what the judges made of its A/A copies and planted slow-downs."""
        begun = {s.said.subject.subject_id: s for s in shifts if s.said.moved}
        ended = self._ended(judged, history, policy, moment)
        rows = []
        for said in judged.verdicts:
            if said.subject.role != AuditKind.AA or said.metric is not Metric.LATENCY_RATIO:
                continue
            if said.verdict.change is not None:
                shift = begun.get(said.subject.subject_id)
                rows.append(_copy_row(said, shift, ended.get(said.subject.subject_id), judged, history, moment))
        for row in rows:
            if row["event"] is not None:
                self._remember(row)
        rows += [
            _planted_row(said, judged.run.run_id, moment)
            for said in planted
            if said.verdict.change is not None and said.subject.planted is not None
        ]
        return rows

    def _ended(
        self, judged: RunVerdicts, history: UnitHistory, policy: Policy, moment: Moment
    ) -> Mapping[str, tuple[EventKind, _Life]]:
        """The suspicions that this run confirms or refutes, by series."""
        by_name = {life.finding().finding_id: life for life in self._lives.values()}
        events = open_finding_events(
            judged, history, {name: _of_run(life.finding(), judged) for name, life in by_name.items()}, policy, moment
        )
        ended = {}
        for name, event in events.items():
            if event.event in (EventKind.CONFIRMED, EventKind.REFUTED):
                ended[by_name[name].subject_id] = event.event, by_name[name]
        return ended

    def _remember(self, row: Mapping[str, Any]) -> None:
        key, event = (row["subject_id"], row["since_run_id"]), EventKind(row["event"])
        known = self._lives.get(key)
        if known is None:
            self._lives[key] = _Life(
                subject_id=row["subject_id"], state=_STATE_AFTER[event], change=row["change"],
                since_run_id=row["since_run_id"], opened_run_id=row["run_id"], run_id=row["run_id"], at=row["at"],
            )  # fmt: skip
        else:
            known.state, known.run_id = _STATE_AFTER[event], row["run_id"]


def _of_run(finding: Finding, judged: RunVerdicts) -> Finding:
    """The finding on the unit of a run: A/A copies are of one unit, which their series says already."""
    return replace(finding, facts=replace(finding.facts, device_unit=judged.run.device_unit))


def _copy_row(
    said: SubjectVerdict,
    shift: Shift | None,
    ended: tuple[EventKind, _Life] | None,
    judged: RunVerdicts,
    history: UnitHistory,
    moment: Moment,
) -> dict[str, Any]:
    row = _row(said, judged.run.run_id, moment)
    suspected = said.moved or (shift is not None and said.finding_id is None)
    if ended is not None:
        event, life = ended
        row |= {"event": event.value, "since_run_id": life.since_run_id, "alarmed": event is EventKind.CONFIRMED}
    elif suspected:
        located = shift is not None and not said.moved
        change = shift.said.verdict.change if shift is not None and located else said.verdict.change
        since = history.runs[shift.column].run_id if shift is not None and located else judged.run.run_id
        row |= {"event": EventKind.SUSPECTED.value, "since_run_id": since, "change": change, "suspected": True}
    return row


def _planted_row(said: SubjectVerdict, run_id: str, moment: Moment) -> dict[str, Any]:
    seen = said.moved and (said.verdict.change or 0.0) > 0
    return _row(said, run_id, moment) | {"planted": said.subject.planted, "suspected": seen, "alarmed": seen}


def _row(said: SubjectVerdict, run_id: str, moment: Moment) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "at": moment.at,
        "as_of_seq": moment.as_of_seq,
        "subject_id": said.subject.subject_id,
        "kind": said.subject.role,
        "planted": None,
        "suspected": False,
        "alarmed": False,
        "change": said.verdict.change,
        "event": None,
        "since_run_id": None,
    }
