"""Maintenance changes how rows lie, never what they say; damage is found; what is hidden comes back."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from store.lake.delta import Commit
from store.lake.errors import StoreError, TableLostError
from store.lake.lake import Lake
from store.lake.maintenance import (
    backup,
    expire_samples,
    optimize,
    quarantined,
    release,
    requeue,
    retract,
    runs_of_host,
    stats,
    vacuum,
    verify,
)
from store.lake.migrate import migrate, pending_migrations
from store.lake.tables import HOST_TABLES, stored_schema

MakeBundle = Callable[..., Path]
NIGHTS = 6
EVERYTHING = {
    "runs": "SELECT * FROM runs ORDER BY run_id",
    "results": "SELECT * FROM results ORDER BY run_id, subject_id",
    "samples": "SELECT * FROM samples ORDER BY run_id, subject_id, replicate",
    "series": "SELECT * FROM series ORDER BY subject_id",
}


@pytest.fixture(scope="module")
def six_nights(tmp_path_factory: pytest.TempPathFactory, module_bundle: MakeBundle) -> Path:
    """A store of six nights, one file each, in March and at the end of February."""
    folder = tmp_path_factory.mktemp("six") / "store"
    lake = Lake.create(folder)
    for night in range(NIGHTS):
        lake.inbox.put(module_bundle(f"run-{night}", nights=night - 3, ratios=ratios_of(night)))
        lake.ingest()
    lake.close()
    return folder


@pytest.fixture
def lake(six_nights: Path, store_folder: Path) -> Iterator[Lake]:
    """A copy of the six nights in a place of its own."""
    shutil.copytree(six_nights, store_folder)
    lake = Lake.open(store_folder)
    yield lake
    lake.close()


def ratios_of(night: int) -> dict[tuple[str, str], float]:
    """Three cases with two arms."""
    return {(f"case-{n}", arm): 1.0 + 0.1 * n + 0.01 * night for n in range(3) for arm in ("naive", "optimized")}


def everything(lake: Lake) -> dict[str, list[dict[str, object]]]:
    """All rows of all tables that runs fill, in a fixed order."""
    return {name: lake.sql(query).to_pylist() for name, query in EVERYTHING.items()}


@pytest.mark.parametrize("now", [datetime(2026, 3, 20, tzinfo=UTC), datetime(2026, 5, 1, tzinfo=UTC)])
def test_optimize_changes_no_answer(lake: Lake, now: datetime) -> None:
    """Closed days and months become fewer files with exactly the same rows; a second time nothing is done."""
    before = everything(lake)
    rewrites = optimize(lake, now=now)
    assert any(r.table == "results" and r.files_after < r.files_before for r in rewrites)
    assert everything(lake) == before
    assert everything(Lake.open(lake.uri)) == before
    assert optimize(lake, now=now) == ()
    assert verify(lake) == ()


def test_optimize_holds_only_so_much_in_memory(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Days that are more than fits are sorted part by part: fewer files, the same rows, and then nothing is left."""
    before = everything(lake)
    sizes = lake.tables.active_files("results").stats["size_bytes"].to_pylist()
    monkeypatch.setattr("store.lake.optimize.MOST_BYTES_AT_ONCE", 2 * max(sizes))
    now = datetime(2026, 3, 20, tzinfo=UTC)
    done = [rewrite for rewrite in optimize(lake, now=now) if (rewrite.table, rewrite.what) == ("results", "day")]
    assert [(rewrite.month, rewrite.files_before, rewrite.files_after) for rewrite in done] == [("2026-03", 3, 2)]
    assert everything(lake) == before
    for _ in range(NIGHTS):
        if not optimize(lake, now=now):
            break
    else:
        raise AssertionError("it goes on and on")
    assert everything(lake) == before
    assert verify(lake) == ()


def test_the_rest_of_a_sorted_month_is_left_alone(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files beside a large one of the same runs are what the library cut it into: nothing is sorted again."""
    lake.tables.delete_where("results", "month = '2026-02'")
    handle = lake.tables.load("results")
    rows = handle.to_pyarrow_table().sort_by("subject_id")
    lake.tables.delete_where("results", "true")
    for first, count in ((0, 9), (9, 5), (14, 4)):
        part = rows.slice(first, count)
        lake.tables.commit("results", lambda _, part=part: Commit(rows=part))
    monkeypatch.setattr("store.lake.optimize.SETTLED_ROWS", 9)
    done = optimize(lake, now=datetime(2026, 3, 20, tzinfo=UTC))
    assert [rewrite for rewrite in done if rewrite.table == "results"] == []


def test_today_is_left_alone(lake: Lake) -> None:
    """Runs that began today stay where they are."""
    assert [r for r in optimize(lake, now=datetime(2026, 2, 26, 12, tzinfo=UTC)) if r.what != "compact"] == []


def test_an_ingest_after_optimize_doubles_nothing(
    lake: Lake, push: Callable[[Path], str], make_bundle: MakeBundle
) -> None:
    """The transactions of runs outlive the rewriting of their rows."""
    optimize(lake, now=datetime(2026, 5, 1, tzinfo=UTC))
    before = everything(lake)
    push(make_bundle("run-0", nights=-3, ratios=ratios_of(0)))
    assert lake.ingest().already_known == ("run-0",)
    assert everything(lake) == before


def test_vacuum_keeps_what_counts(lake: Lake) -> None:
    """Nothing young is deleted, an orphan older than the kept time is, answers stay."""
    optimize(lake, now=datetime(2026, 5, 1, tzinfo=UTC))
    before = everything(lake)
    orphan = Path(lake.uri) / "tables" / "results" / "part-orphan.parquet"
    orphan.write_bytes(b"left by a killed commit")
    assert vacuum(lake) == ()
    old = (datetime.now(UTC) - timedelta(days=3)).timestamp()
    os.utime(orphan, (old, old))
    assert [Path(path).name for path in vacuum(lake)] == ["part-orphan.parquet"]
    assert everything(lake) == before
    with pytest.raises(StoreError, match="must be at least"):
        vacuum(lake, keep=timedelta(seconds=1))


def test_verify_finds_zeroed_bytes(lake: Lake) -> None:
    """Zeros in the body of a file, which a count does not notice, are named with the file."""
    path = Path(lake.tables.active_files("results").paths[0])
    data = bytearray(path.read_bytes())
    data[200:300] = bytes(100)
    path.write_bytes(data)
    problems = verify(lake)
    assert [(p.table, Path(p.path).name) for p in problems] == [("results", path.name)]
    assert "damaged" in problems[0].what


def test_verify_finds_one_bit_in_any_table(lake: Lake, make_bundle: MakeBundle) -> None:
    """Whatever table it is of and wherever it lies: what the host says is hashed by the next ingest at the latest."""
    said = ("verdicts", "findings", "triage", "requests", "deliveries", "baselines", "audits")
    for name in said:
        lake.append(name, [dict.fromkeys(HOST_TABLES[name].names)])
    lake.overwrite("findings_state", [dict.fromkeys(HOST_TABLES["findings_state"].names)])
    lake.inbox.put(make_bundle("run-later", nights=20))
    lake.ingest()
    assert verify(lake) == ()
    choice, flipped = random.Random(5), set[tuple[str, str]]()
    for name in (*said, "findings_state", "runs", "results", "samples", "series"):
        path = Path(choice.choice(lake.tables.active_files(name).paths))
        data = bytearray(path.read_bytes())
        data[choice.randrange(len(data))] ^= 1 << choice.randrange(8)
        path.write_bytes(data)
        flipped.add((name, path.name))
    found = {(problem.table, Path(problem.path).name) for problem in verify(Lake.open(lake.uri), rebuild=False)}
    assert found == flipped


def test_verify_finds_a_missing_and_a_cut_file(lake: Lake) -> None:
    """A file that is gone and one that is cut are both named."""
    gone, cut = (Path(path) for path in lake.tables.active_files("samples").paths[:2])
    gone.unlink()
    cut.write_bytes(cut.read_bytes()[:-50])
    assert {Path(p.path).name for p in verify(lake)} == {gone.name, cut.name}


def planted(lake: Lake, table: str, change: Callable[[Any], Any]) -> list[str]:
    """What verify says after rows of a table were written past the store."""
    from deltalake import DeltaTable, write_deltalake

    handle = DeltaTable(f"{lake.uri}/tables/{table}")
    write_deltalake(handle, change(handle.to_pyarrow_table()), mode="append")
    return [problem.what for problem in verify(Lake.open(lake.uri), rebuild=False)]


def test_verify_finds_a_run_twice(lake: Lake) -> None:
    """The same row of `runs` again is a doubled run and a sequence number that stands for two."""
    words = planted(lake, "runs", lambda runs: runs.slice(0, 1))
    assert any("is there more than once" in what for what in words)
    assert any("stands for more than one run" in what for what in words)


def test_verify_finds_results_twice(lake: Lake) -> None:
    """The rows of a run again are named by subject and run."""
    words = planted(lake, "results", lambda results: results.slice(0, 2))
    assert sum("has several rows" in what for what in words) == 2


def test_verify_finds_a_run_without_results(lake: Lake) -> None:
    """A complete run of which no result is there is named."""

    def stranger(runs: Any) -> Any:
        row = runs.slice(0, 1).to_pylist()[0] | {"run_id": "stranger", "ingest_seq": NIGHTS + 1}
        return type(runs).from_pylist([row], schema=runs.schema)

    assert "run 'stranger' is complete and has no results" in planted(lake, "runs", stranger)


def test_verify_finds_a_series_that_is_not_the_fold(lake: Lake) -> None:
    """A summary that says something else than the results is found, and rebuilding mends it."""
    rows = lake.sql("SELECT * FROM series").to_pylist()
    rows[0]["n_runs"] += 1
    lake.overwrite("series", rows)
    assert [p.table for p in verify(lake)] == ["series"]
    lake.rebuild_series()
    assert verify(lake) == ()


def test_a_retracted_run_is_hidden_and_comes_back(lake: Lake) -> None:
    """Retraction takes a run out of every answer and out of series, with a reason; release restores all of it."""
    before = everything(lake)
    retract(lake, ["run-5"], reason="fan was broken", actor="ada")
    assert lake.sql("SELECT count(*) AS n FROM results WHERE run_id = 'run-5'").to_pylist() == [{"n": 0}]
    assert {row["latest_run_id"] for row in lake.sql("SELECT * FROM series").to_pylist()} == {"run-4"}
    assert stats(lake).retracted_runs == 1
    with pytest.raises(StoreError, match="already retracted"):
        retract(lake, ["run-5"], reason="again", actor="ada")
    with pytest.raises(StoreError, match="reason is needed"):
        release(lake, ["run-5"], reason=" ", actor="ada")
    release(lake, ["run-5"], reason="it was not", actor="ada")
    assert everything(lake) == before
    assert runs_of_host(lake, "node-1") == tuple(f"run-{n}" for n in range(NIGHTS))


def test_a_backup_is_the_same_store(lake: Lake, tmp_path: Path) -> None:
    """A backup passes verify, answers the same, and goes on as a store of its own."""
    for night in range(3):
        lake.append("audits", [dict.fromkeys(HOST_TABLES["audits"].names) | {"run_id": str(night), "kind": "aa"}])
    copy = Lake.open(backup(lake, tmp_path / "backup").uri)
    assert verify(copy) == ()
    assert everything(copy) == everything(lake)
    retract(copy, ["run-1"], reason="only there", actor="ada")
    assert stats(lake).retracted_runs == 0
    with pytest.raises(StoreError, match="is a store already"):
        backup(lake, tmp_path / "backup")


def test_old_samples_go_results_stay(lake: Lake) -> None:
    """Raw samples of months before a date are let go; what was concluded from them is not."""
    assert expire_samples(lake, before=datetime(2026, 3, 1, tzinfo=UTC)) == 18
    assert lake.sql("SELECT count(*) AS n FROM samples").to_pylist() == [{"n": 18}]
    assert lake.sql("SELECT count(*) AS n FROM results").to_pylist() == [{"n": 36}]


def test_a_wrong_clock_is_set_aside_and_released(
    lake: Lake, push: Callable[[Path], str], make_bundle: MakeBundle
) -> None:
    """A start in 1970 or 2099 is refused with a clear line, and let in when a person says so."""
    push(make_bundle("run-1970", run={"started_at": datetime(1970, 1, 1, tzinfo=UTC)}))
    name = push(make_bundle("run-2099", run={"started_at": datetime(2099, 1, 1, tzinfo=UTC)}))
    report = lake.ingest()
    assert [("wrong clock" in reason) for _, reason in report.quarantined] == [True, True]
    assert {entry.name for entry in quarantined(lake)} == {n for n, _ in report.quarantined}
    assert requeue(lake, name, check_clock=False).ingested == ("run-2099",)
    assert len(quarantined(lake)) == 1
    with pytest.raises(StoreError, match="is not in it"):
        requeue(lake, "nothing.bundle")


def test_an_older_store_is_migrated_by_named_steps(lake: Lake, make_bundle: MakeBundle) -> None:
    """A store that lacks a table and a column is shown the steps, gets both, and reads old rows with null."""
    import pyarrow as pa
    from deltalake import DeltaTable, write_deltalake

    results = Path(lake.uri) / "tables" / "results"
    older = lake.tables.dataset("results").to_table().drop_columns(["energy_j"])
    shutil.rmtree(results)
    shutil.rmtree(Path(lake.uri) / "tables" / "cliffs")
    write_deltalake(results, older.filter(pa.compute.field("run_id") == "run-0"), partition_by=["month"])
    write_deltalake(DeltaTable(results), older.filter(pa.compute.field("run_id") != "run-0"), mode="append")
    old = Lake.open(lake.uri)
    words = [step.words for step in migrate(old, dry_run=True)]
    settings = "delta.checkpointInterval = 20, delta.deletedFileRetentionDuration = interval 1 days"
    assert words == [
        "add-columns: results gets energy_j",
        f"set-properties: results gets {settings}",
        "add-table: cliffs",
    ]
    assert len(pending_migrations(old)) == 3
    old.inbox.put(make_bundle("run-new", nights=9))
    with pytest.raises(StoreError, match="lacks columns of this version; `collector store migrate` adds them"):
        old.ingest()
    migrate(old)
    assert pending_migrations(old) == ()
    new = Lake.open(lake.uri)
    assert new.sql("SELECT count(*) AS n, count(energy_j) AS known FROM results").to_pylist() == [{"n": 36, "known": 0}]
    row = dict.fromkeys(stored_schema("results").names) | {"run_id": "run-5", "energy_j": 2.0, "month": "2026-03"}
    newer = pa.Table.from_pylist([row | {"ingest_seq": 6}], schema=stored_schema("results"))
    write_deltalake(DeltaTable(results), newer, mode="append")
    assert new.sql("SELECT sum(energy_j) AS j, count(*) AS n FROM results").to_pylist() == [{"j": 2.0, "n": 37}]


@pytest.mark.parametrize("name", ["runs", "results", "samples", "triage", "checksums"])
def test_a_lost_table_is_not_replaced_by_an_empty_one(lake: Lake, name: str) -> None:
    """Whoever needs a table that is gone is told that it was lost; verify names it; no migration hides the loss."""
    shutil.rmtree(Path(lake.uri) / "tables" / name)
    store = Lake.open(lake.uri)
    for act in (lambda: migrate(store), lambda: migrate(store, dry_run=True), lambda: store.tables.load(name)):
        with pytest.raises(TableLostError, match=f"table {name} of .*: is missing, it was lost.* from a backup"):
            act()
    assert not (Path(lake.uri) / "tables" / name).exists()
    assert name in {problem.table for problem in verify(store, rebuild=False)}


def test_a_store_of_the_future_is_left_alone(lake: Lake) -> None:
    """A version of the store that is not known is refused in one line, and nothing is changed."""
    marker = Path(lake.uri) / "store.json"
    marker.write_text('{"format": "kernel-observatory-store", "version": 9}')
    with pytest.raises(StoreError, match="version 9, known up to 1; upgrade"):
        Lake.open(lake.uri)
    marker.write_text("nonsense")
    with pytest.raises(StoreError, match="is damaged"):
        Lake.open(lake.uri)
