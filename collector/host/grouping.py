"""What moved in a run, gathered by probable cause: one group, one finding."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from collector.host.history import RunFacts, UnitHistory, visible_columns
from collector.host.run_verdicts import SILENT_ROLES, RunVerdicts, SubjectVerdict
from detection.classify import (
    ArmsMoved,
    Cause,
    Difference,
    baseline_moved,
    classify,
    differences,
    unit_step,
    volatile_fields,
)
from detection.findings import Evidence, Facts, Member, Tile, finite
from detection.policy import Policy
from detection.price import total_price
from detection.verdict import UNPAIRED, Metric, ReasonCode, VerdictStatus, in_words, percent

TREND_RUNS = 30
SIBLINGS = 8
"""Series that did not move, named as evidence."""
ENVIRONMENT_RUNS = 12
"""Runs looked at to tell a field that changes every night."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Series that moved together, the same way, in the same metric."""

    name: str
    metric: Metric
    direction: int
    members: tuple[SubjectVerdict, ...]
    denominator: bool = False
    whole_run: bool = False

    @property
    def further(self) -> bool:
        """Whether every member only went on from where an open finding had left it."""
        return all(v.total_change is not None for v in self.members)


def group_moves(judged: RunVerdicts, history: UnitHistory, policy: Policy) -> tuple[Group, ...]:
    """The groups of a run, dearest first. A run whose host moved is one group, whatever its series did."""
    groups: list[Group] = []
    if judged.shift is not None:
        groups.append(_shifted_run(judged))
    by_cause: dict[tuple[str, Metric, int, bool], list[SubjectVerdict]] = defaultdict(list)
    judged_ratios = (v for v in judged.verdicts if v.metric is Metric.LATENCY_RATIO and v.verdict.change is not None)
    paired = {v.subject.case_id for v in judged_ratios}
    explained = _moved_denominators(judged, policy)
    for said in judged.verdicts:
        if not said.moved or said.subject.role in SILENT_ROLES:
            continue
        if said.metric in UNPAIRED and said.subject.case_id in paired:
            continue  # the paired ratio speaks for the case: an unpaired time has the host in it
        if judged.shift is not None and said.metric in UNPAIRED and said.verdict.code is not ReasonCode.BEYOND_FLOOR:
            continue  # on a night when the host moved, what is left of a series must be beyond doubt
        denominator = said.metric is Metric.LATENCY_RATIO and said.subject.subject_id in explained
        if said.metric is Metric.LATENCY_RATIO and said.subject.role == "naive" and not denominator:
            continue  # nobody ships the textbook: it is a witness
        arm = "optimized" if denominator else said.subject.arm
        direction = -_sign(said) if denominator else _sign(said)
        name = f"{judged.run.device_model} · {said.subject.operator} · {arm}"
        by_cause[name, said.metric, direction, denominator].append(said)
    for (name, metric, direction, denominator), members in by_cause.items():
        ranked = tuple(sorted(members, key=_rank))
        groups.append(Group(name=name, metric=metric, direction=direction, members=ranked, denominator=denominator))
    return tuple(groups)


def _shifted_run(judged: RunVerdicts) -> Group:
    assert judged.shift is not None
    metric = judged.shift.metric
    latencies = [v for v in judged.verdicts if v.metric is metric and v.verdict.change is not None]
    members = tuple(v for v in latencies if v.subject.role not in SILENT_ROLES)
    direction = 1 if judged.shift.change > 0 else -1
    name = f"{judged.run.device_unit} · whole run"
    return Group(name=name, metric=metric, direction=direction, members=members, whole_run=True)


def _sign(said: SubjectVerdict) -> int:
    if said.verdict.change is not None:
        return 1 if said.verdict.change > 0 else -1
    return 1 if said.verdict.status is VerdictStatus.REGRESSED else -1


def _rank(said: SubjectVerdict) -> tuple[float, float, str]:
    change = abs(said.verdict.change or 0.0)
    return (-(said.subject.weight or 0.0) * change, -change, said.subject.subject_id)


def _moved_denominators(judged: RunVerdicts, policy: Policy) -> frozenset[str]:
    """Ratio series that moved because the optimized arm of their case did, by `subject_id`.

    Each candidate is asked by itself: an optimized arm that moved by 5 % explains one that moved by as much, and not
    another of the same case that became half as fast. The naive arm goes with the candidates that it is the witness
    of; where a case has none, it is asked itself.
    """
    floor = policy.floor(Metric.LATENCY_RATIO, judged.run.device_kind)
    by_case: dict[str, list[SubjectVerdict]] = defaultdict(list)
    for said in judged.verdicts:
        if said.metric in (Metric.LATENCY_RATIO, Metric.LATENCY) and said.verdict.change is not None:
            by_case[said.subject.case_id].append(said)
    found: set[str] = set()
    for said_of_case in by_case.values():
        ratios = {s.subject.subject_id: s for s in said_of_case if s.metric is Metric.LATENCY_RATIO}
        latency = {s.subject.arm: s.verdict.change for s in said_of_case if s.metric is Metric.LATENCY}
        naive = next((s for s in ratios.values() if s.subject.role == "naive"), None)
        candidates = [s for s in ratios.values() if s.subject.role == "candidate"]
        explained = {
            s.subject.subject_id
            for s in candidates or [s for s in (naive,) if s is not None]
            if baseline_moved(
                ArmsMoved(
                    candidate_ratio=s.verdict.change,
                    naive_ratio=naive.verdict.change if naive is not None and naive is not s else None,
                    candidate_latency=latency.get(s.subject.arm),
                    optimized_latency=latency.get("optimized"),
                ),
                floor,
            )
        }
        found |= explained
        if explained and naive is not None:
            found.add(naive.subject.subject_id)
    return frozenset(found)


def build_facts(group: Group, judged: RunVerdicts, history: UnitHistory) -> Facts:
    """All that the first event of a finding says."""
    run, top = judged.run, group.members[0]
    good = _run_named(history, top.baseline_run_id)
    differing = _differing(history, judged.column, good)
    cause = _cause(group, judged, differing)
    change, low, high = _change_of(group, judged)
    members = tuple(_member(v, run) for v in group.members)
    if group.whole_run and judged.shift is not None:
        members = tuple(_with_shift(m, judged.shift.change) for m in members)
    title, shape = run_words(run, top.subject.case_id, top.subject.operator)
    whole = group.whole_run
    return Facts(
        group=group.name,
        finding_class=cause.finding_class,
        direction=group.direction,
        metric=group.metric,
        operator="" if whole else top.subject.operator,
        family="" if whole else top.subject.family,
        title=f"All of {run.host or run.device_unit}" if whole else title,
        shape=f"{len(members)} series of one run" if whole else shape,
        case_id="" if whole else top.subject.case_id,
        arm="optimized" if group.denominator else top.subject.arm,
        subject_id=top.subject.subject_id,
        subject_ids=tuple(v.subject.subject_id for v in group.members),
        device_model=run.device_model,
        device_unit=run.device_unit,
        host=run.host,
        change=finite(change),
        change_low=finite(low),
        change_high=finite(high),
        price=_price(group),
        since_run_id=run.run_id,
        since_at=run.started_at,
        last_good_run_id=top.baseline_run_id,
        revision_good=good.revision if good else None,
        revision_bad=run.revision,
        differing=differing,
        cause=cause.sentence,
        sentence=_sentence(group, judged, title, shape, change, low, high),
        evidence=Evidence(
            baseline=f"its own history, {top.verdict.baseline}" if top.verdict.baseline else "",
            tiles=_tiles(group, judged, history),
            members=members,
            co_movers=tuple(_member(v, run) for v in judged.verdicts if v.moved and v not in group.members)[:SIBLINGS],
            not_moved=_siblings(group, judged),
            scatter=judged.scatter.get(group.metric, 1.0),
            trend=_trend(history, top, judged.column),
        ),
        repro=top.subject.repro,
    )


def _change_of(group: Group, judged: RunVerdicts) -> tuple[float | None, float | None, float | None]:
    if group.whole_run and judged.shift is not None:
        return judged.shift.change, None, None
    verdict = group.members[0].verdict
    if not group.denominator or verdict.change is None:
        return verdict.change, verdict.low, verdict.high
    # candidate / optimized became x times as much because optimized takes 1/x of its time.
    ends = [None if c is None or c <= -1 else 1 / (1 + c) - 1 for c in (verdict.change, verdict.high, verdict.low)]
    return ends[0], ends[1], ends[2]


def _price(group: Group) -> float | None:
    if group.denominator:
        return 0.0  # the kernel in production did not change
    if group.metric in (Metric.PEAK_MEMORY, Metric.ERROR):
        return None  # no device time
    if group.metric is Metric.STATUS:
        return total_price((v.subject.weight, 1.0) for v in group.members)
    arms = {v.subject.arm for v in group.members}
    chosen = [v for v in group.members if v.subject.role == "candidate"] if len(arms) > 1 else list(group.members)
    return total_price((v.subject.weight, v.verdict.change) for v in chosen or group.members)


def _run_named(history: UnitHistory, run_id: str | None) -> RunFacts | None:
    return next((run for run in history.runs if run.run_id == run_id), None)


def _differing(history: UnitHistory, column: int, good: RunFacts | None) -> tuple[Difference, ...]:
    if good is None:
        return ()
    seen = [run.environment for run, used in zip(history.runs, visible_columns(history, column), strict=True) if used]
    return differences(
        good.environment, history.runs[column].environment, volatile=volatile_fields(seen[-ENVIRONMENT_RUNS:])
    )


def _cause(group: Group, judged: RunVerdicts, differing: Sequence[Difference]) -> Cause:
    unit = unit_step(group.members[0].verdict.change) if group.metric is not Metric.LATENCY_RATIO else None
    if unit is not None:
        return unit
    arms = {v.subject.arm for v in group.members}
    measured = {v.subject.operator for v in judged.verdicts if v.metric is group.metric and v.subject.arm in arms}
    moved = {
        v.subject.operator
        for v in judged.verdicts
        if v.metric is group.metric and v.subject.arm in arms and v.moved and _sign(v) == _sign(group.members[0])
    }
    return classify(
        differing,
        denominator_moved=group.denominator,
        whole_run_moved=group.whole_run,
        operators_moved=len(moved),
        operators_measured=len(measured),
        paired=group.metric is Metric.LATENCY_RATIO,
    )


def run_words(run: RunFacts, case_id: str, operator: str) -> tuple[str, str]:
    """Title and shape of a case in the words of its run; the shape is empty where the title is all that is known."""
    entry = run.catalog.get(case_id)
    entry = entry if isinstance(entry, Mapping) else {}
    title = str(entry.get("title") or operator or case_id)
    return title, str(entry.get("shape") or ("" if title == case_id else case_id))


def with_shape(title: str, shape: str) -> str:
    """As a sentence names a case: `GEMM (M=16, bf16)`."""
    return f"{title} ({shape})" if shape else title


def series_label(title: str, shape: str, arm: str) -> str:
    """As a list names a series: `GEMM · M=16, bf16 · candidate`."""
    return " · ".join(part for part in (title, shape, arm) if part)


def _member(said: SubjectVerdict, run: RunFacts) -> Member:
    title, shape = run_words(run, said.subject.case_id, said.subject.operator)
    return Member(
        subject_id=said.subject.subject_id,
        label=series_label(title, shape, said.subject.arm),
        case_id=said.subject.case_id,
        arm=said.subject.arm,
        change=finite(said.verdict.change),
        low=finite(said.verdict.low),
        high=finite(said.verdict.high),
        weight=said.subject.weight,
        since_run_id=run.run_id,
    )


def _with_shift(member: Member, shift: float) -> Member:
    """The member's whole change: its verdict had the run's common shift taken out."""
    whole = [None if c is None else (1 + c) * (1 + shift) - 1 for c in (member.change, member.low, member.high)]
    return replace(member, change=whole[0], low=whole[1], high=whole[2])


def _siblings(group: Group, judged: RunVerdicts) -> tuple[Member, ...]:
    """Series of the same metric that did not move: the same operator first, then the other arms of the same case."""
    inside = {v.subject.subject_id for v in group.members}
    cases = {v.subject.case_id for v in group.members}
    operators = {v.subject.operator for v in group.members}
    others = [
        v
        for v in judged.verdicts
        if v.metric is group.metric
        and v.subject.subject_id not in inside
        and not v.moved
        and v.verdict.change is not None
    ]
    near = sorted(
        others,
        key=lambda v: (v.subject.case_id not in cases, v.subject.operator not in operators, v.subject.subject_id),
    )
    return tuple(_member(v, judged.run) for v in near[:SIBLINGS])


def _tiles(group: Group, judged: RunVerdicts, history: UnitHistory) -> tuple[Tile, ...]:
    top = group.members[0]
    verdict, subject = top.verdict, top.subject
    tiles = [
        Tile(
            label="Tonight, paired in one run" if group.metric is Metric.LATENCY_RATIO else "Tonight",
            change=finite(verdict.change),
            low=finite(verdict.low),
            high=finite(verdict.high),
            words=f"{verdict.n} processes, against {verdict.baseline}" if verdict.baseline else verdict.sentence,
        )
    ]
    if group.metric is Metric.LATENCY_RATIO:
        for label, role, metric, words in (
            ("Arm alone", subject.role, Metric.LATENCY, "unpaired latency, the host is in it"),
            ("Optimized arm alone", "optimized", Metric.LATENCY, "unpaired latency, the host is in it"),
            ("Naive over optimized", "naive", Metric.LATENCY_RATIO, "unchanged where the baseline did not move"),
            ("A/A copy over optimized", "aa", Metric.LATENCY_RATIO, "the same code twice: pure noise"),
        ):
            tile = _change_tile(label, words, history, judged.column, subject.case_id, role, metric, subject.arm)
            tiles += [tile] if tile else []
    return tuple(tiles)


def _change_tile(
    label: str, words: str, history: UnitHistory, column: int, case_id: str, role: str, metric: Metric, arm: str
) -> Tile | None:
    for row, subject in enumerate(history.subjects):
        if subject.case_id != case_id or subject.role != role or (role == "candidate" and subject.arm != arm):
            continue
        values = history.metrics[metric].value[row]
        past = values[:column][visible_columns(history, column)[:column]]
        past = past[np.isfinite(past)]
        if past.size and math.isfinite(values[column]) and float(np.median(past)) > 0:
            change = float(values[column]) / float(np.median(past)) - 1
            return Tile(label=label, change=change, low=None, high=None, words=words)
    return None


def _trend(history: UnitHistory, top: SubjectVerdict, column: int) -> tuple[float, ...]:
    row = history.row(top.subject.subject_id)
    matrix = history.metrics.get(top.metric)
    if row is None or matrix is None:
        return ()
    values = matrix.value[row, : column + 1]
    return tuple(float(v) for v in values[np.isfinite(values)][-TREND_RUNS:])


def _sentence(
    group: Group,
    judged: RunVerdicts,
    title: str,
    shape: str,
    change: float | None,
    low: float | None,
    high: float | None,
) -> str:
    top, name = group.members[0], with_shape(title, shape)
    if group.whole_run and judged.shift is not None:
        return judged.shift.sentence
    where = judged.run.device_model or judged.run.host
    others = f" {len(group.members)} series moved together." if len(group.members) > 1 else ""
    if change is None:
        return f"{name}, {top.subject.arm}, on {where}: {top.verdict.sentence}{others}"
    interval = ""
    if low is not None and high is not None:
        interval = f" (95 % interval {percent(low, signed=True)} to {percent(high, signed=True)})"
    if group.denominator:
        return (
            f"The optimized arm of {name} on {where} is {in_words(group.metric, change)}{interval}; "
            f"what is compared with it moved only for that reason.{others}"
        )
    against = " against the optimized arm" if group.metric is Metric.LATENCY_RATIO else ""
    return (
        f"{name}, {top.subject.arm}, on {where} is {in_words(group.metric, change)}{against}{interval}: "
        f"{top.verdict.sentence.split(':')[0]}.{others}"
    )
