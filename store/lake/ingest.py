"""Bundles from the inbox into the tables: each run once, whoever else tries, whenever it is killed.

The order of a batch: `results` (which also hands out the sequence numbers), `samples`, `telemetry`, and `runs` last.
Each commit carries one transaction a run, whose version is the run's sequence number; a batch that died half-way finds
them there and goes on with the same numbers. A bundle leaves the inbox only when `runs` has it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable

from store.bundle.errors import BundleError, FullPlaceError, GoneBundleError, PlaceError
from store.bundle.inbox import Inbox
from store.bundle.manifest import run_file_name
from store.bundle.reader import Bundle, read_bundle
from store.lake.delta import Commit, DeltaTables
from store.lake.errors import StoreError, StoreFullError
from store.lake.lease import Lease
from store.lake.tables import stored_schema

SEQUENCE = "kernel-observatory\ningest-sequence"
"""Transaction whose version is the highest sequence number handed out (`results`) or seen by readers (`runs`).

The line break keeps it, and the transactions of contents, apart from run ids, which have no control characters."""

BATCH_BUNDLES = 64
BATCH_BYTES = 96 << 20
READERS = 4
"""Threads that fetch, hash and decode bundles; more would only wait for the same two cores or the same network."""
EARLIEST = datetime(2001, 1, 1, tzinfo=UTC)
CLOCK_AHEAD = timedelta(days=1)
MOST_NAME = 240
"""Longer names leave no room for the ending of the reason beside them."""
_SORTED_BY = {"results": ["subject_id"], "samples": ["subject_id", "replicate"], "telemetry": ["metric", "monotonic_s"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestReport:
    """What one ingest did: run ids that are new and that were there; names that were refused, with the reason."""

    ingested: tuple[str, ...] = ()
    already_known: tuple[str, ...] = ()
    quarantined: tuple[tuple[str, str], ...] = ()


class QuarantineReason(msgspec.Struct, frozen=True, kw_only=True):
    """The file beside a bundle in quarantine."""

    name: str
    reason: str
    at: datetime


@dataclass(slots=True, kw_only=True)
class _Outcome:
    ingested: list[str] = field(default_factory=list)
    already_known: list[str] = field(default_factory=list)
    quarantined: list[tuple[str, str]] = field(default_factory=list)

    def report(self) -> IngestReport:
        return IngestReport(
            ingested=tuple(self.ingested),
            already_known=tuple(self.already_known),
            quarantined=tuple(self.quarantined),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Arrival:
    name: str
    bundle: Bundle

    @property
    def run_id(self) -> str:
        return self.bundle.run_id

    @property
    def content(self) -> str:
        return self.bundle.manifest.content_sha256

    @property
    def content_transaction(self) -> str:
        """In `results` beside the run's own: tells a half-ingested run from another content of the same id."""
        return f"{self.run_id}\n{self.content}"


class Ingester:
    """Works through the inbox once; the caller holds the lease."""

    def __init__(self, tables: DeltaTables, inbox: Inbox, lease: Lease, *, check_clock: bool = True) -> None:
        self._tables = tables
        self._inbox = inbox
        self._lease = lease
        self._check_clock = check_clock
        self._outcome = _Outcome()

    def run(self) -> IngestReport:
        """Everything that is in the inbox now."""
        for names in self._batches():
            self._lease.renew()
            self._ingest(self._told_apart(self._arrivals(names)))
        return self._outcome.report()

    def _arrivals(self, names: Sequence[str]) -> list[_Arrival]:
        """The bundles of these names that can be trusted; the others go to quarantine."""
        with (
            tempfile.TemporaryDirectory(prefix="kernel-observatory-") as work,
            ThreadPoolExecutor(READERS) as readers,
        ):
            read = list(readers.map(lambda name: self._read(name, Path(work)), names))
        for name, found in zip(names, read, strict=True):
            if isinstance(found, str):
                self._quarantine(name, found)
        return [found for found in read if isinstance(found, _Arrival)]

    def _batches(self) -> Iterator[list[str]]:
        batch: list[str] = []
        size_bytes = 0
        for item in self._inbox.place.list("inbox"):
            if batch and (len(batch) == BATCH_BUNDLES or size_bytes + item.size_bytes > BATCH_BYTES):
                yield batch
                batch, size_bytes = [], 0
            batch.append(item.path.removeprefix("inbox/"))
            size_bytes += item.size_bytes
        if batch:
            yield batch

    def _read(self, name: str, work: Path) -> _Arrival | str | None:
        """The bundle; or the reason for which it is refused; or nothing where another took it."""
        try:
            bundle = read_bundle(self._inbox.fetch(name, work))
            _check_times(bundle, check_clock=self._check_clock)
        except GoneBundleError:
            return None
        except PlaceError as error:
            raise (StoreFullError if isinstance(error, FullPlaceError) else StoreError)(f"inbox: {error}") from error
        except BundleError as error:
            return str(error)
        return _Arrival(name=name, bundle=bundle)

    def _told_apart(self, arrivals: Sequence[_Arrival]) -> list[_Arrival]:
        """The arrivals that are new or half-ingested; known ones leave the inbox, contradicting ones are refused."""
        runs, results = self._tables.load("runs"), self._tables.load("results")
        first: dict[str, _Arrival] = {}
        for arrival in arrivals:
            if runs.transaction_version(arrival.run_id) is not None:
                same = self._known_content(arrival.run_id) == arrival.content
            elif results.transaction_version(arrival.run_id) is not None:
                same = results.transaction_version(arrival.content_transaction) is not None
                if same and arrival.run_id not in first:
                    first[arrival.run_id] = arrival
                    continue
            elif arrival.run_id not in first:
                first[arrival.run_id] = arrival
                continue
            else:
                same = first[arrival.run_id].content == arrival.content
            if same:
                self._outcome.already_known.append(arrival.run_id)
                self._inbox.remove(arrival.name)
            else:
                reason = f"run {arrival.run_id!r} is known with other content; a run id is used once"
                self._quarantine(arrival.name, reason)
        return list(first.values())

    def _known_content(self, run_id: str) -> str | None:
        of_run = ds.field("run_id") == run_id
        known = self._tables.dataset("runs").to_table(columns=["bundle_sha256"], filter=of_run)
        return known["bundle_sha256"][0].as_py() if known.num_rows else None

    def _ingest(self, arrivals: Sequence[_Arrival]) -> None:
        if not arrivals:
            return
        at = datetime.now(UTC)
        sequence = self._commit_results(arrivals, at)
        for table_name in ("samples", "telemetry"):
            self._tables.commit(table_name, partial(_missing, table_name, arrivals, sequence, at))
        new: list[str] = []
        self._tables.commit("runs", lambda handle: _missing_runs(handle, arrivals, sequence, at, new))
        for arrival in arrivals:
            self._inbox.remove(arrival.name)
            known = self._outcome.ingested if arrival.run_id in new else self._outcome.already_known
            known.append(arrival.run_id)

    def _commit_results(self, arrivals: Sequence[_Arrival], at: datetime) -> dict[str, int]:
        """Hands out the sequence numbers with the first commit; two that hand out at once conflict, one looks again."""
        sequence: dict[str, int] = {}

        def plan(handle: DeltaTable) -> Commit | None:
            sequence.clear()
            highest = handle.transaction_version(SEQUENCE) or 0
            known = {arrival.run_id: handle.transaction_version(arrival.run_id) for arrival in arrivals}
            for run_id, number in known.items():
                if number is None:
                    highest += 1
                sequence[run_id] = highest if number is None else number
            commit = _commit("results", [a for a in arrivals if known[a.run_id] is None], sequence, at)
            if commit is None:
                return None
            contents = {a.content_transaction: sequence[a.run_id] for a in arrivals if a.run_id in commit.transactions}
            return Commit(rows=commit.rows, transactions={**commit.transactions, **contents, SEQUENCE: highest})

        self._tables.commit("results", plan)
        return sequence

    def _quarantine(self, name: str, reason: str) -> None:
        place = self._inbox.place
        record = QuarantineReason(name=name, reason=reason, at=datetime.now(UTC))
        kept = name if name.isprintable() and len(name) < MOST_NAME else run_file_name(name)
        place.replace(f"quarantine/{kept}.reason.json", msgspec.json.encode(record) + b"\n")
        place.move(f"inbox/{name}", f"quarantine/{kept}")
        self._outcome.quarantined.append((name, reason))


def _missing(
    table_name: str, arrivals: Sequence[_Arrival], sequence: dict[str, int], at: datetime, handle: DeltaTable
) -> Commit | None:
    """The rows of the runs that this very handle does not know, or None."""
    missing = [a for a in arrivals if handle.transaction_version(a.run_id) is None]
    return _commit(table_name, missing, sequence, at)


def _missing_runs(
    handle: DeltaTable, arrivals: Sequence[_Arrival], sequence: dict[str, int], at: datetime, new: list[str]
) -> Commit | None:
    new.clear()
    commit = _missing("runs", arrivals, sequence, at, handle)
    if commit is None:
        return None
    new.extend(commit.transactions)
    contents = {a.content_transaction: sequence[a.run_id] for a in arrivals if a.run_id in commit.transactions}
    highest = max(handle.transaction_version(SEQUENCE) or 0, *commit.transactions.values())
    return Commit(rows=commit.rows, transactions={**commit.transactions, **contents, SEQUENCE: highest})


def _commit(table_name: str, arrivals: Sequence[_Arrival], sequence: dict[str, int], at: datetime) -> Commit | None:
    """The rows of these runs with their transactions, or None where there are none."""
    if not arrivals:
        return None
    rows = _lake_rows(table_name, arrivals, sequence, at)
    if keys := _SORTED_BY.get(table_name):
        rows = rows.sort_by([(key, "ascending") for key in keys])
    return Commit(rows=rows, transactions={a.run_id: sequence[a.run_id] for a in arrivals})


def _lake_rows(table_name: str, arrivals: Sequence[_Arrival], sequence: dict[str, int], at: datetime) -> pa.Table:
    """The rows of several bundles as the lake keeps them."""
    parts = [arrival.bundle.tables[table_name] for arrival in arrivals]
    table = pa.concat_tables(parts)
    of_part = pa.array(np.repeat(np.arange(len(parts)), [part.num_rows for part in parts]))
    fixed = {
        "ingest_seq": [sequence[arrival.run_id] for arrival in arrivals],
        "ingested_at": [at] * len(arrivals),
        "bundle_sha256": [arrival.content for arrival in arrivals],
        "month": [_started_at(arrival.bundle).strftime("%Y-%m") for arrival in arrivals],
    }
    schema = stored_schema(table_name)
    for name in schema.names:
        if name not in table.column_names:
            table = table.append_column(name, pa.array(fixed[name], schema.field(name).type).take(of_part))
    return table.select(schema.names).cast(schema)


def _started_at(bundle: Bundle) -> datetime:
    started_at = bundle.tables["runs"]["started_at"][0].as_py()
    if not isinstance(started_at, datetime):
        raise BundleError(f"run {bundle.run_id!r}: started_at is null, must be the UTC time of its start")
    return started_at


def _check_times(bundle: Bundle, *, check_clock: bool) -> None:
    started_at = _started_at(bundle)
    latest = datetime.now(UTC) + CLOCK_AHEAD
    if check_clock and not EARLIEST <= started_at <= latest:
        raise BundleError(
            f"run {bundle.run_id!r}: started_at {started_at:%Y-%m-%dT%H:%MZ} is before 2001 or more than a day ahead of"
            " this host: a wrong clock; set it right and run again, or release it from quarantine as it is"
        )
