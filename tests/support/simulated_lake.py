"""A lake of simulated runs for tests and pictures of the dashboard: real bundles, really ingested; invented times.

Three devices, sixteen cases, four arms. What is planted, and where, is in `PLANTED`, so that a test can know the answer
without asking the code under test.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from collector.host.findings_store import refresh_findings_state
from detection.classify import Difference, FindingClass
from detection.finding_rows import event_row
from detection.findings import EventKind, Evidence, Facts, FindingEvent, Member, Tile, make_event
from detection.verdict import Metric
from store.bundle.inbox import Inbox
from store.bundle.schemas import RESULTS, RUNS, TELEMETRY
from store.bundle.writer import BundleWriter
from store.lake.lake import Lake
from store.lake.tables import TRIAGE, VERDICTS

ARMS = ("naive", "optimized", "aa", "candidate")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedDevice:
    """A machine of the fleet, its roofs and how noisy it is (sd of the log-ratio of a process)."""

    kind: str
    model: str
    unit: str
    host: str
    peak_flop_per_s: float
    bandwidth_bytes_per_s: float
    noise: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedCase:
    """A case: its work, and how naive and candidate stand to optimized."""

    operator: str
    family: str
    title: str
    shape: str
    case_id: str
    dtype: str
    phase: str
    axes: dict[str, Any]
    weight: float | None
    flops: float
    traffic_bytes: float
    naive: float
    candidate: float
    message_bytes: int | None = None


def _gemm(name: str, m: int, n: int, k: int, weight: float, candidate: float) -> SimulatedCase:
    return SimulatedCase(
        operator="gemm",
        family="GEMM",
        title=f"GEMM {name}",
        shape=f"M {m:,} · N {n:,} · K {k:,}, bf16",
        case_id=f"gemm[bf16,M={m},N={n},K={k}]",
        dtype="bf16",
        phase="decode" if m <= 64 else "prefill",
        axes={"M": m, "N": n, "K": k},
        weight=weight,
        flops=2.0 * m * n * k,
        traffic_bytes=2.0 * (m * k + n * k + m * n),
        naive=3.1,
        candidate=candidate,
    )


def _attention(batch: int, context: int, weight: float, candidate: float) -> SimulatedCase:
    return SimulatedCase(
        operator="attention_decode",
        family="Attention",
        title="Attention decode",
        shape=f"{batch} requests, context {context:,}, 32 query / 8 kv heads, bf16",
        case_id=f"attention_decode[bf16,batch={batch},kv={context},heads=32,kv_heads=8,head=128]",
        dtype="bf16",
        phase="decode",
        axes={"batch": batch, "kv": context},
        weight=weight,
        flops=4.0 * batch * context * 32 * 128,
        traffic_bytes=2.0 * 2 * batch * context * 8 * 128,
        naive=3.6,
        candidate=candidate,
    )


def _rows(operator: str, family: str, title: str, rows: int, width: int, weight: float, naive: float, candidate: float):  # type: ignore[no-untyped-def]
    return SimulatedCase(
        operator=operator,
        family=family,
        title=title,
        shape=f"{rows:,} × {width:,}, bf16",
        case_id=f"{operator}[bf16,rows={rows},width={width}]",
        dtype="bf16",
        phase="decode" if rows <= 64 else "prefill",
        axes={"rows": rows, "width": width},
        weight=weight,
        flops=4.0 * rows * width,
        traffic_bytes=4.0 * rows * width,
        naive=naive,
        candidate=candidate,
    )


CASES: tuple[SimulatedCase, ...] = (
    _gemm("gate/up projection", 16, 28672, 4096, 0.12, 1.01),
    _gemm("gate/up projection", 64, 28672, 4096, 0.07, 1.02),
    _gemm("gate/up projection", 4096, 28672, 4096, 0.14, 1.03),
    _gemm("down projection", 16, 4096, 14336, 0.09, 0.98),
    _gemm("down projection", 64, 4096, 14336, 0.05, 0.99),
    _gemm("qkv projection", 16, 6144, 4096, 0.06, 1.0),
    _gemm("output projection", 16, 4096, 4096, 0.03, 1.01),
    _attention(64, 8192, 0.21, 0.912),
    _attention(64, 2048, 0.07, 0.93),
    _rows("rms_norm", "RMSNorm", "RMSNorm", 16, 4096, 0.02, 2.2, 0.88),
    _rows("rms_norm", "RMSNorm", "RMSNorm", 4096, 4096, 0.025, 2.4, 0.82),
    _rows("swiglu", "SwiGLU", "SwiGLU", 16, 14336, 0.03, 1.9, 0.93),
    _rows("swiglu", "SwiGLU", "SwiGLU", 4096, 14336, 0.04, 2.0, 0.96),
    _rows("softmax", "Softmax", "Softmax", 64, 128256, 0.01, 2.1, 0.91),
    _rows("softmax", "Softmax", "Softmax", 2048, 8192, 0.01, 1.8, 1.02),
    SimulatedCase(
        operator="all_reduce",
        family="Collective",
        title="All-reduce",
        shape="64 MiB, 8 ranks, bf16",
        case_id="all_reduce[bf16,bytes=67108864,ranks=8]",
        dtype="bf16",
        phase="decode",
        axes={"bytes": 67108864, "ranks": 8},
        weight=0.02,
        flops=3.3e7,
        traffic_bytes=1.3e8,
        naive=2.6,
        candidate=1.04,
        message_bytes=67108864,
    ),
)

DEVICES: tuple[SimulatedDevice, ...] = (
    SimulatedDevice(
        kind="cuda",
        model="NVIDIA H200",
        unit="GPU-3f1c0b52",
        host="c17",
        peak_flop_per_s=7.52e14,
        bandwidth_bytes_per_s=4.21e12,
        noise=0.004,
    ),
    SimulatedDevice(
        kind="cuda",
        model="AMD Instinct MI300X",
        unit="GPU-9e77aa01",
        host="m03",
        peak_flop_per_s=6.1e14,
        bandwidth_bytes_per_s=4.0e12,
        noise=0.006,
    ),
    SimulatedDevice(
        kind="cpu",
        model="AMD EPYC 9654",
        unit="cpu-0",
        host="e01",
        peak_flop_per_s=5.2e12,
        bandwidth_bytes_per_s=3.6e11,
        noise=0.012,
    ),
)

STEP_CASE = CASES[7]
"""Attention decode, context 8,192: `STEP_CHANGE` slower on the H200 from the last night but one on."""
STEP_CHANGE = 0.074
GAIN_CASE = CASES[12]
"""SwiGLU, 4,096 rows: `GAIN_CHANGE` on the MI300X, five nights ago."""
GAIN_CHANGE = -0.058
HOSTILE = "<img src=x onerror=alert(1)>|\"';DROP TABLE runs;--"


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """How large the lake is, and what odd rows it has."""

    nights: int = 12
    devices: tuple[SimulatedDevice, ...] = DEVICES
    cases: tuple[SimulatedCase, ...] = CASES
    rounds: int = 12
    replicates: int = 3
    seed: int = 1
    end: datetime = field(default_factory=lambda: datetime.now(UTC) - timedelta(hours=2))
    hostile: bool = False
    """Whether names are `HOSTILE`."""
    odd_rows: bool = True
    """Whether the last night of the last device has a failed, a skipped, a wrong and an invalid row."""


def subject_id(case: SimulatedCase, arm: str, device: SimulatedDevice) -> str:
    return f"{case.case_id}|{arm}|{device.unit}|device_event,cold"


def run_id(night: int, device: SimulatedDevice) -> str:
    return f"{device.host}-{night:04d}"


def _row(schema: Any, **values: Any) -> dict[str, Any]:
    unknown = set(values) - set(schema.names)
    assert not unknown, unknown
    return {name: values.get(name) for name in schema.names}


def _at(simulation: Simulation, night: int, device_number: int) -> datetime:
    age = simulation.nights - 1 - night
    return (simulation.end - timedelta(days=age, minutes=25 * device_number)).replace(microsecond=0)


def _night_factor(simulation: Simulation, night: int, case: SimulatedCase, device: SimulatedDevice, arm: str) -> float:
    """The planted change of an arm in that night, as a factor on its time."""
    factor = 1.0
    if arm == "candidate" and case is STEP_CASE and device.model.endswith("H200") and night >= simulation.nights - 2:
        factor *= 1 + STEP_CHANGE
    if arm == "candidate" and case is GAIN_CASE and "MI300X" in device.model and night >= simulation.nights - 5:
        factor *= 1 + GAIN_CHANGE
    return factor


def _environment(simulation: Simulation, night: int, device: SimulatedDevice) -> dict[str, str]:
    newer = night >= simulation.nights // 2
    driver = {"cuda": "580.95.05" if newer else "580.65.06", "cpu": "6.12.0"}[device.kind]
    return {
        "driver": driver,
        "torch": "2.13.0",
        "triton": "3.6.0" if night >= simulation.nights // 3 else "3.5.1",
        "python": "3.11.9",
        "clocks_policy": "locked 1,980 MHz" if device.kind == "cuda" else "performance",
        "kernel": "6.1.0-34",
        "revision": "9d02aa1" if night >= simulation.nights - 2 else "4be1c07",
    }


def _run_row(simulation: Simulation, night: int, number: int, device: SimulatedDevice) -> dict[str, Any]:
    at = _at(simulation, night, number)
    environment = _environment(simulation, night, device)
    catalog = {c.case_id: {"title": _title(simulation, c), "shape": c.shape} for c in simulation.cases}
    return _row(
        RUNS,
        run_id=run_id(night, device),
        kind="night",
        status="complete",
        started_at=at,
        finished_at=at + timedelta(minutes=14),
        suite="nightly",
        suite_hash="5f0c" * 8,
        seed=night,
        replicates=simulation.replicates,
        revision=environment["revision"],
        host=HOSTILE if simulation.hostile else device.host,
        device_kind=device.kind,
        device_model=f"{HOSTILE} {device.kind}" if simulation.hostile else device.model,
        device_unit=device.unit,
        method_version="1",
        driver=environment["driver"],
        torch=environment["torch"],
        triton=environment["triton"],
        clocks_policy=environment["clocks_policy"],
        environment=json.dumps(environment),
        ceilings=json.dumps(
            {
                "flop_per_s": {"bf16": device.peak_flop_per_s},
                "bandwidth_bytes_per_s": device.bandwidth_bytes_per_s,
                "source": "measured, best of 200",
            }
        ),
        catalog=json.dumps(catalog),
        command="collector run --suite nightly",
        wall_s=840.0,
        note=HOSTILE if simulation.hostile else None,
    )


def _title(simulation: Simulation, case: SimulatedCase) -> str:
    return f"{case.title} {HOSTILE}" if simulation.hostile else case.title


def _t_interval(values: np.ndarray) -> tuple[float, float, float]:
    """Mean and 95 % interval of a few process values, as ratios (Student's t with 2 degrees of freedom: 4.303)."""
    half = 4.303 * float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.inf
    mean = float(values.mean())
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def _case_rows(
    simulation: Simulation,
    rng: np.random.Generator,
    night: int,
    number: int,
    device: SimulatedDevice,
    case: SimulatedCase,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    at = _at(simulation, night, number)
    bound = max(case.flops / device.peak_flop_per_s, case.traffic_bytes / device.bandwidth_bytes_per_s)
    level = bound / 0.8 * math.exp(rng.normal(0, 0.02))
    factors = {"naive": case.naive, "optimized": 1.0, "aa": 1.0, "candidate": case.candidate}
    logs = {
        arm: np.log(factors[arm] * _night_factor(simulation, night, case, device, arm))
        + rng.normal(0, device.noise, simulation.replicates)
        for arm in ARMS
    }
    logs["optimized"] = np.zeros(simulation.replicates)
    results, samples = [], []
    identity = {
        "run_id": run_id(night, device),
        "case_id": case.case_id,
    }
    for arm in ARMS:
        times = level * np.exp(logs[arm])
        rounds = times[:, None] * np.exp(rng.gamma(1.2, device.noise * 3, (simulation.replicates, simulation.rounds)))
        flat = rounds.ravel()
        p50 = float(np.median(flat))
        versus_optimized = _t_interval(logs[arm])
        versus_naive = _t_interval(logs[arm] - logs["naive"])
        results.append(
            _row(
                RESULTS,
                **identity,
                measured_at=at + timedelta(seconds=30),
                subject_id=subject_id(case, arm, device),
                operator=case.operator,
                family=case.family,
                dtype=case.dtype,
                phase=case.phase,
                axes=json.dumps(case.axes),
                settings=json.dumps({"timer": "device_event", "cache": "cold"}),
                weight=case.weight,
                arm=arm,
                role=arm,
                implementation={"naive": "torch eager", "optimized": "vendor", "aa": "vendor", "candidate": "triton"}[
                    arm
                ],
                host=device.host,
                device_kind=device.kind,
                device_model=f"{HOSTILE} {device.kind}" if simulation.hostile else device.model,
                device_unit=device.unit,
                status="measured",
                latency_p50_s=p50,
                latency_p90_s=float(np.quantile(flat, 0.9)),
                latency_p95_s=float(np.quantile(flat, 0.95)),
                latency_p99_s=float(np.quantile(flat, 0.99)),
                latency_n=300,
                latency_basis="single",
                ratio_timer="device_event",
                time_processes_s=times.tolist(),
                ratio_optimized=None if arm == "optimized" else versus_optimized[0],
                ratio_optimized_low=None if arm == "optimized" else versus_optimized[1],
                ratio_optimized_high=None if arm == "optimized" else versus_optimized[2],
                log_ratio_optimized_processes=logs[arm].tolist(),
                ratio_naive=None if arm == "naive" else versus_naive[0],
                ratio_naive_low=None if arm == "naive" else versus_naive[1],
                ratio_naive_high=None if arm == "naive" else versus_naive[2],
                rounds=simulation.replicates * simulation.rounds,
                replicates=simulation.replicates,
                flops=case.flops,
                traffic_bytes=case.traffic_bytes,
                flop_per_s=case.flops / p50,
                bandwidth_bytes_per_s=case.traffic_bytes / p50,
                bandwidth_utilization=case.traffic_bytes / p50 / device.bandwidth_bytes_per_s,
                roofline_latency_s=bound,
                roofline_fraction=bound / p50,
                roofline_bound="memory" if bound > case.flops / device.peak_flop_per_s else "compute",
                peak_memory_bytes=int(case.traffic_bytes * (3 if arm == "naive" else 1.1)),
                workspace_bytes=int(case.traffic_bytes * (2 if arm == "naive" else 0.1)),
                error_max_abs=1e-3,
                error_max_rel=2e-3,
                error_mismatch_share=0.0,
                error_margin=0.31 if arm == "candidate" else 0.12,
                message_bytes=case.message_bytes,
                world_size=8 if case.message_bytes else None,
                algbw_bytes_per_s=case.message_bytes / p50 if case.message_bytes else None,
                busbw_bytes_per_s=case.message_bytes * 1.75 / p50 if case.message_bytes else None,
                rank_spread=1.04 if case.message_bytes else None,
                straggler_rank=3 if case.message_bytes else None,
                null_reasons=json.dumps({"energy_j": "the device gives no energy counter"}),
                repro=f"collector run --case '{case.case_id}' --arm {arm}",
            )
        )
        for replicate in range(simulation.replicates):
            values = rounds[replicate].tolist()
            samples.append(
                {
                    **identity,
                    "subject_id": subject_id(case, arm, device),
                    "arm": arm,
                    "replicate": replicate,
                    "pass": "rounds",
                    "calls_per_sample": 1,
                    "wall_s": values,
                    "thread_s": [],
                    "device_s": values,
                    "monotonic_s": [float(i) for i in range(simulation.rounds)],
                    "round": list(range(simulation.rounds)),
                    "position": [ARMS.index(arm)] * simulation.rounds,
                    "mark": ["contended" if i == 1 and replicate == 0 else "" for i in range(simulation.rounds)],
                }
            )
    return results, samples


TIMED = tuple(
    name
    for name in RESULTS.names
    if name.startswith(
        ("latency_p", "ratio_", "log_ratio", "time_", "flop_per", "bandwidth", "roofline_f", "algbw", "busbw")
    )
)


def _make_odd(results: list[dict[str, Any]]) -> None:
    """Turns four candidate rows of a run into a failed, a skipped, a wrong and an invalid one."""
    candidates = [row for row in results if row["arm"] == "candidate"]
    odd = (
        ("failed", "out_of_memory", "wanted 96.0 GiB, 79.6 GiB were free"),
        ("skipped", "over_budget", "estimated 41 s by roofline, 12 s were left of the night"),
        ("wrong", None, "largest error is 3.1 times what the tolerance allows, at element 4,711"),
    )
    for row, (status, kind, reason) in zip(candidates[:3], odd, strict=True):
        row.update(dict.fromkeys(TIMED))
        row.update(status=status, status_kind=kind, status_reason=reason)
    candidates[3].update(status="invalid", status_kind="throttled", status_reason="SM clock fell to 71 % of its median")


def publish_run(simulation: Simulation, folder: Path, night: int, number: int) -> Path:
    """The bundle of one night of one device."""
    device = simulation.devices[number]
    digest = hashlib.sha256(f"{simulation.seed}/{night}/{device.unit}".encode()).digest()
    rng = np.random.default_rng(int.from_bytes(digest[:8], "big"))
    results: list[dict[str, Any]] = []
    samples: list[dict[str, Any]] = []
    for case in simulation.cases:
        if case.message_bytes and device.kind == "cpu":
            continue
        rows, raw = _case_rows(simulation, rng, night, number, device, case)
        results += rows
        samples += raw
    if simulation.odd_rows and night == simulation.nights - 1 and number == len(simulation.devices) - 1:
        _make_odd(results)
    if night == simulation.nights // 2 + 1 and number == 0:
        for row in results:
            row.update(status="invalid", status_kind="throttled", status_reason="SM clock fell to 71 % of its median")
    writer = BundleWriter(folder, run_id(night, device))
    writer.add("runs", [_run_row(simulation, night, number, device)])
    writer.add("results", results)
    writer.add("samples", samples)
    writer.add("telemetry", _telemetry_rows(simulation, rng, night, number, device))
    return writer.publish({})


def _telemetry_rows(
    simulation: Simulation, rng: np.random.Generator, night: int, number: int, device: SimulatedDevice
) -> list[dict[str, Any]]:
    at = _at(simulation, night, number)
    rows = []
    for second in range(0, 60, 5):
        for metric, unit, value in (("sm_clock", "MHz", 1980.0), ("power", "W", 610.0), ("temperature", "°C", 61.0)):
            rows.append(
                _row(
                    TELEMETRY,
                    run_id=run_id(night, device),
                    device_unit=device.unit,
                    monotonic_s=float(second),
                    at=at + timedelta(seconds=second),
                    metric=metric,
                    unit=unit,
                    value=value * (1 + rng.normal(0, 0.01)),
                )
            )
    return rows


def finding_events(simulation: Simulation) -> list[FindingEvent]:
    """What the host would have said of the planted changes, as events."""
    last = simulation.nights - 1
    h200, mi300x = simulation.devices[0], simulation.devices[min(1, len(simulation.devices) - 1)]
    planted = [
        _Planted(case=STEP_CASE, device=h200, change=STEP_CHANGE, half=0.009, since=last - 1),
        _Planted(case=CASES[3], device=h200, change=0.023, half=0.016, since=last, confirmed=False),
        _Planted(case=GAIN_CASE, device=mi300x, change=GAIN_CHANGE, half=0.007, since=last - 4),
        _Planted(
            case=CASES[9], device=h200, change=0.032, half=0.004, since=last - 6, finding_class=FindingClass.BASELINE
        ),
    ]
    events: list[FindingEvent] = []
    for one in planted:
        facts = _facts(simulation, one)
        since = max(0, one.since)
        opened = last if one.since >= last - 1 else since
        run, at = run_id(opened, one.device), _at(simulation, opened, 0) + timedelta(minutes=20)
        events.append(make_event(EventKind.SUSPECTED, facts, at=at, as_of_seq=1, run_id=run))
        if one.confirmed:
            at += timedelta(minutes=30)
            events.append(make_event(EventKind.CONFIRMED, facts, at=at, as_of_seq=1, run_id=run))
    return events


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planted:
    case: SimulatedCase
    device: SimulatedDevice
    change: float
    half: float
    since: int
    confirmed: bool = True
    finding_class: FindingClass = FindingClass.CODE


def planted_id(simulation: Simulation, number: int) -> str:
    """The id of the finding of the n-th planted change: 0 the step, 1 the suspicion, 2 the gain, 3 the baseline."""
    return list(dict.fromkeys(event.finding_id for event in finding_events(simulation)))[number]


def _facts(simulation: Simulation, one: _Planted) -> Facts:
    case, device, since = one.case, one.device, max(0, one.since)
    subject = subject_id(case, "candidate", device)
    ends = {"change": one.change, "low": one.change - one.half, "high": one.change + one.half}
    member = Member(
        subject_id=subject,
        label=f"{_title(simulation, case)}, {case.shape}, candidate",
        case_id=case.case_id,
        arm="candidate",
        weight=case.weight,
        **ends,
    )
    neighbour = CASES[8]
    still = Member(
        subject_id=subject_id(neighbour, "candidate", device),
        label=f"{_title(simulation, neighbour)}, {neighbour.shape}, candidate",
        case_id=neighbour.case_id,
        arm="candidate",
        change=0.003,
        low=-0.006,
        high=0.012,
        weight=neighbour.weight,
    )
    tiles = (
        Tile(label="Tonight, paired in one run", **ends, words="3 processes, against the runs before"),
        Tile(label="Candidate alone", change=one.change + 0.002, low=None, high=None, words="raw latency"),
        Tile(label="Optimized and A/A copy", change=0.002, low=-0.006, high=0.01, words="unchanged: the baseline held"),
    )
    confirm = Tile(label="Confirmed", **ends, words=f"10 fresh processes, {device.unit}")
    return Facts(
        group=f"{device.model} {case.case_id}",
        finding_class=one.finding_class,
        direction=1 if one.change > 0 else -1,
        metric=Metric.LATENCY_RATIO,
        operator=case.operator,
        family=case.family,
        title=_title(simulation, case),
        shape=case.shape,
        case_id=case.case_id,
        arm="candidate",
        subject_id=subject,
        subject_ids=(subject,),
        device_model=device.model,
        device_unit=device.unit,
        host=device.host,
        change=one.change,
        change_low=ends["low"],
        change_high=ends["high"],
        price=None if case.weight is None else case.weight * one.change,
        since_run_id=run_id(since, device),
        since_at=_at(simulation, since, 0),
        last_good_run_id=run_id(max(0, since - 1), device),
        revision_good="4be1c07",
        revision_bad="9d02aa1",
        differing=(Difference(field="revision", good="4be1c07", bad="9d02aa1"),),
        cause="the revision changed, the environment did not",
        sentence="candidate ÷ optimized moved, and the optimized kernel did not",
        evidence=Evidence(
            baseline="the runs before",
            confirm="10 fresh processes agree" if one.confirmed else "",
            tiles=(tiles[0], confirm, *tiles[1:]) if one.confirmed else tiles,
            members=(member,),
            not_moved=(still,),
        ),
        repro=f"collector run --case '{case.case_id}' --replicates 10",
    )


def triage_rows(simulation: Simulation) -> list[dict[str, Any]]:
    """What people said: the gain is settled, the moved baseline is expected and owned."""

    def said(number: int, event: str, **payload: str) -> dict[str, Any]:
        finding = planted_id(simulation, number)
        return _row(
            TRIAGE,
            event_id=f"{finding}-{event}",
            finding_id=finding,
            event=event,
            at=simulation.end + timedelta(minutes=55),
            actor="ana",
            payload=json.dumps(payload),
        )

    return [
        said(2, "resolved"),
        said(3, "expected", text="vendor library got faster"),
        said(3, "assigned", owner="ana"),
    ]


def verdict_rows(simulation: Simulation, seq: int) -> list[dict[str, Any]]:
    """What the host would have said of the last night's candidates against their history."""
    rows = []
    for device in simulation.devices:
        run = run_id(simulation.nights - 1, device)
        for case in simulation.cases:
            if case.message_bytes and device.kind == "cpu":
                continue
            stepped = case is STEP_CASE and device.model.endswith("H200")
            status = "regressed" if stepped else "inconclusive" if case.operator == "softmax" else "unchanged"
            subject = subject_id(case, "candidate", device)
            visible = device.noise * (6 if case.family == "Collective" else 3 if case.family == "Attention" else 2)
            rows.append(
                _row(
                    VERDICTS,
                    verdict_id=f"{run}/{subject}",
                    run_id=run,
                    as_of_seq=seq,
                    made_at=simulation.end,
                    subject_id=subject,
                    case_id=case.case_id,
                    arm="candidate",
                    device_unit=device.unit,
                    metric="latency_ratio",
                    tier="tonight",
                    against="history",
                    status=status,
                    code="beyond_floor" if stepped else "within_floor",
                    sentence=f"{case.title}: {status}",
                    change=STEP_CHANGE if stepped else 0.001,
                    change_low=STEP_CHANGE - 0.009 if stepped else -0.004,
                    change_high=STEP_CHANGE + 0.009 if stepped else 0.006,
                    smallest_visible_change=visible,
                    baseline="the runs before",
                    baseline_n=simulation.nights - 1,
                    p_value=1e-6 if stepped else 0.4,
                    policy="default",
                    policy_version="1",
                )
            )
    return rows


def build_lake(root: Path, simulation: Simulation | None = None) -> Lake:
    """A lake under `root`/store with every night of `simulation` ingested and its findings stated."""
    simulation = simulation or Simulation()
    lake = Lake.create(root / "store")
    inbox = Inbox(root / "store")
    for night in range(simulation.nights):
        for number in range(len(simulation.devices)):
            inbox.put(publish_run(simulation, root / "bundles", night, number))
    lake.ingest()
    if simulation.nights > 1:
        lake.append("verdicts", verdict_rows(simulation, lake.latest_seq()))
        lake.refresh_series()
        lake.append("findings", [event_row(event) for event in finding_events(simulation)])
        lake.append("triage", triage_rows(simulation))
        refresh_findings_state(lake, now=datetime.now(UTC))
    return lake


def weighted_geomean(pairs: Sequence[tuple[float, float]]) -> float:
    """exp(sum w ln r / sum w) of (ratio, weight) pairs: what the overview should say."""
    return math.exp(sum(w * math.log(r) for r, w in pairs) / sum(w for _, w in pairs))
