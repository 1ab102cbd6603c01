"""The lake: everything that was measured and said, behind a few verbs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from store.bundle.errors import BundleError, FullPlaceError, RowsError
from store.bundle.inbox import Inbox
from store.bundle.place import Place
from store.bundle.rows import Rows, rows_to_table
from store.bundle.schemas import BUNDLE_TABLES
from store.lake.checksums import ChecksumKeeper
from store.lake.delta import Commit, DeltaTables, store_error
from store.lake.errors import QueryError, StoreBusyError, StoreError, StoreFullError
from store.lake.ingest import SEQUENCE, Ingester, IngestReport
from store.lake.layout import check_marker, default_store, is_marked, mark_store, open_place, prepare_place
from store.lake.lease import Lease, held
from store.lake.query import Parameters, QueryEngine
from store.lake.series import SeriesKeeper
from store.lake.tables import HOST_TABLES, LAKE_TABLES

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["IngestReport", "Lake", "QueryError", "StoreBusyError", "StoreError"]

PAST_ENGINES = 4
"""Moments of the past that are kept ready to be asked again."""


class Lake:
    """A store that is open. Threads may share it; processes open their own (never across `fork`)."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.uri = place.uri
        self.inbox = Inbox(place.uri, create=False)
        self.tables = DeltaTables(place.uri)
        self._engine: QueryEngine | None = None
        self._past: dict[int, QueryEngine] = {}
        self._lock = RLock()
        self.is_new = False
        """Whether `create` has just made it."""

    @classmethod
    def create(cls, uri: str | Path | None = None) -> Lake:
        """Opens the store at `uri`, making it one where there is none yet. Without `uri` the default store.

        Raises:
            StoreError: the place cannot be written or holds other things.
        """
        place = prepare_place(uri if uri is not None else default_store())
        if is_marked(place):
            check_marker(place)
            return cls(place)
        lake = cls(place)
        with _one_line(lake.uri):
            lake.tables.create_missing()
        mark_store(place)  # last: whoever is killed before leaves no store, and the next creation goes on
        lake.is_new = True
        return lake

    @classmethod
    def open(cls, uri: str | Path | None = None) -> Lake:
        """Opens the store at `uri`, which must be one. Without `uri` the default store.

        Raises:
            StoreError: there is none.
        """
        return cls(open_place(uri if uri is not None else default_store()))

    def ingest(self, *, wait_s: float = 60.0, check_clock: bool = True) -> IngestReport:
        """Takes every bundle of the inbox into the tables, once, and brings `series` up to date.

        A bundle that cannot be trusted goes to quarantine with its reason. `check_clock=False` lets runs in whose
        start lies before 2001 or in the future.

        Raises:
            StoreBusyError: another process ingested for all of `wait_s`.
        """
        with self.exclusive(wait_s) as lease:
            report = Ingester(self.tables, self.inbox, lease, check_clock=check_clock).run()
            SeriesKeeper(self.tables, self.queries(), lease).refresh()
            if report.ingested:
                ChecksumKeeper(self.place, self.tables).record_new()
        return report

    def append(self, table: str, rows: Rows, *, key: str | None = None) -> bool:
        """Appends rows to a host table, all or none. With a `key`, a second append of that key does nothing.

        Returns whether the rows were written by this call.

        Raises:
            StoreError: the table is not the host's, or the rows do not fit.
        """
        data = self._host_rows(table, rows)

        def plan(handle: DeltaTable) -> Commit | None:
            if key is None:
                return Commit(rows=data)
            if handle.transaction_version(key) is not None:
                return None
            return Commit(rows=data, transactions={key: 1})

        if data.num_rows == 0 and key is None:
            return False
        with self._lock, _one_line(self.uri):
            return self.tables.commit(table, plan)

    def overwrite(self, table: str, rows: Rows) -> None:
        """Puts these rows in the place of all that a host table has; readers see the old or the new ones.

        Raises:
            StoreError: the table is not the host's, or the rows do not fit.
        """
        data = self._host_rows(table, rows)
        with self._lock, _one_line(self.uri):
            self.tables.commit(table, lambda _: Commit(rows=data, overwrite=True))

    def sql(self, query: str, params: Parameters = None, *, as_of: int | None = None) -> pa.Table:
        """The answer to one SELECT over views named like the tables; `?` or `$name` stand for the bound parameters.

        With `as_of` as if only the runs up to that ingest sequence had arrived, and only what was said then had been
        said; the folds (`series` and its like) have no past and are refused.

        Raises:
            QueryError: it is not one SELECT, or DuckDB refuses it.
        """
        with self._lock, _one_line(self.uri):
            return (self.queries() if as_of is None else self._queries_of(as_of)).table(query, params)

    def frame(self, query: str, params: Parameters = None) -> pd.DataFrame:
        """The answer as a pandas frame, times as UTC."""
        frame: pd.DataFrame = self.sql(query, params).to_pandas()
        return frame

    def latest_seq(self) -> int:
        """The highest ingest sequence that readers see; 0 before the first run."""
        with self._lock:
            return int(self.tables.load("runs").transaction_version(SEQUENCE) or 0)

    def seq_at(self, at: datetime) -> int:
        """The highest ingest sequence that had arrived at a moment; 0 before the first."""
        row = self.sql("SELECT coalesce(max(ingest_seq), 0) AS seq FROM runs WHERE ingested_at <= ?", [at]).to_pylist()[
            0
        ]
        return int(row["seq"])

    def next_seq(self) -> int:
        """The ingest sequence that the next new run will get."""
        with self._lock:
            return int(self.tables.load("results").transaction_version(SEQUENCE) or 0) + 1

    def refresh_series(self, *, wait_s: float = 60.0) -> bool:
        """Brings `series` up to date with runs, verdicts and retractions; for whoever has just judged.

        Returns whether anything changed.
        """
        with self._series_keeper(wait_s) as keeper:
            return keeper.refresh()

    def rebuild_series(self, *, wait_s: float = 60.0) -> None:
        """Folds `series` anew from all of history."""
        with self._series_keeper(wait_s) as keeper:
            keeper.rebuild()

    def close(self) -> None:
        """Ends the query engine; the store itself needs no closing."""
        for engine in [*self._past.values(), *([self._engine] if self._engine else [])]:
            engine.close()
        self._past.clear()
        self._engine = None

    def _queries_of(self, as_of: int) -> QueryEngine:
        if as_of not in self._past:
            while len(self._past) >= PAST_ENGINES:
                self._past.pop(next(iter(self._past))).close()
            self._past[as_of] = QueryEngine(self.tables, as_of=as_of)
        return self._past[as_of]

    def queries(self) -> QueryEngine:
        """The engine behind `sql`, for maintenance."""
        if self._engine is None:
            self._engine = QueryEngine(self.tables)
        return self._engine

    @contextmanager
    def exclusive(self, wait_s: float = 60.0) -> Iterator[Lease]:
        """Holds the ingester's lease: what ingests or maintains runs within it.

        Raises:
            StoreBusyError: another process held it for all of `wait_s`.
        """
        with self._lock, _one_line(self.uri), held(self.place, "ingest", wait_s=wait_s) as lease:
            yield lease

    @contextmanager
    def _series_keeper(self, wait_s: float) -> Iterator[SeriesKeeper]:
        with self.exclusive(wait_s) as lease:
            yield SeriesKeeper(self.tables, self.queries(), lease)

    def _host_rows(self, table: str, rows: Rows) -> pa.Table:
        if table not in HOST_TABLES:
            rule = "filled by ingest only" if table in BUNDLE_TABLES else f"unknown; known are {', '.join(LAKE_TABLES)}"
            raise StoreError(f"table {table!r}: {rule}")
        with _one_line(self.uri):
            return rows_to_table(table, HOST_TABLES[table], rows)


@contextmanager
def _one_line(uri: str) -> Iterator[None]:
    """What the layers below raise becomes the store's own error."""
    try:
        yield
    except RowsError as error:
        raise StoreError(str(error)) from error
    except BundleError as error:
        raise (StoreFullError if isinstance(error, FullPlaceError) else StoreError)(f"store: {error}") from error
    except (DeltaError, OSError) as error:
        raise store_error(f"store {uri}", error) from error
