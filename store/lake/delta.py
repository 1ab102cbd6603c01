"""The Delta tables of a store: handles, commits that happen once, and the list of files that count.

The one rule of writing: load a handle, ask *it* whether the transaction is known, write with *that* handle. A writer
that was overtaken conflicts and looks again; a handle opened between question and write would double the rows.
The library's runtime does not survive `fork`: a process that touches a table must have been spawned.
"""

from __future__ import annotations

import math
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from deltalake import (
    ColumnProperties,
    CommitProperties,
    DeltaTable,
    Schema,
    Transaction,
    WriterProperties,
    write_deltalake,
)
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from store.bundle.errors import in_one_line, is_full
from store.bundle.place import Place, is_s3, s3_options
from store.lake.errors import StoreError, StoreFullError, TableLostError
from store.lake.log import TRIM_EVERY, trim_log
from store.lake.tables import LAKE_TABLES, MADE_ANEW, NEVER_TWICE, PARTITIONED_BY, STATISTICS_OF, stored_schema

COMMIT_ATTEMPTS = 40
MIXED_COLUMNS = "kernel_observatory.mixed_columns"
MOST_VERSIONS_A_HANDLE = 24
"""A handle that has followed more versions is opened anew: it carries each of them, and writing through it gets slow
(33 ms a commit after 100 versions, 900 ms after 1,500)."""
CHECKPOINT_EVERY = 20
"""Versions after which the library sums the log up; a reader that opens a table replays what came since."""
WORTH_A_CHECKPOINT = 10
LOG_PROPERTIES = {
    "delta.checkpointInterval": str(CHECKPOINT_EVERY),
    "delta.deletedFileRetentionDuration": "interval 1 days",
}
"""What keeps a table quick to open. A deleted file is remembered as long as a vacuum keeps it at the least; for the
default of a week every checkpoint of a table that is overwritten at each ingest would carry thousands of them."""
LACKS_COLUMNS = "it lacks columns of this version; `collector store migrate` adds them, nothing is lost"
ROW_GROUP_ROWS = 30_720
ROW_GROUP_ROWS_OF = {"series": 1_024}
"""Of a table that is joined by `subject_id` to a few findings, with sparklines: 50 of 100,000 series cost 45 ms of CPU
time instead of 110, and a scan of all of them 5 to 10 ms more."""
_PAUSE_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Commit:
    """What one commit writes: rows, and the transactions that make it happen once."""

    rows: pa.Table
    transactions: Mapping[str, int] = field(default_factory=dict)
    overwrite: bool = False
    replace_where: str | None = None
    """Rows of the table for which this holds are replaced by `rows`, for all of which it must hold."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ActiveFiles:
    """The files of one version of a table. `stats` has a row a file: path, num_records, min.* and max.*.

    `mixed` says that columns were added later, so that older files lack them.
    """

    version: int
    paths: tuple[str, ...]
    stats: pa.Table
    mixed: bool

    def statistic(self, name: str) -> list[Any]:
        """One value a file, None where the log does not say."""
        if name not in self.stats.column_names:
            return [None] * len(self.paths)
        values: list[Any] = self.stats[name].to_pylist()
        return values


class DeltaTables:
    """The tables below `<store>/tables/`. Not for sharing between threads without a lock."""

    def __init__(self, store_uri: str) -> None:
        self._store_uri = store_uri
        self._root = f"{store_uri}/tables"
        self._options: dict[str, str] | None = None
        if is_s3(store_uri):
            self._options = s3_options()
            if self._options.get("aws_endpoint", "").startswith("http://"):
                self._options["aws_allow_http"] = "true"
        self._handles: dict[str, DeltaTable] = {}
        self._opened_at: dict[str, int] = {}
        self._files: dict[str, ActiveFiles] = {}
        self._pid = os.getpid()

    @property
    def root(self) -> str:
        """The folder of all tables."""
        return self._root

    @property
    def local(self) -> bool:
        """Whether the tables lie in a local folder."""
        return self._options is None

    def uri(self, table_name: str) -> str:
        """Where a table lies."""
        if table_name not in LAKE_TABLES:
            raise StoreError(f"table {table_name!r}: unknown; the lake has {', '.join(LAKE_TABLES)}")
        return f"{self._root}/{table_name}"

    def create_missing(self) -> None:
        """Creates the tables that are not there yet."""
        for name in LAKE_TABLES:
            columns = STATISTICS_OF.get(name)
            DeltaTable.create(
                self.uri(name),
                stored_schema(name),
                mode="ignore",
                partition_by=PARTITIONED_BY.get(name),
                configuration=LOG_PROPERTIES
                | ({"delta.dataSkippingStatsColumns": ",".join(columns)} if columns else {}),
                storage_options=self._options,
            )

    def load(self, table_name: str) -> DeltaTable:
        """A handle at the newest version, of this reader's own; writers that share a name conflict as they should."""
        if os.getpid() != self._pid:
            raise StoreError("a store handle does not survive fork: spawn the process and open the store in it")
        handle = self._followed(table_name)
        try:
            if handle is None:
                handle = self._handles[table_name] = DeltaTable(self.uri(table_name), storage_options=self._options)
                self._opened_at[table_name] = handle.version()
        except TableNotFoundError as error:
            raise self.missing(table_name) from error
        except (DeltaError, OSError) as error:
            raise store_error(f"table {table_name} of {self._root}", error) from error
        return handle

    def missing(self, table_name: str) -> StoreError:
        """What to say of a table that is not there, and the way out."""
        where = f"table {table_name} of {self._root}: is missing"
        if table_name in MADE_ANEW:
            return StoreError(f"{where}; `collector store migrate` makes it, `store rebuild` and `detect` fill it")
        return TableLostError(
            f"{where}, it was lost: every store is made with it. If it is of a share, is that mounted whole? Else put"
            f" the folder {table_name} back from a backup"
        )

    def _followed(self, table_name: str) -> DeltaTable | None:
        """The known handle at the newest version; None where there is none or it is better opened anew."""
        handle = self._handles.get(table_name)
        if handle is None:
            return None
        try:
            handle.update_incremental()
        except DeltaError:  # so old that the log was trimmed past it
            self._handles.pop(table_name, None)
            return None
        return handle if handle.version() <= self._opened_at[table_name] + MOST_VERSIONS_A_HANDLE else None

    def forget(self, table_name: str) -> None:
        """Drops the handle: the next load starts from the log itself."""
        self._handles.pop(table_name, None)
        self._files.pop(table_name, None)

    def commit(self, table_name: str, plan: Callable[[DeltaTable], Commit | None]) -> bool:
        """Commits what `plan` says for the handle it is given; asks it anew after every conflict.

        Returns False where the plan said None: there is nothing (more) to do.
        """
        for attempt in range(COMMIT_ATTEMPTS):
            handle = self.load(table_name)
            commit = plan(handle)
            if commit is None:
                return False
            try:
                _write(handle, table_name, commit)
                if handle.version() % TRIM_EVERY == 0:
                    self.trim(table_name)
                return True
            except CommitFailedError as error:
                self.forget(table_name)
                failure = error
            except (DeltaError, OSError) as error:
                self.forget(table_name)
                raise self._not_written(table_name, error) from error
            time.sleep(random.uniform(0.5, 1.5) * _PAUSE_S * min(attempt + 1, 25))
        raise StoreError(f"table {table_name}: {COMMIT_ATTEMPTS} commits lost against others: {in_one_line(failure)}")

    def _not_written(self, table_name: str, error: Exception) -> StoreError:
        """The library's reason, or ours where the table is of an older version."""
        if not is_full(error) and set(stored_schema(table_name).names) - set(self.columns(table_name)):
            return StoreError(f"table {table_name}: not written: {LACKS_COLUMNS}")
        return store_error(f"table {table_name}: not written", error)

    def active_files(self, table_name: str) -> ActiveFiles:
        """The files of the newest version, from the log; never a listing of the folder."""
        handle = self.load(table_name)
        known = self._files.get(table_name)
        if known is not None and known.version == handle.version():
            return known
        stats = pa.table(handle.get_add_actions(flatten=True))
        root = self.uri(table_name)
        paths = tuple(f"{root}/{path}" for path in stats["path"].to_pylist())
        mixed = MIXED_COLUMNS in handle.metadata().configuration
        found = ActiveFiles(version=handle.version(), paths=paths, stats=stats, mixed=mixed)
        self._files[table_name] = found
        return found

    def exists(self, table_name: str) -> bool:
        """Whether the table is there."""
        return bool(DeltaTable.is_deltatable(self.uri(table_name), storage_options=self._options))

    def columns(self, table_name: str) -> list[str]:
        """The columns that the stored table has."""
        return [field.name for field in self.load(table_name).schema().fields]

    def add_columns(self, table_name: str, names: Sequence[str]) -> None:
        """Adds nullable columns of the current schema; older files stay without them."""
        schema = stored_schema(table_name)
        fields = Schema.from_arrow(pa.schema([schema.field(name) for name in names])).fields
        handle = self.load(table_name)
        handle.alter.set_table_properties({MIXED_COLUMNS: "true"}, raise_if_not_exists=False)
        handle.alter.add_columns(list(fields))
        self.forget(table_name)

    def checkpoint(self, table_name: str) -> None:
        """Sums the log up where many versions came since the last sum, and lets go what is summed up."""
        handle = self.load(table_name)
        if handle.version() % CHECKPOINT_EVERY >= WORTH_A_CHECKPOINT:
            handle.create_checkpoint()
        self.trim(table_name)

    def trim(self, table_name: str) -> None:
        """Lets go the versions of the log that a checkpoint has long summed up."""
        trim_log(Place(self._store_uri), table_name)

    def properties(self, table_name: str) -> Mapping[str, str]:
        """The settings that the stored table has."""
        return dict(self.load(table_name).metadata().configuration)

    def set_properties(self, table_name: str, properties: Mapping[str, str]) -> None:
        """Gives the stored table these settings."""
        self.load(table_name).alter.set_table_properties(dict(properties), raise_if_not_exists=False)
        self.forget(table_name)

    def vacuum(self, table_name: str, keep_hours: float, *, dry_run: bool) -> list[str]:
        """Deletes what no version of the last hours needs, unknown files included; returns the paths."""
        handle = self.load(table_name)
        paths = handle.vacuum(math.ceil(keep_hours), dry_run=dry_run, enforce_retention_duration=False, full=True)
        self.forget(table_name)
        return [str(path) for path in paths]

    def delete_where(self, table_name: str, condition: str) -> int:
        """Deletes rows; returns how many."""
        done = self.load(table_name).delete(condition)
        self.forget(table_name)
        return int(done["num_deleted_rows"] or 0)

    def dataset(self, table_name: str) -> Any:
        """An Arrow dataset over the active files, for places that DuckDB cannot open by path."""
        return self.load(table_name).to_pyarrow_dataset()


def writer_properties(table_name: str) -> WriterProperties:
    """How files are written: row groups of a size that lets a query skip most of a file when it is sorted.

    Numbers that hardly ever come twice get no dictionary: it costs a fifth of the bytes and a third of the time.
    The library takes no path into a list, so that lists go without one wherever any column does.
    """
    never_twice = NEVER_TWICE.get(table_name)
    group_rows = ROW_GROUP_ROWS_OF.get(table_name, ROW_GROUP_ROWS)
    if never_twice is None:
        return WriterProperties(compression="ZSTD", max_row_group_size=group_rows)
    repeating = [field.name for field in stored_schema(table_name) if field.name not in never_twice]
    return WriterProperties(
        compression="ZSTD",
        max_row_group_size=group_rows,
        default_column_properties=ColumnProperties(dictionary_enabled=False),
        column_properties={name: ColumnProperties(dictionary_enabled=True) for name in repeating},
    )


def _write(handle: DeltaTable, table_name: str, commit: Commit) -> None:
    transactions = [Transaction(name, version) for name, version in commit.transactions.items()]
    common: Any = {
        "commit_properties": CommitProperties(app_transactions=transactions),
        "writer_properties": writer_properties(table_name),
    }
    if commit.overwrite or commit.replace_where:
        write_deltalake(handle, commit.rows, mode="overwrite", predicate=commit.replace_where, **common)
    else:
        write_deltalake(handle, commit.rows, mode="append", **common)


def store_error(where: str, error: Exception) -> StoreError:
    """An error of the libraries below as the store's own, in one line."""
    return (StoreFullError if is_full(error) else StoreError)(f"{where}: {in_one_line(error)}")
