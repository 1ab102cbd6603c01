"""What a person sees while a run goes on: a bar with the time left on a terminal, nothing under cron."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from collector.cli.words import span

if TYPE_CHECKING:
    from bench_suite.suite import Suite
    from collector.node.devices.base import DeviceIdentity
    from collector.node.run import Reporter

CLEAR_LINE = "\r\x1b[2K"


class TerminalReporter:
    """One line on stderr, rewritten: how far, how long still, what is running."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.begun = time.monotonic()

    def started(self, suite: Suite, device: DeviceIdentity) -> None:
        cases = len(suite.cases)
        line = f"Suite {suite.name}: {cases} cases, {suite.method.replicates} replicates on {device.model}"
        sys.stderr.write(f"{CLEAR_LINE}{line}\n")

    def step(self, done: int, total: int, words: str) -> None:
        spent = time.monotonic() - self.begun
        left = f"about {span(spent / done * (total - done))} left" if done >= 3 else "estimating"
        line = f"{100 * done // max(1, total):3d} %  {left}  {words}"
        sys.stderr.write(CLEAR_LINE + line[: self.columns - 1])
        sys.stderr.flush()
        if done + 1 >= total:
            sys.stderr.write(CLEAR_LINE)


def reporter(*, quiet: bool) -> Reporter:
    """A bar where stderr is a terminal, else silence."""
    import shutil

    from collector.node.run import Silent

    if quiet or not sys.stderr.isatty():
        return Silent()
    return TerminalReporter(shutil.get_terminal_size().columns)
