"""The simulated fleet as bundles in a store, ingested and judged like any other; for looking at, and for testing the
judge."""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from collector.host.findings_store import fold_all, read_events, read_triage
from collector.host.judge import judge
from collector.host.simulated_fleet import (
    SIMULATED,
    Event,
    Fleet,
    FleetCase,
    FleetModel,
    Happening,
    make_fleet,
    night_time,
)
from detection.findings import Finding
from detection.policy import Policy
from store.bundle.inbox import Inbox
from store.bundle.schemas import RESULTS, RUNS, SAMPLES
from store.bundle.writer import BundleWriter
from store.lake.errors import StoreError
from store.lake.lake import Lake

PROCESSES = 3
BETWEEN_RUNS, BETWEEN_PROCESSES, HOST_NIGHT = 0.006, 0.006, 0.01
"""Standard deviations of logarithms: a run's ratio, a process's ratio, a night's clock on one unit."""
BIMODAL_SAMPLES = 24
TIMES = 0.85
"""The clock of the lower of the bimodal kernel's two levels, over the higher one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedEvent:
    """A planted event and the findings that tell it; `found` where all expected ones are confirmed and rightly
    classed."""

    event: Event
    findings: tuple[str, ...]
    found: bool
    classed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoReport:
    """What was simulated and what was made of it."""

    runs: int
    findings: int
    planted: tuple[PlantedEvent, ...]
    unplanted: tuple[str, ...]
    """Confirmed findings that no planted event explains."""


def build_demo(
    uri: str | Path,
    *,
    seed: int = 1,
    nights: int = 120,
    prefix: str = "",
    progress: Callable[[str], None] | None = None,
) -> DemoReport:
    """Simulates the fleet of a seed into a new store, ingests and judges it; `progress` is told what is being done.

    A second process writes bundles while this one ingests them.

    Raises:
        StoreError: the place is no store and cannot become one, or holds runs already.
    """
    fleet = make_fleet(seed, nights=nights, prefix=prefix)
    lake = Lake.create(uri)
    if lake.latest_seq() or lake.inbox.names():
        raise StoreError(f"store {uri}: holds runs; the simulated fleet must have a store of its own")
    tell = progress or (lambda words: None)
    writer = get_context("spawn").Process(target=_write, args=(str(uri), seed, nights, prefix))
    writer.start()
    while writer.is_alive():
        lake.ingest(check_clock=False)
        tell(f"{lake.latest_seq()} of about {nights * sum(len(m.units) for m in fleet.models)} runs ingested")
        writer.join(0.5)
    if writer.exitcode != 0:
        raise StoreError(f"store {uri}: writing the simulated runs failed with exit code {writer.exitcode}")
    lake.ingest(check_clock=False)
    tell("judging, night by night")
    judge(lake, policy=Policy().unasked(), at_run_time=True)
    findings = fold_all(read_events(lake), read_triage(lake), now=night_time(nights, 0))
    return score(fleet, list(findings.values()), lake.latest_seq())


def _write(uri: str, seed: int, nights: int, prefix: str) -> None:
    write_fleet(make_fleet(seed, nights=nights, prefix=prefix), Lake.open(uri).inbox)


def write_fleet(fleet: Fleet, inbox: Inbox) -> int:
    """One bundle a unit and night through the real writer; how many they were."""
    staging = "/dev/shm" if Path("/dev/shm").is_dir() else None
    done = 0
    with tempfile.TemporaryDirectory(prefix="kernel-observatory-", dir=staging) as folder:
        for night in range(fleet.nights):
            for model in fleet.models:
                for number, unit in enumerate(model.units):
                    if fleet.is_missing(night, model.name, unit):
                        continue
                    inbox.put(_bundle(fleet, folder, night, model, number))
                    done += 1
    return done


def _bundle(fleet: Fleet, folder: str, night: int, model: FleetModel, number: int) -> Path:
    run_id = f"sim-{night:03d}-{model.units[number]}"
    writer = BundleWriter(folder, run_id)
    writer.add("runs", [_run_row(fleet, night, model, number, run_id)])
    results, samples = _rows(fleet, night, model, number, run_id)
    writer.add("results", results)
    if samples is not None:
        writer.add("samples", samples)
    return writer.publish({SIMULATED: True})


def _run_row(fleet: Fleet, night: int, model: FleetModel, number: int, run_id: str) -> dict[str, Any]:
    at = night_time(night, number)
    catalog = {c.case_id: {"title": c.title, "shape": c.shape, "family": c.family} for c in fleet.cases_of(number)}
    ceilings = {
        "bandwidth_bytes_per_s": model.bandwidth_bytes_per_s,
        "flop_per_s": {"bf16": model.peak_flop_per_s},
        "source": SIMULATED,
    }
    return dict.fromkeys(RUNS.names) | {
        "run_id": run_id,
        "kind": "night",
        "status": "complete",
        "started_at": at,
        "finished_at": at,
        "suite": "nightly",
        "suite_hash": hashlib.sha256(b"simulated").hexdigest()[:16],
        "seed": night,
        "replicates": PROCESSES,
        "revision": fleet.revision(night),
        "host": f"sim-host-{model.units[number]}",
        "device_kind": model.kind,
        "device_model": model.name,
        "device_unit": model.units[number],
        "method_version": "1",
        "driver": fleet.driver(night, model.name),
        "torch": fleet.torch(night),
        "triton": "3.9.0",
        "clocks_policy": "default",
        "environment": json.dumps({"os": "simulated", "build": f"nightly-{night}"}),
        "ceilings": json.dumps(ceilings),
        "catalog": json.dumps(catalog),
        "command": "collector demo",
        "wall_s": 600.0,
        "note": "simulated: no device measured this",
    }


def _rows(fleet: Fleet, night: int, model: FleetModel, number: int, run_id: str) -> tuple[pa.Table, pa.Table | None]:
    unit = model.units[number]
    rng = np.random.default_rng([fleet.seed, night, *unit.encode()[-4:], number])
    events = [e for e in fleet.events if e.reaches(night, model.name, unit)]
    host = float(rng.normal(0, HOST_NIGHT))
    rows, samples = [], []
    for place, case in enumerate(fleet.cases_of(number)):
        mine = [e for e in events if e.touches(case)]
        bimodal = any(e.happening is Happening.BIMODAL for e in mine) and place == _first(fleet, number, case.operator)
        arms = ["optimized", "candidate", "naive"] + (["aa"] if place < 5 else [])
        optimized = case.waste * _roof(case, model) / 0.7 * math.exp(host + _shift(mine, night, "optimized"))
        for arm in arms:
            row = _row(fleet, night, model, number, run_id, case, arm)
            noise = rng.normal(0, BETWEEN_RUNS) + rng.normal(0, BETWEEN_PROCESSES, PROCESSES)
            base = {"candidate": math.log(case.candidate), "naive": math.log(case.naive)}.get(arm, 0.0)
            own = _shift(mine, night, arm) - _shift(mine, night, "optimized") if arm != "optimized" else 0.0
            ratio = base + own + noise if arm != "optimized" else np.zeros(PROCESSES)
            times = optimized * np.exp(ratio + rng.normal(0, 0.003, PROCESSES))
            if bimodal:
                high = rng.random(BIMODAL_SAMPLES) < 0.3 + 0.2 * night / fleet.nights
                calls = float(times.mean()) * np.where(high, 1.0, TIMES) * np.exp(rng.normal(0, 0.004, BIMODAL_SAMPLES))
                times = np.full(PROCESSES, np.median(calls))
                samples.append(_sample_row(row, calls))
            row |= _numbers(case, model, arm, ratio, times, mine, night, rng)
            rows.append(row)
    table = _as_table(rows, RESULTS)
    return table, _as_table(samples, SAMPLES) if samples else None


def _first(fleet: Fleet, number: int, operator: str) -> int:
    return next(i for i, c in enumerate(fleet.cases_of(number)) if c.operator == operator)


def _roof(case: FleetCase, model: FleetModel) -> float:
    """Seconds that the roofs allow, and a launch."""
    return max(case.flops / model.peak_flop_per_s, case.traffic_bytes / model.bandwidth_bytes_per_s) + 3e-6


def _shift(events: list[Event], night: int, arm: str) -> float:
    """What the events did to the time of an arm, of logarithms."""
    return sum(e.log_time + e.log_time_a_night * (night - e.night) for e in events if e.arm in (arm, "*"))


def _row(
    fleet: Fleet, night: int, model: FleetModel, number: int, run_id: str, case: FleetCase, arm: str
) -> dict[str, Any]:
    unit = model.units[number]
    name = "\0".join((case.case_id, arm, model.name, unit))
    return {
        "run_id": run_id,
        "measured_at": night_time(night, number),
        "subject_id": hashlib.sha256(name.encode()).hexdigest()[:16],
        "case_id": case.case_id,
        "operator": case.operator,
        "family": case.family,
        "dtype": "bf16",
        "phase": case.phase,
        "axes": json.dumps(case.axes),
        "settings": json.dumps({"cache": "cold", "timer": "device_event"}),
        "weight": case.weight,
        "arm": arm,
        "role": arm,
        "implementation": {"optimized": "vendor", "aa": "vendor", "naive": "textbook"}.get(arm, "triton"),
        "host": f"sim-host-{unit}",
        "device_kind": model.kind,
        "device_model": model.name,
        "device_unit": unit,
        "status": "measured",
        "latency_basis": "single",
        "ratio_timer": "device_event",
        "repro": f"collector run --suite nightly --case '{case.case_id}'",
    }


def _numbers(
    case: FleetCase,
    model: FleetModel,
    arm: str,
    ratio: np.ndarray[Any, np.dtype[np.float64]],
    times: np.ndarray[Any, np.dtype[np.float64]],
    events: list[Event],
    night: int,
    rng: np.random.Generator,
) -> dict[str, Any]:
    seconds = float(np.exp(np.log(times).mean()))
    roof = max(case.flops / model.peak_flop_per_s, case.traffic_bytes / model.bandwidth_bytes_per_s)
    mean, half = float(ratio.mean()), 4.303 * float(ratio.std(ddof=1)) / math.sqrt(PROCESSES)
    numbers: dict[str, Any] = {
        "latency_p50_s": seconds,
        "latency_n": 300,
        "time_processes_s": times.tolist(),
        "ratio_optimized": math.exp(mean),
        "ratio_optimized_low": math.exp(mean - half),
        "ratio_optimized_high": math.exp(mean + half),
        "log_ratio_optimized_processes": ratio.tolist(),
        "rounds": 300,
        "replicates": PROCESSES,
        "flops": case.flops,
        "traffic_bytes": case.traffic_bytes,
        "flop_per_s": case.flops / seconds,
        "bandwidth_bytes_per_s": case.traffic_bytes / seconds,
        "roofline_latency_s": roof,
        "roofline_fraction": roof / seconds,
        "roofline_bound": "compute" if case.flops / model.peak_flop_per_s >= roof else "memory",
    }
    if arm == "candidate":
        grown = sum(e.log_memory_a_night * (night - e.night + 1) for e in events)
        worse = math.prod(e.error_factor for e in events)
        numbers["peak_memory_bytes"] = round(case.traffic_bytes * 1.1 * math.exp(grown)) + (1 << 20)
        numbers["error_margin"] = 0.05 * worse * math.exp(float(rng.normal(0, 0.08)))
    return numbers


def _sample_row(row: dict[str, Any], calls: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, Any]:
    n = calls.size
    return {
        "run_id": row["run_id"],
        "subject_id": row["subject_id"],
        "case_id": row["case_id"],
        "arm": row["arm"],
        "replicate": 0,
        "pass": "single",
        "calls_per_sample": 1,
        "wall_s": calls.tolist(),
        "thread_s": [],
        "device_s": calls.tolist(),
        "monotonic_s": np.arange(n, dtype=float).tolist(),
        "round": list(range(n)),
        "position": [0] * n,
        "mark": [""] * n,
    }


def _as_table(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    """Columns that no row has are null columns at once: most of `results` is not simulated."""
    named = {name for row in rows for name in row}
    columns = [
        pa.array([row.get(field.name) for row in rows], type=field.type)
        if field.name in named
        else pa.nulls(len(rows), type=field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def score(fleet: Fleet, findings: list[Finding], runs: int) -> DemoReport:
    """Which confirmed findings tell which planted event."""
    confirmed = [f for f in findings if f.confirmed]
    explained: set[str] = set()
    planted = []
    for event in fleet.events:
        matches = [f for f in confirmed if _tells(event, f, fleet)]
        explained |= {f.finding_id for f in matches}
        told = {(f.facts.metric, f.facts.direction) for f in matches}
        classed = {(f.facts.metric, f.facts.direction, f.facts.finding_class) for f in matches}
        planted.append(
            PlantedEvent(
                event=event,
                findings=tuple(f.finding_id for f in matches),
                found={(m, d) for m, d, _ in event.expected} <= told if event.expected else not matches,
                classed=set(event.expected) <= classed if event.expected else not matches,
            )
        )
    unplanted = tuple(f.finding_id for f in confirmed if f.finding_id not in explained)
    return DemoReport(runs=runs, findings=len(confirmed), planted=tuple(planted), unplanted=unplanted)


def _tells(event: Event, finding: Finding, fleet: Fleet) -> bool:
    facts = finding.facts
    if event.unit is not None and facts.device_unit != event.unit:
        return False
    if event.model is not None and facts.device_model != event.model:
        return False
    if event.operator is not None and facts.operator not in ("", event.operator):
        return False
    expected = {(metric, direction) for metric, direction, _ in event.expected}
    night = (facts.since_at - night_time(0, 0)).days
    return (facts.metric, facts.direction) in expected and night >= event.night - 6


def describe(report: DemoReport) -> Iterator[str]:
    """The report in lines: what was planted, and which finding tells it."""
    for planted in report.planted:
        event = planted.event
        where = " · ".join(part for part in (event.model or "all models", event.unit, event.operator) if part)
        told = ", ".join(planted.findings) if planted.findings else "no finding"
        verdict = (
            "as it should be" if planted.found and planted.classed else ("misclassed" if planted.found else "missed")
        )
        yield f"night {event.night}: {event.happening.value} ({where}): {told}; {verdict}"
    yield f"{len(report.unplanted)} confirmed findings that nothing planted explains"
