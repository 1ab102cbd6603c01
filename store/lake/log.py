"""Keeps the log of a table short: what a checkpoint has summed up long ago is let go.

Every open and every commit lists the log. With 2,000 versions in it a commit costs 26 ms of CPU time, with the last
hundred 7 ms, whatever the table holds. The library lets versions go by age (30 days), which is too late for a fleet
that ingests every few minutes. Nothing here goes back in time by versions: `as of` asks by ingest sequence.
"""

from __future__ import annotations

import re

from store.bundle.place import Place

TRIM_EVERY = 100
"""Whoever commits a version that is a multiple of this trims."""
KEPT_VERSIONS = 100
"""Versions before the newest checkpoint that stay, for readers that opened the table a moment ago."""
_OF_LOG = re.compile(r"(?P<version>\d{20})(?P<checkpoint>\.checkpoint\.parquet)?.*")


def trim_log(place: Place, table_name: str) -> int:
    """Removes log files older than a checkpoint that lies `KEPT_VERSIONS` back; returns how many.

    All versions from that checkpoint on can still be read. Two that trim at once do no harm.
    """
    versions: list[tuple[int, str]] = []
    checkpoints: list[int] = []
    for item in place.list(f"tables/{table_name}/_delta_log"):
        match = _OF_LOG.fullmatch(item.path.rsplit("/", 1)[1])
        if match is None:
            continue
        versions.append((int(match["version"]), item.path))
        if match["checkpoint"]:
            checkpoints.append(int(match["version"]))
    newest = max(checkpoints, default=0)
    base = max((version for version in checkpoints if version <= newest - KEPT_VERSIONS), default=None)
    if base is None:
        return 0
    gone = sorted(path for version, path in versions if version < base)
    for path in gone:
        place.remove(path)
    return len(gone)
