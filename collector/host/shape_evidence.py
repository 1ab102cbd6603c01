"""Which of the judged cases moved and which did not, and the rule over their shapes: added to what a finding says."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from collector.host.case_shapes import load_shapes, shapes_by_case
from collector.host.run_verdicts import RunVerdicts, SubjectVerdict
from collector.host.segments import WHOLE_RUN
from detection.findings import EventKind, Facts, FindingEvent, make_event
from detection.shape_features import Shape
from detection.shape_rule import ShapeCase, find_shape_rule
from detection.verdict import VerdictStatus
from store.lake.lake import Lake

MOST_CASES = 200
"""On either side."""
_WITH_MEMBERS = (EventKind.SUSPECTED, EventKind.REOPENED, EventKind.MOVED, EventKind.CONFIRMED)


class ShapeEvidence:
    """Reads the shapes of a run when an event first needs them."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._known: dict[str, Shape] = {}

    def add(self, event: FindingEvent, judged: RunVerdicts) -> FindingEvent:
        """The event with the judged cases of this run beside those that it knew, and the rule over all of them."""
        facts = event.facts
        if event.event not in _WITH_MEMBERS or facts.group.endswith(WHOLE_RUN) or not facts.evidence.members:
            return event
        moved = {member.case_id for member in facts.evidence.members}
        still = {v.subject.case_id for v in judged.verdicts if _is_still(v, facts)} - moved
        shapes = self._shapes(judged.run.run_id, moved | still)
        cases = {case.shape.case_id: case for case in facts.evidence.cases}
        cases |= {name: ShapeCase(shape=shapes[name], moved=False) for name in still if name in shapes}
        cases |= {name: ShapeCase(shape=shapes[name], moved=True) for name in moved if name in shapes}
        kept = (*_thinned(cases, moved=True), *_thinned(cases, moved=False))
        if kept == facts.evidence.cases:
            return event
        answer = find_shape_rule(kept)
        evidence = replace(facts.evidence, cases=kept, shape_rule=answer.rule, shape_words=answer.sentence)
        return make_event(
            event.event,
            replace(facts, evidence=evidence),
            at=event.at,
            as_of_seq=event.as_of_seq,
            run_id=event.run_id,
            actor=event.actor,
        )

    def _shapes(self, run_id: str, wanted: set[str]) -> Mapping[str, Shape]:
        if not wanted <= self._known.keys():
            self._known |= shapes_by_case(load_shapes(self._lake, run_id))
        return self._known


def _thinned(cases: Mapping[str, ShapeCase], *, moved: bool) -> list[ShapeCase]:
    """The cases of one side, evenly thinned where they are many: every event carries them."""
    side = [cases[name] for name in sorted(cases) if cases[name].moved is moved]
    step = -(-len(side) // MOST_CASES) or 1
    return side[::step]


def _is_still(said: SubjectVerdict, facts: Facts) -> bool:
    """Whether the verdict excludes half of the change of the members: one whose interval is wide says neither."""
    members = facts.evidence.members
    same = said.metric is facts.metric and said.subject.operator == facts.operator
    if not same or said.subject.arm not in {m.arm for m in members} or said.moved or said.finding_id is not None:
        return False
    change = members[0].change
    if change is None or said.verdict.low is None or said.verdict.high is None:
        return said.verdict.status is VerdictStatus.UNCHANGED
    direction = math.copysign(1.0, change)
    far = said.verdict.high if direction > 0 else said.verdict.low
    return direction * _log(far) < abs(_log(change)) / 2


def _log(change: float) -> float:
    return math.log1p(max(change, -0.999))
