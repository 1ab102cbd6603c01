"""When one of several ranks is lost, the others' errors are its doing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bench_suite.contract import Phase
from collector.node.blackbox import Blackbox
from collector.node.crew import STOPPED_LIMIT_S, Crew, Outcome, _Worker, process_state
from collector.node.protocol import ArmFailed, CaseDone, CaseFailed, Message, Prepare, WorkerSetup

FAILED = ArmFailed(arm="candidate", kind="crashed", message="connection reset by peer", step="check")
DONE = CaseDone(ratio_timer="", stop_reason="", arena_sets=0, arena_bytes=0)


def crew(folder: Path, ranks: int) -> Crew:
    setup = WorkerSetup(
        device_kind="cpu", device_index=0, threads=1, candidates=[], memory_limit_bytes=None, world_size=ranks
    )
    return Crew(setup, folder=folder, environment={})


def worker(folder: Path, name: str, program: str, arm: str = "") -> _Worker:
    """A process in a worker's place, with its black box."""
    process = subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
    with Blackbox(folder / f"box-{name}") as box:
        box.write(arm)
    return _Worker(process=process, results=os.open(os.devnull, os.O_RDONLY), box=folder / f"box-{name}", log=folder)


@pytest.mark.parametrize(("ranks", "left"), [(1, [FAILED, DONE]), (2, [DONE])])
def test_failures_beside_a_lost_rank_blame_no_arm(tmp_path: Path, ranks: int, left: list[object]) -> None:
    """Of several ranks, what raised in a task in which one was lost is forgotten; of one process it stands."""
    said = Outcome(messages=[FAILED, CaseFailed(kind="arm_failed", message="x"), DONE])
    found = crew(tmp_path, ranks)._without_consequences(said).messages

    assert [m for m in found if not isinstance(m, CaseFailed)] == left
    assert any(isinstance(m, CaseFailed) for m in found) == (ranks == 1)


def test_of_ranks_that_end_together_the_killed_one_is_named(tmp_path: Path) -> None:
    """Rank 0 exits with the error that rank 1's end gave it, and may be seen first: rank 1 is the missing one."""
    made = crew(tmp_path, 2)
    made.workers = [
        worker(tmp_path, "0", "raise SystemExit(1)"),
        worker(tmp_path, "1", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)", arm="candidate:killed"),
    ]
    for one in made.workers:
        one.process.wait()
    death = made._died(made._first_dead(made.workers[0]))

    assert (death.kind, death.arm) == ("rank_missing", "candidate:killed")
    assert death.message == "rank 1 of 2 killed by SIGKILL in step start"


def test_a_stopped_worker_is_seen_long_before_its_limit(tmp_path: Path) -> None:
    """A process that is stopped is told from one that is slow, by its state in /proc."""
    made = crew(tmp_path, 1)
    made.workers = [worker(tmp_path, "0", "import time; time.sleep(60)", arm="candidate:stopped")]
    process = made.workers[0].process
    try:
        assert made._stopped() == []
        os.kill(process.pid, signal.SIGSTOP)
        while process_state(process.pid) != "T":
            pass
        death = made._silent(3600.0)
    finally:
        process.kill()
        process.wait()

    assert (death.kind, death.arm) == ("timed_out", "candidate:stopped")
    assert death.message == f"no answer in step start: its process was stopped for {STOPPED_LIMIT_S:g} s"


def test_what_one_rank_finds_broken_is_broken_on_all(tmp_path: Path) -> None:
    """A rank whose own check went well gives up with the others; alone it would wait for a rank that has gone on."""
    from collector.node.bench import Bench
    from collector.node.devices.cpu import Cpu
    from collector.node.harness import Solo

    class AnotherFailed(Solo):
        def worst(self, value: float) -> float:
            return 1.0

    said: list[Message] = []
    runner = Bench(Cpu(), [], said.append, Blackbox(tmp_path / "box"), AnotherFailed(), rank=0)
    case_id = "softmax[fp32,rows=2,columns=8]"
    runner.prepare(Prepare(case_id=case_id, phase=Phase.DECODE, seed=1, exclude=["candidate"]))
    failed = {m.arm: (m.kind, m.message) for m in said if isinstance(m, ArmFailed)}

    assert failed == dict.fromkeys(("naive", "optimized"), ("wrong", "it broke its promise on another rank"))
