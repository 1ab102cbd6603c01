"""What the judge last said of a set of series, and of where in shape space the open findings lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.data.overview import OPEN_STATES
from dashboard.data.source import ask
from detection.findings import evidence_from_json

BATCH = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """The newest verdict of a series against its history."""

    subject_id: str
    status: str
    change: float | None
    change_low: float | None
    change_high: float | None


QUERY = """
select subject_id, arg_max(status, (as_of_seq, made_at)) as status, arg_max(change, (as_of_seq, made_at)) as change,
       arg_max(change_low, (as_of_seq, made_at)) as change_low,
       arg_max(change_high, (as_of_seq, made_at)) as change_high
from verdicts
where metric = 'latency_ratio' and against = 'history' and subject_id in ({subjects})
group by 1
"""


def moved_of(subjects: Sequence[str]) -> dict[str, Moved]:
    """Series -> its newest verdict."""
    found: dict[str, Moved] = {}
    for start in range(0, len(subjects), BATCH):
        part = subjects[start : start + BATCH]
        query = QUERY.format(subjects=", ".join(f"$s{i}" for i in range(len(part))))
        for row in ask(Moved, query, {f"s{i}": subject for i, subject in enumerate(part)}):
            found[row.subject_id] = row
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """An open finding and its border in shape space, in words with the counts."""

    finding_id: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Evidence:
    finding_id: str
    state: str
    evidence: str | None


RULES_QUERY = """
select finding_id, state, evidence from findings_state
where family = $family and device_model is not distinct from $model
order by abs(price) desc nulls last, finding_id limit 100
"""


def rules_of(family: str, device_model: str) -> list[Rule]:
    """The rules of the open findings of an operator family on a device model, the dearest first."""
    found = []
    for row in ask(_Evidence, RULES_QUERY, {"family": family, "model": device_model}):
        if row.state not in OPEN_STATES or not row.evidence:
            continue
        if rule := evidence_from_json(row.evidence).shape_rule:
            found.append(Rule(finding_id=row.finding_id, words=rule.sentence))
    return found
