"""Where runs keep what outlives a process: caches, state, bundles that wait; and the scratch folder that does not."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def work_folder() -> Iterator[Path]:
    """A scratch folder of this run, gone after it."""
    folder = Path(tempfile.mkdtemp(prefix="kernel-observatory-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def cache_folder() -> Path:
    """Where compiled kernels and ceilings are kept between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "kernel-observatory"


def state_folder() -> Path:
    """Where the run's lock is, and bundles that no store has taken yet."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "kernel-observatory"


def spool_folder() -> Path:
    """Bundles wait here until a store has them."""
    return state_folder() / "spool"
