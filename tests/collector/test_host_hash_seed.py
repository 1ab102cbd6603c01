"""The same input gives the same verdict, whatever order Python happens to keep its sets in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from collector.host.demo import write_fleet
from collector.host.simulated_fleet import Event, Happening, make_fleet
from store.lake.lake import Lake

NIGHTS = 12
SAID = ("verdicts", "findings", "findings_state", "requests", "audits", "detector_state", "cliffs")
STEP = Event(happening=Happening.REVISION_STEP, night=7, operator="gemm", log_time=0.3)
FASTER = Event(happening=Happening.IMPROVEMENT, night=9, operator="rms_norm", log_time=-0.3)


def write_history(folder: Path) -> None:
    """Bundles that wait in a store: a model of two units, a revision that makes two operators move together."""
    fleet = make_fleet(5, nights=NIGHTS)
    model = replace(fleet.models[0], units=fleet.models[0].units[:2])
    chosen = [case for case in fleet.cases if case.operator in (STEP.operator, FASTER.operator)][:8]
    fleet = replace(fleet, models=(model,), cases=tuple(chosen), everywhere=len(chosen), events=(STEP, FASTER))
    lake = Lake.create(folder)
    write_fleet(fleet, lake.inbox)
    lake.close()


def said(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Every row that judging wrote, in the order in which it stands."""
    lake = Lake.open(folder)
    try:
        return {name: lake.sql(f"FROM {name}").to_pylist() for name in SAID}
    finally:
        lake.close()


def test_the_hash_seed_changes_no_row(tmp_path: Path) -> None:
    """Two processes with other hash seeds ingest and judge the same bundles: every row of verdicts, findings, events,
    requests, audits, detector states and cliffs is the same, in the same order, and so is every printed line."""
    write_history(tmp_path / "0")
    shutil.copytree(tmp_path / "0", tmp_path / "1")
    command = [sys.executable, "-m", "collector.cli.main", "detect", "--replay", "--json", "--store"]
    processes = [
        subprocess.Popen(
            [*command, str(tmp_path / seed)], env=os.environ | {"PYTHONHASHSEED": seed}, stdout=subprocess.PIPE
        )
        for seed in ("0", "1")
    ]
    printed = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    first, second = (said(tmp_path / seed) for seed in ("0", "1"))
    for name in SAID:
        assert first[name] == second[name], name
    assert printed[0] == printed[1]
    assert first["verdicts"] and first["detector_state"]
    assert max(len(row["subject_ids"]) for row in first["findings_state"]) > 1
    assert {row["operator"] for row in first["findings_state"]} == {STEP.operator, FASTER.operator}
