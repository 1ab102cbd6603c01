"""Bundles and lakes for the tests of the store: real files, real tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pytest

from store.bundle.schemas import BUNDLE_TABLES, RowStatus
from store.bundle.writer import BundleWriter

START = datetime(2026, 3, 1, 2, 0, tzinfo=UTC)


def blank(schema: pa.Schema, **known: Any) -> dict[str, Any]:
    """A row with every column of the schema, null where nothing is known."""
    unknown = set(known) - set(schema.names)
    assert not unknown, unknown
    return dict.fromkeys(schema.names) | known


def run_row(run_id: str, started_at: datetime, cases: Sequence[str], **more: Any) -> dict[str, Any]:
    """One row of runs with a catalog of its cases."""
    catalog = {case: {"title": f"Title of {case}", "shape": f"shape of {case}"} for case in cases}
    known = {
        "run_id": run_id,
        "kind": "night",
        "status": "complete",
        "started_at": started_at,
        "finished_at": started_at + timedelta(minutes=3),
        "suite": "quick",
        "seed": 7,
        "host": "node-1",
        "device_kind": "cpu",
        "catalog": json.dumps(catalog),
    }
    return blank(BUNDLE_TABLES["runs"], **(known | more))


def result_row(run_id: str, case: str, arm: str, at: datetime, ratio: float | None, **more: Any) -> dict[str, Any]:
    """One row of results; measured where there is a ratio, failed where there is none."""
    known = {
        "run_id": run_id,
        "measured_at": at,
        "subject_id": f"{case}|{arm}|cpu",
        "case_id": case,
        "arm": arm,
        "host": "node-1",
        "device_kind": "cpu",
        "status": RowStatus.MEASURED if ratio is not None else RowStatus.FAILED,
        "status_kind": None if ratio is not None else "crashed",
        "latency_p50_s": None if ratio is None else ratio * 1e-3,
        "ratio_optimized": ratio,
        "time_processes_s": [ratio * 1e-3] * 3 if ratio is not None else None,
    }
    return blank(BUNDLE_TABLES["results"], **(known | more))


def sample_row(run_id: str, case: str, arm: str, **more: Any) -> dict[str, Any]:
    """One row of samples with three raw values."""
    known = {
        "run_id": run_id,
        "subject_id": f"{case}|{arm}|cpu",
        "case_id": case,
        "arm": arm,
        "replicate": 0,
        "pass": "rounds",
        "calls_per_sample": 4,
        "wall_s": [1e-3, 2e-3, 3e-3],
        "round": [0, 1, 2],
        "mark": ["", "", "paused"],
    }
    return blank(BUNDLE_TABLES["samples"], **(known | more))


class MakeBundle(Protocol):
    """Writes and publishes the bundle of one run."""

    def __call__(
        self,
        run_id: str,
        *,
        nights: float = 0,
        ratios: Mapping[tuple[str, str], float | None] | None = None,
        folder: Path | None = None,
        run: Mapping[str, Any] | None = None,
    ) -> Path:
        """`nights` after START; `ratios` by case and arm."""


def bundle_factory(parent: Path) -> MakeBundle:
    """A factory of small published bundles below a folder."""

    def make(
        run_id: str,
        *,
        nights: float = 0,
        ratios: Mapping[tuple[str, str], float | None] | None = None,
        folder: Path | None = None,
        run: Mapping[str, Any] | None = None,
    ) -> Path:
        measured = ratios if ratios is not None else {("gemm[M=16]", "naive"): 1.5, ("gemm[M=16]", "optimized"): 1.0}
        known = dict(run or {})
        started_at = known.pop("started_at", START + timedelta(days=nights))
        writer = BundleWriter(folder or parent, run_id)
        writer.add("runs", [run_row(run_id, started_at, sorted({case for case, _ in measured}), **known)])
        at = started_at + timedelta(seconds=30)
        writer.add("results", [result_row(run_id, case, arm, at, ratio) for (case, arm), ratio in measured.items()])
        writer.add("samples", [sample_row(run_id, case, arm) for case, arm in measured])
        return writer.publish({"made_by": "tests"})

    return make


@pytest.fixture
def make_bundle(tmp_path: Path) -> MakeBundle:
    """A factory of small published bundles."""
    return bundle_factory(tmp_path / "bundles")


@pytest.fixture(scope="module")
def module_bundle(tmp_path_factory: pytest.TempPathFactory) -> MakeBundle:
    """The same for what several tests share."""
    return bundle_factory(tmp_path_factory.mktemp("bundles"))


@pytest.fixture
def store_folder(tmp_path: Path) -> Path:
    """Where a test's store goes; its name would trip up careless quoting."""
    return tmp_path / "the store's é"


@pytest.fixture
def push(store_folder: Path) -> Callable[[Path], str]:
    """Puts a bundle into the inbox of the test's store."""
    from store.bundle.inbox import Inbox

    return lambda bundle: Inbox(store_folder).put(bundle)
