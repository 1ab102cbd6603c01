"""One run at a time on a machine: a kernel lock, free the moment its holder ends, however it ends."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from collector.kernel_lock import kernel_lock


class LockHeldError(RuntimeError):
    """Another run holds the lock; the message names its process. Exit code 75."""


@contextmanager
def run_lock(path: Path) -> Iterator[None]:
    """Hold the lock for the block; raises LockHeldError at once where somebody else does."""

    def refusal(holder: str) -> LockHeldError:
        return LockHeldError(f"another run holds {path} (process {holder}); this one yields")

    with kernel_lock(path, refusal):
        yield


def holder(path: Path) -> int | None:
    """The process that holds the lock now; None where it is free or nobody ever took it."""
    if not path.exists():
        return None
    with path.open("r") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return int(file.read().strip() or 0)
    return None
