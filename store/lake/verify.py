"""Looks at every file that counts: is it there, has it the bytes that were written, can it be read, is it whole?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from store.bundle.place import Place
from store.lake.checksums import OWN_TABLE, ChecksumKeeper, sha256_of
from store.lake.delta import DeltaTables
from store.lake.errors import StoreError
from store.lake.query import QueryEngine
from store.lake.tables import LAKE_TABLES, PARTITIONED_BY, stored_schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong: where, and what, in one line."""

    table: str
    path: str
    what: str


class Verifier:
    """Reads everything once; changes nothing."""

    def __init__(self, place: Place, tables: DeltaTables, engine: QueryEngine) -> None:
        self._place = place
        self._tables = tables
        self._engine = engine

    def problems(self) -> Iterator[Problem]:
        """All that is wrong, table by table."""
        try:
            hashes = ChecksumKeeper(self._place, self._tables).known()
        except (StoreError, OSError, pa.ArrowException) as error:
            yield _problem(OWN_TABLE, "", f"cannot be read: {error}")
            hashes = {}
        sound = True
        for name in LAKE_TABLES:
            for problem in self._table(name, dict(hashes)):
                sound = False
                yield problem
        if sound:
            yield from self._relations()

    def _table(self, name: str, hashes: dict[str, str]) -> Iterator[Problem]:
        try:
            active = self._tables.active_files(name)
        except StoreError as error:
            yield _problem(name, "", str(error))
            return
        rows = active.stats["num_records"].to_pylist()
        sizes = active.stats["size_bytes"].to_pylist()
        for path, count, size in zip(active.paths, rows, sizes, strict=True):
            short = path.removeprefix(f"{self._place.uri}/")
            found = sha256_of(self._place, short)
            if found is None:
                yield _problem(name, short, "is missing, the log counts on it")
            elif hashes.get(short, found) != found:
                yield _problem(name, short, f"sha256 is {found[:16]}…, was {hashes[short][:16]}… when written: damaged")
            else:
                yield from self._content(name, path, short, count, size)

    def _content(self, name: str, path: str, short: str, count: int | None, size: int) -> Iterator[Problem]:
        if self._place.folder is None:
            return
        if (found := (self._place.folder / short).stat().st_size) != size:
            yield _problem(name, short, f"has {found} bytes, the log says {size}")
            return
        try:
            table = pq.read_table(path, partitioning=None)
        except (OSError, pa.ArrowException) as error:
            yield _problem(name, short, f"cannot be read: {str(error).splitlines()[0]}")
            return
        if count is not None and table.num_rows != count:
            yield _problem(name, short, f"has {table.num_rows} rows, the log says {count}")
        expected = [column for column in stored_schema(name).names if column not in PARTITIONED_BY.get(name, [])]
        if not set(table.column_names) <= set(expected):
            yield _problem(name, short, f"has unknown columns {sorted(set(table.column_names) - set(expected))}")

    def _relations(self) -> Iterator[Problem]:
        doubled = "SELECT run_id FROM runs GROUP BY run_id HAVING count(*) > 1 OR count(DISTINCT ingest_seq) > 1"
        for row in self._engine.table(doubled).to_pylist():
            yield _problem("runs", "", f"run {row['run_id']!r} is there more than once")
        reused = "SELECT ingest_seq FROM runs GROUP BY ingest_seq HAVING count(*) > 1"
        for row in self._engine.table(reused).to_pylist():
            yield _problem("runs", "", f"ingest sequence {row['ingest_seq']} stands for more than one run")
        rows = "SELECT run_id, subject_id FROM results GROUP BY run_id, subject_id HAVING count(*) > 1 LIMIT 20"
        for row in self._engine.table(rows).to_pylist():
            yield _problem("results", "", f"subject {row['subject_id']!r} of run {row['run_id']!r} has several rows")
        empty = (
            "SELECT u.run_id FROM runs u ANTI JOIN results r ON u.run_id = r.run_id AND u.ingest_seq = r.ingest_seq"
            " WHERE u.status = 'complete' LIMIT 20"
        )
        for row in self._engine.table(empty).to_pylist():
            yield _problem("results", "", f"run {row['run_id']!r} is complete and has no results")


def unseen_rows(tables: DeltaTables, highest: int) -> int:
    """Rows of `results` whose run is not in `runs` yet: of an ingest that goes on, or died and will be taken up."""
    dataset = tables.dataset("results")
    return int(dataset.count_rows(filter=ds.field("ingest_seq") > highest))


def _problem(table: str, path: str, what: str) -> Problem:
    return Problem(table=table, path=path, what=what)
