"""The rows of what ran in the sentinel: arms of their own, `sentinel:optimized` beside `optimized`."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import replace

from bench_suite.contract import Role
from collector.node.ledger import USUAL_ARMS, ArmRecord, CaseRecord, Fate
from collector.node.rows import result_row, sample_rows
from collector.node.sentinel import LEFT_OUT, PREFIX, UNAVAILABLE, Sentinel
from collector.node.series_key import Row, RunFacts, settings_of, subject_id
from store.bundle.schemas import RowStatus

SHOWN = {"Python": "python", "torch": "version.torch", "triton": "version.triton"}
"""Versions by which a person knows an environment."""


def sentinel_result_rows(record: CaseRecord, sentinel: Sentinel, facts: RunFacts) -> list[Row]:
    """One row for each arm that the sentinel was to run, whatever happened; none where it was not to run the case."""
    other = record.sentinel
    if other is None:
        return []
    there = _facts(sentinel, facts)
    rows = []
    for arm in list(record.arms.values()) or [ArmRecord(arm=arm) for arm in USUAL_ARMS]:
        if arm.arm.role in LEFT_OUT:
            continue
        found = other.arms.get(arm.arm.label) or ArmRecord(arm=arm.arm)
        found.fate = _fate(record, arm, found, sentinel) or found.fate
        row = _renamed(result_row(other, found, there), record, arm, there)
        rows.append(row | {"repro": f"{row['repro']} --sentinel {shlex.quote(sentinel.python)}"})
    return rows


def sentinel_sample_rows(record: CaseRecord, sentinel: Sentinel, facts: RunFacts) -> list[Row]:
    """The raw samples of the sentinel's processes."""
    if record.sentinel is None:
        return []
    there = _facts(sentinel, facts)
    by_label = record.sentinel.arms
    return [
        _renamed(row, record.sentinel, by_label[row["arm"]], there)
        for row in sample_rows(record.sentinel, there)
        if row["arm"] in by_label
    ]


def _facts(sentinel: Sentinel, facts: RunFacts) -> RunFacts:
    return replace(facts, hello=sentinel.hello or facts.hello)


def _fate(record: CaseRecord, arm: ArmRecord, found: ArmRecord, sentinel: Sentinel) -> Fate | None:
    """Why the arm has no sample here that is not its own doing; None where that is not so."""
    if sentinel.refused:
        return Fate(
            status=RowStatus.SKIPPED, kind=UNAVAILABLE, reason=f"the sentinel takes no part: {sentinel.refused}"
        )
    if record.skipped is not None:
        return record.skipped
    if arm.fate is not None:
        words = f"it is {arm.fate.status.value} in the normal environment: {arm.fate.reason}"
        return Fate(status=RowStatus.SKIPPED, kind="no_counterpart", reason=words)
    if found.fate is None and not found.passes:
        reason = "its processes brought no sample of this arm"
        return Fate(status=RowStatus.SKIPPED, kind=UNAVAILABLE, reason=reason)
    return None


def _renamed(row: Row, record: CaseRecord, arm: ArmRecord, facts: RunFacts) -> Row:
    """The row under the name of the sentinel's arm."""
    label = PREFIX + arm.arm.label
    settings = settings_of(record, arm.arm, facts)
    row = row | {"arm": label, "subject_id": subject_id(record.planned.case, label, settings, facts.identity)}
    return row | {"role": Role.SENTINEL.value} if "role" in row else row


def words_of(sentinel: Sentinel, rows: Iterable[Row]) -> str:
    """What the sentinel measured, or why it did not."""
    if sentinel.refused:
        return f"The sentinel took no part: {sentinel.refused}."
    mine = [row for row in rows if row["role"] == Role.SENTINEL.value]
    measured = sum(row["status"] == RowStatus.MEASURED.value for row in mine)
    versions = sentinel.hello.versions if sentinel.hello else {}
    known = [f"{name} {versions[key]}" for name, key in SHOWN.items() if key in versions]
    words = f"The sentinel {sentinel.python} ({', '.join(known)}) measured {measured} of its {len(mine)} rows"
    first = next((row["status_reason"] for row in mine if row["status"] != RowStatus.MEASURED.value), None)
    return f"{words}; the first other: {first}." if first else f"{words}."
