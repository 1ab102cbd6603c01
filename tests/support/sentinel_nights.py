"""Nights of a simulated accelerator with a sentinel beside it, written as bundles."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from store.bundle.inbox import Inbox
from store.bundle.schemas import RESULTS, RUNS
from store.bundle.writer import BundleWriter
from store.lake.lake import Lake

START = datetime(2026, 9, 1, 3, 0, tzinfo=UTC)
CASES = tuple(f"{name}[M={m}]" for name in ("gemm", "softmax", "rms_norm") for m in (16, 64, 256, 1024))
ARMS = ("optimized", "aa", "candidate", "naive")
UNIT = "GPU-1"
Slow = Callable[[str, str], float]
"""(case, arm, as `sentinel:candidate` in the sentinel) -> how many times as long."""
OLD = {"version.torch": "2.8.0", "torch": "2.8.0", "driver": "570", "python": "3.12.1"}
FROZEN = {"sentinel.version.torch": "2.8.0", "sentinel.packages": "abc", "sentinel.python_path": "/opt/s/bin/python"}


def write_night(
    lake: Lake,
    folder: Path,
    night: int,
    environment: Mapping[str, str],
    *,
    slow: Slow = lambda case, arm: 1.0,
    revision: str = "aaa",
    beside: bool = True,
    processes: int = 3,
) -> str:
    """One run into the store's inbox; its noise follows from the night. The run's id."""
    rng = np.random.default_rng([11, night])
    run_id, at = f"night-{night:03d}", START + timedelta(days=night)
    same = {"run_id": run_id, "device_kind": "cuda", "device_model": "GPU", "device_unit": UNIT, "host": "host-1"}
    host = rng.normal(0, 0.01)
    rows = []
    for case in CASES:
        for prefix in ("", "sentinel:") if beside else ("",):
            place = host + rng.normal(0, 0.003, processes)
            base = np.log(1e-3 * slow(case, f"{prefix}optimized")) + place
            for arm in ("optimized", "candidate") if prefix else ARMS:
                own = np.log(1e-3 * slow(case, prefix + arm)) + place + rng.normal(0, 0.003, processes)
                times = base if arm == "optimized" else own
                ratio = None if arm == "optimized" else own - base
                rows.append(
                    dict.fromkeys(RESULTS.names)
                    | same
                    | {
                        "measured_at": at, "subject_id": f"{case}|{prefix}{arm}", "case_id": case, "settings": "{}",
                        "arm": prefix + arm, "role": "sentinel" if prefix else arm, "operator": case.split("[")[0],
                        "family": case.split("[")[0], "status": "measured", "weight": 1 / len(CASES),
                        "latency_p50_s": float(np.exp(np.median(times))), "time_processes_s": np.exp(times).tolist(),
                        "ratio_optimized": None if ratio is None else float(np.exp(ratio.mean())),
                        "log_ratio_optimized_processes": None if ratio is None else ratio.tolist(),
                    }
                )  # fmt: skip
    writer = BundleWriter(folder / "bundles", run_id)
    run = {
        "kind": "night", "status": "complete", "started_at": at, "finished_at": at, "suite": "quick",
        "revision": revision, "environment": json.dumps(dict(environment)), "catalog": "{}", "replicates": processes,
        "torch": environment.get("torch"), "driver": environment.get("driver"),
    }  # fmt: skip
    writer.add("runs", [dict.fromkeys(RUNS.names) | same | run])
    writer.add("results", rows)
    Inbox(lake.uri).put(writer.publish({}))
    return run_id
