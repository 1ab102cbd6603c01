"""Processes that work on a store and kill themselves (SIGKILL) at the n-th point of interest.

Points lie before, inside and after each durable step: commit, put, move, remove, rename, fsync, vacuum, post. Inside
means: a thread kills while the step is running. The product has no hooks for this: the steps are wrapped here. A child
tells the point it dies at. POINT is a number, or a name and which of that name (`inside _write#2`); 0 is none.

Run as a program this is a nursery: it imports everything once and forks a child for each job, before any table was
touched, so that a child costs milliseconds. One line of standard input is a JSON list of jobs that run side by side,
one line of standard output the list of their ends, in the same order.
"""

from __future__ import annotations

import functools
import json
import os
import pickle
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import deltalake.table

from collector.host.notify import dispatch
from collector.host.notify.config import load_alerts
from collector.host.notify.post import Patience
from collector.host.notify.sender import notify
from collector.node.publish import Request, write
from store.bundle.inbox import Inbox
from store.bundle.place import Place
from store.bundle.reader import read_bundle
from store.bundle.writer import BundleWriter
from store.lake import delta
from store.lake.lake import Lake
from store.lake.maintenance import optimize, vacuum


class Reaper:
    """Counts points and dies at the one it was told."""

    def __init__(self, fatal: str, inside_s: float) -> None:
        self.fatal = fatal
        self.inside_s = inside_s
        self.passed = 0
        self.passed_of: Counter[str] = Counter()

    def at_fatal_point(self, name: str) -> bool:
        """Counts a point; true at the fatal one, which is told to the parent."""
        self.passed += 1
        self.passed_of[name] += 1
        fatal = self.fatal in (str(self.passed), f"{name}#{self.passed_of[name]}")
        if fatal:
            say(f"killed {name}")
        return fatal

    def around(self, owner: Any, name: str) -> None:
        """Gives a step its three points."""
        step: Callable[..., Any] = getattr(owner, name)

        @functools.wraps(step)
        def wrapped(*arguments: Any, **options: Any) -> Any:
            if self.at_fatal_point(f"before {name}"):
                die()
            inside = self.at_fatal_point(f"inside {name}")
            if inside:
                threading.Thread(target=lambda: (time.sleep(self.inside_s), die()), daemon=True).start()
            answer = step(*arguments, **options)
            if inside:
                time.sleep(60)
            if self.at_fatal_point(f"after {name}"):
                die()
            return answer

        setattr(owner, name, wrapped)


def die() -> None:
    """As a power cut would have it."""
    os.kill(os.getpid(), signal.SIGKILL)


def say(words: str) -> None:
    """One line for the parent, at once."""
    sys.stdout.write(words + "\n")
    sys.stdout.flush()


def publish(target: str) -> None:
    """Writes the rows of a bundle that exists as a bundle of another folder."""
    source, folder = target.split("::")
    bundle = read_bundle(source)
    writer = BundleWriter(folder, bundle.run_id)
    for name, table in bundle.tables.items():
        writer.add(name, table)
    writer.publish()


def push(target: str) -> None:
    """Puts a bundle into an inbox."""
    source, root = target.split("::")
    Inbox(root).put(source)


def run(target: str) -> None:
    """The last acts of a run, by the code that a run has for them: its bundle is written, then put into the inbox."""
    source, spool, root = target.split("::")
    bundle = read_bundle(source)
    tables = {name: table.to_pylist() for name, table in bundle.tables.items()}
    request = Path(spool) / "request.pickle"
    request.write_bytes(
        pickle.dumps(Request(spool=Path(spool), run_id=bundle.run_id, tables=tables, manifest={"made_by": "tests"}))
    )
    Inbox(root).put(write(request))


def tell(target: str) -> None:
    """Sends what was not told yet; the store's folder and the file of routes are the target."""
    root, config = target.split("::")
    patience = Patience(connect_s=5.0, read_s=5.0, total_s=10.0)
    notify(Lake.open(root), load_alerts(Path(config)), patience_s=5.0, post_patience=patience)


WORKS: dict[str, Callable[[str], object]] = {
    "publish": publish,
    "push": push,
    "run": run,
    "ingest": lambda target: Lake.open(target).ingest(),
    "optimize": lambda target: optimize(Lake.open(target), now=datetime(2027, 1, 1, tzinfo=UTC)),
    "vacuum": lambda target: vacuum(Lake.open(target)),
    "notify": tell,
}


def mortal(job: dict[str, Any]) -> None:
    """Runs one work, mortal."""
    reaper = Reaper(str(job["point"]), job["inside_s"])
    for name in ("create", "replace", "move", "remove"):
        reaper.around(Place, name)
    reaper.around(Path, "rename")
    reaper.around(os, "fsync")
    reaper.around(delta, "_write")
    reaper.around(delta.DeltaTables, "vacuum")
    reaper.around(dispatch, "deliver")
    for name in ("compact", "z_order"):
        reaper.around(deltalake.table.TableOptimizer, name)
    WORKS[job["work"]](job["target"])
    say(f"done after {reaper.passed} points")


def forked(job: dict[str, Any]) -> tuple[int, int]:
    """Starts a child for the job; its process id and where its words can be read."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    status = 1
    try:
        os.dup2(writing, sys.stdout.fileno())
        mortal(job)
        status = 0
    finally:
        sys.stdout.flush()
        os._exit(status)


def end_of(job: dict[str, Any], child: int, reading: int) -> dict[str, Any]:
    """What became of a child; it is killed from here where the job says after how long."""
    if (kill_after_s := job.get("kill_after_s")) is not None:
        time.sleep(kill_after_s)
        os.kill(child, signal.SIGKILL)
    with os.fdopen(reading) as words:
        said = words.read().strip()
    _, status = os.waitpid(child, 0)
    return {"status": os.waitstatus_to_exitcode(status), "said": said}


def nursery() -> None:
    """Answers each line of jobs until there is none."""
    say("ready")
    for line in sys.stdin:
        jobs: list[dict[str, Any]] = json.loads(line)
        children = [forked(job) for job in jobs]
        say(json.dumps([end_of(job, *child) for job, child in zip(jobs, children, strict=True)]))


if __name__ == "__main__":
    nursery()
