"""Shapes that a night measures for the first time, held against what the measured shapes and the roofline expect."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from collector.host.case_shapes import ShapedRow, load_shapes
from collector.host.run_verdicts import RunVerdicts, SubjectVerdict
from detection.cost_model import Costed, Expected, fit_cost_model
from detection.policy import Policy
from detection.verdict import Metric, ReasonCode, Verdict, VerdictStatus
from store.lake.lake import Lake

ROLES = ("optimized", "candidate")
MOST_NEW = 0.5
"""Where more of a run's series are new than this, the device is new, and nothing about it is expected."""

Series = tuple[str, str, str, str]


def judge_new_shapes(lake: Lake, judged: RunVerdicts, policy: Policy) -> tuple[SubjectVerdict, ...]:
    """A verdict against the model for every new series of an operator, arm and dtype with enough measured shapes."""
    timed = [v for v in judged.verdicts if v.metric is Metric.LATENCY]
    new = {v.subject.subject_id: v for v in timed if v.verdict.code is ReasonCode.FIRST_RUN}
    if not new or len(new) > MOST_NEW * len(timed):
        return ()
    rows: dict[Series, list[ShapedRow]] = defaultdict(list)
    for row in load_shapes(lake, judged.run.run_id):
        if row.measured and row.role in ROLES:
            rows[row.shape.operator, row.arm, row.shape.dtype, row.settings].append(row)
    said = []
    for group in rows.values():
        fresh = [row for row in group if row.subject_id in new]
        model = fit_cost_model([_costed(row) for row in group if row.subject_id not in new]) if fresh else None
        for row in fresh if model is not None else ():
            expected = model.expect(_costed(row)) if model is not None and row.seconds > 0 else None
            if expected is not None:
                said.append(_against_model(new[row.subject_id], expected, row.seconds, policy))
    return tuple(said)


def notices_of(judged: RunVerdicts, said: Sequence[SubjectVerdict]) -> list[str]:
    """A sentence for each new shape that is far from the model."""
    return [
        f"{judged.run.run_id}: new shape {v.subject.case_id}, {v.subject.arm}: {v.verdict.sentence}"
        for v in said
        if v.verdict.code is ReasonCode.FAR_FROM_MODEL
    ]


def _costed(row: ShapedRow) -> Costed:
    return Costed(shape=row.shape, roofline_s=row.roofline_s, seconds=row.seconds)


def _against_model(new: SubjectVerdict, expected: Expected, seconds: float, policy: Policy) -> SubjectVerdict:
    far = expected.is_far(seconds)
    verdict = Verdict(
        status=VerdictStatus.INCONCLUSIVE if far else VerdictStatus.NOT_JUDGED,
        code=ReasonCode.FAR_FROM_MODEL if far else ReasonCode.AS_MODELLED,
        sentence=expected.sentence(seconds),
        change=seconds / expected.seconds - 1,
        low=seconds / expected.high_s - 1,
        high=seconds / expected.low_s - 1,
        baseline=f"{expected.cases} measured shapes and the roofline",
        baseline_n=expected.cases,
        policy=policy.name,
        policy_version=policy.version,
    )
    return SubjectVerdict(subject=new.subject, metric=Metric.LATENCY, verdict=verdict, against="model")
