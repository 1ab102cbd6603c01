"""Long CSV files as a person would import them, judged night by night; several at once, each on a host of its own."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench_suite.datasheets import datasheets
from collector.host.judge import judge
from collector.host.judge_report import JudgeReport
from collector.host.policies import load_policy
from collector.host.verdict_rows import VerdictLine
from detection.findings import EventKind, FindingEvent
from detection.verdict import ReasonCode
from store.exchange.imported_runs import ImportReport, RunWords, import_runs
from store.exchange.long_csv import read_long_csv
from store.lake.lake import Lake

START = datetime(2026, 9, 1, 2, 0, tzinfo=UTC)
H100 = "NVIDIA H100 80GB HBM3"
COLUMNS = (
    "run_id", "started_at", "host", "gpu", "case", "metric", "unit", "sample", "value", "status", "settings",
    "revision", "driver",
)  # fmt: skip
DATA = Path(__file__).parents[1] / "data" / "cases"


@dataclass(frozen=True, kw_only=True)
class Line:
    """One sample of the neutral long form."""

    run: int
    case: str
    value: float
    sample: int = 0
    metric: str = "latency"
    unit: str = "ms"
    gpu: str = H100
    status: str = "ok"
    settings: str = ""
    revision: str = ""
    driver: str = ""
    host: str = "node-01"

    def row(self) -> dict[str, str]:
        """As the columns of a file."""
        when = (START + timedelta(days=self.run)).isoformat()
        fields = {name: str(getattr(self, name)) for name in COLUMNS[2:]}
        return {"run_id": f"r{self.run:04d}", "started_at": when, **fields, "value": repr(self.value)}


def raw_rows(name: str) -> list[dict[str, str]]:
    """The rows of a shipped file."""
    text = gzip.decompress((DATA / f"{name}.csv.gz").read_bytes()).decode()
    return list(csv.DictReader(io.StringIO(text)))


def file_rows(name: str, host: str) -> list[dict[str, str]]:
    """The same on a host of that name, its runs and cases named for it: no two files have a case in common."""
    return [
        row | {"host": host, "run_id": f"{host}-{row['run_id']}", "case": f"{host}_{row['case']}"}
        for row in raw_rows(name)
    ]


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What was said of some files; every question is asked of one host."""

    lake: Lake
    imported: ImportReport
    report: JudgeReport
    hosts: Mapping[str, str]
    """Run id -> host."""

    def events(self, host: str) -> list[FindingEvent]:
        """All events of a host, in order."""
        return [e for e in self.report.events if e.facts.host == host]

    def kinds(self, host: str) -> list[tuple[EventKind, str]]:
        """Events of a host as (what, run)."""
        return [(e.event, e.run_id) for e in self.events(host)]

    def lines(self, host: str, run: str, metric: str = "latency") -> list[VerdictLine]:
        """The verdicts of a run of a host."""
        names = {f"{host}-{run}", f"{run}@{host}", run}
        return [
            li
            for li in self.report.lines
            if li.run_id in names and li.metric == metric and self.hosts[li.run_id] == host
        ]

    def codes(self, host: str, run: str, metric: str = "latency") -> list[ReasonCode]:
        """Their codes."""
        return [line.code for line in self.lines(host, run, metric)]

    def all_codes(self, host: str) -> set[ReasonCode]:
        """Every code that was said of a host."""
        return {line.code for line in self.report.lines if self.hosts[line.run_id] == host}


def judge_rows(folder: Path, rows: Iterable[Mapping[str, str]]) -> Judged:
    """Imports rows into a fresh store as `collector import` does, and judges them as `detect --replay` does."""
    path = folder / "history.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    lake = Lake.create(folder / "store")
    imported = import_runs(read_long_csv(path), lake.inbox, RunWords(known_models=frozenset(datasheets())))
    taken = lake.ingest(check_clock=False)
    assert taken.quarantined == ()
    hosts = {row["run_id"]: row["host"] for row in lake.sql("SELECT run_id, host FROM runs").to_pylist()}
    report = judge(lake, policy=load_policy(), at_run_time=True)
    return Judged(lake=lake, imported=imported, report=report, hosts=hosts)


def judge_lines(folder: Path, lines: Sequence[Line]) -> Judged:
    """The same of made-up lines."""
    return judge_rows(folder, [line.row() for line in lines])
