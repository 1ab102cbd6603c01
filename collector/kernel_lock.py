"""A kernel lock on a file: free the moment its holder ends, however it ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def kernel_lock(path: Path, refusal: Callable[[str], Exception]) -> Iterator[None]:
    """Hold the lock for the block; where somebody else does, raise `refusal(process id of the holder)` at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise refusal(file.read().strip() or "unknown") from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
