"""Verdicts as rows of the lake, and as the lines that a command prints."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from collector.host.grouping import run_words
from collector.host.history import RunFacts
from collector.host.life import Moment
from collector.host.run_verdicts import SubjectVerdict
from detection.verdict import ReasonCode, VerdictStatus
from store.lake.tables import VERDICTS


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictLine:
    """A verdict as the table of a command shows it."""

    run_id: str
    case_id: str
    title: str
    shape: str
    arm: str
    role: str
    metric: str
    tier: str
    against: str
    status: VerdictStatus
    code: ReasonCode
    sentence: str
    change: float | None
    low: float | None
    high: float | None
    smallest_visible_change: float | None
    finding_id: str | None


def verdict_line(run: RunFacts, said: SubjectVerdict) -> VerdictLine:
    """A verdict in the words of its run."""
    title, shape = run_words(run, said.subject.case_id, said.subject.operator)
    verdict = said.verdict
    return VerdictLine(
        run_id=run.run_id,
        case_id=said.subject.case_id,
        title=title,
        shape=shape,
        arm=said.subject.arm,
        role=said.subject.role,
        metric=said.metric.value,
        tier=said.tier.value,
        against=said.against,
        status=verdict.status,
        code=verdict.code,
        sentence=verdict.sentence,
        change=verdict.change,
        low=verdict.low,
        high=verdict.high,
        smallest_visible_change=verdict.smallest_visible_change,
        finding_id=said.finding_id,
    )


def verdict_table(verdicts: Sequence[tuple[RunFacts, Moment, SubjectVerdict]]) -> pa.Table:
    """Rows of `verdicts`, built by column: a night of a hundred thousand series is one table."""
    said = [v for _, _, v in verdicts]
    columns = {
        "verdict_id": [_verdict_id(run, v) for run, _, v in verdicts],
        "run_id": [run.run_id for run, _, _ in verdicts],
        "as_of_seq": [moment.as_of_seq for _, moment, _ in verdicts],
        "made_at": [moment.at for _, moment, _ in verdicts],
        "subject_id": [v.subject.subject_id for v in said],
        "case_id": [v.subject.case_id for v in said],
        "arm": [v.subject.arm for v in said],
        "device_unit": [run.device_unit for run, _, _ in verdicts],
        "metric": [v.metric.value for v in said],
        "tier": [v.tier.value for v in said],
        "against": [v.against for v in said],
        "status": [v.verdict.status.value for v in said],
        "code": [v.verdict.code.value for v in said],
        "sentence": [v.verdict.sentence for v in said],
        "change": [v.verdict.change for v in said],
        "change_low": [v.verdict.low for v in said],
        "change_high": [v.verdict.high for v in said],
        "smallest_visible_change": [v.verdict.smallest_visible_change for v in said],
        "baseline": [v.verdict.baseline for v in said],
        "baseline_run_id": [v.baseline_run_id for v in said],
        "baseline_n": [v.verdict.baseline_n for v in said],
        "p_value": [v.verdict.p_value for v in said],
        "policy": [v.verdict.policy for v in said],
        "policy_version": [v.verdict.policy_version for v in said],
    }
    return pa.table(columns, schema=VERDICTS)


def _verdict_id(run: RunFacts, said: SubjectVerdict) -> str:
    """Saying it twice is saying it once: a hash of run, subject, metric, tier, counterpart and policy."""
    verdict = said.verdict
    parts = (
        run.run_id,
        said.subject.subject_id,
        said.metric,
        said.tier,
        said.against,
        verdict.policy,
        verdict.policy_version,
    )
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:32]
