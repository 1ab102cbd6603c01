"""Questions to the lake in SQL: DuckDB in memory over the active files of each table.

A query is one SELECT with bound parameters. Its views show the runs that are in `runs` and not retracted. A file that a
vacuum took away between planning and reading makes the query start again over the new list.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from threading import RLock
from typing import Any

import duckdb
import pyarrow as pa

from store.bundle.schemas import BUNDLE_TABLES
from store.lake.delta import LACKS_COLUMNS, ActiveFiles, DeltaTables
from store.lake.errors import QueryError
from store.lake.pruning import Bound, bounds_of, kept_files, named_parameters
from store.lake.tables import LAKE_TABLES, PARTITIONED_BY, stored_schema
from store.lake.visibility import RunVisibility, Visibility

Parameters = Sequence[Any] | Mapping[str, Any] | None

READ_ATTEMPTS = 5
MOST_QUERIES = 500
"""Different queries whose conditions are remembered."""
_WORD = re.compile(r"[A-Za-z_]+")
FOLDS = ("series", "findings_state", "detector_state", "cliffs")
_GLOB_CHARACTERS = re.compile(r"[*?\[\]{}]")
_LOST_FILE = (duckdb.IOException, duckdb.HTTPException, FileNotFoundError, OSError)


class QueryEngine:
    """One in-memory database whose views follow the tables, as of now or as of an ingest sequence."""

    def __init__(self, tables: DeltaTables, *, as_of: int | None = None) -> None:
        self._tables = tables
        self._as_of = as_of
        self._visibility = RunVisibility(tables)
        self._lock = RLock()
        self._connection = _confined_connection(tables)
        self._shown: dict[str, tuple[int, Visibility | None, tuple[str, ...]]] = {}
        self._bounds: dict[str, dict[str, tuple[Bound, ...]]] = {}

    def table(
        self, query: str, parameters: Parameters = None, *, given: Mapping[str, pa.Table] | None = None
    ) -> pa.Table:
        """The answer as an Arrow table; times in UTC. Tables that are `given` can be named in the query."""
        with self._lock:
            for name, table in (given or {}).items():
                self._connection.register(name, table)
            try:
                return self._answer(query, parameters)
            finally:
                for name in given or {}:
                    self._connection.unregister(name)

    def _answer(self, query: str, parameters: Parameters) -> pa.Table:
        names = self._check(query)
        for attempt in range(READ_ATTEMPTS):
            try:
                self._refresh(names, self._bounds_of(query), named_parameters(parameters))
                answer = self._connection.sql(query, params=_bound(parameters)).to_arrow_table()
                return _plain_lists(answer)
            except _LOST_FILE as error:
                if attempt + 1 == READ_ATTEMPTS:
                    raise QueryError(f"query: files vanish faster than they are read: {_first_line(error)}") from error
                for name in names:
                    self._tables.forget(name)
                    self._shown.pop(name, None)
            except duckdb.Error as error:
                raise QueryError(f"query: {_first_line(error)}") from error
        raise AssertionError("unreachable")

    def visibility(self) -> Visibility:
        """What is seen now."""
        with self._lock:
            return self._seen()

    def retracted(self) -> frozenset[int]:
        """The sequence numbers of the runs that are hidden."""
        with self._lock:
            return self._visibility.retracted()

    def close(self) -> None:
        """Ends the in-memory database."""
        self._connection.close()

    def _seen(self) -> Visibility:
        now = self._visibility.refresh()
        if self._as_of is None or now.highest <= self._as_of:
            return now
        return Visibility(highest=self._as_of, hidden=tuple(seq for seq in now.hidden if seq <= self._as_of))

    def _check(self, query: str) -> list[str]:
        try:
            statements = self._connection.extract_statements(query)
        except duckdb.Error as error:
            raise QueryError(f"query: {_first_line(error)}") from error
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise QueryError("query: must be one SELECT; the store is changed by its commands only")
        words = {word.lower() for word in _WORD.findall(query)}
        names = [name for name in LAKE_TABLES if name in words]
        if self._as_of is not None and (folds := [name for name in names if name in FOLDS]):
            raise QueryError(f"query as of {self._as_of}: {folds[0]} is a fold as of now; ask for results or events")
        return names

    def _bounds_of(self, query: str) -> dict[str, tuple[Bound, ...]]:
        """What the query's WHERE says of each table, remembered for the queries that come again."""
        if query not in self._bounds:
            if len(self._bounds) >= MOST_QUERIES:
                self._bounds.clear()
            tree = self._connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [query]).fetchall()[0][0]
            self._bounds[query] = bounds_of(tree)
        return self._bounds[query]

    def _refresh(
        self, names: Sequence[str], bounds: Mapping[str, Sequence[Bound]], parameters: Mapping[str, Any]
    ) -> None:
        """Brings the views up to date: `runs` is looked at first, for what it has is in all other tables already."""
        of_runs = [name for name in names if name in BUNDLE_TABLES]
        visibility = self._seen() if of_runs else None
        for name in names:
            files = self._tables.active_files(name)
            paths = kept_files(files, bounds[name], parameters) if name in bounds else files.paths
            shown = (files.version, visibility if name in BUNDLE_TABLES else None, paths)
            if self._shown.get(name) != shown:
                self._show(name, files, shown[1], paths)
                self._shown[name] = shown

    def _show(self, name: str, files: ActiveFiles, visibility: Visibility | None, paths: Sequence[str]) -> None:
        """The view of a table over some of its files."""
        condition = "" if visibility is None else _needed_condition(visibility, files)
        if self._as_of is not None and "as_of_seq" in stored_schema(name).names:
            condition = f"as_of_seq <= {self._as_of:d}"
        source = f"stored_{name}"
        if not paths:
            self._connection.register(source, stored_schema(name).empty_table())
        elif not self._tables.local or any(_GLOB_CHARACTERS.search(path) for path in files.paths):
            self._connection.register(source, self._tables.dataset(name))
        else:
            source = _parquet_source(name, paths, mixed=files.mixed)
            if files.mixed:  # a column that no file has yet is null, not unknown
                self._connection.register(f"columns_{name}", stored_schema(name).empty_table())
                source = f"(SELECT * FROM {source} UNION ALL BY NAME SELECT * FROM columns_{name})"  # noqa: S608 own names
        columns = ", ".join(f'"{column}"' for column in stored_schema(name).names)
        where = f" WHERE {condition}" if condition else ""
        try:
            self._connection.execute(f'CREATE OR REPLACE TEMP VIEW "{name}" AS SELECT {columns} FROM {source}{where}')  # noqa: S608 own names and numbers only
        except duckdb.BinderException as error:
            raise QueryError(f"table {name}: {LACKS_COLUMNS}: {_first_line(error)}") from error


def _confined_connection(tables: DeltaTables) -> duckdb.DuckDBPyConnection:
    """A database that reads the tables' folder and what it is given, and nothing else of this machine."""
    connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET enable_progress_bar = false")
    connection.execute("SET parquet_metadata_cache = true")  # no file of a table ever changes
    connection.execute("SET python_enable_replacements = false")
    if tables.local:
        connection.execute("SET allowed_directories = [" + _quoted(tables.root + "/") + "]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _needed_condition(visibility: Visibility, files: ActiveFiles) -> str:
    """The condition on ingest_seq, or nothing where the log's statistics say that all rows are seen."""
    if not visibility.hidden and files.paths:
        highest = files.statistic("max.ingest_seq")
        if all(value is not None and value <= visibility.highest for value in highest):
            return ""
    return visibility.condition()


def _parquet_source(name: str, paths: Sequence[str], *, mixed: bool) -> str:
    quoted = ", ".join(_quoted(path) for path in paths)
    options = f"union_by_name = {str(mixed).lower()}"
    if not PARTITIONED_BY.get(name):
        return f"read_parquet([{quoted}], hive_partitioning = false, {options})"
    return f"read_parquet([{quoted}], hive_partitioning = true, hive_types = {{'month': VARCHAR}}, {options})"


def _bound(parameters: Parameters) -> Any:
    if parameters is None:
        return []
    return dict(parameters) if isinstance(parameters, Mapping) else list(parameters)


def _plain_lists(table: pa.Table) -> pa.Table:
    return table if isinstance(table, pa.Table) else table.read_all()


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
