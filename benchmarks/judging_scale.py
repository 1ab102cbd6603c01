"""What judging costs: many whole histories at once, and one new night of a large fleet through `collector detect`.

python -m benchmarks.judging_scale [--histories 10000] [--series 100000] [--workers 1,2] [--out FILE.md]

A series is what is judged by itself: a row of `results` (case x arm x unit) times a metric. A row of this fleet has
latency, its tail, peak memory and error, and the ratio to the optimized arm unless it is that arm: 4.75 series.

**Whole histories**: the online detector over every value of every series, shared out to processes.

**One new night**: a store of forty units with the rows of `store_fleet.py` (as large as real ones) over `NIGHTS`
nights, the state of every detector, and the verdicts of earlier nights. Then the new night's rows and raw samples are
committed, and `collector detect` runs as its user runs it, in a process of its own: it loads histories and states from
the Delta tables, judges, feeds the detectors, and writes verdicts, findings, requests, audits, cliffs, states and the
summary. Each number of workers has a copy of the same store. Wall clock and CPU time (its workers included) stand side
by side: on a machine that others use only the second is of the code.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from benchmarks import store_fleet
from benchmarks.store_fleet import ARMS, DEVICES, SAMPLE_ROWS, Fleet, Span, months, night_at, run_id
from detection.online import OnlineDetector, judge_many
from store.lake.delta import Commit
from store.lake.ingest import SEQUENCE
from store.lake.lake import Lake
from store.lake.tables import VERDICTS

POINTS, SIGMA = 120, 0.02
NIGHTS = 75
"""Nights before the new one: the judge loads the last seventy or so of a unit."""
VERDICT_NIGHTS = 30
"""Of so many earlier nights all verdicts are there; of those before, one a run, which says that it was judged."""
SERIES_A_ROW = 4.75
JUMPS = 0.001
"""Share of the rows that step by 10 % in the new night."""
DISTINCT = 2_000
"""Detectors that are simulated; a larger fleet repeats their states."""
_TONIGHT = f"night-{NIGHTS:04}-%"
_OUTCOME = """
    SELECT (SELECT count(DISTINCT (subject_id, metric)) FROM verdicts WHERE run_id LIKE $run AND against = 'history'),
           (SELECT count(*) FROM verdicts WHERE run_id LIKE $run), (SELECT count(*) FROM detector_state),
           (SELECT count(DISTINCT finding_id) FROM findings WHERE run_id LIKE $run)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a command took."""

    wall_s: float
    cpu_s: float
    memory_bytes: int = 0


def measured(work: Callable[[], object]) -> Cost:
    """Wall clock, and CPU time of the processes that this one starts for it and of itself."""
    before, wall = _cpu_s(), time.perf_counter()
    work()
    return Cost(wall_s=time.perf_counter() - wall, cpu_s=_cpu_s() - before)


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def values_of(rng: np.random.Generator, series: int, points: int) -> NDArray[np.float64]:
    """[series, points] of 2 % noise around levels of their own; 1 % of the series step by 5 % half-way."""
    x = rng.normal(0.0, SIGMA, (series, points)) + rng.normal(0.0, 1.0, (series, 1))
    x[rng.random(series) < 0.01, points // 2 :] += np.log1p(0.05)
    return np.exp(x)


def alerts_in(histories: NDArray[np.float64]) -> int:
    """A fresh detector over every value of every series."""
    return sum(map(len, judge_many(histories)))


def whole_histories(series: int, processes: int) -> Cost:
    """From the start of the processes to the last answer."""
    histories = values_of(np.random.default_rng(1), series, POINTS)
    alerts_in(histories[:10])

    def work() -> None:
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            list(pool.map(alerts_in, np.array_split(histories, processes)))

    return measured(work)


class Whole(Fleet):
    """A fleet whose units each measure every arm of their cases, in which nothing happens before the new night."""

    def __init__(self, rows: int) -> None:
        cases = max(1, round(rows / DEVICES / len(ARMS)))
        super().__init__(DEVICES * cases * len(ARMS))
        place = self.random.permutation(self.series)  # ids are hashes: those of a unit lie everywhere
        self.device, self.case, self.arm = place // (cases * len(ARMS)), place // len(ARMS) % cases, place % len(ARMS)
        self.ratio[np.isin(self.arm, [ARMS.index("optimized"), ARMS.index("aa")])] = 1.0
        store_fleet.JUMPS_A_NIGHT = 0.0

    def runs(self, span: Span, first_seq: int) -> pa.Table:
        """With what the judge asks of a run."""
        table = super().runs(span, first_seq)
        known = {"device_kind": "cuda", "device_model": "NVIDIA H100 80GB HBM3", "suite": "nightly", "revision": "a1b2"}
        for name, text in (known | {"environment": "{}"}).items():
            place = table.schema.get_field_index(name)
            table = table.set_column(place, table.schema.field(place), pa.repeat(text, table.num_rows))
        return table

    def commit(self, lake: Lake, span: Span) -> None:
        """Some nights, as ingests commit them: in one piece, `runs` last."""
        first = 1 + span.first * DEVICES
        known = {run_id(n): n + 1 for n in range(span.first * DEVICES, span.last * DEVICES)}
        known |= {SEQUENCE: span.last * DEVICES}
        rows, runs = self.rows(0, self.series, span, first), self.runs(span, first)
        if span.nights == 1:
            samples = self._stored_samples(rows)
            lake.tables.commit("samples", lambda _: Commit(rows=samples, transactions=known))
        lake.tables.commit("results", lambda _: Commit(rows=rows, transactions=known))
        lake.tables.commit("runs", lambda _: Commit(rows=runs, transactions=known))

    def _stored_samples(self, rows: pa.Table) -> pa.Table:
        samples = self.samples(rows)
        order = np.repeat(np.arange(rows.num_rows), SAMPLE_ROWS)
        for name in ("ingest_seq", "ingested_at", "month"):
            place = samples.schema.get_field_index(name)
            if place >= 0:
                samples = samples.set_column(place, samples.schema.field(place), rows[name].take(order))
        return samples


def prepare(uri: Path, rows: int) -> Whole:
    """A store before its new night: histories, verdicts and detectors. The night before the new one is judged for real,
    which gives the verdicts that stand for those of earlier nights and the keys of the detectors."""
    lake, fleet = Lake.create(uri), Whole(rows)
    for span in months(NIGHTS - 1):
        fleet.commit(lake, span)
    judged = [_one_verdict(n) for n in range((NIGHTS - 1) * DEVICES)]
    lake.append("verdicts", judged)
    fleet.commit(lake, Span(first=NIGHTS - 1, last=NIGHTS))
    detect(uri, 2)
    lake.close()
    lake = Lake.open(uri)
    _copy_verdicts(lake)
    _age_detectors(lake)
    lake.refresh_series()
    lake.close()
    return fleet


def _one_verdict(run: int) -> dict[str, Any]:
    return dict.fromkeys(VERDICTS.names) | {
        "verdict_id": hashlib.sha256(b"%d" % run).hexdigest()[:32],
        "run_id": run_id(run),
        "as_of_seq": run + 1,
        "made_at": night_at(run // DEVICES),
        "tier": "tonight",
        "against": "history",
        "status": "not_judged",
        "code": "first_run",
    }


def _copy_verdicts(lake: Lake) -> None:
    """The verdicts of the last night once more for each of the nights before."""
    last = lake.sql("SELECT * FROM verdicts WHERE run_id LIKE ?", [f"night-{NIGHTS - 1:04}-%"])
    for night in range(NIGHTS - VERDICT_NIGHTS, NIGHTS - 1):
        new = {
            "run_id": pc.replace_substring(last["run_id"], f"night-{NIGHTS - 1:04}", f"night-{night:04}"),
            "verdict_id": pc.binary_join_element_wise(last["verdict_id"], pa.scalar(str(night)), ""),
            "as_of_seq": pc.subtract(last["as_of_seq"], (NIGHTS - 1 - night) * DEVICES),
            "made_at": pa.repeat(pa.scalar(night_at(night), last["made_at"].type), last.num_rows),
        }
        copy = last
        for name, values in new.items():
            place = copy.schema.get_field_index(name)
            copy = copy.set_column(place, copy.schema.field(place), values)
        lake.append("verdicts", copy)


def _aged_states() -> list[tuple[int, bytes]]:
    """Detectors that have seen as many nights as there are: values fed, and the state."""
    states = []
    for history in values_of(np.random.default_rng(2), DISTINCT, NIGHTS):
        detector = OnlineDetector()
        for value in history.tolist():
            detector.update(value)
        states.append((detector.fed, detector.to_state()))
    return states


def _age_detectors(lake: Lake) -> None:
    states = _aged_states()
    rows = lake.sql("SELECT * FROM detector_state ORDER BY subject_id, metric").to_pylist()
    aged = [row | {"n": states[i % DISTINCT][0], "state": states[i % DISTINCT][1]} for i, row in enumerate(rows)]
    lake.overwrite("detector_state", aged)


def states_alone(uri: Path, count: int) -> Cost:
    """As many states as there are series, as if each had a detector: read from a store, fed one value, written back."""
    lake, states = Lake.create(uri), _aged_states()
    row = {"metric": "latency_ratio", "as_of_seq": 1}
    lake.overwrite(
        "detector_state",
        [
            row | {"subject_id": f"s{i:07}", "n": states[i % DISTINCT][0], "state": states[i % DISTINCT][1]}
            for i in range(count)
        ],
    )

    def work() -> None:
        stored = lake.sql("SELECT subject_id, state FROM detector_state ORDER BY subject_id").to_pylist()
        rows = []
        for number, kept in enumerate(stored):
            detector = OnlineDetector.from_state(kept["state"])
            detector.update(1.0 + 0.001 * (number % 7))
            rows.append(row | {"subject_id": kept["subject_id"], "n": detector.fed, "state": detector.to_state()})
        lake.overwrite("detector_state", rows)

    cost = measured(work)
    lake.close()
    return cost


def detect(uri: Path, workers: int) -> Cost:
    """`collector detect` on a store, in a process of its own; the largest memory is of one process."""
    command = [sys.executable, "-m", "collector.cli.main", "detect", "--store", str(uri), "--workers", str(workers)]
    cost = measured(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    return Cost(wall_s=cost.wall_s, cpu_s=cost.cpu_s, memory_bytes=memory)


def new_night(rows: int, workers: list[int], folder: Path) -> list[str]:
    """A line of a Markdown table for each number of workers."""
    store = folder / "store"
    fleet = prepare(store, rows)
    store_fleet.JUMPS_A_NIGHT = JUMPS
    lake = Lake.open(store)
    fleet.commit(lake, Span(first=NIGHTS, last=NIGHTS + 1))
    lake.close()
    lines = []
    for count in workers:
        copy = folder / f"store-{count}"
        shutil.copytree(store, copy)
        load = os.getloadavg()[0]
        cost = detect(copy, count)
        lines.append(f"| {count} | {cost.wall_s:.1f} | {cost.cpu_s:.1f} | {load:.1f} | {_outcome(copy)} |")
        lines[-1] = lines[-1].replace("| M |", f"| {cost.memory_bytes / 2**30:.1f} |")
        shutil.rmtree(copy)
    return lines


def _outcome(uri: Path) -> str:
    """Cells: memory's place, series, all verdicts, states, findings."""
    lake = Lake.open(uri)
    found = list(lake.sql(_OUTCOME, {"run": _TONIGHT}).to_pylist()[0].values())
    lake.close()
    return " | ".join(["M", *(f"{n:,}" for n in found)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=10_000)
    parser.add_argument("--series", type=int, default=101_000)
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--folder", type=Path, help="Where the stores go; default a temporary folder.")
    parser.add_argument("--keep", action="store_true", help="Leave the store, for a profile.")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    cores = os.cpu_count() or 1
    load = os.getloadavg()[0]
    whole = {n: whole_histories(args.histories, n) for n in (1, cores)}
    folder = Path(tempfile.mkdtemp(dir=args.folder))
    rows = round(args.series / SERIES_A_ROW)
    try:
        states = states_alone(folder / "states", args.series)
        night = new_night(rows, [int(n) for n in args.workers.split(",")], folder)
    finally:
        if not args.keep:
            shutil.rmtree(folder)
    libraries = ", ".join(f"{name} {version(name)}" for name in ("numpy", "numba", "duckdb", "deltalake", "pyarrow"))
    text = "\n".join(
        [
            "# What judging costs",
            "",
            f"`python -m benchmarks.judging_scale`, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {cores} cores, Python "
            f"{platform.python_version()}, {libraries}. CPU time is of all processes and threads.",
            "",
            "## Whole histories",
            "",
            f"{args.histories:,} series x {POINTS} values through the online detector; the start of the "
            f"processes counts. Load before: {load:.1f}.",
            "",
            "| processes | wall s | CPU s |",
            "|---|---|---|",
            *(f"| {n} | {cost.wall_s:.1f} | {cost.cpu_s:.1f} |" for n, cost in whole.items()),
            "",
            "## One new night",
            "",
            f"{rows:,} rows on {DEVICES} units, {NIGHTS} nights before it, all verdicts of {VERDICT_NIGHTS} of them; "
            f"{JUMPS:.1%} of the rows step by 10 %. The whole command: start, load, judge, write.",
            "",
            "| workers | wall s | CPU s | load before | GiB, largest process | series | verdicts | states | findings |",
            "|---|---|---|---|---|---|---|---|---|",
            *night,
            "",
            f"A detector watches a paired ratio, or the time of a case without one: fewer than there are series. As if "
            f"each of {args.series:,} series had one: states read, fed one value and written back in one process, "
            f"{states.wall_s:.1f} s, {states.cpu_s:.1f} s of CPU time.",
            "",
        ]
    )
    if args.out:
        args.out.write_text(text, encoding="utf-8")
    print(text, folder if args.keep else "")


if __name__ == "__main__":
    main()
