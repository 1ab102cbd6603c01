"""Workers under watch: start them, give them a task, and know what happened when one dies, hangs or goes missing.

One worker for a device, or one per rank for a collective. Each has a session of its own, so that everything it starts
can be killed with it; after a kill /proc is checked until nothing of the group is left.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from collector.node.blackbox import Blackbox
from collector.node.protocol import (
    MESSAGES,
    ArmFailed,
    CaseDone,
    CaseFailed,
    Hello,
    Message,
    Step,
    Task,
    WorkerSetup,
    encode,
)

START_LIMIT_S = 180.0
STOP_LIMIT_S = 10.0
STOPPED_LIMIT_S = 3.0
"""A worker that stays stopped (SIGSTOP, a debugger) for this long is not waited for until its step's limit."""
GRACE_S = 0.1
"""For a rank's end to be seen after another's, which may be told first."""
LOOK_S = 1.0
"""Between two looks at whether a silent worker is stopped."""


class CrewError(RuntimeError):
    """The workers cannot be started; the message is one line. Exit code 3."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """How a crew ended in the middle of a task, and which arm was at work."""

    kind: str
    """crashed, timed_out, out_of_memory or rank_missing"""
    arm: str
    step: str
    message: str


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What a task said, by rank 0 first, and how it died if it did."""

    messages: list[Message] = field(default_factory=list)
    death: Death | None = None


@dataclass(slots=True)
class _Worker:
    process: subprocess.Popen[bytes]
    results: int
    box: Path
    log: Path
    buffer: bytes = b""
    last: Step = field(default_factory=lambda: Step(arm="", step="start"))
    done: bool = False


class Crew:
    """One worker per rank (one rank: no process group). Use as a context manager, or `close` it."""

    def __init__(
        self, setup: WorkerSetup, *, folder: Path, environment: Mapping[str, str], python: str = sys.executable
    ) -> None:
        """`python`: the interpreter that runs the workers."""
        self.setup = setup
        self.python = python
        self.folder = folder
        self.environment = environment
        self.workers: list[_Worker] = []
        self.hello: Hello | None = None

    def start(self) -> Hello:
        """Start all ranks; the device's identity as rank 0 tells it. Raises CrewError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        stamp = f"{os.getpid()}-{time.monotonic_ns()}"
        rendezvous = f"file://{self.folder / f'rendezvous-{stamp}'}"
        for rank in range(self.setup.world_size):
            self.workers.append(self._spawn(rank, rendezvous, stamp))
        outcome = self._collect(START_LIMIT_S, until=Hello)
        if outcome.death is not None:
            raise CrewError(f"worker did not start: {outcome.death.message}; {self._last_words()}")
        self.hello = next(m for m in outcome.messages if isinstance(m, Hello))
        return self.hello

    def do(self, task: Task, *, limit_s: float, ends_s: float = math.inf) -> Outcome:
        """Carry out a task. A step may last `limit_s` times its own factor, and none beyond `ends_s` (monotonic).

        Closed after a death.
        """
        if not self.workers:
            self.start()
        for worker in self.workers:
            worker.done = False
            assert worker.process.stdin is not None
            try:
                worker.process.stdin.write(encode(task))
                worker.process.stdin.flush()
            except BrokenPipeError:
                break
        outcome = self._collect(limit_s, until=CaseDone, ends_s=ends_s)
        if outcome.death is not None:
            self.close()
        return outcome

    def close(self) -> None:
        """End all workers: politely, then not; and see that nothing of their groups is left."""
        for worker in self.workers:
            if worker.process.stdin is not None:
                with contextlib.suppress(BrokenPipeError):  # what it never read is lost with it
                    worker.process.stdin.close()
        polite = all(worker.done for worker in self.workers)
        deadline = time.monotonic() + (STOP_LIMIT_S if polite else 0.0)
        while time.monotonic() < deadline and any(w.process.poll() is None for w in self.workers):
            time.sleep(0.01)
        for worker in self.workers:
            kill_group(worker.process.pid)
            worker.process.wait()
            os.close(worker.results)
        self.workers = []

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _spawn(self, rank: int, rendezvous: str, stamp: str) -> _Worker:
        setup = msgspec.structs.replace(self.setup, rank=rank, rendezvous=rendezvous)
        box = self.folder / f"box-{stamp}-{rank}"
        log = self.folder / f"worker-{stamp}-{rank}.log"
        reader, writer = os.pipe()
        with log.open("wb") as output:
            process = subprocess.Popen(
                [self.python, "-m", "collector.node.worker", str(writer), str(box), str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=[writer],
                start_new_session=True,
                env=dict(self.environment),
            )
        os.close(writer)
        os.set_blocking(reader, False)
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # one that is dead already is found so when it is asked
            process.stdin.write(encode(setup))
            process.stdin.flush()
        return _Worker(process=process, results=reader, box=box, log=log)

    def _collect(self, limit_s: float, *, until: type[Message], ends_s: float = math.inf) -> Outcome:
        """Read from all ranks until each has said `until` (or that the case failed), one died, or time is up."""
        outcome = Outcome()
        deadline, stopped_since = min(time.monotonic() + limit_s, ends_s), None
        with selectors.DefaultSelector() as selector:
            for worker in self.workers:
                selector.register(worker.results, selectors.EVENT_READ, worker)
            while not all(worker.done for worker in self.workers):
                ready = selector.select(min(LOOK_S, max(0.0, deadline - time.monotonic())))
                for key, _ in ready:
                    data = os.read(key.data.results, 1 << 20)
                    if not data:
                        outcome.death = self._died(self._first_dead(key.data))
                        return self._without_consequences(outcome)
                    step = self._take(key.data, data, outcome, until)
                    if step is not None:
                        deadline = min(time.monotonic() + step.limit_factor * limit_s, ends_s)
                if not ready:
                    now = time.monotonic()
                    stopped_since = (stopped_since or now) if self._stopped() else None
                    if now >= deadline or (stopped_since is not None and now - stopped_since >= STOPPED_LIMIT_S):
                        outcome.death = self._silent(limit_s)
                        return self._without_consequences(outcome)
        return outcome

    def _without_consequences(self, outcome: Outcome) -> Outcome:
        """Where a rank is lost, what the others failed at is its doing; what is their own comes again without it."""
        if self.setup.world_size > 1:
            outcome.messages = [m for m in outcome.messages if not isinstance(m, ArmFailed | CaseFailed)]
        return outcome

    def _first_dead(self, found: _Worker) -> _Worker:
        """Of ranks that end together, one that was killed: the others end with the error that its end gives them."""
        time.sleep(GRACE_S if self.setup.world_size > 1 else 0.0)
        dead = [w for w in self.workers if w.process.poll() is not None]
        return next((w for w in dead if w.process.returncode < 0), found)

    def _take(self, worker: _Worker, data: bytes, outcome: Outcome, until: type[Message]) -> Step | None:
        """Enter what a worker said; the last step that it announced, if it did."""
        announced = None
        for message in self._split(worker, data):
            if isinstance(message, Step):
                worker.last = announced = message
            elif isinstance(message, until | CaseFailed):
                worker.done = True
            if worker is self.workers[0] or not isinstance(message, Hello | CaseDone):
                outcome.messages.append(message)
        return announced

    @staticmethod
    def _split(worker: _Worker, data: bytes) -> list[Message]:
        *lines, worker.buffer = (worker.buffer + data).split(b"\n")
        return [MESSAGES.decode(line) for line in lines]

    def _died(self, worker: _Worker) -> Death:
        code = worker.process.wait()
        arm, step = self._at_work(worker)
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exited with {code}"
        where = f" in step {step}"
        if self.setup.world_size > 1:
            rank = self.workers.index(worker)
            message = f"rank {rank} of {self.setup.world_size} {how}{where}"
            return Death(kind="rank_missing", arm=arm, step=step, message=message)
        if code == -signal.SIGKILL:
            # Nobody but the kernel's out-of-memory killer, or a person, does that; the log says nothing of either.
            message = f"worker {how}{where}: out of memory, or killed by hand"
            return Death(kind="out_of_memory", arm=arm, step=step, message=message)
        return Death(kind="crashed", arm=arm, step=step, message=f"worker {how}{where}; {self._last_words(worker)}")

    def _stopped(self) -> list[_Worker]:
        """Workers that owe an answer and whose process is stopped."""
        return [w for w in self.workers if not w.done and process_state(w.process.pid) == "T"]

    def _silent(self, limit_s: float) -> Death:
        """Nothing came for too long: the stopped ones bear it, else those that have got least far."""
        stopped = self._stopped()
        behind = stopped or self._behind([w for w in self.workers if not w.done])
        arm, step = self._at_work(behind[0])
        how = f"no answer in step {step} within {behind[0].last.limit_factor * limit_s:g} s"
        if stopped:
            how = f"no answer in step {step}: its process was stopped for {STOPPED_LIMIT_S:g} s"
        if self.setup.world_size > 1 and (stopped or len(behind) < self.setup.world_size):
            ranks = ", ".join(str(self.workers.index(w)) for w in behind)
            message = f"rank {ranks} of {self.setup.world_size}: {how}"
            return Death(kind="rank_missing", arm=arm, step=step, message=message)
        return Death(kind="timed_out", arm=arm, step=step, message=how)

    @staticmethod
    def _behind(late: list[_Worker]) -> list[_Worker]:
        """Of the ranks that did not answer, those that have got least far: the others wait for them."""
        counts = []
        for worker in late:
            with Blackbox(worker.box) as box:
                counts.append(box.count())
        return [worker for worker, count in zip(late, counts, strict=True) if count == min(counts)]

    @staticmethod
    def _at_work(worker: _Worker) -> tuple[str, str]:
        with Blackbox(worker.box) as box:
            return box.read(), worker.last.step

    def _last_words(self, worker: _Worker | None = None) -> str:
        """The last line that the worker printed, for a message of one line."""
        log = (worker or self.workers[0]).log
        lines = log.read_text(errors="replace").strip().splitlines()
        return f"it printed {json.dumps(lines[-1][:300])}" if lines else "it printed nothing"


def process_state(pid: int) -> str:
    """The state letter of /proc/PID/stat: R, S, T (stopped) ...; empty where there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def kill_group(group: int) -> None:
    """SIGKILL a process group and wait until /proc shows none of its living members."""
    for _ in range(500):
        try:
            os.killpg(group, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return
        if not living_members(group):
            return
        time.sleep(0.01)


def living_members(group: int) -> list[int]:
    """Processes of a group that are not zombies."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            found.append(int(entry.parent.name))
    return found
