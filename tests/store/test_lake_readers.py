"""Anyone can read: SQL, pandas, Arrow and Polars through the log, in three lines, while others write."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from store.lake.errors import QueryError, StoreError
from store.lake.lake import Lake
from store.lake.maintenance import optimize

MakeBundle = Callable[..., Path]
REPOSITORY = Path(__file__).parents[2]

PAGES = ("README.md", "docs/store.md")


def shown_lines(page: str) -> list[str]:
    """The Python blocks of a page that read a table."""
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    blocks: list[str] = re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    return [block for block in blocks if "tables/results" in block]


@pytest.fixture
def lake(tmp_path: Path, make_bundle: MakeBundle) -> Iterator[Lake]:
    """Three nights in the default place below the working directory."""
    lake = Lake.create(tmp_path / "observatory-data")
    for night in range(3):
        ratios = {("case", "candidate"): 1.5, ("case", "optimized"): 1.0}
        lake.inbox.put(make_bundle(f"run-{night}", nights=night, ratios=ratios))
    lake.ingest()
    yield lake
    lake.close()


@pytest.mark.parametrize("page", PAGES)
def test_three_lines_read_the_tables(lake: Lake, page: str) -> None:
    """The lines that a page shows for another engine are three each, run as they stand and see what was stored."""
    blocks = shown_lines(page)
    lines = [[line for line in block.splitlines() if line] for block in blocks]
    assert len(lines) >= 2
    assert {len(block) for block in lines} == {3}
    for *before, last in lines:
        shown = last if last.startswith("print(") or last.endswith(".show()") else f"print({last})"
        output = run_python("\n".join([*before, shown]), cwd=Path(lake.uri).parent)
        assert re.search(r"\b(1\.5|0\.0015)\b", output), output  # the ratio or the seconds of the candidate


def run_python(script: str, *arguments: str, cwd: Path | None = None, zone: str = "UTC") -> str:
    """The output of a script in a process of its own."""
    environment = os.environ | {"TZ": zone, "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-c", script, *arguments]
    answer = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True, timeout=60, env=environment)
    return answer.stdout


def test_readers_never_see_half_a_run(lake: Lake, make_bundle: MakeBundle) -> None:
    """While runs are ingested and files are rewritten, every answer holds whole runs, and never fewer than before."""
    stop, counts, errors = threading.Event(), list[int](), list[Exception]()

    def read() -> None:
        reader = Lake.open(lake.uri)
        query = "SELECT count(DISTINCT run_id) AS runs, count(*) AS n FROM results"
        while not stop.is_set():
            try:
                row = reader.sql(query).to_pylist()[0]
            except StoreError as error:
                errors.append(error)
                return
            assert row["n"] == 2 * row["runs"]
            counts.append(row["runs"])

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        for night in range(3, 9):
            ratios = {("case", "naive"): 1.5, ("case", "optimized"): 1.0}
            lake.inbox.put(make_bundle(f"run-{night}", nights=night, ratios=ratios))
            lake.ingest()
            optimize(lake, now=datetime(2026, 6, 1, tzinfo=UTC))
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    assert errors == []
    assert len(counts) > 4
    assert Lake.open(lake.uri).sql("SELECT count(*) AS n FROM runs").to_pylist() == [{"n": 9}]


def test_a_lost_file_list_is_looked_up_again(lake: Lake) -> None:
    """A reader whose files were compacted and deleted meanwhile reads the new ones."""
    reader = Lake.open(lake.uri)
    assert reader.sql("SELECT count(*) AS n FROM results").to_pylist() == [{"n": 6}]
    stale = reader.tables.active_files("results")
    engine = reader.queries()
    optimize(lake, now=datetime(2026, 6, 1, tzinfo=UTC))
    lake.inbox.place.list("inbox")
    handle = lake.tables.load("results")
    handle.optimize.compact(target_size=1)
    for path in stale.paths:
        if path not in lake.tables.active_files("results").paths:
            Path(path).unlink()
    assert engine.table("SELECT count(*) AS n FROM results").to_pylist() == [{"n": 6}]


def test_a_file_that_stays_lost_is_told(lake: Lake) -> None:
    """When a file is gone for good the answer is one line, not a wrong number."""
    Path(lake.tables.active_files("results").paths[0]).unlink()
    with pytest.raises(QueryError) as caught:
        lake.sql("SELECT sum(ratio_optimized) FROM results")
    assert "\n" not in str(caught.value)


def test_a_forked_handle_refuses(lake: Lake) -> None:
    """A process that was forked gets a line that says to spawn, instead of a hang."""
    lake.tables._pid = os.getpid() + 1
    with pytest.raises(StoreError, match="spawn"):
        lake.sql("SELECT * FROM runs")


DAYS_SCRIPT = """
import sys
from datetime import UTC, datetime
from store.lake.lake import Lake
lake = Lake.open(sys.argv[1])
print(lake.sql("SELECT CAST(started_at AS DATE) AS day FROM runs ORDER BY started_at").to_pylist())
print(lake.frame("SELECT started_at FROM runs ORDER BY started_at")["started_at"].iloc[0].isoformat())
moment = datetime(2026, 3, 2, 2, 0, 1, tzinfo=UTC)
print(lake.sql("SELECT run_id FROM runs WHERE started_at < ?", [moment]).num_rows)
"""


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo", "UTC"])
def test_days_are_the_same_in_every_time_zone(lake: Lake, zone: str) -> None:
    """TZ of the process changes neither order nor day of a run."""
    rows, first, earlier = run_python(DAYS_SCRIPT, lake.uri, zone=zone).splitlines()
    assert [f"datetime.date(2026, 3, {day})" in rows for day in (1, 2, 3)] == [True] * 3
    assert first == "2026-03-01T02:00:00+00:00"
    assert earlier == "2"


def test_an_hour_that_a_clock_change_repeats_is_two_hours(lake: Lake, make_bundle: MakeBundle) -> None:
    """Runs on both sides of the end of daylight saving keep their order: 05:30 and 06:30 UTC are both 01:30 there."""
    before = datetime(2025, 11, 2, 5, 30, tzinfo=UTC)
    for name, started_at in (("before", before), ("after", before + timedelta(hours=1))):
        lake.inbox.put(make_bundle(name, run={"started_at": started_at}))
    lake.ingest()
    rows = lake.sql("SELECT run_id FROM runs WHERE started_at < '2026-01-01' ORDER BY started_at").to_pylist()
    assert [row["run_id"] for row in rows] == ["before", "after"]


OFFSETS_SCRIPT = """
import sys
from datetime import datetime
from store.lake.lake import Lake
lake = Lake.open(sys.argv[1])
for text in ("2026-03-01T21:30:00-05:00", "2026-03-02T11:30:00+09:00", "2026-03-02T02:30:00+00:00",
             "2026-03-02T02:30:00"):
    print(lake.seq_at(datetime.fromisoformat(text)), lake.sql(
        "SELECT run_id FROM runs WHERE started_at <= ? ORDER BY started_at", [datetime.fromisoformat(text)]).num_rows)
"""


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
def test_a_moment_is_the_same_by_any_offset(lake: Lake, zone: str) -> None:
    """New York's evening, Tokyo's noon and UTC's night are one moment, whatever zone the process is in; without an
    offset a question means UTC."""
    assert run_python(OFFSETS_SCRIPT, lake.uri, zone=zone).splitlines() == ["0 2"] * 4


def test_a_node_needs_no_lake() -> None:
    """Writing, reading and pushing bundles loads neither deltalake, duckdb nor pandas."""
    script = (
        "import sys; import store.bundle.inbox, store.bundle.reader, store.bundle.writer;"
        "print([name for name in ('deltalake', 'duckdb', 'pandas', 'torch') if name in sys.modules])"
    )
    assert run_python(script).strip() == "[]"
