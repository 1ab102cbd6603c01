"""SIGTERM as Ctrl-C: an orderly stop of a run gives clocks back and keeps what was measured."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class RunInterruptedError(KeyboardInterrupt):
    """A run that was stopped and published nothing; the message says what becomes of it."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Within the block SIGTERM and SIGHUP raise KeyboardInterrupt. Outside the main thread it changes nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt(signal.Signals(number).name)

    before = {number: signal.signal(number, stop) for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
