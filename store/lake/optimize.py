"""Keeps the tables quick to read: closed days are sorted by series and put together once, closed months once more.

A file that a night's ingest wrote is sorted in itself, but a year has thousands of them. Rows of days that are over are
rewritten as one sorted run of files (Delta's replace-where over exactly the sequence numbers that were read); when the
month is over its files are sorted as a whole, so that a series is one stretch of one file. Today is left alone.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce

import pyarrow.dataset as ds
from deltalake import DeltaTable

from store.lake.delta import Commit, DeltaTables, writer_properties
from store.lake.lease import Lease
from store.lake.tables import LAKE_TABLES, PARTITIONED_BY

SORTED_BY: dict[str, list[str]] = {
    "results": ["subject_id", "measured_at"],
    "samples": ["subject_id", "ingest_seq", "replicate"],
    "telemetry": ["ingest_seq", "metric", "monotonic_s"],
}
SETTLED_ROWS = 500_000
"""A file of so many rows is left alone within its month."""
MOST_BYTES_AT_ONCE = 128 << 20
"""Days are sorted in memory, where a row of results takes six times its bytes in a file, twice while it is sorted: so
many bytes of files need about 2 GB. Twenty-four nights of 100,000 series at once took more than 14 GB."""
MONTH_OVERLAP = 2
"""A closed month is sorted as a whole when more files than this may hold the same series."""
SMALL_FILES = 16
"""Tables without months are compacted when they have more files than this."""
MOST_RANGES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """What was done to one table or month of it."""

    table: str
    month: str | None
    what: str  # day | month | compact
    files_before: int
    files_after: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    path: str
    month: str | None
    rows: int
    size_bytes: int
    seq_low: int
    seq_high: int
    subject_low: str
    subject_high: str


class Optimizer:
    """Rewrites what pays; its caller holds the ingester's lease, so that nothing else writes these tables."""

    def __init__(self, tables: DeltaTables, lease: Lease, *, now: datetime | None = None) -> None:
        self._tables = tables
        self._lease = lease
        self._now = (now or datetime.now(UTC)).astimezone(UTC)
        self._started = self._start_times()

    def run(self) -> tuple[Rewrite, ...]:
        """All tables."""
        done: list[Rewrite] = []
        for name in LAKE_TABLES:
            self._lease.renew()
            done.extend(self._months(name) if name in PARTITIONED_BY else self._compact(name))
        return tuple(done)

    def _months(self, name: str) -> Iterable[Rewrite]:
        files = self._files(name)
        for month in sorted({file.month for file in files if file.month is not None}):
            self._lease.renew()
            of_month = [file for file in files if file.month == month]
            if (
                month < self._now.strftime("%Y-%m")
                and len(of_month) > MONTH_OVERLAP
                and _overlap(of_month) > MONTH_OVERLAP
            ):
                yield self._sort_month(name, month, of_month)
            else:
                yield from self._sort_days(name, month, of_month)

    def _sort_month(self, name: str, month: str, files: Sequence[_File]) -> Rewrite:
        """The library holds the month in memory, about twice; with a bound on that it gives up instead of spilling."""
        handle = self._tables.load(name)
        handle.optimize.z_order(
            SORTED_BY[name][:1],
            partition_filters=[("month", "=", month)],
            writer_properties=writer_properties(name),
        )
        self._tables.forget(name)
        return self._rewrite(name, month, "month", files)

    def _sort_days(self, name: str, month: str, files: Sequence[_File]) -> Iterable[Rewrite]:
        settled = [file for file in files if file.rows >= SETTLED_ROWS]
        small = [f for f in files if f.rows < SETTLED_ROWS and self._closed(f) and not _of_same_runs(f, settled)]
        for batch in _batches(sorted(small, key=lambda file: file.seq_low)):
            self._lease.renew()
            if len(batch) > 1 and (rewrite := self._sort_batch(name, month, batch)):
                yield rewrite

    def _sort_batch(self, name: str, month: str, small: Sequence[_File]) -> Rewrite | None:
        """These files as one sorted run."""
        before = self._files_of(name, month)
        wanted = {seq for file in small for seq in range(file.seq_low, file.seq_high + 1)}
        ranges = _ranges(seq for seq in wanted if self._closed_run(seq, month))
        if not ranges or len(ranges) > MOST_RANGES:
            return None
        sequence = ds.field("ingest_seq")
        condition = reduce(operator.or_, ((sequence >= low) & (sequence <= high) for low, high in ranges))
        words = " OR ".join(f"(ingest_seq >= {low} AND ingest_seq <= {high})" for low, high in ranges)

        def plan(handle: DeltaTable) -> Commit:
            rows = handle.to_pyarrow_dataset().to_table(filter=(ds.field("month") == month) & condition)
            rows = rows.sort_by([(key, "ascending") for key in SORTED_BY[name]])
            return Commit(rows=rows, replace_where=f"month = '{month}' AND ({words})")

        self._tables.commit(name, plan)
        return self._rewrite(name, month, "day", before, rows=sum(file.rows for file in small))

    def _compact(self, name: str) -> Iterable[Rewrite]:
        files = self._files(name)
        if len(files) > SMALL_FILES:
            self._tables.load(name).optimize.compact(writer_properties=writer_properties(name))
            self._tables.forget(name)
            yield self._rewrite(name, None, "compact", files)

    def _rewrite(
        self, name: str, month: str | None, what: str, before: Sequence[_File], *, rows: int | None = None
    ) -> Rewrite:
        """`rows` are those that were rewritten, where that is not every row of the files before."""
        after = self._files_of(name, month)
        rows = sum(file.rows for file in before) if rows is None else rows
        return Rewrite(table=name, month=month, what=what, files_before=len(before), files_after=len(after), rows=rows)

    def _files_of(self, name: str, month: str | None) -> list[_File]:
        return [file for file in self._files(name) if file.month == month]

    def _files(self, name: str) -> list[_File]:
        active = self._tables.active_files(name)
        names = set(active.stats.column_names)
        found = []
        for path, row in zip(active.paths, active.stats.to_pylist(), strict=True):
            if row["num_records"] is None:
                continue
            found.append(
                _File(
                    path=path,
                    month=row["partition.month"] if "partition.month" in names else None,
                    rows=row["num_records"],
                    size_bytes=row["size_bytes"],
                    seq_low=row.get("min.ingest_seq") or 0,
                    seq_high=row.get("max.ingest_seq") or 0,
                    subject_low=row.get("min.subject_id") or "",
                    subject_high=row.get("max.subject_id") or "\uffff",
                )
            )
        return found

    def _start_times(self) -> dict[int, datetime]:
        runs = self._tables.dataset("runs").to_table(columns=["ingest_seq", "started_at"])
        return dict(zip(runs["ingest_seq"].to_pylist(), runs["started_at"].to_pylist(), strict=True))

    def _closed(self, file: _File) -> bool:
        """Whether all runs of the file began before today (UTC)."""
        today = self._now.replace(hour=0, minute=0, second=0, microsecond=0)
        times = [self._started[seq] for seq in range(file.seq_low, file.seq_high + 1) if seq in self._started]
        return bool(times) and max(times) < today

    def _closed_run(self, seq: int, month: str) -> bool:
        today = self._now.replace(hour=0, minute=0, second=0, microsecond=0)
        started = self._started.get(seq)
        return started is not None and started < today and started.strftime("%Y-%m") == month


def _of_same_runs(file: _File, others: Sequence[_File]) -> bool:
    """Whether it is the rest of a sorted stretch that the library cut into files; to sort it takes them all."""
    return any(file.seq_low <= other.seq_high and other.seq_low <= file.seq_high for other in others)


def _batches(files: Sequence[_File]) -> Iterable[list[_File]]:
    """The files in their order, so many at a time as may be in memory together."""
    batch: list[_File] = []
    for file in files:
        if batch and sum(held.size_bytes for held in batch) + file.size_bytes > MOST_BYTES_AT_ONCE:
            yield batch
            batch = []
        batch.append(file)
    if batch:
        yield batch


def _overlap(files: Sequence[_File]) -> int:
    """The largest number of files that may hold one and the same series."""
    edges = sorted([(f.subject_low, 0) for f in files] + [(f.subject_high, 1) for f in files])
    open_files = most = 0
    for _, closes in edges:
        open_files += -1 if closes else 1
        most = max(most, open_files)
    return most


def _ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found
