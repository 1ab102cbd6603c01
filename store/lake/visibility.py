"""Which runs a reader sees: those that `runs` has and nobody retracted, told by their ingest sequence.

Delta has no transaction across tables. `runs` is committed last, so a row of results, samples or telemetry counts only
when its sequence number is in `runs`. Sequence numbers are dense, so that the statistics of the log nearly always say
it all: a range that holds as many rows as numbers is complete, and no file is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc
import pyarrow.dataset as ds

from store.lake.delta import ActiveFiles, DeltaTables


@dataclass(frozen=True, slots=True, kw_only=True)
class Visibility:
    """Sequence numbers 1 to `highest` are seen, but for the `hidden` ones."""

    highest: int
    hidden: tuple[int, ...]

    def condition(self) -> str:
        """The SQL condition on ingest_seq; numbers only."""
        bound = f"ingest_seq <= {self.highest:d}"
        if not self.hidden:
            return bound
        return f"{bound} AND ingest_seq NOT IN ({', '.join(str(int(seq)) for seq in self.hidden)})"


class RunVisibility:
    """Follows `runs` and `retractions`; reads a file of them once."""

    def __init__(self, tables: DeltaTables) -> None:
        self._tables = tables
        self._sequences: dict[str, frozenset[int]] = {}
        self._versions = (-1, -1)
        self._current = Visibility(highest=0, hidden=())

    def refresh(self) -> Visibility:
        """The visibility as of the newest `runs`. Call it before looking at the files of any other table."""
        runs = self._tables.active_files("runs")
        retractions = self._tables.active_files("retractions")
        versions = (runs.version, retractions.version)
        if versions != self._versions:
            self._current = self._computed(runs, self._retracted(retractions))
            self._versions = versions
        return self._current

    def retracted(self) -> frozenset[int]:
        """The sequence numbers of runs whose last act is a retraction."""
        return self._retracted(self._tables.active_files("retractions"))

    def _computed(self, runs: ActiveFiles, retracted: frozenset[int]) -> Visibility:
        seen: set[int] = set()
        known: dict[str, frozenset[int]] = {}
        for path, numbers in zip(runs.paths, self._numbers(runs), strict=True):
            known[path] = numbers
            seen |= numbers
        self._sequences = known
        seen -= retracted
        highest = max(seen, default=0)
        return Visibility(highest=highest, hidden=tuple(seq for seq in range(1, highest) if seq not in seen))

    def _numbers(self, runs: ActiveFiles) -> list[frozenset[int]]:
        columns = (runs.statistic(name) for name in ("num_records", "min.ingest_seq", "max.ingest_seq"))
        found: list[frozenset[int]] = []
        unread: list[int] = []
        for number, (path, rows, low, high) in enumerate(zip(runs.paths, *columns, strict=True)):
            if path in self._sequences:
                found.append(self._sequences[path])
            elif rows is not None and low is not None and high is not None and high - low + 1 == rows:
                found.append(frozenset(range(low, high + 1)))
            else:
                unread.append(number)
                found.append(frozenset())
        if unread:
            # Gaps within a file are rare: all of them are read in one go, and their union stands for each.
            numbers = frozenset(self._read([runs.paths[number] for number in unread]))
            for number in unread:
                found[number] = numbers
        return found

    def _read(self, paths: Sequence[str]) -> list[int]:
        if self._tables.local:
            table = ds.dataset(list(paths), format="parquet").to_table(columns=["ingest_seq"])
        else:
            table = self._tables.dataset("runs").to_table(columns=["ingest_seq"])
        return [int(seq) for seq in table["ingest_seq"].to_pylist()]

    def _retracted(self, retractions: ActiveFiles) -> frozenset[int]:
        if not retractions.paths:
            return frozenset()
        table = self._tables.dataset("retractions").to_table(columns=["run_seq", "event", "at", "event_id"])
        order = pc.sort_indices(table, [("at", "ascending"), ("event_id", "ascending")])
        last: dict[int, Any] = {}
        for row in table.take(order).to_pylist():
            last[row["run_seq"]] = row["event"]
        return frozenset(seq for seq, event in last.items() if event == "retracted")
