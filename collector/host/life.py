"""What a night says of findings: new ones, larger ones, those that its values confirm, refute, resolve or reopen."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np

from collector.host.grouping import Group, build_facts, group_moves, with_shape
from collector.host.history import UnitHistory, visible_columns
from collector.host.run_verdicts import RunVerdicts, SubjectVerdict
from collector.host.segments import SLOW_UNIT, WHOLE_RUN
from detection.findings import EventKind, Facts, Finding, FindingEvent, FindingState, finding_id, make_event
from detection.policy import Policy
from detection.price import total_price
from detection.verdict import UNPAIRED, Metric, ReasonCode, in_words

SAME_STEP = timedelta(hours=36)
"""Units of a model that move the same way within so long of each other have one cause ..."""
SAME_CHANGE = timedelta(days=14)
"""... and within so long when they move by about the same; a series that goes on moving within it is still drifting."""
STILL_MOVING = timedelta(days=7)
"""How often the size of a change that goes on drifting is said anew, and over how many of its nights it is measured."""
COMES_BACK = timedelta(days=60)
"""A change that returns within so long after it was resolved reopens its finding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """When and as of what something is said."""

    at: datetime
    as_of_seq: int

    def event(self, kind: EventKind, facts: Facts, run_id: str) -> FindingEvent:
        """What the judge says at this moment of a finding, because of a run."""
        return make_event(kind, facts, at=self.at, as_of_seq=self.as_of_seq, run_id=run_id)


def events_of_night(
    judged: RunVerdicts,
    shifted: RunVerdicts | None,
    history: UnitHistory,
    findings: Mapping[str, Finding],
    policy: Policy,
    moment: Moment,
) -> list[FindingEvent]:
    """Every event that this run gives rise to: at most one a finding. `shifted`: what the online detector located."""
    events = list(open_finding_events(judged, history, findings, policy, moment).values())
    told = {event.finding_id for event in events}
    fenced = is_fenced(judged.run.device_unit, findings)
    for seen in (judged, shifted):
        if seen is None:
            continue
        for group in group_moves(seen, history, policy):
            if fenced and not group.whole_run and group.metric in UNPAIRED:
                continue  # how slow the unit is has been said; what its times say of kernels is unknown
            event = _of_group(group, seen, history, findings, moment, judged.run.run_id)
            if event is not None and event.finding_id not in told:
                told.add(event.finding_id)
                events.append(event)
    return events


def _of_group(
    group: Group,
    judged: RunVerdicts,
    history: UnitHistory,
    findings: Mapping[str, Finding],
    moment: Moment,
    run_id: str,
) -> FindingEvent | None:
    facts = build_facts(group, judged, history)
    same = [
        f
        for f in findings.values()
        if (f.facts.group, f.facts.metric, f.facts.direction) == (group.name, group.metric, group.direction)
        and (f.facts.device_unit == facts.device_unit or not _either_fenced(f.facts, facts, findings))
    ]
    for known in sorted(same, key=lambda f: f.facts.since_at, reverse=True):
        if known.state.open and group.whole_run:
            return None  # the host is still where it was said to be
        apart = abs(facts.since_at - known.facts.since_at)
        fresh = set(facts.subject_ids) - set(known.facts.subject_ids)
        alike = apart <= SAME_CHANGE and _similar(known.facts.change, facts.change)
        if known.state.open and fresh and not group.further and (apart <= SAME_STEP or alike):
            return _joining(known, facts, fresh, run_id, moment)
        if known.state.open and group.further and not fresh and facts.since_at - known.updated_at <= SAME_CHANGE:
            sizes = {v.subject.subject_id: v.total_change for v in group.members if v.total_change is not None}
            return moment.event(EventKind.MOVED, _resized(known.facts, sizes), run_id)
        returned = known.state is FindingState.RESOLVED and facts.since_at - known.updated_at <= COMES_BACK
        if returned and _similar(known.facts.change, facts.change):
            return moment.event(EventKind.REOPENED, _again(known.facts, facts), run_id)
    known_id = finding_id(facts.group, facts.metric, facts.direction, facts.since_run_id)
    if known_id in findings:
        settled = findings[known_id].state in (FindingState.REFUTED, FindingState.RESOLVED)
        return moment.event(EventKind.REOPENED, facts, run_id) if settled else None
    return moment.event(EventKind.SUSPECTED, facts, run_id)


def is_fenced(unit: str, findings: Mapping[str, Finding]) -> bool:
    """Whether a unit is known to be slow, against its fellows or its own past: until it has recovered its data are
    judged apart, and are no witness for other units."""
    groups = (f"{unit}{SLOW_UNIT}", f"{unit}{WHOLE_RUN}")
    return any(
        f.facts.group in groups and f.facts.direction > 0 and f.confirmed and f.state.open for f in findings.values()
    )


def _either_fenced(one: Facts, other: Facts, findings: Mapping[str, Finding]) -> bool:
    return is_fenced(one.device_unit, findings) or is_fenced(other.device_unit, findings)


def _joining(known: Finding, facts: Facts, fresh: set[str], run_id: str, moment: Moment) -> FindingEvent:
    """Further members. Another unit that moves alike is a second witness, as a confirm run is."""
    joined = _joined(known.facts, facts, fresh)
    units = facts.device_unit != known.facts.device_unit
    if known.confirmed or not units or facts.change_low is None or facts.change_high is None:
        return moment.event(EventKind.MOVED, joined, run_id)
    if facts.change_low * facts.change_high <= 0:
        return moment.event(EventKind.MOVED, joined, run_id)
    words = f"Confirmed: unit {facts.device_unit} moved alike in run {facts.since_run_id}."
    return moment.event(EventKind.CONFIRMED, replace(joined, evidence=replace(joined.evidence, confirm=words)), run_id)


def _resized(known: Facts, sizes: Mapping[str, float]) -> Facts:
    """The facts with the members' present changes against the level from before the finding."""
    members = tuple(
        replace(m, change=sizes[m.subject_id], low=None, high=None) if m.subject_id in sizes else m
        for m in known.evidence.members
    )
    same = known.subject_id not in sizes
    now = sizes.get(known.subject_id, known.change)
    return replace(
        known,
        change=now,
        sentence=known.sentence if same else _by_now(known, now),
        change_low=known.change_low if same else None,
        change_high=known.change_high if same else None,
        price=known.price if known.price in (None, 0.0) else total_price((m.weight, m.change) for m in members),
        evidence=replace(known.evidence, members=members),
    )


def _by_now(known: Facts, now: float | None) -> str:
    """The size that a change has grown or shrunk to, and the one it was first said with."""
    if now is None:
        return known.sentence
    was = "" if known.change is None else f"; it was {in_words(known.metric, known.change)}"
    return f"{with_shape(known.title, known.shape)}, {known.arm}, is {in_words(known.metric, now)} by now{was}."


def _joined(known: Facts, more: Facts, fresh: Iterable[str]) -> Facts:
    """The facts with the members that are new, and the price of all."""
    added = tuple(m for m in more.evidence.members if m.subject_id in set(fresh))
    members = known.evidence.members + added
    return replace(
        known,
        subject_ids=known.subject_ids + tuple(m.subject_id for m in added),
        evidence=replace(known.evidence, members=members),
        price=known.price
        if known.metric is not Metric.LATENCY_RATIO or known.price in (None, 0.0)  # a moved baseline costs nothing
        else total_price((m.weight, m.change) for m in members),
    )


def _again(known: Facts, facts: Facts) -> Facts:
    """The facts of a change that is back, under its first name. Its members are judged against the level from before
    they moved the first time: the runs between hold the bad level too."""
    first = {member.subject_id: member.since_run_id for member in known.evidence.members}
    members = tuple(replace(m, since_run_id=first.get(m.subject_id) or m.since_run_id) for m in facts.evidence.members)
    return replace(
        facts,
        since_run_id=known.since_run_id,
        since_at=known.since_at,
        evidence=replace(facts.evidence, members=members),
    )


def _similar(before: float | None, now: float | None) -> bool:
    if before is None or now is None:
        return True
    return 0.5 <= math.log1p(now) / math.log1p(before) <= 2 if before not in (0.0, -1.0) and now > -1 else False


def open_finding_events(
    judged: RunVerdicts, history: UnitHistory, findings: Mapping[str, Finding], policy: Policy, moment: Moment
) -> dict[str, FindingEvent]:
    """What the run says of changes that were said before, by their names in `findings`: at most one event each."""
    by_finding: dict[str, list[SubjectVerdict]] = defaultdict(list)
    for said in judged.verdicts:
        if said.finding_id is not None:
            by_finding[said.finding_id].append(said)
    events: dict[str, FindingEvent] = {}
    for name, members in sorted(by_finding.items()):
        finding = findings.get(name)
        if finding is None or judged.run.run_id in (finding.facts.since_run_id, finding.opened_run_id):
            continue
        standing = sum(v.verdict.code is ReasonCode.OPEN_FINDING for v in members)
        back = sum(v.verdict.code is ReasonCode.RECOVERED for v in members)
        kind: EventKind | None = None
        if back > standing:
            if finding.facts.device_unit != judged.run.device_unit:
                continue  # one unit of several is back: the one it was first seen on decides
            if not finding.confirmed:
                kind = EventKind.REFUTED
            elif _was_back(members, history, judged, finding):
                kind = EventKind.RESOLVED
        elif standing and not finding.confirmed:
            nights = _nights_seen(members, history, judged, finding, policy)
            kind = EventKind.CONFIRMED if nights >= policy.confirm.nights else None
        elif standing and moment.at - finding.updated_at >= STILL_MOVING:
            drifted = _present_size(members, history, judged, finding, policy)
            if drifted is not None:
                events[name] = moment.event(EventKind.MOVED, drifted, judged.run.run_id)
        if kind is not None:
            events[name] = moment.event(kind, _with_witness(finding.facts, kind, judged), judged.run.run_id)
    return events


def _present_size(
    members: list[SubjectVerdict], history: UnitHistory, judged: RunVerdicts, finding: Finding, policy: Policy
) -> Facts | None:
    """The facts with the sizes of the last nights, where the first member is a floor away from what was said of it."""
    sizes: dict[str, float] = {}
    for said in members:
        levels = _levels(said, history, judged, finding)
        if levels is not None and len(levels[0]) >= STILL_MOVING.days:
            sizes[said.subject.subject_id] = math.expm1(float(np.median(levels[0][-STILL_MOVING.days :])))
    before, now = finding.facts.change, sizes.get(finding.facts.subject_id)
    whole = finding.facts.group.endswith(WHOLE_RUN) or finding.facts.arm == "optimized"
    if before is None or now is None or whole:
        return None
    floor = math.log1p(policy.floor(finding.facts.metric, judged.run.device_kind))
    if abs(math.log1p(now) - math.log1p(before)) <= floor:
        return None
    return _resized(finding.facts, sizes)


def _with_witness(facts: Facts, kind: EventKind, judged: RunVerdicts) -> Facts:
    run = judged.run.run_id
    size = "" if facts.change is None else f"{in_words(facts.metric, facts.change)}, "
    words = {
        EventKind.CONFIRMED: f"Confirmed: {size}measured again by later nights up to run {run}.",
        EventKind.REFUTED: f"Not confirmed: run {run} measured it back at its earlier level.",
        EventKind.RESOLVED: f"Resolved: run {run} and the one before measured it back at its earlier level.",
    }[kind]
    return replace(facts, evidence=replace(facts.evidence, confirm=words))


def _levels(
    said: SubjectVerdict, history: UnitHistory, judged: RunVerdicts, finding: Finding
) -> tuple[list[float], float] | None:
    """Log-changes of the nights after the first bad one, oldest first, and the change reported; None without
    numbers."""
    member = next((m for m in finding.facts.evidence.members if m.subject_id == said.subject.subject_id), None)
    row = history.row(said.subject.subject_id)
    matrix = history.metrics.get(said.metric)
    if member is None or row is None or matrix is None or member.change is None:
        return None
    column = judged.column
    named = {member.since_run_id, finding.opened_run_id}
    places = [i for i, run in enumerate(history.runs[: column + 1]) if run.run_id in named]
    if not places:
        return None
    since = max(places)  # nights that a shift was found in are no witnesses of it
    visible = visible_columns(history, column)
    values = np.log(np.where(matrix.value[row] > 0, matrix.value[row], np.nan))
    # Tonight's verdict knows the level from before: its own change, undone.
    if said.verdict.change is None or not math.isfinite(values[column]):
        return None
    whole = finding.facts.group.endswith(WHOLE_RUN)
    shift = judged.shift if said.metric in UNPAIRED else None
    before = float(values[column]) - math.log1p(said.verdict.change) - (math.log1p(shift.change) if shift else 0.0)
    later = [float(values[i]) - before for i in range(since + 1, column + 1) if visible[i] or i == column]
    reported = finding.facts.change if whole else member.change
    return [d for d in later if math.isfinite(d)], math.log1p(reported or 0.0)


def _nights_seen(
    members: Iterable[SubjectVerdict], history: UnitHistory, judged: RunVerdicts, finding: Finding, policy: Policy
) -> int:
    """Nights after the first bad one on which most members stood beyond the floor, and at half of the change or more.

    0 where fewer than three quarters of those nights did.
    """
    counts = []
    for said in members:
        levels = _levels(said, history, judged, finding)
        if levels is None:
            if said.verdict.code is ReasonCode.OPEN_FINDING:
                counts.append(_nights_without_numbers(history, judged.column, finding))
            continue
        changes, reported = levels
        direction = math.copysign(1.0, reported)
        floor = math.log1p(policy.floor(said.metric, judged.run.device_kind))
        seen = sum(direction * d > max(floor, abs(reported) / 2) for d in changes)
        counts.append(seen if seen >= 0.75 * len(changes) else 0)
    return int(np.median(counts)) if counts else 0


def _nights_without_numbers(history: UnitHistory, column: int, finding: Finding) -> int:
    """Nights of a failing case, or of one that was zero: those since the first bad run, tonight included."""
    since = next((i for i, run in enumerate(history.runs) if run.run_id == finding.facts.since_run_id), column)
    visible = visible_columns(history, column)
    return sum(bool(visible[i]) for i in range(since + 1, column)) + 1


def _was_back(members: Iterable[SubjectVerdict], history: UnitHistory, judged: RunVerdicts, finding: Finding) -> bool:
    """Whether the night before this one was back too: one good night after a confirmed change may be luck."""
    votes = []
    for said in members:
        levels = _levels(said, history, judged, finding)
        if levels is None:
            votes.append(True)
            continue
        changes, reported = levels
        if len(changes) >= 2:
            votes.append(math.copysign(1.0, reported) * changes[-2] <= abs(reported) / 2)
    return bool(votes) and sum(votes) * 2 >= len(votes)
