"""Nights of simulated accelerators of one model, written as bundles: quiet, paired, slowed where so wished."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from store.bundle.inbox import Inbox
from store.bundle.schemas import RESULTS, RUNS
from store.bundle.writer import BundleWriter

START = datetime(2026, 9, 1, 3, 0, tzinfo=UTC)
ARMS = ("optimized", "aa", "candidate")
Slow = Callable[[str, str, str], float]
"""(unit, case, arm) -> how many times as long."""


def night_time(night: float) -> datetime:
    """When the run of a night starts."""
    return START + timedelta(days=night)


def write_night(
    folder: Path,
    unit: str,
    night: float,
    cases: tuple[str, ...],
    *,
    slow: Slow = lambda unit, case, arm: 1.0,
    revision: str = "aaa",
    confirms: str | None = None,
    processes: int = 3,
    name: str = "",
) -> Path:
    """The bundle of one run; its noise follows from unit and night."""
    rng = np.random.default_rng([3, round(1000 * night), *unit.encode()])
    run_id = name or f"{unit}-{round(100 * night):05d}"
    same = {"run_id": run_id, "device_kind": "cuda", "device_model": "GPU", "device_unit": unit, "host": f"host-{unit}"}
    rows = []
    for case in cases:
        for arm in ARMS:
            ratio = np.log(slow(unit, case, arm) / slow(unit, case, "optimized"))
            ratio = np.zeros(processes) if arm == "optimized" else ratio + rng.normal(0, 0.003)
            ratio = ratio + (0 if arm == "optimized" else rng.normal(0, 0.004, processes))
            times = 1e-3 * slow(unit, case, "optimized") * np.exp(ratio + rng.normal(0, 0.003))
            rows.append(
                dict.fromkeys(RESULTS.names)
                | same
                | {
                    "measured_at": night_time(night), "subject_id": f"{case}|{arm}|{unit}", "case_id": case,
                    "arm": arm, "role": arm, "operator": case.split("[")[0], "family": case.split("[")[0],
                    "status": "measured", "weight": 1 / len(cases), "latency_p50_s": float(np.median(times)),
                    "time_processes_s": times.tolist(), "ratio_optimized": float(np.exp(ratio.mean())),
                    "log_ratio_optimized_processes": ratio.tolist(),
                }
            )  # fmt: skip
    writer = BundleWriter(folder, run_id)
    run = {
        "kind": "confirm" if confirms else "night", "confirms": confirms, "status": "complete",
        "started_at": night_time(night), "finished_at": night_time(night), "suite": "quick", "revision": revision,
        "environment": "{}", "catalog": "{}", "replicates": processes,
    }  # fmt: skip
    writer.add("runs", [dict.fromkeys(RUNS.names) | same | run])
    writer.add("results", rows)
    return writer.publish({})


def put(folder: Path, bundle: Path) -> None:
    """Into the inbox of the store under `folder`."""
    Inbox(str(folder / "store")).put(bundle)
