"""Runs one command of collector as a child of its own process group: limited in time, its words in a rotated log."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from collector.host.schedule.history import History, ScheduleEvent, ScheduleOutcome
from collector.surroundings import whole_environment

LOG_BYTES, LOGS_KEPT = 5_000_000, 5
GRACE_S = 20.0
PROGRAM = (sys.executable, "-m", "collector.cli.main")
YIELDED = 75

_running: dict[int, subprocess.Popen[bytes]] = {}
_running_lock = threading.Lock()


def run_job(name: str, command: Sequence[str], limit_s: float | None, folder: str) -> None:
    """Runs `collector COMMAND...` to its end and writes down what became of it."""
    history = History(Path(folder))
    history.add(_event(name, ScheduleOutcome.STARTED))
    log = Path(folder) / "logs" / f"{name}.log"
    code, ended = run_command([*PROGRAM, *command], log, limit_s)
    outcome = ScheduleOutcome.ENDED if ended else _outcome(code)
    words = f"stopped after {limit_s:.0f} s" if ended and limit_s is not None else last_line(log) if code else ""
    history.add(_event(name, outcome, exit_code=code, words=words))


def run_command(command: Sequence[str], log: Path, limit_s: float | None) -> tuple[int, bool]:
    """(exit code, whether it was stopped at its limit); stdout and stderr go to the log."""
    rotate(log)
    with log.open("ab") as file:
        file.write(f"--- {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC {' '.join(command)}\n".encode())
        file.flush()
        child = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=whole_environment(os.environ),
        )
        with _running_lock:
            _running[child.pid] = child
        try:
            return child.wait(timeout=limit_s), False
        except subprocess.TimeoutExpired:
            return stop(child), True
        finally:
            with _running_lock:
                _running.pop(child.pid, None)


def stop(child: subprocess.Popen[bytes]) -> int:
    """Ends a child and everything it started: asked first, then killed."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, sign)
        except ProcessLookupError:
            break
        try:
            child.wait(timeout=GRACE_S)
        except subprocess.TimeoutExpired:
            continue
        if sign is signal.SIGTERM:  # its own children may have ignored the request
            continue
    return child.wait()


def stop_all() -> None:
    """Ends what runs, for a scheduler that is told to end."""
    with _running_lock:
        children = list(_running.values())
    for child in children:
        stop(child)


def rotate(log: Path) -> None:
    """Starts a new log when the old one is large; the last few are kept as NAME.log.1 and so on."""
    log.parent.mkdir(parents=True, exist_ok=True)
    if not log.exists() or log.stat().st_size < LOG_BYTES:
        return
    for number in range(LOGS_KEPT - 1, 0, -1):
        older = log.with_name(f"{log.name}.{number}")
        if older.exists():
            older.replace(log.with_name(f"{log.name}.{number + 1}"))
    log.replace(log.with_name(f"{log.name}.1"))


def last_line(log: Path) -> str:
    """The last line of a log that says something, for the history."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 4096))
        lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines()]
    said = [line for line in lines if line and not line.startswith("--- ")]
    return said[-1][:300] if said else ""


def _outcome(code: int) -> ScheduleOutcome:
    if code == 0:
        return ScheduleOutcome.DONE
    return ScheduleOutcome.YIELDED if code == YIELDED else ScheduleOutcome.FAILED


def _event(name: str, outcome: ScheduleOutcome, *, exit_code: int | None = None, words: str = "") -> ScheduleEvent:
    return ScheduleEvent(at=datetime.now(UTC), job=name, outcome=outcome, exit_code=exit_code, words=words)
