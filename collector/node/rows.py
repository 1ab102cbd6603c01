"""From what a run has seen to the rows of its bundle: summaries come from the raw samples, here and only here."""

from __future__ import annotations

import json
import math

from bench_suite.contract import Role
from bench_suite.contracts import contract
from collector.node.ledger import USUAL_ARMS, ArmRecord, CaseRecord, Fate
from collector.node.protocol import Arm
from collector.node.row_evidence import impossible, invalid
from collector.node.row_times import add_times, rounds_of
from collector.node.series_key import Row, RunFacts, settings_of, subject_id
from store.bundle.schemas import RESULTS, FailureKind, RowStatus

__all__ = ["RunFacts", "result_row", "result_rows", "sample_rows"]


def result_rows(record: CaseRecord, facts: RunFacts) -> list[Row]:
    """Exactly one row for each arm of the case, whatever happened."""
    records = list(record.arms.values()) or [ArmRecord(arm=arm) for arm in USUAL_ARMS]
    rows = [result_row(record, arm, facts) for arm in records]
    if not any(r.arm.role is Role.CANDIDATE for r in records):
        rows.append(_no_candidate(record, facts))
    return rows


def sample_rows(record: CaseRecord, facts: RunFacts) -> list[Row]:
    """The raw samples of every arm that is not wrong: a wrong kernel has no speed."""
    rows = []
    for arm in (*record.arms.values(), *record.parts.values()):
        if arm.fate is not None and arm.fate.status is RowStatus.WRONG:
            continue
        settings = settings_of(record, arm.arm, facts)
        for replicate, samples in arm.passes:
            rows.append(
                {
                    "run_id": facts.run_id,
                    "subject_id": subject_id(record.planned.case, arm.arm.label, settings, facts.identity),
                    "case_id": record.planned.case.case_id,
                    "arm": arm.arm.label,
                    "replicate": replicate,
                    "pass": samples.passed,
                    "calls_per_sample": samples.calls_per_sample,
                    "wall_s": samples.wall_s,
                    "thread_s": samples.thread_s,
                    "device_s": samples.device_s,
                    "monotonic_s": samples.monotonic_s,
                    "round": samples.round,
                    "position": samples.position,
                    "mark": samples.mark,
                }
            )
    return rows


def _no_candidate(record: CaseRecord, facts: RunFacts) -> Row:
    arm = ArmRecord(arm=Arm(label=Role.CANDIDATE.value, role=Role.CANDIDATE, implementation=""))
    arm.fate = Fate(
        status=RowStatus.SKIPPED,
        kind="no_candidate",
        reason=f"there is no candidate for {record.planned.case.operator} on {facts.identity.kind}",
    )
    return result_row(record, arm, facts)


def result_row(record: CaseRecord, arm: ArmRecord, facts: RunFacts) -> Row:
    """The row of one arm of the case."""
    case = record.planned.case
    promise = contract(case.operator)
    settings = settings_of(record, arm.arm, facts)
    row: Row = dict.fromkeys(RESULTS.names)
    row |= {
        "run_id": facts.run_id,
        "measured_at": facts.measured_at,
        "subject_id": subject_id(case, arm.arm.label, settings, facts.identity),
        "case_id": case.case_id,
        "operator": case.operator,
        "family": promise.family,
        "dtype": case.dtype.value,
        "phase": case.phase.value,
        "axes": json.dumps(dict(case.axes)),
        "settings": json.dumps(settings, sort_keys=True),
        "weight": record.planned.weight,
        "arm": arm.arm.label,
        "role": arm.arm.role.value,
        "implementation": arm.arm.implementation,
        "host": facts.host,
        "device_kind": facts.identity.kind,
        "device_model": facts.identity.model,
        "device_slice": facts.identity.slice,
        "device_unit": facts.identity.unit,
        "flops": promise.flops(case),
        "traffic_bytes": promise.traffic_bytes(case),
        "repro": f"collector run --suite {facts.suite.name} --case '{case.case_id}' --device {facts.identity.kind}",
    }
    reasons: dict[str, str] = {}
    _add_preparation(row, arm, reasons)
    fate = record.skipped or arm.fate
    if fate is None and record.empty:
        fate = Fate(status=RowStatus.SKIPPED, kind="empty", reason=record.empty)
    if fate is None and not rounds_of(arm):
        fate = Fate(status=RowStatus.FAILED, kind=FailureKind.CRASHED.value, reason="no sample of this arm came back")
    if fate is None or fate.status not in (RowStatus.WRONG, RowStatus.SKIPPED):
        add_times(row, record, arm, facts, reasons)
    fate = fate or impossible(row, arm, case, facts) or invalid(record, arm, facts)
    row["status"] = (fate.status if fate else RowStatus.MEASURED).value
    row["status_kind"] = fate.kind if fate else None
    row["status_reason"] = fate.reason if fate else None
    row["null_reasons"] = json.dumps(reasons, sort_keys=True)
    return row


def _add_preparation(row: Row, arm: ArmRecord, reasons: dict[str, str]) -> None:
    prepared = arm.prepared
    if prepared is None:
        return
    for name in (
        "compile_s",
        "first_call_s",
        "peak_memory_bytes",
        "workspace_bytes",
        "reserved_bytes",
        "error_max_abs",
        "error_max_rel",
        "error_max_ulp",
        "error_mismatch_share",
        "error_margin",
        "energy_j",
    ):
        row[name] = _finite(getattr(prepared, name))
    row["code_sha256"], row["configuration"] = prepared.code_sha256, prepared.configuration
    if prepared.memory_reason:
        reasons["peak_memory_bytes"] = prepared.memory_reason
    if prepared.energy_reason:
        reasons["energy_j"] = prepared.energy_reason


def _finite(value: float | int | None) -> float | int | None:
    return value if value is None or math.isfinite(value) else None
