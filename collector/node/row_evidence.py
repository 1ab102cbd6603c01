"""When times are no evidence: impossible values, and samples of a device that was held back."""

from __future__ import annotations

from collections import Counter

from bench_suite.contract import Case, DType
from bench_suite.datasheets import datasheet
from bench_suite.roofline import least_possible_s
from collector.node.ledger import ArmRecord, CaseRecord, Fate
from collector.node.marks import seen_by, words_for
from collector.node.row_times import rounds_of
from collector.node.series_key import Row, RunFacts
from store.bundle.schemas import FailureKind, InvalidReason, RowStatus

FLOP_PER_CYCLE = {DType.FP32: 64.0, DType.FP64: 32.0}
"""The most a CPU core does in a cycle: two fused multiply-adds of 512 bits. Only a result beyond it is impossible."""
CPU_BOOST = 1.5
"""A core may boost beyond the clock that the kernel tells."""
DATASHEET_BOOST = 1.1
"""Datasheet rates hold at the boost clock; the highest clock of a card is up to a tenth above it."""


def impossible(row: Row, arm: ArmRecord, case: Case, facts: RunFacts) -> Fate | None:
    """A time that is not positive, or work beyond what the clock allows: kept and shown, out of verdicts."""
    values = [v for _, s in arm.passes for v in s.wall_s + s.device_s]
    if any(v <= 0 for v in values):
        reason = f"a sample of {min(values):.3g} s; a time must be above 0"
        return Fate(status=RowStatus.FAILED, kind=FailureKind.IMPOSSIBLE_VALUE.value, reason=reason)
    sheet = datasheet(facts.identity.model)
    least_s = least_possible_s(case, sheet.limits()) if sheet is not None else None
    latency_s = row["latency_p50_s"]
    if sheet is not None and least_s is not None and latency_s and latency_s < least_s / DATASHEET_BOOST:
        reason = f"{latency_s * 1e6:.4g} us; by the datasheet of {sheet.title} it takes {least_s * 1e6:.4g} us or more"
        return Fate(status=RowStatus.FAILED, kind=FailureKind.IMPOSSIBLE_VALUE.value, reason=reason)
    return _beyond_clock(row, case, facts)


def _beyond_clock(row: Row, case: Case, facts: RunFacts) -> Fate | None:
    """More work than a CPU's clock allows."""
    clock, per_cycle = facts.identity.clock_max_hz, FLOP_PER_CYCLE.get(case.dtype)
    if facts.identity.kind != "cpu" or clock is None or per_cycle is None or not row["flop_per_s"]:
        return None
    bound = clock * per_cycle * facts.threads * CPU_BOOST
    if row["flop_per_s"] <= bound:
        return None
    reason = f"{row['flop_per_s'] / 1e9:.4g} GFLOP/s; {facts.threads} threads cannot do more than {bound / 1e9:.4g}"
    return Fate(status=RowStatus.FAILED, kind=FailureKind.IMPOSSIBLE_VALUE.value, reason=reason)


def invalid(record: CaseRecord, arm: ArmRecord, facts: RunFacts) -> Fate | None:
    """No sample is left without a mark: all are kept, and none is evidence."""
    rounds = [samples for _, samples in rounds_of(arm)]
    marks = Counter(marked for samples in rounds for marked in samples.mark)
    if not marks or marks[""]:
        return None
    (most, _), total = marks.most_common(1)[0], marks.total()
    words = {
        InvalidReason.THROTTLED.value: ("the device was held back", words_for(rounds, facts.held_back)),
        InvalidReason.CONTENDED.value: (
            "others used the device",
            words_for(rounds, *seen_by(facts.contended, record.ratio_timer)),
        ),
        InvalidReason.CLOCK_UNSETTLED.value: ("the clock still moved", "; ".join(dict.fromkeys(record.unsettled))),
    }
    while_, why = words.get(most, (most, ""))
    counted = f"all {total}" if len(marks) == 1 else f"{marks[most]} of {total}"
    rest = "".join(f"; {n} are {other}" for other, n in marks.most_common()[1:])
    reason = f"{counted} samples were taken while {while_}: {why}{rest}"
    return Fate(status=RowStatus.INVALID, kind=most, reason=reason)
