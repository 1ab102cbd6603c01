"""Reads a bundle and believes nothing: version, file list, hashes, schemas, row counts and run id are all checked."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from store.bundle.errors import BundleError, FutureBundleError, RowsError
from store.bundle.manifest import MANIFEST_NAME, FileEntry, Manifest, decode_manifest, table_file
from store.bundle.rows import rows_to_table
from store.bundle.schemas import BUNDLE_TABLES, RowStatus, added_since

__all__ = ["Bundle", "BundleError", "FutureBundleError", "RowsError", "read_bundle", "read_manifest"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bundle:
    """One run as read: every table is there, with exactly its schema."""

    run_id: str
    manifest: Manifest
    tables: dict[str, pa.Table]


def read_manifest(path: str | Path) -> Manifest:
    """The manifest of the bundle in folder `path`.

    Raises:
        BundleError: there is none or it is broken.
    """
    folder = Path(path)
    try:
        data = (folder / MANIFEST_NAME).read_bytes()
    except OSError as error:
        raise BundleError(f"{folder.name}: no bundle, {MANIFEST_NAME} cannot be read: {error.strerror}") from error
    return decode_manifest(data, folder.name)


def read_bundle(path: str | Path) -> Bundle:
    """The verified bundle in folder `path`.

    Raises:
        FutureBundleError: written by a newer version.
        BundleError: anything about it is not as its manifest and the schemas say; the message names file and reason.
    """
    folder = Path(path)
    manifest = read_manifest(folder)
    tables = {name: _read_table(folder, manifest, name, manifest.files[table_file(name)]) for name in BUNDLE_TABLES}
    if tables["runs"].num_rows != 1:
        raise BundleError(f"{folder.name}: {tables['runs'].num_rows} rows in runs, must be exactly 1")
    unknown = set(pc.unique(tables["results"]["status"]).to_pylist()) - set(RowStatus)
    if unknown:
        raise BundleError(f"{folder.name}: results.status {unknown.pop()!r}, must be one of {', '.join(RowStatus)}")
    return Bundle(run_id=manifest.run_id, manifest=manifest, tables=tables)


def _read_table(folder: Path, manifest: Manifest, table_name: str, entry: FileEntry) -> pa.Table:
    path = folder / table_file(table_name)
    where = f"{folder.name}/{path.name}"
    try:
        data = path.read_bytes()  # what is decoded is what was hashed
        found = hashlib.sha256(data).hexdigest()
        if found != entry.sha256:
            raise BundleError(f"{where}: sha256 {found[:16]}… is not {entry.sha256[:16]}… of the manifest: damaged")
        table = pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False)
        table = _with_later_columns(table_name, table, manifest.schema_version)
        table = rows_to_table(table_name, BUNDLE_TABLES[table_name], table)
    except OSError as error:
        raise BundleError(f"{where}: cannot be read: {error.strerror or error}") from error
    except pa.ArrowException as error:
        raise BundleError(f"{where}: is not Parquet: {str(error).splitlines()[0]}") from error
    if table.num_rows != entry.rows:
        raise BundleError(f"{where}: {table.num_rows} rows where the manifest says {entry.rows}")
    if pc.any(pc.or_kleene(pc.not_equal(table["run_id"], manifest.run_id), pc.is_null(table["run_id"]))).as_py():
        raise BundleError(f"{where}: holds rows of another run than {manifest.run_id!r}")
    return table


def _with_later_columns(table_name: str, table: pa.Table, version: int) -> pa.Table:
    """The table of an older node, with null in the columns that came after its version."""
    schema = BUNDLE_TABLES[table_name]
    for column in added_since(version, table_name):
        if column not in table.column_names:
            field = schema.field(column)
            table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    return table
