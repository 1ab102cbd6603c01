"""Close a run: rows from what its records hold, and the bundle from the rows."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench_suite.contracts import contract
from collector.node.ceilings import ceilings_path, mark_stale
from collector.node.environment import METHOD_VERSION, host_facts
from collector.node.folders import cache_folder
from collector.node.marks import clocks, contended, held_back, mark, seen_by, waits
from collector.node.publish import Request, publish
from collector.node.readings import TimedReading
from collector.node.row_times import STALE_CEILING
from collector.node.rows import RunFacts, result_rows, sample_rows
from collector.node.run_state import Run, RunOutcome
from collector.node.sentinel_rows import sentinel_result_rows, sentinel_sample_rows, words_of


def outcome_of(run: Run, readings: list[TimedReading]) -> RunOutcome:
    """The rows of the run, from what its records hold."""
    facts = _facts(run, readings)
    for record in [*run.records, *(record.sentinel for record in run.records if record.sentinel)]:
        stretches = [facts.held_back, *seen_by(facts.contended, record.ratio_timer)]
        for arm in (*record.arms.values(), *record.parts.values()):
            for spans in stretches:
                arm.passes = [(replicate, mark(samples, spans)) for replicate, samples in arm.passes]
    rows = [row for record in run.records for row in result_rows(record, facts)]
    if run.sentinel is not None:
        rows += [row for record in run.records for row in sentinel_result_rows(record, run.sentinel, facts)]
    _judge_ceilings(run, rows)
    now = time.monotonic()
    return RunOutcome(
        run_id=facts.run_id,
        bundle=None,
        suite=run.suite,
        identity=run.identity,
        ceilings=run.ceilings,
        rows=rows,
        wall_s=now - run.begun_s,
        prepare_s=run.preparing_s,
        compile_s=sum(row["compile_s"] or 0.0 for row in rows) + sum(row["first_call_s"] or 0.0 for row in rows),
        status="partial" if run.interrupted else "complete",
        beside=words_of(run.sentinel, rows) if run.sentinel else "",
    )


def _judge_ceilings(run: Run, rows: list[dict[str, Any]]) -> None:
    """Mark measured ceilings stale where a row lies beyond them."""
    beyond = [json.loads(row["null_reasons"]).get(STALE_CEILING) for row in rows if row["status"] == "measured"]
    words = next((said for said in beyond if said), "")
    if words and run.ceilings is not None:
        path = ceilings_path(cache_folder() / "ceilings", run.identity, run.suite.method.threads)
        run.ceilings = mark_stale(path, run.ceilings, words)


def _facts(run: Run, readings: list[TimedReading]) -> RunFacts:
    return RunFacts(
        run_id=run.header.run_id,
        measured_at=run.header.started_at,
        host=run.hello.versions.get("host", host_facts()["host"]),
        identity=run.identity,
        suite=run.suite,
        ceilings=run.ceilings,
        threads=run.suite.method.threads,
        hello=run.hello,
        at_once=run.header.at_once,
        held_back=held_back(readings),
        contended=contended(readings),
        waits=waits(readings),
        clocks=clocks(readings),
    )


def publish_run(run: Run, outcome: RunOutcome, readings: list[TimedReading]) -> Path:
    """Write the bundle; it appears under its name whole or not at all."""
    facts = _facts(run, readings)
    samples = [row for record in run.records for row in sample_rows(record, facts)]
    if run.sentinel is not None:
        samples += [row for record in run.records for row in sentinel_sample_rows(record, run.sentinel, facts)]
    request = Request(
        spool=run.options.spool,
        run_id=outcome.run_id,
        tables={
            "runs": [_run_row(run, facts, outcome)],
            "results": outcome.rows,
            "samples": samples,
            "telemetry": [_telemetry_row(facts, reading) for reading in readings],
        },
        manifest={"suite": run.suite.name, "suite_hash": run.suite.hash},
    )
    return publish(request)


def _telemetry_row(facts: RunFacts, timed: TimedReading) -> dict[str, Any]:
    return {
        "run_id": facts.run_id,
        "device_unit": facts.identity.unit,
        "monotonic_s": timed.monotonic_s,
        "at": datetime.fromtimestamp(timed.unix_s, UTC),
        "metric": timed.reading.metric,
        "unit": timed.reading.unit,
        "value": timed.reading.value,
        "reason": timed.reading.reason or None,
    }


def _run_row(run: Run, facts: RunFacts, outcome: RunOutcome) -> dict[str, Any]:
    versions = run.hello.versions
    beside = run.sentinel.fingerprint() if run.sentinel else {}
    return {
        "run_id": outcome.run_id,
        "kind": run.options.kind.value,
        "confirms": run.options.confirms,
        "status": outcome.status,
        "started_at": facts.measured_at,
        "finished_at": run.ended_at or datetime.now(UTC),
        "suite": run.suite.name,
        "suite_hash": run.suite.hash,
        "seed": run.suite.seed,
        "replicates": run.suite.method.replicates,
        "revision": run.header.revision,
        "host": facts.host,
        "device_kind": run.identity.kind,
        "device_model": run.identity.model,
        "device_slice": run.identity.slice,
        "device_unit": run.identity.unit,
        "method_version": METHOD_VERSION,
        "driver": run.identity.driver,
        "torch": versions.get("version.torch"),
        "triton": versions.get("version.triton"),
        "clocks_policy": f"locked {run.lock.high_mhz} MHz" if run.lock else host_facts().get("governor"),
        "host_image": host_facts().get("os"),
        "environment": json.dumps(host_facts() | versions | beside, sort_keys=True),
        "ceilings": run.ceilings.to_json() if run.ceilings else None,
        "catalog": json.dumps(_catalog(run), sort_keys=True),
        "command": run.options.command,
        "wall_s": outcome.wall_s,
        "note": run.options.note,
    }


def _catalog(run: Run) -> dict[str, Any]:
    """What a reader of the store needs to know of each case, so that it never needs the suite."""
    catalog = {}
    for record in run.records:
        case = record.planned.case
        promise = contract(case.operator)
        tolerance = promise.tolerance(case)
        catalog[case.case_id] = {
            "title": promise.title,
            "family": promise.family,
            "formula": promise.formula,
            "shape": promise.describe(case),
            "label": record.planned.label,
            "provenance": record.planned.provenance,
            "inputs": promise.inputs,
            "tolerance_absolute": tolerance.absolute,
            "tolerance_relative": tolerance.relative,
        }
    return catalog
