"""What the status of the rows says: series that newly fail, that run again, and that are missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from collector.host.history import UnitHistory
from collector.host.run_verdicts import SILENT_ROLES, SubjectVerdict
from collector.host.segments import Segment, Segments
from detection.policy import Policy
from detection.verdict import Metric, ReasonCode, Verdict, VerdictStatus, not_judged


def newly_failing(
    history: UnitHistory,
    rows: Sequence[int],
    column: int,
    visible: NDArray[np.bool_],
    segments: Segments,
    policy: Policy,
) -> list[SubjectVerdict]:
    """Series that were measured the time before and are wrong or failed now; and those that run again."""
    said = []
    by_name: dict[tuple[str, str], list[int]] = {(s.case_id, s.arm): [] for s in history.subjects}
    for i, s in enumerate(history.subjects):
        by_name[s.case_id, s.arm].append(i)
    seen = np.flatnonzero(visible)
    for row in rows:
        subject, status = history.subjects[row], history.status[row, column]
        if subject.role in SILENT_ROLES or status not in ("measured", "wrong", "failed"):
            continue
        # A case that fails before it is timed has no timer in its settings, so its series key may differ: go by name.
        twins = by_name[subject.case_id, subject.arm]
        open_finding = next((segments[t, Metric.STATUS] for t in twins if (t, Metric.STATUS) in segments), None)
        if status == "measured" and open_finding is None:
            continue
        past = [(int(i), str(history.status[t, i])) for t in twins for i in seen if history.status[t, i] is not None]
        before = max(past, default=None, key=lambda p: p[0])
        if before is None:
            continue
        verdict = _status_verdict(history, row, column, before, open_finding, policy)
        if verdict is not None:
            said.append(
                SubjectVerdict(
                    subject=subject,
                    metric=Metric.STATUS,
                    verdict=verdict,
                    baseline_run_id=history.runs[before[0]].run_id,
                    finding_id=open_finding.finding_id if open_finding else None,
                )
            )
    return said


def missing_series(
    history: UnitHistory, column: int, visible: NDArray[np.bool_], policy: Policy
) -> list[SubjectVerdict]:
    """Series of the suite that had a value before and had none in so many runs, this one the last of them: said once.

    A row without valid samples is none either. Runs that were asked for some cases only are not looked at.
    """
    run, needed = history.runs[column], policy.silence.series_runs
    if run.narrowed:
        return []
    past = [(int(c), history.runs[int(c)]) for c in np.flatnonzero(visible)]
    same = [c for c, r in past if r.suite == run.suite and not r.narrowed]
    recent, before = [*same, column][-needed:], [*same, column][:-needed]
    if len(recent) < needed or not before:
        return []
    said = []
    for row, subject in enumerate(history.subjects):
        if subject.role in SILENT_ROLES or any(history.status[row, c] not in (None, "invalid") for c in recent):
            continue
        if history.status[row, before[-1]] in (None, "invalid"):
            continue
        last = history.runs[before[-1]]
        why = next((history.status_reason[row, c] for c in recent if history.status[row, c] is not None), None)
        sentence = (
            f"No {'valid sample' if why else 'row'} in the last {needed} runs of suite {run.suite}; "
            f"the last one is of run {last.run_id}.{f' {why}' if why else ''}"
        )
        verdict = not_judged(ReasonCode.GAP, sentence, policy=policy.name, policy_version=policy.version)
        said.append(SubjectVerdict(subject=subject, metric=Metric.STATUS, verdict=verdict, baseline_run_id=last.run_id))
    return said


def _status_verdict(
    history: UnitHistory,
    row: int,
    column: int,
    before: tuple[int, str],
    open_finding: Segment | None,
    policy: Policy,
) -> Verdict | None:
    status, kind = history.status[row, column], history.status_kind[row, column]
    words = f"{status}{f': {kind}' if kind else ''}"
    reason = history.status_reason[row, column] or ""
    base = not_judged(ReasonCode.FAILED, "", policy=policy.name, policy_version=policy.version)
    if status == "measured":
        if open_finding is None:
            return None
        sentence = f"Measured again; {open_finding.finding_id} had reported it failing."
        return replace(base, status=VerdictStatus.UNCHANGED, code=ReasonCode.RECOVERED, sentence=sentence)
    if open_finding is not None:
        sentence = f"Still {words}, as {open_finding.finding_id} reported. {reason}".strip()
        return replace(base, status=VerdictStatus.REGRESSED, code=ReasonCode.OPEN_FINDING, sentence=sentence)
    if before[1] != "measured":
        return None
    sentence = f"Measured in run {history.runs[before[0]].run_id}, {words} now. {reason}".strip()
    return replace(base, status=VerdictStatus.REGRESSED, code=ReasonCode.NEWLY_FAILING, sentence=sentence)
