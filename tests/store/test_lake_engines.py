"""Other engines on the same folder: the same counts and means through the log, where a glob is wrong."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

import pytest

from store.lake.lake import Lake
from store.lake.maintenance import optimize

MakeBundle = Callable[..., Path]
NIGHTS = 3
RATIOS = {("case", "candidate"): 1.5, ("case", "optimized"): 1.0, ("other", "candidate"): None}
COUNT, MEAN = 3 * NIGHTS, 1.25


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory, module_bundle: MakeBundle) -> Path:
    """A store with replaced files that no vacuum took yet, and what a killed commit left."""
    lake = Lake.create(tmp_path_factory.mktemp("engines") / "store")
    for night in range(NIGHTS):
        lake.inbox.put(module_bundle(f"run-{night}", nights=night, ratios=RATIOS))
        lake.ingest()
    assert optimize(lake, now=datetime(2026, 4, 20, tzinfo=UTC))
    assert lake.sql("SELECT count(*) AS n, avg(ratio_optimized) AS mean FROM results").to_pylist() == [
        {"n": COUNT, "mean": MEAN}
    ]
    lake.close()
    month = Path(lake.uri) / "tables/results/month=2026-03"
    shutil.copy(next(month.glob("*.parquet")), month / "part-orphan.zstd.parquet")
    return Path(lake.uri) / "tables" / "results"


def by_pandas(table: Path) -> tuple[int, float]:
    """deltalake's own frame."""
    from deltalake import DeltaTable

    frame = DeltaTable(table).to_pandas()
    return len(frame), float(frame["ratio_optimized"].mean())


def by_duckdb(table: Path) -> tuple[int, float]:
    """Over the Arrow dataset of the log."""
    import duckdb
    from deltalake import DeltaTable

    connection = duckdb.connect()
    connection.register("results", DeltaTable(table).to_pyarrow_dataset())
    row = connection.execute("SELECT count(*), avg(ratio_optimized) FROM results").fetchall()[0]
    return row[0], row[1]


def by_polars(table: Path) -> tuple[int, float]:
    """Its own scan."""
    import polars

    found = polars.scan_delta(str(table)).select(polars.len(), polars.col("ratio_optimized").mean()).collect()
    return found.row(0)


def by_clickhouse(table: Path) -> tuple[int, float]:
    """In process, by its table function `deltaLakeLocal`."""
    if find_spec("chdb") is None:
        pytest.skip("chdb is not installed (530 MB): pip install '.[clickhouse]'")
    query = f"SELECT count(*), avg(ratio_optimized) FROM deltaLakeLocal('{table}')"  # noqa: S608 a path of this test
    script = f"import chdb; print(chdb.query({query!r}, 'TSV'))"
    # It reads nothing outside of the folder in which its process was started.
    command = [sys.executable, "-c", script]
    answer = subprocess.run(command, cwd=table.parents[1], capture_output=True, text=True, check=True, timeout=240)
    count, mean = answer.stdout.split()
    return int(count), float(mean)


@pytest.mark.parametrize("engine", [by_pandas, by_duckdb, by_polars, by_clickhouse])
def test_engines_agree_through_the_log(lived: Path, engine: Callable[[Path], tuple[int, float]]) -> None:
    """Count and mean are those of the store, whoever asks."""
    assert engine(lived) == (COUNT, MEAN)


def test_a_glob_counts_what_does_not_count(lived: Path) -> None:
    """Replaced files and orphans are in the folder: that is why nobody reads it by glob."""
    import duckdb

    counted = duckdb.sql(f"SELECT count(*) FROM read_parquet('{lived}{os.sep}*/*.parquet')").fetchall()[0][0]  # noqa: S608
    assert counted > COUNT
