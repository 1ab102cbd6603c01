"""Writes the bundle of one run: under a staging name, fsynced, published by one rename.

Whatever kills the writer, a folder without a leading dot is a whole bundle.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from store.bundle.errors import BundleError, FullPlaceError, RowsError, in_one_line, is_full
from store.bundle.manifest import (
    MANIFEST_NAME,
    FileEntry,
    checked_run_id,
    encode_manifest,
    file_sha256,
    run_file_name,
    table_file,
)
from store.bundle.rows import Rows, rows_to_table
from store.bundle.schemas import BUNDLE_TABLES

STAGING_PREFIX = ".staging-"
_STAGING = re.compile(r"\.staging-.*-(?P<pid>\d+)$")


class BundleWriter:
    """Collects the rows of one run, then publishes them as a folder `<parent>/<run id>`.

    `add` may be called several times for a table; a table that is never added is published empty. `runs` has exactly
    one row. Used as a context manager, a bundle that was not published is abandoned.
    """

    def __init__(self, parent_dir: str | Path, run_id: str) -> None:
        self.run_id = checked_run_id(run_id)
        self._parent = Path(parent_dir)
        self._path = self._parent / run_file_name(run_id)
        if self._path.exists():
            raise BundleError(f"bundle {self._path}: exists already; a run id is used once")
        self._staging = self._parent / f"{STAGING_PREFIX}{run_file_name(run_id)}-{os.getpid()}"
        try:
            self._parent.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(self._staging, ignore_errors=True)
            self._staging.mkdir()
        except OSError as error:
            raise BundleError(f"bundle folder {self._parent}: cannot be written: {error.strerror}") from error
        self._parts: dict[str, list[pa.Table]] = {name: [] for name in BUNDLE_TABLES}

    def __enter__(self) -> BundleWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self.abandon()

    def add(self, table_name: str, rows: Rows) -> None:
        """Adds rows to a table.

        Raises:
            RowsError: the table is unknown, or the rows do not fit its schema, or name another run.
        """
        schema = BUNDLE_TABLES.get(table_name)
        if schema is None:
            raise RowsError(f"table {table_name!r}: unknown; a bundle has {', '.join(BUNDLE_TABLES)}")
        table = rows_to_table(table_name, schema, rows)
        others = set(table["run_id"].to_pylist()) - {self.run_id}
        if others:
            raise RowsError(f"{table_name}.run_id: {sorted(map(str, others))[0]!r} in the bundle of {self.run_id!r}")
        self._parts[table_name].append(table)

    def publish(self, manifest_extra: Mapping[str, Any] | None = None) -> Path:
        """Writes the files, forces them to the disk, and renames the folder to its final name, which it returns.

        Raises:
            BundleError: `runs` has not exactly one row, the disk refuses, or the run was published meanwhile.
        """
        run_rows = sum(part.num_rows for part in self._parts["runs"])
        if run_rows != 1:
            raise BundleError(f"bundle of {self.run_id!r}: {run_rows} rows in runs, must be exactly 1")
        try:
            files = {table_file(name): self._write(name) for name in BUNDLE_TABLES}
            manifest = encode_manifest(self.run_id, files, manifest_extra or {})
            _write_through(self._staging / MANIFEST_NAME, manifest)
            _fsync(self._staging)
            self._staging.rename(self._path)
            _fsync(self._parent)
        except OSError as error:
            kind = FullPlaceError if is_full(error) else BundleError
            raise kind(f"bundle {self._path}: not published: {in_one_line(error)}") from error
        return self._path

    def abandon(self) -> None:
        """Removes what was staged; does nothing after a publish."""
        shutil.rmtree(self._staging, ignore_errors=True)

    def _write(self, table_name: str) -> FileEntry:
        schema = BUNDLE_TABLES[table_name]
        table = pa.concat_tables([schema.empty_table(), *self._parts[table_name]])
        path = self._staging / table_file(table_name)
        pq.write_table(table, path, compression="zstd")
        _fsync(path)
        return FileEntry(sha256=file_sha256(path), rows=table.num_rows)


def remove_stale_staging(parent_dir: str | Path) -> list[Path]:
    """Removes staging folders whose writer is gone; returns them. Call it before a run, under the run's lock."""
    removed = []
    for path in sorted(Path(parent_dir).glob(f"{STAGING_PREFIX}*")):
        match = _STAGING.fullmatch(path.name)
        if match and not Path(f"/proc/{match['pid']}").exists() and not _alive(int(match["pid"])):
            shutil.rmtree(path, ignore_errors=True)
            removed.append(path)
    return removed


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _write_through(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
