"""A frozen environment beside the normal one, through the command line: a newer library makes one of the two slow."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from collector.host.judge import judge
from detection.classify import FindingClass
from detection.verdict import ReasonCode
from store.bundle.inbox import Inbox
from store.bundle.schemas import RESULTS, RUNS
from store.bundle.writer import BundleWriter
from store.lake.lake import Lake
from tests.support.sentinel_environment import make_environment, put_compiler, put_library, site_packages

SUITE = str(Path(__file__).parent.parent / "support" / "beside.toml")
CANDIDATE = "candidate:ours"
NIGHTS_BEFORE = 5


def collector(folder: Path, *words: str, **variables: str) -> str:
    """What a command of collector says on stdout."""
    done = subprocess.run(
        [sys.executable, "-m", "collector.cli.main", *words],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        env=os.environ | {"XDG_STATE_HOME": str(folder / "state")} | variables,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def put_nights_before(lake: Lake, folder: Path) -> None:
    """Nights before the one run of the store, when both environments had the older library: each arm then took what it
    takes in the sentinel, a little more or less."""
    noise = random.Random(3)
    [tonight] = lake.sql("SELECT * FROM runs").to_pylist()
    rows = lake.sql("SELECT * FROM results").to_pylist()
    frozen = {row["arm"].removeprefix("sentinel:"): row for row in rows if row["role"] == "sentinel"}
    environment = json.loads(tonight["environment"])
    environment["compiler"] = environment["sentinel.compiler"]
    for night in range(1, NIGHTS_BEFORE + 1):
        name, back = f"earlier-{night}", timedelta(days=night)
        moved = {"run_id": name, "started_at": tonight["started_at"] - back, "environment": json.dumps(environment)}
        results = []
        for row in rows:
            source, scale = frozen.get(row["arm"], row), 1 + noise.uniform(-0.005, 0.005)
            times = [t * scale for t in source["time_processes_s"] or []] or None
            ratios = source["log_ratio_optimized_processes"]
            results.append(
                {n: row[n] for n in RESULTS.names}
                | {"run_id": name, "measured_at": row["measured_at"] - back, "time_processes_s": times}
                | {"log_ratio_optimized_processes": ratios, "ratio_optimized": source["ratio_optimized"]}
            )
        writer = BundleWriter(folder / "earlier", name)
        writer.add("runs", [{n: tonight[n] for n in RUNS.names} | moved])
        writer.add("results", results)
        Inbox(lake.uri).put(writer.publish({}))
    lake.ingest()


@pytest.mark.timeout(1200)
def test_what_a_newer_toolchain_slows_is_told_from_what_the_night_slows(tmp_path: Path) -> None:
    """The same kernel takes longer under a newer library: the sentinel, run beside it, says that it was that."""
    sentinel = make_environment(tmp_path / "frozen")
    put_library(site_packages(tmp_path / "frozen"), times=1, version="1.0")
    newer = put_library(tmp_path / "newer", times=5, version="2.0")
    path = os.pathsep.join([str(newer), *filter(None, [os.environ.get("PYTHONPATH")])])
    compiler = put_compiler(tmp_path / "bin", "99.1")
    lake = Lake.create(str(tmp_path / "store"))
    store = ("--store", lake.uri)

    options = ("--device", "cpu", "--sentinel", str(sentinel), "--no-judge", "--json")
    said = collector(tmp_path, "run", "--suite", SUITE, *store, *options, PYTHONPATH=path, CXX=str(compiler))
    lake.ingest()
    put_nights_before(lake, tmp_path)
    report = judge(lake)

    arms: dict[str, dict[str, Any]] = {row["arm"]: row for row in json.loads(said)["rows"]}
    beside = arms[f"sentinel:{CANDIDATE}"]
    assert (beside["role"], beside["status"]) == ("sentinel", "measured")
    assert "sentinel:naive" not in arms
    kept = lake.sql("SELECT arm FROM results WHERE role = 'sentinel' AND status = 'measured'").to_pylist()
    assert len(kept) == 3 * (1 + NIGHTS_BEFORE)
    [finding] = [f for f in report.findings.values() if f.facts.arm == CANDIDATE]
    assert finding.facts.finding_class is FindingClass.ENVIRONMENT
    assert finding.facts.cause.startswith("The toolchain changed it (compiler")
    paired = [v for v in report.lines if v.against == "sentinel" and v.arm == CANDIDATE]
    tonight = [v for v in paired if v.run_id == arms["naive"]["run_id"]]
    assert [v.tier for v in tonight] == ["in_run", "tonight"]
    assert tonight[1].code is ReasonCode.AT_PLANNED_CHANGE
    assert any("moved beside the sentinel" in notice for notice in report.notices)
