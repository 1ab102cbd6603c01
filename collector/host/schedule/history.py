"""What became of every time a job was due, one JSON line each: a person and `doctor` can see what was missed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path

import msgspec

LINES_KEPT = 20_000


class ScheduleOutcome(StrEnum):
    """What became of it."""

    STARTED = "started"
    DONE = "done"
    """Exit code 0."""
    YIELDED = "yielded"
    """Exit code 75: another run held the machine."""
    FAILED = "failed"
    ENDED = "ended"
    """Stopped at its time limit or deadline."""
    OVERLAPPED = "overlapped"
    """Not started: the one before was still running."""
    MISSED = "missed"
    """Not started: nobody was there, or too late."""
    CLOCK_JUMPED = "clock_jumped"
    CONFIG_REFUSED = "config_refused"
    """A changed file could not be used; the schedule before it holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleEvent:
    """One line of the history."""

    at: datetime
    job: str
    outcome: ScheduleOutcome
    due_at: datetime | None = None
    exit_code: int | None = None
    words: str = ""


class History:
    """An append-only file; the newest lines are kept."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / "history.jsonl"

    def add(self, event: ScheduleEvent) -> None:
        """Writes one line, on disk when it returns."""
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(event) + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def read(self) -> list[ScheduleEvent]:
        """Oldest first; a line that a kill cut short is passed over."""
        if not self._path.exists():
            return []
        events = []
        for line in self._path.read_bytes().splitlines():
            try:
                events.append(msgspec.json.decode(line, type=ScheduleEvent))
            except msgspec.MsgspecError:
                continue
        return events

    def trim(self) -> None:
        """Keeps the newest lines; called by whoever holds the scheduler's lock."""
        lines = self._path.read_bytes().splitlines(keepends=True) if self._path.exists() else []
        if len(lines) > LINES_KEPT:
            aside = self._path.with_suffix(".new")
            aside.write_bytes(b"".join(lines[-LINES_KEPT // 2 :]))
            aside.replace(self._path)
