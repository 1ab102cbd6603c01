"""What can be wrong with a schedule; each message is one line."""

from __future__ import annotations


class ScheduleError(ValueError):
    """A schedule that cannot be used: file, key, value, rule."""


class ScheduleBusyError(RuntimeError):
    """Another scheduler works on the same folder; the message names its process. Exit code 75."""
