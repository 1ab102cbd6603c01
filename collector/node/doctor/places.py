"""Where runs, caches and the store lie: can they be written, and is there room?"""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path

from collector.node.clocks import locked_by
from collector.node.doctor.fact import Fact, Health, guarded
from collector.node.folders import cache_folder, spool_folder, state_folder
from collector.node.lock import holder

SECTION = "places"
LITTLE_ROOM_BYTES = 2 * 2**30
"""A night of samples, compiled kernels and one compaction fit into this."""


def places(store: str) -> list[Fact]:
    """Facts of the section `places`."""
    folders = {"cache": cache_folder(), "state": state_folder()}
    return [
        _remote(store) if "://" in store else guarded(SECTION, "store", partial(place, "store", Path(store))),
        *(guarded(SECTION, name, partial(place, name, path)) for name, path in folders.items()),
        guarded(SECTION, "runs that wait", _waiting),
        guarded(SECTION, "run lock", _lock),
        guarded(SECTION, "locked clocks", _clocks),
    ]


def place(name: str, path: Path) -> Fact:
    """Whether a folder can be written, or made, and how much room its disk has."""
    path = path.absolute()
    existing = next(p for p in (path, *path.parents) if p.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        words = f"{existing} is not a folder that can be written"
        return Fact(section=SECTION, name=name, value=str(path), health=Health.BAD, words=words)
    free = shutil.disk_usage(existing).free
    value = f"{path}, {free / 2**30:.1f} GiB free"
    if free >= LITTLE_ROOM_BYTES:
        return Fact(section=SECTION, name=name, value=value)
    words = f"less than {LITTLE_ROOM_BYTES / 2**30:.0f} GiB: a run or a compaction may end in the middle"
    return Fact(section=SECTION, name=name, value=value, health=Health.NOTE, words=words, way_out="make room")


def _remote(store: str) -> Fact:
    words = "not asked: `collector push` says whether it can be reached"
    return Fact(section=SECTION, name="store", value=store, words=words)


def _waiting() -> Fact:
    waiting = [p for p in spool_folder().glob("*") if p.is_dir() and not p.name.startswith(".")]
    if not waiting:
        return Fact(section=SECTION, name="runs that wait", value="none")
    words, way_out = f"no store has taken what is in {spool_folder()}", "collector push"
    value = str(len(waiting))
    return Fact(section=SECTION, name="runs that wait", value=value, health=Health.NOTE, words=words, way_out=way_out)


def _lock() -> Fact:
    pid = holder(state_folder() / "run.lock")
    if pid is None:
        return Fact(section=SECTION, name="run lock", value="free")
    words = f"process {pid} is measuring; another run yields with exit code 75"
    return Fact(section=SECTION, name="run lock", value="held", health=Health.NOTE, words=words)


def _clocks() -> Fact:
    left = locked_by(state_folder())
    if left is None:
        return Fact(section=SECTION, name="locked clocks", value="none")
    words = f"a run locked the clocks of {left.unit} to {left.low_mhz} to {left.high_mhz} MHz"
    way_out = "the next `collector run` gives them back"
    return Fact(
        section=SECTION, name="locked clocks", value=left.unit, health=Health.NOTE, words=words, way_out=way_out
    )
