"""Does the audit of the alarms publish what happened? Short real runs, and a count of its own from their raw samples.

Each run measures four small cases with their A/A copies and one planted slow-down into a fresh store. What the audit
publishes for them is held against `benchmarks.audit_count`, which reads raw samples and shares no code with the judge.

python benchmarks/audit.py [--runs 20] [--out FOLDER]
"""

# ruff: noqa: E402 the path is set first: this file is named like what it measures

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.audit_count import Count, Counted, Sampled, policy_tables, sampled
from collector.host.audit import published_audit
from detection.audit import AuditKind, binomial_share
from store.lake.lake import Lake

SUITE = Path(__file__).parent / "data" / "audit.toml"
NEIGHBOURS = 2
"""Rounds whose samples are compared: docs/method.md, intervals."""
COLUMNS = ("run", "started_at", "case", "arm", "planted", "change_counted", "change_published", "suspected", "alarmed")
BUSY = 75
"""Exit code of a run that yields to another on this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Counted and published figures of one kind of audited series."""

    planted: float | None
    counted: Counted
    published: Counted

    @property
    def words(self) -> str:
        """A/A, or the size."""
        return "A/A copies" if self.planted is None else f"planted {100 * self.planted:.0f} %"


def run_ids(lake: Lake) -> list[str]:
    """The runs of a store, oldest first."""
    return [row["run_id"] for row in lake.sql("SELECT run_id FROM runs ORDER BY started_at, run_id").to_pylist()]


def measure(store: Path, runs: int) -> None:
    """So many runs of the suite into a store, judged one after the other when all are there."""
    command = [
        sys.executable, "-m", "collector.cli.main", "run", "--suite", str(SUITE), "--device", "cpu",
        "--store", str(store), "--no-judge", "--quiet",
    ]  # fmt: skip
    for number in range(runs):
        print(f"run {number + 1} of {runs}: {_said(command)}", file=sys.stderr)
    _said([sys.executable, "-m", "collector.cli.main", "detect", "--store", str(store)])


def _said(command: list[str]) -> str:
    """The last line that a command of ours printed; waits for its turn. Raises SystemExit where it failed."""
    while True:
        done = subprocess.run(command, cwd=sys.path[0], check=False, capture_output=True, text=True)
        if done.returncode == BUSY:
            time.sleep(5)
        elif done.returncode != 0:
            raise SystemExit(f"{' '.join(command[2:5])}: exit {done.returncode}: {done.stderr.strip()[-500:]}")
        else:
            return (done.stdout.strip().splitlines() or [""])[-1]


def arms_of(lake: Lake, run_id: str, number: int) -> Iterator[Sampled]:
    """Every measured arm of a run with its raw samples."""
    rows = lake.sql("SELECT * FROM results WHERE run_id = $run AND status = 'measured'", {"run": run_id}).to_pylist()
    passes = lake.sql("SELECT * FROM samples WHERE run_id = $run", {"run": run_id}).to_pylist()
    for row in rows:
        planted = json.loads(row["settings"] or "{}").get("planted")
        mine = [one for one in passes if one["subject_id"] == row["subject_id"]]
        yield sampled(row, mine, number, planted)


def count(lake: Lake, reach: int) -> tuple[Count, list[str]]:
    """All runs of a store, counted in their order; and their ids."""
    order = run_ids(lake)
    counting = Count(policy_tables(), "cpu", reach=reach)
    for number, run_id in enumerate(order):
        counting.add_run(number, list(arms_of(lake, run_id, number)))
    return counting, order


def compare(lake: Lake, counting: Count) -> list[Compared]:
    """The published lines beside the counted ones."""
    published = {
        None if line.kind is AuditKind.AA else line.planted: Counted(
            nights=line.alarms.n, suspicions=line.suspicions.count, alarms=line.alarms.count
        )
        for line in published_audit(lake)
    }
    sizes = sorted({*published, *counting.counted}, key=lambda size: size or 0.0)
    return [
        Compared(planted=s, counted=counting.counted.get(s, Counted()), published=published.get(s, Counted()))
        for s in sizes
    ]


def series_rows(lake: Lake, counting: Count, order: list[str]) -> list[dict[str, object]]:
    """A line an audited series-night: the change by count and as published."""
    query = """
        SELECT a.run_id, a.change, a.planted, a.suspected, a.alarmed, r.case_id, r.arm, u.started_at FROM audits a
        JOIN results r USING (run_id, subject_id) JOIN runs u USING (run_id) ORDER BY u.started_at, r.case_id, r.arm
    """
    return [
        {
            "run": order.index(row["run_id"]) + 1,
            "started_at": row["started_at"].isoformat(timespec="seconds"),
            "case": row["case_id"],
            "arm": row["arm"],
            "planted": "" if row["planted"] is None else row["planted"],
            "change_counted": counting.changes.get((order.index(row["run_id"]), row["case_id"], row["arm"]), math.nan),
            "change_published": row["change"],
            "suspected": row["suspected"],
            "alarmed": row["alarmed"],
        }
        for row in lake.sql(query).to_pylist()
    ]


def report(compared: list[Compared], rows: list[dict[str, object]], *, runs: int, run_s: float, shifted: int) -> str:
    """The page: what was published, what was counted, and whether they are equal."""
    apart = [abs(float(r["change_counted"]) - float(r["change_published"])) for r in rows]  # type: ignore[arg-type]
    largest = max(apart, default=math.nan)
    same = all(one.counted == one.published for one in compared)
    lines = [
        "# The published audit against a count from raw samples",
        "",
        f"{runs} runs of `benchmarks/data/audit.toml` on {os.cpu_count()} cores of {_processor()}, {run_s:.0f} s each",
        f"in the median, Python {platform.python_version()}, load {os.getloadavg()[1]:.1f} at the end,",
        f"{datetime.now(UTC):%Y-%m-%d}.",
        "`python benchmarks/audit.py`; every audited series-night is in the CSV file beside this page.",
        "",
        "| audited | series-nights | measured, median | suspicions published | counted | alarms published | counted"
        " | 95 % interval |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in compared:
        share = binomial_share(one.published.alarms, one.published.nights)
        interval = f"{100 * share.low:.1f} to {100 * share.high:.1f} %"
        nights = f"{one.published.nights}" if one.counted.nights == one.published.nights else (
            f"{one.published.nights} (counted {one.counted.nights})"
        )  # fmt: skip
        lines.append(
            f"| {one.words} | {nights} | {_median_change(rows, one.planted)}"
            f" | {one.published.suspicions} | {one.counted.suspicions}"
            f" | {one.published.alarms} | {one.counted.alarms} | {interval} |"
        )
    lines += [
        "",
        f"Published and counted are {'equal in every figure' if same else '**not equal**'}. The largest difference of a"
        f" change by count from the published one is {largest:.1e}.",
        f"Suspicions of the online detector, which the count does not know: {shifted}.",
        "",
        "An alarm of an A/A copy is a suspicion that two later runs repeated: it would have been told. A planted"
        " slow-down is there for one run and counts when that run suspects it. The floor on CPU is 5 %: a slow-down"
        " that is measured below it should not be noticed in one run. Where the measured median is above the planted"
        " size, the extra work behind a short call cost more in its place than when it was sized.",
        "",
    ]
    return "\n".join(lines)


def _median_change(rows: list[dict[str, object]], planted: float | None) -> str:
    """What the audited series of a kind were measured off by, in the median."""
    wanted = "" if planted is None else planted
    changes = [float(r["change_published"]) for r in rows if r["planted"] == wanted]  # type: ignore[arg-type]
    return f"{100 * statistics.median(changes):+.1f} %" if changes else "-"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--store", type=Path, help="kept store; the runs that it holds already are not measured again")
    parser.add_argument("--reach", type=int, default=NEIGHBOURS, help="rounds apart of samples that are compared")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kernel-observatory-audit-") as folder:
        lake = Lake.create(options.store or Path(folder) / "store")
        lake.ingest()
        measure(Path(lake.uri), options.runs - len(run_ids(lake)))
        lake.close()
        lake = Lake.open(lake.uri)
        counting, order = count(lake, options.reach)
        compared, rows = compare(lake, counting), series_rows(lake, counting, order)
        online = "SELECT count(*) AS n FROM verdicts WHERE tier = 'online' AND arm = 'aa' AND status <> 'unchanged'"
        shifted = int(lake.sql(online).to_pylist()[0]["n"])
        run_s = float(lake.sql("SELECT median(wall_s) AS s FROM runs").to_pylist()[0]["s"])
        lake.close()
    page = report(compared, rows, runs=len(order), run_s=run_s, shifted=shifted)
    name = f"audit-{datetime.now(UTC):%Y-%m-%d}"
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / f"{name}.md").write_text(page, encoding="utf-8")
    with (options.out / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(page)
    if any(one.counted != one.published for one in compared):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
