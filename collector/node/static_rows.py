"""Static metrics as a run: one row a kernel variant and chip, so that registers, spills and hashes are stored series.

Nothing is measured on a device: the `device_model` of a row is the chip that was compiled for, and its kind `static`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench_suite.contract import Role
from bench_suite.contracts import contract
from bench_suite.static import StaticMetrics
from collector.node.environment import METHOD_VERSION, host_facts, revision_under_test
from collector.node.publish import Request, publish
from store.bundle.schemas import RESULTS, RUNS, FailureKind, RowStatus, RunKind

KIND, SUITE = "static", "static"
ARM = Role.CANDIDATE.value

Row = dict[str, Any]


def subject_of(metrics: StaticMetrics) -> str:
    """Sixteen hex digits that name variant, arm and chip."""
    return hashlib.sha256("\0".join((metrics.variant, ARM, metrics.chip)).encode()).hexdigest()[:16]


def static_row(metrics: StaticMetrics, run_id: str, at: datetime) -> Row:
    """One row of `results`; a kernel that does not compile is `failed` with the compiler's words."""
    row: Row = dict.fromkeys(RESULTS.names)
    row |= {
        "run_id": run_id,
        "measured_at": at,
        "subject_id": subject_of(metrics),
        "case_id": metrics.variant,
        "operator": metrics.operator,
        "family": contract(metrics.operator).family,
        "dtype": metrics.variant.partition("[")[2].partition(",")[0],
        "axes": "{}",
        "settings": json.dumps({"num_stages": metrics.num_stages, "num_warps": metrics.num_warps}, sort_keys=True),
        "arm": ARM,
        "role": ARM,
        "implementation": f"triton {metrics.kernel}",
        "host": host_facts()["host"],
        "device_kind": KIND,
        "device_model": metrics.chip,
        "device_unit": f"{KIND}:{metrics.chip}",
        "null_reasons": "{}",
        "repro": f"collector suite static --chips {metrics.chip} --operator {metrics.operator}",
    }
    if metrics.failure:
        row |= {"status": RowStatus.FAILED.value, "status_kind": FailureKind.COMPILE_ERROR.value}
        row["status_reason"] = metrics.failure
        return row
    return row | {
        "status": RowStatus.MEASURED.value,
        "compile_s": metrics.compile_s,
        "static_registers": metrics.registers + metrics.accumulation_registers,
        "static_spills": metrics.spills,
        "static_shared_bytes": metrics.shared_bytes,
        "static_stack_bytes": metrics.stack_bytes,
        "static_instructions": metrics.instructions,
        "static_matrix_instructions": metrics.matrix_instructions,
        "static_load_widths": json.dumps(dict(metrics.load_widths)),
        "static_binary_bytes": metrics.binary_bytes,
        "static_binary_sha256": metrics.binary_sha256,
    }


def publish_static(found: Sequence[StaticMetrics], spool: Path, *, command: str) -> tuple[str, Path]:
    """The bundle of all rows, as (run id, folder). Of kind `import`: no device was measured, so none is judged."""
    at = datetime.now(UTC)
    run_id = f"{at:%Y%m%dT%H%M%SZ}-{os.urandom(4).hex()}"
    run: Row = dict.fromkeys(RUNS.names)
    run |= {
        "run_id": run_id,
        "kind": RunKind.IMPORT.value,
        "status": "complete",
        "started_at": at,
        "finished_at": datetime.now(UTC),
        "suite": SUITE,
        "revision": revision_under_test(None, Path.cwd()),
        "host": host_facts()["host"],
        "device_kind": KIND,
        "device_model": KIND,
        "device_unit": KIND,
        "method_version": METHOD_VERSION,
        "triton": found[0].compiler.removeprefix("triton ") if found else None,
        "environment": json.dumps(host_facts(), sort_keys=True),
        "catalog": "{}",
        "command": command,
        "wall_s": sum(metrics.compile_s for metrics in found),
    }
    rows = [static_row(metrics, run_id, at) for metrics in found]
    request = Request(
        spool=spool,
        run_id=run_id,
        tables={"runs": [run], "results": rows, "samples": [], "telemetry": []},
        manifest={"suite": SUITE},
    )
    return run_id, publish(request)
