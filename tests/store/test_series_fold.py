"""`series` says what a slow reading of all history says, in whatever order runs arrive."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.lake.lake import Lake
from store.lake.summary import BEFORE, CATALOGS, FOLD, JUDGED, RUNS, SPARKLINE_RUNS, WANTED, catalog_words
from store.lake.tables import LAKE_TABLES, SERIES, VERDICTS

MakeBundle = Callable[..., Path]
START = datetime(2026, 3, 1, 2, 0, tzinfo=UTC)


def expected(history: list[dict[str, Any]]) -> dict[str, Any]:
    """The slow way: sort all rows of a subject and look."""
    rows = sorted(history, key=lambda row: (row["measured_at"], row["run_id"]))
    measured = [row for row in rows if row["status"] == "measured"]
    before_latest = [row for row in rows[:-1] if row["status"] == "measured"]
    return {
        "n_runs": len(rows),
        "first_at": rows[0]["measured_at"],
        "latest_at": rows[-1]["measured_at"],
        "latest_run_id": rows[-1]["run_id"],
        "status": rows[-1]["status"],
        "ratio_optimized": rows[-1]["ratio_optimized"],
        "ratio_previous": before_latest[-1]["ratio_optimized"] if before_latest else None,
        "sparkline_ratio": [row["ratio_optimized"] for row in measured[-SPARKLINE_RUNS:]],
        "sparkline_at": [row["measured_at"] for row in measured[-SPARKLINE_RUNS:]],
    }


def test_series_equals_the_slow_reading(store_folder: Path, make_bundle: MakeBundle) -> None:
    """Forty shuffled nights with failures, in several ingests: each summary equals the slow one, so does a rebuild."""
    shuffled = random.Random(3)
    nights = list(range(40))
    shuffled.shuffle(nights)
    lake = Lake.create(store_folder)
    for batch in _batches(nights, 9):
        for night in batch:
            ratios = {
                ("case", arm): None if (night + len(arm)) % 7 == 0 else 1.0 + night / 100 for arm in ("naive", "aa")
            }
            lake.inbox.put(make_bundle(f"run-{night:02}", nights=night, ratios=ratios))
        lake.ingest()
    columns = "subject_id, run_id, measured_at, status, ratio_optimized"
    history = lake.sql(f"SELECT {columns} FROM results").to_pylist()  # noqa: S608 a constant
    series = {row["subject_id"]: row for row in lake.sql("SELECT * FROM series").to_pylist()}
    assert len(series) == 2
    for subject_id, row in series.items():
        slow = expected([r for r in history if r["subject_id"] == subject_id])
        assert {name: row[name] for name in slow} == slow
    lake.rebuild_series()
    assert {row["subject_id"]: row for row in lake.sql("SELECT * FROM series").to_pylist()} == series


def _batches(items: list[int], size: int) -> list[list[int]]:
    return [items[i : i + size] for i in range(0, len(items), size)]


@settings(deadline=None, max_examples=15)
@given(st.lists(st.tuples(st.integers(0, 60), st.none() | st.floats(0.1, 9.0)), min_size=1, max_size=60), st.randoms())
def test_the_fold_knows_no_order(points: list[tuple[int, float | None]], order: random.Random) -> None:
    """Adding rows in any order, in one go or in two with a restart between, gives the same row, the slow one."""
    rows = [row_at(START + timedelta(days=day), f"run-{number}", ratio) for number, (day, ratio) in enumerate(points)]
    shuffled = rows.copy()
    order.shuffle(shuffled)
    half = len(rows) // 2
    at_once = fold(SERIES.empty_table(), rows)
    assert fold(fold(SERIES.empty_table(), shuffled[:half]), shuffled[half:]).equals(at_once)
    slow = expected(rows)
    row = at_once.to_pylist()[0]
    assert row["sparkline_at"] == slow.pop("sparkline_at")
    assert sorted(row["sparkline_ratio"]) == sorted(slow.pop("sparkline_ratio")) or len(set(points)) < len(points)
    if len({day for day, _ in points}) == len(points):
        assert {name: row[name] for name in slow} == slow


def row_at(at: datetime, run_id: str, ratio: float | None) -> dict[str, Any]:
    """A row of results as the fold meets it."""
    known = {
        "subject_id": "s",
        "measured_at": at,
        "run_id": run_id,
        "case_id": "case",
        "status": "failed" if ratio is None else "measured",
        "ratio_optimized": ratio,
        "latency_p50_s": ratio,
        "ingest_seq": 1,
    }
    return dict.fromkeys(LAKE_TABLES["results"].names) | known


def fold(before: pa.Table, rows: list[dict[str, Any]]) -> pa.Table:
    """These rows into that table."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    text = pa.schema([(name, pa.string()) for name in ("run_id", "suite", "catalog", "status", "sentence")])
    runs = pa.Table.from_pylist([{"run_id": row["run_id"], "suite": "quick"} for row in rows], schema=text)
    judged = text.append(pa.field("subject_id", pa.string())).append(pa.field("smallest_visible_change", pa.float64()))
    given = {
        "results": pa.Table.from_pylist(rows, schema=LAKE_TABLES["results"]),
        BEFORE: before,
        RUNS: runs.select(["run_id", "suite", "catalog"]),
        CATALOGS: catalog_words([]),
        JUDGED: judged.empty_table(),
        WANTED: pa.table({"subject_id": ["s"]}),
    }
    for name, table in given.items():
        connection.register(name, table)
    return connection.sql(FOLD, params={"after": 0, "until": 1}).to_arrow_table().cast(SERIES).combine_chunks()


def test_the_latest_verdict_is_on_the_series(store_folder: Path, make_bundle: MakeBundle) -> None:
    """A verdict of latency_ratio against history is shown with its sentence, no other is; refreshing twice is once."""
    lake = Lake.create(store_folder)
    lake.inbox.put(make_bundle("run-1", ratios={("case", "naive"): 1.5}))
    lake.ingest()
    subject_id = lake.sql("SELECT subject_id FROM series").to_pylist()[0]["subject_id"]
    verdict = dict.fromkeys(VERDICTS.names) | {
        "verdict_id": "v",
        "run_id": "run-1",
        "as_of_seq": 1,
        "subject_id": subject_id,
        "metric": "latency_ratio",
        "against": "history",
        "status": "regressed",
        "sentence": "12 % slower",
        "smallest_visible_change": 0.03,
    }
    other = verdict | {"verdict_id": "w", "metric": "latency", "status": "unchanged"}
    lake.append("verdicts", [verdict, other])
    assert lake.refresh_series()
    row = lake.sql("SELECT verdict, verdict_sentence, smallest_visible_change FROM series").to_pylist()[0]
    assert row == {"verdict": "regressed", "verdict_sentence": "12 % slower", "smallest_visible_change": 0.03}
    assert not lake.refresh_series()


def test_an_ingest_that_had_no_time_for_series_is_made_up_for(store_folder: Path, make_bundle: MakeBundle) -> None:
    """When a process dies between `runs` and `series`, the next ingest brings the summary up to date."""
    lake = Lake.create(store_folder)
    lake.inbox.put(make_bundle("run-1"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("store.lake.series.SeriesKeeper.refresh", _dies)
        with pytest.raises(KeyboardInterrupt):
            lake.ingest()
    assert lake.sql("SELECT * FROM series").num_rows == 0
    assert lake.ingest().ingested == ()
    assert lake.sql("SELECT * FROM series").num_rows == 2


def _dies(_: object) -> bool:
    raise KeyboardInterrupt
