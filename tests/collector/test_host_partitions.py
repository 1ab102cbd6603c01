"""Units judged side by side: the same findings to the bit, by processes and by Dask, also when a worker is killed."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from collector.host import partitions
from collector.host.demo import write_fleet
from collector.host.judge import judge
from collector.host.partitions import DaskWorkers, ProcessWorkers, Task, WorkersError, chunks, first_runs
from collector.host.run_work import WorkedOut
from collector.host.simulated_fleet import Event, Happening, make_fleet, night_time
from detection.policy import Policy
from store.lake.lake import Lake

REPOSITORY = Path(__file__).parents[2]
NIGHTS = 18
NOW = night_time(NIGHTS, 0)
SAID = ("findings", "requests", "audits", "verdicts", "detector_state", "findings_state")


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models of two units with a step in the last night, judged up to the night before."""
    fleet = make_fleet(5, nights=NIGHTS)
    step = Event(happening=Happening.REVISION_STEP, night=NIGHTS - 1, operator="gemm", log_time=0.3)
    fleet = replace(
        fleet,
        models=tuple(replace(model, units=model.units[:2]) for model in fleet.models[:2]),
        cases=fleet.cases[:5],
        everywhere=5,
        events=(step,),
    )
    lake = Lake.create(tmp_path_factory.mktemp("partitions") / "store")
    write_fleet(fleet, lake.inbox)
    lake.ingest(check_clock=False)
    earlier = lake.sql("SELECT run_id FROM runs WHERE started_at < ?", [night_time(NIGHTS - 1, 0)]).to_pylist()
    judge(lake, [row["run_id"] for row in earlier], Policy().unasked(), at_run_time=True)
    lake.close()
    return Path(lake.uri)


def said(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """All that was said in a store, in an order of its own."""
    lake = Lake.open(folder)
    rows = {name: lake.sql(f"SELECT * FROM {name}").to_pylist() for name in SAID}  # noqa: S608 own names
    return {name: sorted(found, key=repr) for name, found in rows.items()}


@pytest.fixture(scope="module")
def alone(history: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """What one process says of the last night."""
    folder = tmp_path_factory.mktemp("alone") / "store"
    shutil.copytree(history, folder)
    report = judge(Lake.open(folder), policy=Policy(), now=NOW)
    assert len(report.runs) == 4
    assert report.events
    return said(folder)


class Counted:
    """Workers of whom it is known what they were given and what they gave."""

    def __init__(self, workers: partitions.Workers) -> None:
        self.workers = workers
        self.runs: list[str] = []

    def work_out(self, tasks: Sequence[Task]) -> list[Mapping[str, WorkedOut]]:
        found = self.workers.work_out(tasks)
        self.runs += [run_id for part in found for run_id in part]
        return found


def judged_by(workers: partitions.Workers, history: Path, folder: Path) -> dict[str, list[dict[str, Any]]]:
    """What is said of the last night with these workers, every run of which they have to work out."""
    shutil.copytree(history, folder)
    counted = Counted(workers)
    judge(Lake.open(folder), policy=Policy(), now=NOW, workers=counted)
    assert len(counted.runs) == 4
    return said(folder)


@pytest.fixture
def single_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task for each unit, so that there is something to share out."""
    monkeypatch.setattr(partitions, "UNITS_A_TASK", 1)


def kill_when_there(pids: Callable[[], list[int]]) -> Thread:
    """Kills the first process that is there, from a thread of its own."""

    def work() -> None:
        for _ in range(600):
            if found := pids():
                os.kill(found[0], signal.SIGKILL)
                return
            time.sleep(0.05)

    thread = Thread(target=work)
    thread.start()
    return thread


def spawned() -> list[int]:
    """The workers that this process has spawned."""
    import psutil

    children = psutil.Process().children()
    return [child.pid for child in children if any("spawn_main" in word for word in child.cmdline())]


@pytest.mark.usefixtures("single_units")
def test_processes_say_the_same_when_one_is_killed(
    history: Path, alone: dict[str, list[dict[str, Any]]], tmp_path: Path
) -> None:
    """Two processes, one of them killed at work: findings, verdicts and detectors are those of one process."""
    killer = kill_when_there(spawned)
    assert judged_by(ProcessWorkers(processes=2), history, tmp_path / "store") == alone
    killer.join()


def test_a_pool_that_broke_while_tasks_were_given_out_takes_no_more() -> None:
    """What was not taken waits for the next attempt."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        with pytest.raises(BrokenProcessPool):
            pool.submit(os._exit, 1).result()
        assert partitions._submit(pool, {0: Task.__new__(Task)}) == {}


def test_a_replayed_history_is_said_the_same(history: Path, tmp_path: Path) -> None:
    """Where findings of earlier runs change the baselines of later ones, what workers made too early is not taken."""

    class Here:
        """Works out in this process."""

        def work_out(self, tasks: Sequence[Task]) -> list[Mapping[str, WorkedOut]]:
            return [partitions.work_out_task(task) for task in tasks]

    stores = []
    for name, workers in (("one", None), ("other", Here())):
        folder = tmp_path / name
        shutil.copytree(history, folder)
        lake = Lake.open(folder)
        for table in ("findings", "findings_state", "verdicts", "audits", "requests", "detector_state"):
            lake.overwrite(table, [])
        judge(lake, policy=Policy().unasked(), at_run_time=True, now=NOW + timedelta(days=1), workers=workers)
        stores.append(said(folder))
    assert stores[0]["findings"]
    assert stores[0] == stores[1]


def test_every_unit_is_worked_out_once() -> None:
    """The first run of each unit, in tasks of a few units."""
    runs = [("a1", "a"), ("b1", "b"), ("a2", "a"), ("c1", None), ("c2", None)]
    assert first_runs(runs) == [("a1", "a"), ("b1", "b"), ("c1", None)]
    many = [(f"r{n}", f"u{n}") for n in range(9)]
    assert [run for chunk in chunks(many) for run in chunk] == many


@contextmanager
def cluster() -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A real scheduler and two real worker processes; its address and the workers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY), "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "5"}
    options = ["--no-dashboard"]
    scheduler = ["distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port), *options]
    worker = ["distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny", *options]
    processes = [
        subprocess.Popen([sys.executable, "-m", *command], env=environment, **quiet)  # type: ignore[call-overload]
        for command in (scheduler, worker, worker)
    ]
    try:
        yield address, processes[1:]
    finally:
        for process in processes:
            process.kill()
            process.wait(10)


@pytest.mark.usefixtures("single_units")
def test_dask_says_the_same_when_a_worker_is_killed(
    history: Path, alone: dict[str, list[dict[str, Any]]], tmp_path: Path
) -> None:
    """A real scheduler and two worker processes, one killed while it works: what is said is what one process says."""
    from distributed import Client

    with cluster() as (address, workers):
        with Client(address, timeout=60, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=120)

            def at_work() -> list[int]:
                held = client.processing()
                return [workers[0].pid] if any(held.values()) else []

            killer = kill_when_there(at_work)
            assert judged_by(DaskWorkers(address=address), history, tmp_path / "store") == alone
            killer.join()
        assert workers[0].wait(10) == -signal.SIGKILL


def test_a_scheduler_that_is_not_there_is_one_line(history: Path, tmp_path: Path) -> None:
    """The address is named, nothing is said of any run."""
    shutil.copytree(history, tmp_path / "store")
    lake = Lake.open(tmp_path / "store")
    with pytest.raises(WorkersError, match=r"scheduler tcp://127\.0\.0\.1:9: cannot be reached"):
        judge(lake, policy=Policy(), now=NOW, workers=DaskWorkers(address="tcp://127.0.0.1:9", wait_s=1.0))
    assert lake.sql("SELECT count(*) AS n FROM verdicts WHERE made_at >= ?", [NOW]).to_pylist() == [{"n": 0}]
