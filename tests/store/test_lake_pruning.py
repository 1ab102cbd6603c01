"""Files that a query leaves closed change no answer, and the ones that it needs are opened."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from store.lake.lake import Lake
from store.lake.tables import HOST_TABLES

MakeBundle = Callable[..., Path]
START = datetime(2026, 3, 1, 2, 0, tzinfo=UTC)
NIGHTS = 4


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, module_bundle: MakeBundle) -> Lake:
    """Four nights, a file each; each night has a series that every night has and one of its own."""
    lake = Lake.create(tmp_path_factory.mktemp("pruning") / "store")
    for night in range(NIGHTS):
        ratios = {("always", "candidate"): 1.0 + night, (f"night-{night}", "candidate"): 2.0}
        lake.inbox.put(module_bundle(f"run-{night}", nights=night, ratios=ratios))
        lake.ingest()
    return lake


QUESTIONS: list[tuple[str, Any, int]] = [
    ("SELECT * FROM results WHERE subject_id = ?", ["night-2|candidate|cpu"], 2),
    ("SELECT * FROM results WHERE subject_id = ?", ["always|candidate|cpu"], 4),
    ("SELECT * FROM results WHERE subject_id = ?", ["zzz"], 0),
    (
        "SELECT * FROM results r WHERE r.measured_at > $since AND arm = 'candidate'",
        {"since": START + timedelta(days=2)},
        2,
    ),
    ("SELECT * FROM results WHERE measured_at <= ? AND ingest_seq >= ?", [START + timedelta(days=2), 2], 1),
    ("SELECT * FROM results WHERE measured_at > ? OR ingest_seq = 1", [START + timedelta(days=3)], 4),
    ("SELECT * FROM results WHERE NOT measured_at > ?", [START + timedelta(days=3)], 4),
    ("SELECT * FROM results WHERE ingest_seq = ? AND EXISTS (SELECT 1 FROM results)", [1], 4),
    ("WITH old AS (SELECT * FROM results WHERE ingest_seq = ?) SELECT * FROM old", [1], 4),
    ("SELECT * FROM (SELECT * FROM results WHERE ingest_seq = ?) WHERE arm = 'candidate'", [3], 1),
    ("SELECT * FROM results JOIN runs USING (run_id) WHERE results.ingest_seq = ?", [3], 4),
    ("SELECT * FROM results WHERE ingest_seq = ?", [None], 4),
]


@pytest.mark.parametrize(("query", "parameters", "opened"), QUESTIONS, ids=[query[22:70] for query, _, _ in QUESTIONS])
def test_closed_files_change_no_answer(
    lake: Lake, query: str, parameters: Any, opened: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is that over all files, from no more files than need be; what is not surely excluded stays open."""
    found = sorted(map(repr, lake.sql(query, parameters).to_pylist()))
    assert len(lake.queries()._shown["results"][2]) == opened
    monkeypatch.setattr("store.lake.query.bounds_of", lambda _: {})
    everything = Lake.open(lake.uri)
    assert found == sorted(map(repr, everything.sql(query, parameters).to_pylist()))
    everything.close()


def test_a_few_series_are_read_without_the_others(lake: Lake) -> None:
    """`series` is written in row groups of about a thousand rows, in the order of their subjects."""
    rows = [dict.fromkeys(HOST_TABLES["series"].names) | {"subject_id": f"{number:05}"} for number in range(3_000)]
    before = lake.sql("SELECT * FROM series ORDER BY subject_id").to_pylist()

    lake.overwrite("series", rows)

    (path,) = lake.tables.active_files("series").paths
    assert pq.read_metadata(path).num_row_groups == 3
    assert lake.sql("SELECT subject_id FROM series WHERE subject_id IN ('00003', '02999') ORDER BY 1").to_pylist() == [
        {"subject_id": "00003"},
        {"subject_id": "02999"},
    ]
    lake.rebuild_series()
    assert lake.sql("SELECT * FROM series ORDER BY subject_id").to_pylist() == before
