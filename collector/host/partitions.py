"""Judging side by side: device units on processes of this machine, or on the workers of a Dask cluster.

What costs time is to load the history of a unit, to judge a run against it and to feed its detectors; what is then
said, joined to findings of other units and written, is one process's work, in the order of the runs. So workers work
out the first run of every unit, from the findings as they are in the store, and write nothing. The one process takes
what was worked out only where the findings still give the same baselines when the run's turn comes, and does the work
itself where they do not: the findings are the same to the bit, whoever worked, however often a worker died. A night
is one run a unit, all of it worked out side by side; of a history that is replayed only the first runs are.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from store.lake.errors import StoreError

if TYPE_CHECKING:
    from collector.host.run_work import WorkedOut
    from detection.policy import Policy

Run = tuple[str, str | None]
"""Run id and device unit."""
UNITS_A_TASK = 4
"""Few, so that no worker is left with a long last task; each task reads the findings anew."""
ATTEMPTS = 4
"""How often a task is begun before the judging gives up: one that kills each of its workers is no accident."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Some runs of different units, and all that a worker must know to judge as this process would."""

    store: str
    policy: Policy
    now: datetime
    runs: tuple[Run, ...]
    late: frozenset[str]
    to_judge: int
    """Runs of the whole judging, which bounds how much history is loaded."""


class WorkersError(StoreError):
    """Workers that cannot be reached, or die whatever they are given."""


class Workers(Protocol):
    """Whoever works tasks out."""

    def work_out(self, tasks: Sequence[Task]) -> list[Mapping[str, WorkedOut]]:
        """By run id, for each task.

        Raises:
            WorkersError: there is nobody, or they die whatever they are given.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessWorkers:
    """Spawned processes of this machine; what a killed one had is given to another."""

    processes: int

    def work_out(self, tasks: Sequence[Task]) -> list[Mapping[str, WorkedOut]]:
        """By run id, for each task."""
        done: dict[int, Mapping[str, WorkedOut]] = {}
        for _ in range(ATTEMPTS):
            waiting = [n for n in range(len(tasks)) if n not in done]
            if not waiting:
                break
            context = multiprocessing.get_context("spawn")  # a store does not survive fork
            others = set(multiprocessing.active_children())
            with ProcessPoolExecutor(min(self.processes, len(waiting)), mp_context=context) as pool:
                _collect(done, _submit(pool, {n: tasks[n] for n in waiting}))
                if len(done) < len(tasks):
                    # A pool that breaks while it starts a process waits for that one for ever.
                    for process in set(multiprocessing.active_children()) - others:
                        process.kill()
        if len(done) < len(tasks):
            raise WorkersError(f"judging: processes died in each of {ATTEMPTS} attempts; judge without --workers")
        return [done[n] for n in range(len(tasks))]


def _submit(pool: ProcessPoolExecutor, tasks: Mapping[int, Task]) -> dict[int, Future[Mapping[str, WorkedOut]]]:
    """Those that were taken: a process may be killed while tasks are still given out, and its pool takes no more."""
    taken: dict[int, Future[Mapping[str, WorkedOut]]] = {}
    with suppress(BrokenProcessPool):
        for n, task in tasks.items():
            taken[n] = pool.submit(work_out_task, task)
    return taken


def _collect(done: dict[int, Mapping[str, WorkedOut]], futures: Mapping[int, Future[Mapping[str, WorkedOut]]]) -> None:
    for n, future in futures.items():
        try:
            done[n] = future.result()
        except BrokenProcessPool:
            continue  # one process was killed; its fellows' unfinished tasks are lost with it


@dataclass(frozen=True, slots=True, kw_only=True)
class DaskWorkers:
    """The workers of a Dask scheduler, `tcp://host:8786`; each needs this package and must reach the store."""

    address: str
    wait_s: float = 30.0

    def work_out(self, tasks: Sequence[Task]) -> list[Mapping[str, WorkedOut]]:
        """By run id, for each task; Dask gives those of a worker that died to another."""
        try:
            from distributed import Client, KilledWorker
        except ImportError as error:
            raise WorkersError("--scheduler: needs Dask; pip install 'kernel-observatory[fleet]'") from error
        try:
            client = _open_client(Client, self.address, self.wait_s)
        except (OSError, TimeoutError, ValueError) as error:
            raise WorkersError(f"scheduler {self.address}: cannot be reached: {str(error)[:200]}") from error
        with client:
            try:
                client.wait_for_workers(1, timeout=self.wait_s)
                futures = client.map(work_out_task, list(tasks), pure=False, retries=ATTEMPTS - 1)
                found: list[Mapping[str, WorkedOut]] = client.gather(futures)
            except TimeoutError as error:
                raise WorkersError(f"scheduler {self.address}: has no worker; start `dask worker` there") from error
            except KilledWorker as error:
                raise WorkersError(f"scheduler {self.address}: {str(error)[:200]}") from error
        return found


def _open_client(kind: Any, address: str, wait_s: float) -> Any:
    """The library says no types."""
    return kind(address, timeout=wait_s, set_as_default=False)


def workers_of(*, processes: int, scheduler: str | None) -> Workers | None:
    """Those that were asked for; None where this process is to do it all."""
    if scheduler:
        return DaskWorkers(address=scheduler)
    return ProcessWorkers(processes=processes) if processes > 1 else None


def first_runs(runs: Sequence[Run]) -> list[Run]:
    """The first run of every unit, in the order given."""
    first: dict[str | None, Run] = {}
    for run in runs:
        first.setdefault(run[1], run)
    return list(first.values())


def chunks(runs: Sequence[Run]) -> list[tuple[Run, ...]]:
    """The runs of each task."""
    return [tuple(runs[n : n + UNITS_A_TASK]) for n in range(0, len(runs), UNITS_A_TASK)]


def work_out_task(task: Task) -> Mapping[str, WorkedOut]:
    """A worker's whole work; runs in another process."""
    from collector.host.run_work import work_out
    from store.lake.lake import Lake

    lake = Lake.open(task.store)
    try:
        return work_out(lake, task)
    finally:
        lake.close()
