"""How the store stands up to years of nights: fill one, live through a month, ask what the pages ask.

    python benchmarks/store.py fill  --store DIR --series 100000 --nights 975 [--part 0 --parts 2]
    python benchmarks/store.py month --store DIR --series 100000 --nights 975 --json FILE
    python benchmarks/store.py ask   --store DIR --series 100000 --nights 1000 --json FILE [--compare]
    python benchmarks/store.py commits --store DIR --commits 10000 --json FILE
    python benchmarks/store.py bytes --store DIR --real FOLDER --json FILE

What is simulated, and how like the real thing it is: store_fleet.py. `fill` writes closed months through the store's
own commits, a file of up to 540,000 rows, sorted by series: the layout in which `optimize` leaves a closed month.
`month` then lives on: nights are committed one by one as the batch ingest commits them, the last one goes the whole
way (bundles with raw samples, inbox, `ingest`, series), and `optimize` does its work. Each figure has the wall time,
and the CPU time of all threads beside it, since other work may be going on: `load` says how much.
"""

# ruff: noqa: E402 the path is set first: this file is named like the package it measures

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).resolve().parents[1])
sys.path.insert(1, str(Path(__file__).resolve().parent))

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from store_fleet import DEVICES, LISTED, NOISY, TELEMETRY_ROWS, Fleet, Span, months, night_at, run_id

from store.bundle.schemas import BUNDLE_TABLES
from store.bundle.writer import BundleWriter
from store.lake.delta import Commit
from store.lake.ingest import SEQUENCE
from store.lake.lake import Lake
from store.lake.maintenance import optimize, stats
from store.lake.tables import HOST_TABLES, stored_schema

ROWS_A_FILE = 540_000
"""A little less than the library cuts a file of these rows at, about 100 MB."""
SAMPLED_NIGHTS = 1
Figures = dict[str, Any]


@contextmanager
def clocked(found: Figures) -> Iterator[None]:
    """Wall time, CPU time of this process, and the load while it went on."""
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    found |= {
        "seconds": round(time.perf_counter() - wall, 4),
        "cpu_seconds": round(time.process_time() - cpu, 4),
        "load": round(os.getloadavg()[0], 1),
    }


def transactions(first: int, last: int) -> dict[str, int]:
    """Those of the runs of nights `first` to `last`, the latter not included."""
    return {run_id(number): number + 1 for number in range(first * DEVICES, last * DEVICES)}


def commit_night_rows(lake: Lake, rows: pa.Table, runs: pa.Table, known: dict[str, int]) -> None:
    """What the ingest of a batch commits, `runs` last."""
    lake.tables.commit("results", lambda _: Commit(rows=rows, transactions=known))
    lake.tables.commit("runs", lambda _: Commit(rows=runs, transactions=known))


def fill(uri: Path, series: int, nights: int, part: int, parts: int) -> None:
    """Closed months; several processes may fill one store, each its share of the months."""
    fleet, lake = Fleet(series), Lake.create(uri)
    empty = stored_schema("results").empty_table()
    for span in months(nights)[part::parts]:
        first = 1 + span.first * DEVICES
        pieces = max(1, round(series * span.nights / ROWS_A_FILE))
        edges = np.linspace(0, series, pieces + 1).astype(int).tolist()
        for low, high in pairwise(edges):
            rows = fleet.rows(low, high, span, first)
            lake.tables.commit("results", lambda _, r=rows: Commit(rows=r))
        known = transactions(span.first, span.last)
        commit_night_rows(lake, empty, fleet.runs(span, first), known)
        print(f"nights {span.first} to {span.last} of {nights}", flush=True)


def month(uri: Path, series: int, nights: int, more: int) -> Figures:
    """The nights after those of a filled store: commits, the whole way for the last one, optimize."""
    fleet, lake = Fleet(series, noise_seed=2), Lake.open(uri)
    found: Figures = {"nights": more, "rows a night": series}
    filled = nights * DEVICES
    lake.tables.commit("results", _sequence("results", filled))
    lake.tables.commit("runs", _sequence("runs", filled))
    with clocked(commits := {}):
        for night in range(nights, nights + more - SAMPLED_NIGHTS):
            span = Span(first=night, last=night + 1)
            known = transactions(night, night + 1) | {SEQUENCE: (night + 1) * DEVICES}
            first = 1 + night * DEVICES
            commit_night_rows(lake, fleet.night(night, first), fleet.runs(span, first), known)
    found["commits of all nights but the last, rows made too"] = commits
    summary, folded = fleet.summary(nights + more - SAMPLED_NIGHTS), (nights + more - SAMPLED_NIGHTS) * DEVICES
    done = {"series\nruns": folded, "series\nverdicts": folded}
    lake.tables.commit("series", lambda _: Commit(rows=summary, transactions=done, overwrite=True))
    states = [
        dict.fromkeys(HOST_TABLES["findings_state"].names) | {"finding_id": str(n), "price": n / 300}
        for n in range(300)
    ]
    lake.overwrite("findings_state", states)
    lake.close()
    found["ingest"] = ingest(uri, fleet, nights + more - 1, with_samples=True)
    with clocked(optimized := {}):
        rewrites = optimize(Lake.open(uri), now=night_at(nights + more + 1))
    rows = sum(rewrite.rows for rewrite in rewrites)
    optimized |= {"rewrites": len(rewrites), "rows": rows, "rows_per_cpu_second": rows / optimized["cpu_seconds"]}
    found["optimize"] = optimized
    return found


def _sequence(table_name: str, highest: int) -> Callable[[Any], Commit]:
    empty = stored_schema(table_name).empty_table()
    return lambda _: Commit(rows=empty, transactions={SEQUENCE: highest})


def ingest(uri: Path, fleet: Fleet, number: int, *, with_samples: bool) -> Figures:
    """One night the whole way: forty bundles, the inbox, `ingest` with checksums and series."""
    night, span = fleet.night(number, 0), Span(first=number, last=number + 1)
    runs, lake = fleet.runs(span, 0), Lake.open(uri)
    with tempfile.TemporaryDirectory(dir=uri.parent) as work:
        for device in range(DEVICES):
            name = run_id(number * DEVICES + device)
            writer = BundleWriter(work, name)
            results = night.filter(pc.equal(night["run_id"], name))
            writer.add("results", results.select(BUNDLE_TABLES["results"].names))
            writer.add("runs", runs.filter(pc.equal(runs["run_id"], name)).select(BUNDLE_TABLES["runs"].names))
            if with_samples:
                writer.add("samples", fleet.samples(results).select(BUNDLE_TABLES["samples"].names))
                telemetry = fleet.telemetry(name, TELEMETRY_ROWS * results.num_rows)
                writer.add("telemetry", telemetry.select(BUNDLE_TABLES["telemetry"].names))
            lake.inbox.put(writer.publish())
        waiting = sum(item.size_bytes for item in lake.place.list("inbox"))
    with clocked(found := {}):
        report = lake.ingest(check_clock=False)
    assert len(report.ingested) == DEVICES, report
    lake.close()
    rows = night.num_rows
    return found | {
        "result rows": rows,
        "with raw samples": with_samples,
        "inbox_bytes": waiting,
        "rows_per_minute": 60 * rows / found["seconds"],
        "rows_per_cpu_minute": 60 * rows / found["cpu_seconds"],
    }


OVERVIEW = (
    "SELECT family, device_unit, arm, status, ratio_optimized, ratio_previous, verdict FROM series",
    "SELECT * FROM findings_state ORDER BY price DESC LIMIT 50",
    "SELECT device_unit, max(started_at) AS latest FROM runs GROUP BY device_unit",
)
ONE_SERIES = (
    "SELECT measured_at, ratio_optimized, latency_p50_s FROM results"
    " WHERE subject_id = $subject AND measured_at > $since ORDER BY measured_at"
)
HEATMAP = (
    "SELECT family, device_unit, median(ratio_optimized) AS ratio FROM series WHERE arm = 'candidate' GROUP BY ALL",
    "SELECT family, device_unit, median(ratio_optimized) AS ratio FROM results"
    " WHERE measured_at > $since AND arm = 'candidate' GROUP BY ALL",
)
FINDINGS = "SELECT * FROM findings_state ORDER BY price DESC LIMIT 50"


def timed(call: Callable[[], object], repeat: int) -> Figures:
    """First call, then the median and the shortest of the others; of these the shortest CPU time."""
    walls, cpus = [], []
    for _ in range(repeat + 1):
        wall, cpu = time.perf_counter(), time.process_time()
        call()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return {
        "first_s": round(walls[0], 4),
        "median_s": round(statistics.median(walls[1:]), 4),
        "best_s": round(min(walls[1:]), 4),
        "cpu_s": round(min(cpus[1:]), 4),
        "load": round(os.getloadavg()[0], 1),
    }


def ask(uri: Path, series: int, nights: int, repeat: int) -> Figures:
    """The questions of the pages; the overview on a store that is opened anew each time."""
    end = night_at(nights)
    year = {"subject": Fleet(series).subject(series // 2), "since": end - timedelta(days=365)}
    days = {"since": end - timedelta(days=30)}

    def overview() -> None:
        lake = Lake.open(uri)
        for query in OVERVIEW:
            lake.sql(query)
        lake.close()

    lake = Lake.open(uri)
    rows = lake.sql(ONE_SERIES, year).num_rows
    found: Figures = {
        "overview, store opened anew": timed(overview, repeat),
        "overview, in an open store": timed(lambda: [lake.sql(query) for query in OVERVIEW], repeat),
        "one series over a year": timed(lambda: lake.sql(ONE_SERIES, year), repeat) | {"rows": rows},
        "heatmap": timed(lambda: lake.sql(HEATMAP[0]), repeat),
        "heatmap over 30 days of results": timed(lambda: lake.sql(HEATMAP[1], days), repeat),
        "top findings": timed(lambda: lake.sql(FINDINGS), repeat),
    }
    results = next(table for table in stats(lake).tables if table.table == "results")
    found |= {"rows": results.rows, "bytes a row": results.size_bytes / results.rows, "files": results.files}
    found["peak_memory_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return found


def compare(uri: Path, series: int, nights: int, repeat: int, *, only_glob: bool) -> Figures:
    """The same two questions over a glob of the store's Parquet files, and in one DuckDB file of the same rows."""
    end = night_at(nights)
    year = {"subject": Fleet(series).subject(series // 2), "since": end - timedelta(days=365)}
    days = {"since": end - timedelta(days=30)}
    glob = f"read_parquet('{uri}/tables/results/month=*/*.parquet', hive_partitioning = true, union_by_name = true)"
    file = uri.parent / "one.duckdb"
    found: Figures = {}
    places = {"raw Parquet glob": glob} | ({} if only_glob else {"one DuckDB file": "one.results"})
    for name, source in places.items():
        connection = duckdb.connect()
        if source != glob:
            connection.execute(f"ATTACH '{file}' AS one")
            connection.execute(f"CREATE TABLE one.results AS SELECT * FROM {glob} ORDER BY subject_id, measured_at")  # noqa: S608
        one, heat = (query.replace("FROM results", f"FROM {source}") for query in (ONE_SERIES, HEATMAP[1]))
        found[name] = {
            "one series over a year": timed(lambda c=connection, q=one: c.execute(q, year).fetchall(), repeat),
            "heatmap over 30 days of results": timed(
                lambda c=connection, q=heat: c.execute(q, days).fetchall(), repeat
            ),
        }
        connection.close()
    if not only_glob:
        found["one DuckDB file"]["bytes"] = file.stat().st_size
        file.unlink()
    return found


def commit_growth(uri: Path, commits: int, optimize_every: int) -> Figures:
    """CPU and wall time of an append along a log of many, with an optimize now and then as a store has it daily."""
    lake, walls, cpus = Lake.create(uri), [], []
    row = dict.fromkeys(HOST_TABLES["triage"].names)
    for number in range(commits):
        wall, cpu = time.perf_counter(), time.process_time()
        lake.append("triage", [row | {"event_id": str(number)}], key=f"commit-{number}")
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
        if number % optimize_every == optimize_every - 1:
            optimize(lake)
    windows = {f"{n}": slice(n - 100, n) for n in (200, 1_000, 3_000, 5_000, 10_000) if n <= commits}
    curve = {
        f"commits {int(n) - 100} to {n}": {
            "median_s": round(statistics.median(walls[window]), 5),
            "cpu_mean_s": round(statistics.mean(cpus[window]), 5),
        }
        for n, window in windows.items()
    }
    log = len(list((uri / "tables/triage/_delta_log").iterdir()))
    return {"commits": commits, "optimize every": optimize_every, "curve": curve, "files of the log at the end": log}


def bytes_a_row(work: Path, real: Path) -> Figures:
    """A row of the real bundles below a folder, and one of a simulated bundle of as many rows, by the same writer."""
    found: Figures = {}
    for file in sorted(real.rglob("results.parquet")):
        rows = pq.read_metadata(file).num_rows
        night = Fleet(max(rows, DEVICES), seed=3).night(40, 1).slice(0, rows)
        writer = BundleWriter(work / "bundles", f"like-{file.parent.name}")
        place = night.column_names.index("run_id")
        night = night.set_column(place, "run_id", pa.repeat(writer.run_id, rows))
        writer.add("results", night.select(BUNDLE_TABLES["results"].names))
        writer.add("runs", [dict.fromkeys(BUNDLE_TABLES["runs"].names) | {"run_id": writer.run_id}])
        like = work / "bundles" / writer.publish().name / "results.parquet"
        found[file.parent.name] = {
            "rows": rows,
            "real": _column_bytes(file),
            "simulated": _column_bytes(like),
        }
    return found


def _column_bytes(file: Path) -> Figures:
    """Bytes a row: the file, its columns, and those that hold measured numbers."""
    footer = pq.read_metadata(file)
    columns: dict[str, int] = {}
    for group in range(footer.num_row_groups):
        for place in range(footer.num_columns):
            chunk = footer.row_group(group).column(place)
            name = chunk.path_in_schema.split(".")[0]
            columns[name] = columns.get(name, 0) + chunk.total_compressed_size
    measured = sum(columns[name] for name in (*NOISY, *LISTED))
    sizes = {"file": file.stat().st_size, "columns": sum(columns.values()), "measured numbers": measured}
    return {name: round(size / footer.num_rows, 1) for name, size in sizes.items()}


def record(path: Path | None, key: str, found: Figures) -> None:
    """Prints, and adds to the JSON file."""
    print(json.dumps({key: found}, indent=1), flush=True)
    if path is not None:
        known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        known.setdefault(key, {}).update(found)
        path.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """One step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["fill", "month", "ask", "commits", "bytes"])
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--series", type=int, default=10_000)
    parser.add_argument("--nights", type=int, default=100)
    parser.add_argument("--more", type=int, default=25)
    parser.add_argument("--part", type=int, default=0)
    parser.add_argument("--parts", type=int, default=1)
    parser.add_argument("--commits", type=int, default=10_000)
    parser.add_argument("--optimize-every", type=int, default=300)
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--compare", choices=["glob", "all"])
    parser.add_argument("--real", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    uri, series, nights = options.store.absolute(), options.series, options.nights
    key = f"{series} series, {(nights + (options.more if options.step == 'month' else 0)) * series} rows"
    if options.step == "fill":
        fill(uri, series, nights, options.part, options.parts)
    elif options.step == "month":
        record(options.json, key, {"month": month(uri, series, nights, options.more)})
    elif options.step == "ask":
        record(options.json, key, {"ask": ask(uri, series, nights, options.repeat)})
        if options.compare:
            only_glob = options.compare == "glob"
            record(options.json, key, {"compare": compare(uri, series, nights, options.repeat, only_glob=only_glob)})
    elif options.step == "bytes":
        record(options.json, "bytes a row", bytes_a_row(uri, options.real))
    else:
        record(options.json, "commits", commit_growth(uri, options.commits, options.optimize_every))
        shutil.rmtree(uri)


if __name__ == "__main__":
    main()
