"""Series that stopped reporting while their device goes on: one finding, at most one a day and device.

Somebody has to hear of a case that is not scheduled any more, or whose samples were all thrown away for some nights;
a chart that ends says nothing. A series that goes on under other settings has not stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from collector.host.grouping import run_words, series_label
from collector.host.history import RunFacts, Subject, UnitHistory
from collector.host.life import Moment
from collector.host.run_verdicts import RunVerdicts, SubjectVerdict
from detection.classify import FindingClass
from detection.findings import EventKind, Evidence, Facts, Finding, FindingEvent, Member, finding_id
from detection.policy import Policy
from detection.verdict import Metric, ReasonCode

NO_DATA = " · no data"
"""How the group of series that stopped ends."""
ONCE_IN = timedelta(days=1)


def gap_events(
    judged: RunVerdicts, history: UnitHistory, findings: Mapping[str, Finding], policy: Policy, moment: Moment
) -> list[FindingEvent]:
    """What a run says of series that stopped: new ones, more of them, and that those which stopped are back."""
    group = f"{judged.run.device_unit}{NO_DATA}"
    known = sorted(
        (f for f in findings.values() if f.facts.group == group and f.state.open), key=lambda f: f.facts.since_at
    )
    events = [
        moment.event(EventKind.RESOLVED, _back(finding.facts, judged.run), judged.run.run_id)
        for finding in known
        if _reports_again(finding, history, judged.column)
    ]
    stopped = [v for v in judged.verdicts if v.verdict.code is ReasonCode.GAP and not _goes_on(v, history, judged)]
    if not stopped:
        return events
    facts = _facts(group, stopped, judged.run, history, policy)
    open_today = [f for f in known if judged.run.started_at - f.facts.since_at < ONCE_IN]
    if open_today:
        return [*events, moment.event(EventKind.MOVED, _more(open_today[-1].facts, facts), judged.run.run_id)]
    if finding_id(group, facts.metric, facts.direction, facts.since_run_id) in findings:
        return events
    return [*events, moment.event(EventKind.CONFIRMED, facts, judged.run.run_id)]


def _goes_on(said: SubjectVerdict, history: UnitHistory, judged: RunVerdicts) -> bool:
    """Whether the same case and arm has a value tonight in another series: under other settings."""
    name = said.subject.case_id, said.subject.arm
    return any(
        (s.case_id, s.arm) == name and history.status[row, judged.column] not in (None, "invalid")
        for row, s in enumerate(history.subjects)
        if s.subject_id != said.subject.subject_id
    )


def _reports_again(finding: Finding, history: UnitHistory, column: int) -> bool:
    rows = [row for name in finding.facts.subject_ids if (row := history.row(name)) is not None]
    return bool(rows) and all(history.status[row, column] not in (None, "invalid") for row in rows)


def _back(facts: Facts, run: RunFacts) -> Facts:
    series = "1 series reports" if len(facts.subject_ids) == 1 else f"All {len(facts.subject_ids)} series report"
    return replace(facts, sentence=f"{series} again: run {run.run_id}.")


def _more(known: Facts, facts: Facts) -> Facts:
    """Further series that stopped within the day: the same finding."""
    members = known.evidence.members + facts.evidence.members
    return replace(
        known,
        shape=_series(len(members)),
        subject_ids=known.subject_ids + facts.subject_ids,
        sentence=f"{known.sentence} And {facts.sentence}",
        evidence=replace(known.evidence, members=members),
    )


def _facts(group: str, stopped: Sequence[SubjectVerdict], run: RunFacts, history: UnitHistory, policy: Policy) -> Facts:
    ranked = sorted(stopped, key=lambda v: (-(v.subject.weight or 0.0), v.subject.subject_id))
    top = ranked[0].subject
    last = ranked[0].baseline_run_id
    title, _ = run_words(run, top.case_id, top.operator)
    others = f" and {len(ranked) - 1} more" if len(ranked) > 1 else ""
    return Facts(
        group=group,
        finding_class=FindingClass.METHOD,
        direction=1,
        metric=Metric.SILENCE,
        operator="",
        family="",
        title=f"No data: {title}{others}",
        shape=_series(len(ranked)),
        case_id=top.case_id,
        arm=top.arm,
        subject_id=top.subject_id,
        subject_ids=tuple(v.subject.subject_id for v in ranked),
        device_model=run.device_model,
        device_unit=run.device_unit,
        host=run.host,
        change=None,
        change_low=None,
        change_high=None,
        price=None,
        since_run_id=run.run_id,
        since_at=run.started_at,
        last_good_run_id=last,
        revision_good=next((r.revision for r in history.runs if r.run_id == last), None),
        revision_bad=run.revision,
        cause="The device reports, these series do not: they were not scheduled, or nothing of them was valid.",
        sentence=f"{title}{others} on {run.device_unit}: {ranked[0].verdict.sentence}",
        evidence=Evidence(
            baseline=f"the {policy.silence.series_runs} runs up to {run.run_id}",
            members=tuple(_member(v.subject, run) for v in ranked),
        ),
        repro=top.repro,
    )


def _series(n: int) -> str:
    return "1 series" if n == 1 else f"{n} series"


def _member(subject: Subject, run: RunFacts) -> Member:
    title, shape = run_words(run, subject.case_id, subject.operator)
    return Member(
        subject_id=subject.subject_id, label=series_label(title, shape, subject.arm), case_id=subject.case_id,
        arm=subject.arm, change=None, low=None, high=None, weight=subject.weight, since_run_id=run.run_id,
    )  # fmt: skip
