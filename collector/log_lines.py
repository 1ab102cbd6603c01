"""JSON log lines on stderr, where they are asked for: a command's start, its end, its error, and what it did.

One object a line, with `at` (UTC), `level`, `event`, `command`, `pid` and what belongs to the event. Without
`--log-format json` or KERNEL_OBSERVATORY_LOG_FORMAT=json nothing of this is written; an error is a line for a person.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import time
from datetime import UTC, datetime
from enum import StrEnum

from collector.errors import report

VARIABLE = "KERNEL_OBSERVATORY_LOG_FORMAT"


class LogFormat(StrEnum):
    """How a command says on stderr what it does."""

    TEXT = "text"
    JSON = "json"


class LogLines:
    """The log of one command."""

    def __init__(self) -> None:
        self.format = LogFormat.TEXT
        self._command: str | None = None
        self._started = time.monotonic()

    def begin(self, log_format: LogFormat, command: str | None) -> None:
        """A command starts."""
        self.format, self._command, self._started = log_format, command, time.monotonic()
        self.say("command_started")

    def say(self, event: str, *, level: str = "info", **facts: str | int | float | None) -> None:
        """One event; nothing where a person reads."""
        if self.format is not LogFormat.JSON:
            return
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = {"at": at, "level": level, "event": event, "command": self._command, "pid": os.getpid()} | facts
        sys.stderr.write(json.dumps(line) + "\n")

    def end(self, exit_code: int, **facts: str) -> None:
        """The command ended."""
        seconds = round(time.monotonic() - self._started, 3)
        level = "error" if facts else "info"
        self.say("command_ended", level=level, exit_code=exit_code, seconds=seconds, **facts)

    def report(self, error: Exception) -> int:
        """Says a known error, for a person or in JSON, and gives its exit code; raises it where it is a bug of ours."""
        if self.format is not LogFormat.JSON:
            sys.stderr.write("collector: ")
            return report(error)
        words = io.StringIO()
        with contextlib.redirect_stderr(words):
            code = report(error)
        self.end(code, message=words.getvalue().strip())
        return code


log = LogLines()
"""Of this process."""
