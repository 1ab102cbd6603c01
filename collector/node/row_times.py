"""Times of a row, from the raw samples: latency, ratios with their intervals, rates, the roof over them."""

from __future__ import annotations

import math

import numpy as np

from bench_suite.contract import Role
from bench_suite.contracts import contract
from bench_suite.roofline import Bound, algbw_bytes_per_s, beyond_measured, busbw_bytes_per_s, roofline
from collector.node.devices.base import DeviceIdentity
from collector.node.ledger import ArmRecord, CaseRecord
from collector.node.marks import median_while
from collector.node.protocol import PART, PassSamples
from collector.node.series_key import Row, RunFacts
from detection.modes import two_modes
from detection.stats import MINIMUM_N_P95, MINIMUM_N_P99, Interval, neighbour_log_ratio, percentiles, t_interval

COMMUNICATION, COMPUTATION = f"{PART}communication", f"{PART}computation"
STALE_CEILING = "roofline_fraction.ceiling"
"""Key of the words that a row lies beyond a measured ceiling."""
NOTED_WAIT = 0.25
"""Above this share of the time without a core, percentiles of wall time tell of the others as much as of the kernel."""
MINIMUM_SINGLE_CALLS = 20
"""Fewer single calls than this say less about a call's latency than the means of k calls do."""


def rounds_of(arm: ArmRecord) -> list[tuple[int, PassSamples]]:
    return [(replicate, samples) for replicate, samples in arm.passes if samples.passed == "rounds"]


def seconds(samples: PassSamples, timer: str) -> list[float]:
    """Seconds of one call by a clock, of the samples that nothing marks."""
    return [value for value, mark in zip(samples.by_clock(timer), samples.mark, strict=True) if not mark]


def latency_clock(identity: DeviceIdentity, record: CaseRecord) -> str:
    """The clock of shown latencies: what a caller waits for, wall time on CPU and device time on an accelerator."""
    return "wall" if identity.kind == "cpu" or contract(record.planned.case.operator).collective else record.ratio_timer


def add_times(row: Row, record: CaseRecord, arm: ArmRecord, facts: RunFacts, reasons: dict[str, str]) -> None:
    rounds = rounds_of(arm)
    if not rounds:
        return
    _add_latency(row, record, arm, facts, reasons)
    row["ratio_timer"] = record.ratio_timer
    row["rounds"] = sum(len(samples.round) for _, samples in rounds)
    row["replicates"] = len(rounds)
    row["time_processes_s"] = [float(np.median(v)) for _, s in rounds if (v := seconds(s, record.ratio_timer))]
    for against in (Role.OPTIMIZED, Role.NAIVE):
        if arm.arm.role is against:
            continue
        base = record.arms.get(against.value)
        name = f"ratio_{against.value}"
        if base is None or base.fate is not None:
            reasons[name] = (
                f"{against.value} is {base.fate.status.value}" if base and base.fate else f"no {against.value}"
            )
            continue
        values = log_ratio_processes(arm, base, record.ratio_timer)
        if values:
            _add_ratio(row, name, values)
        else:
            reasons[name] = f"no round has an unmarked sample of both this arm and {against.value}"
    row["sm_clock_hz"] = median_while([samples for _, samples in arm.passes], facts.clocks)
    if row["sm_clock_hz"] is None:
        reasons["sm_clock_hz"] = "no reading while it was timed" if facts.clocks else "the device tells no SM clock"
    _add_notes(record, arm, facts, reasons)
    _add_rates(row, record, facts, reasons)
    if contract(record.planned.case.operator).collective:
        _add_collective(row, record, arm)


def _add_notes(record: CaseRecord, arm: ArmRecord, facts: RunFacts, reasons: dict[str, str]) -> None:
    """What a reader of the numbers must know: two levels, waiting for cores, a way of timing that was not to be had."""
    if record.no_replay and not record.replayed:
        reasons["timer.graph"] = record.no_replay
    times = [v for _, s in rounds_of(arm) for v in seconds(s, record.ratio_timer) if v > 0]
    modes = two_modes(np.log(times)) if times else None
    if modes is not None:
        low, high = (f"{math.exp(level) * 1e6:.4g} us" for level in (modes.low, modes.high))
        reasons["latency_p50_s.modes"] = (
            f"bimodal: {1 - modes.share_high:.0%} near {low}, {modes.share_high:.0%} near {high}"
        )
    share = median_while([samples for _, samples in arm.passes], facts.waits)
    if facts.identity.kind == "cpu" and share is not None and share >= NOTED_WAIT:
        reasons["latency_p50_s.contended"] = f"the run's processes waited for a core {share:.0%} of the time"


def _add_ratio(row: Row, name: str, values: list[float]) -> None:
    interval: Interval = t_interval(values).exp()
    row[name] = interval.estimate
    row[f"{name}_low"] = interval.low if len(values) > 1 else None
    row[f"{name}_high"] = interval.high if len(values) > 1 else None
    row[f"log_{name}_processes"] = values


def log_ratio_processes(arm: ArmRecord, base: ArmRecord, timer: str) -> list[float]:
    """For each replicate that has both: log(arm / base) over neighbouring rounds, of what nothing marks."""
    bases = dict(rounds_of(base))
    ratios = []
    for replicate, samples in rounds_of(arm):
        if replicate in bases:
            ratio = neighbour_log_ratio(*_unmarked(samples, timer), *_unmarked(bases[replicate], timer))
            if math.isfinite(ratio):
                ratios.append(ratio)
    return ratios


def _unmarked(samples: PassSamples, timer: str) -> tuple[list[float], list[int]]:
    """Seconds by a clock and rounds of the samples that nothing marks."""
    rounds = [number for number, mark in zip(samples.round, samples.mark, strict=True) if not mark]
    return seconds(samples, timer), rounds


def _add_latency(row: Row, record: CaseRecord, arm: ArmRecord, facts: RunFacts, reasons: dict[str, str]) -> None:
    """Percentiles of single calls; of means of k calls, and said so, where there are too few."""
    clock = latency_clock(facts.identity, record)
    singles = [v for _, s in arm.passes if s.calls_per_sample == 1 for v in seconds(s, clock)]
    values, basis = singles, "single"
    if len(singles) < MINIMUM_SINGLE_CALLS:
        rounds = rounds_of(arm)
        if max(s.calls_per_sample for _, s in rounds) > 1:
            values = [v for _, s in rounds for v in seconds(s, clock)]
            basis = f"of_mean_{rounds[0][1].calls_per_sample}"
    if not values:
        return
    row["latency_p50_s"], row["latency_p90_s"], row["latency_p95_s"], row["latency_p99_s"] = percentiles(values)
    row["latency_n"], row["latency_basis"] = len(values), basis
    for name, needed in (("latency_p95_s", MINIMUM_N_P95), ("latency_p99_s", MINIMUM_N_P99)):
        if basis != "single" or len(values) < needed:
            reasons[f"{name}.support"] = f"{len(values)} values {basis}; {needed} single calls would support it"


def _add_rates(row: Row, record: CaseRecord, facts: RunFacts, reasons: dict[str, str]) -> None:
    latency = row["latency_p50_s"]
    if not latency:
        return
    case = record.planned.case
    row["flop_per_s"] = row["flops"] / latency
    row["bandwidth_bytes_per_s"] = row["traffic_bytes"] / latency
    if facts.ceilings is not None:
        row["bandwidth_utilization"] = row["bandwidth_bytes_per_s"] / facts.ceilings.bandwidth_bytes_per_s
    roof = roofline(case, facts.ceilings)
    row["roofline_bound"] = roof.bound.value
    if roof.latency_s is None:
        reasons["roofline_fraction"] = f"no peak is known for {case.dtype.value} on {facts.identity.model}"
        if roof.bound is Bound.UNKNOWN and contract(case.operator).collective:
            reasons["roofline_fraction"] = f"no link speed is known on {facts.identity.model}"
    else:
        row["roofline_latency_s"] = roof.latency_s
        row["roofline_fraction"] = roof.latency_s / latency
    beyond = beyond_measured(case, latency, facts.ceilings)
    if beyond:
        reasons[STALE_CEILING] = f"the ceiling is stale: {beyond}"


def _add_collective(row: Row, record: CaseRecord, arm: ArmRecord) -> None:
    """Message, algbw and busbw with the definitions of nccl-tests, and how far the ranks were apart."""
    case = record.planned.case
    message_bytes = contract(case.operator).message_bytes
    row["message_bytes"] = int(message_bytes(case)) if message_bytes is not None else None
    row["world_size"] = case["ranks"]
    if row["latency_p50_s"]:
        row["algbw_bytes_per_s"] = algbw_bytes_per_s(case, row["latency_p50_s"])
        row["busbw_bytes_per_s"] = busbw_bytes_per_s(case, row["latency_p50_s"])
    spreads = [v for _, s in rounds_of(arm) for v in s.rank_spread]
    stragglers = [v for _, s in rounds_of(arm) for v in s.straggler]
    row["rank_spread"] = float(np.median(spreads))
    row["straggler_rank"] = int(np.bincount(stragglers).argmax())
    if record.parts:
        _add_overlap(row, record, arm)


def _add_overlap(row: Row, record: CaseRecord, arm: ArmRecord) -> None:
    """How much of the communication shows: medians over rounds of the arm less the computation of the same round."""
    alone = {name: dict(rounds_of(part)) for name, part in record.parts.items()}
    beyond, communication = [], []
    for replicate, samples in rounds_of(arm):
        computation = alone[COMPUTATION].get(replicate)
        if computation is not None:
            beyond += differences(samples, computation, record.ratio_timer)
        if replicate in alone[COMMUNICATION]:
            communication += seconds(alone[COMMUNICATION][replicate], record.ratio_timer)
    if beyond and communication:
        row["exposed_s"] = float(np.median(beyond))
        row["hidden_share"] = 1 - row["exposed_s"] / float(np.median(communication))


def differences(arm: PassSamples, base: PassSamples, timer: str) -> list[float]:
    """Seconds of a call of `arm` less one of `base`, of each round that has an unmarked time of both."""
    of_round = {n: v for n, v, m in zip(base.round, base.by_clock(timer), base.mark, strict=True) if not m}
    return [
        v - of_round[n]
        for n, v, m in zip(arm.round, arm.by_clock(timer), arm.mark, strict=True)
        if not m and n in of_round
    ]
