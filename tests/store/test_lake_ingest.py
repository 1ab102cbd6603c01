"""Bundles become rows once, whatever arrives in whatever order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from store.lake.lake import Lake, QueryError, StoreError
from store.lake.tables import HOST_TABLES

MakeBundle = Callable[..., Path]


@pytest.fixture
def lake(store_folder: Path) -> Lake:
    """An empty store."""
    return Lake.create(store_folder)


def test_a_run_that_is_put_in_can_be_asked_for(
    lake: Lake, push: Callable[[Path], str], make_bundle: MakeBundle
) -> None:
    """What a bundle holds is what the lake answers, with the ingest sequence."""
    push(make_bundle("run-1"))
    report = lake.ingest()
    assert report.ingested == ("run-1",)
    answer = lake.sql("SELECT arm, ratio_optimized, ingest_seq FROM results WHERE arm = ?", ["naive"]).to_pylist()
    assert answer == [{"arm": "naive", "ratio_optimized": 1.5, "ingest_seq": 1}]
    assert lake.sql("SELECT wall_s FROM samples LIMIT 1").to_pylist() == [{"wall_s": [1e-3, 2e-3, 3e-3]}]
    assert (lake.latest_seq(), lake.next_seq()) == (1, 2)
    assert lake.inbox.names() == []


def test_a_bundle_twice_is_one_run(lake: Lake, push: Callable[[Path], str], make_bundle: MakeBundle) -> None:
    """Putting and ingesting the same bundle again changes nothing and is reported as known."""
    bundle = make_bundle("run-1")
    push(bundle)
    push(bundle)
    assert lake.ingest().ingested == ("run-1",)
    push(bundle)
    report = lake.ingest()
    assert (report.ingested, report.already_known, report.quarantined) == ((), ("run-1",), ())
    assert lake.sql("SELECT count(*) AS n FROM results").to_pylist() == [{"n": 2}]


def test_series_has_the_latest_state(lake: Lake, push: Callable[[Path], str], make_bundle: MakeBundle) -> None:
    """The summary follows each ingest: status of the latest run, sparkline of the measured ones."""
    key = ("gemm[M=16]", "naive")
    for night, ratio in enumerate([1.1, 1.2, None]):
        push(make_bundle(f"run-{night}", nights=night, ratios={key: ratio}))
        lake.ingest()
    row = lake.sql("SELECT * FROM series").to_pylist()[0]
    assert (row["status"], row["n_runs"], row["latest_run_id"]) == ("failed", 3, "run-2")
    assert row["sparkline_ratio"] == [1.1, 1.2]
    assert row["ratio_previous"] == 1.2
    assert row["title"] == "Title of gemm[M=16]"


def test_append_with_a_key_happens_once(lake: Lake) -> None:
    """The same key twice appends once; without a key each call appends."""
    row = dict.fromkeys(HOST_TABLES["audits"].names) | {"run_id": "r", "subject_id": "s", "kind": "aa"}
    assert lake.append("audits", [row], key="night-1")
    assert not lake.append("audits", [row], key="night-1")
    assert lake.append("audits", [row])
    assert lake.sql("SELECT count(*) AS n FROM audits").to_pylist() == [{"n": 2}]


@pytest.mark.parametrize("query", ["DROP VIEW runs", "SELECT 1; SELECT 2", "COPY (SELECT 1) TO '/tmp/x.csv'", "SELEC"])
def test_only_a_single_select_is_answered(lake: Lake, query: str) -> None:
    """Anything else than one SELECT is refused in one line."""
    with pytest.raises(QueryError) as caught:
        lake.sql(query)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("source", ["'/etc/passwd'", "read_csv('/etc/passwd')", "read_parquet('/*')", "local_table"])
def test_a_query_reads_the_tables_and_nothing_else(lake: Lake, source: str) -> None:
    """Files of the machine and variables of the process are out of a query's reach."""
    local_table = lake.sql("SELECT 1 AS x")
    assert local_table.num_rows == 1
    with pytest.raises(QueryError):
        lake.sql(f"SELECT * FROM {source}")  # noqa: S608 hostile on purpose


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    """A missing folder and a folder of other things are both named."""
    with pytest.raises(StoreError, match="there is no such folder"):
        Lake.open(tmp_path / "nowhere")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(StoreError, match="no store"):
        Lake.open(tmp_path)
    with pytest.raises(StoreError, match=r"holds 'notes\.txt'"):
        Lake.create(tmp_path)


def test_late_data_do_not_change_what_was_known(
    lake: Lake, push: Callable[[Path], str], make_bundle: MakeBundle
) -> None:
    """A run that was measured earlier and arrives later is in the answer of now, and not in that of then."""
    push(make_bundle("run-1", nights=5))
    lake.ingest()
    then = lake.latest_seq()
    push(make_bundle("run-late", nights=1))
    lake.ingest()
    newest = "SELECT run_id FROM runs ORDER BY started_at"
    assert [row["run_id"] for row in lake.sql(newest).to_pylist()] == ["run-late", "run-1"]
    assert [row["run_id"] for row in lake.sql(newest, as_of=then).to_pylist()] == ["run-1"]
    assert lake.sql("SELECT count(*) AS n FROM results", as_of=0).to_pylist() == [{"n": 0}]
    assert (
        lake.seq_at(lake.sql("SELECT ingested_at FROM runs WHERE run_id = 'run-1'").to_pylist()[0]["ingested_at"]) == 1
    )
    with pytest.raises(QueryError, match="fold as of now"):
        lake.sql("SELECT * FROM series", as_of=1)


def test_a_creation_that_was_killed_goes_on(store_folder: Path) -> None:
    """Without its marker a folder of tables is no store yet; creating again completes it."""
    Lake.create(store_folder)
    (store_folder / "store.json").unlink()
    with pytest.raises(StoreError, match="is no store"):
        Lake.open(store_folder)
    assert Lake.create(store_folder).sql("SELECT * FROM runs").num_rows == 0
    assert Lake.create(store_folder).latest_seq() == 0
