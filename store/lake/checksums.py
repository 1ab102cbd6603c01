"""sha256 of every data file, taken when it was written: zeroed bytes in a Parquet body go unnoticed by a query."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from store.bundle.manifest import file_sha256
from store.bundle.place import Place
from store.bundle.rows import rows_to_table
from store.lake.delta import Commit, DeltaTables
from store.lake.tables import HOST_TABLES, LAKE_TABLES

OWN_TABLE = "checksums"


class ChecksumKeeper:
    """Follows the files of all tables but its own; its caller holds the ingester's lease."""

    def __init__(self, place: Place, tables: DeltaTables) -> None:
        self._place = place
        self._tables = tables

    def record_new(self) -> int:
        """Hashes files that have no hash yet; returns how many. A file is believed when it is first seen."""
        known = set(self._tables.dataset(OWN_TABLE).to_table(columns=["path"])["path"].to_pylist())
        at = datetime.now(UTC)
        rows: list[dict[str, Any]] = []
        for table_name, path in self._active():
            if path not in known:
                found = sha256_of(self._place, path)
                if found is not None:
                    rows.append({"table_name": table_name, "path": path, "sha256": found, "at": at})
        if rows:
            data = rows_to_table(OWN_TABLE, HOST_TABLES[OWN_TABLE], rows)
            self._tables.commit(OWN_TABLE, lambda _: Commit(rows=data))
        return len(rows)

    def forget_gone(self) -> None:
        """Keeps the hashes of active files only; for after an optimize."""
        active = {path for _, path in self._active()}
        rows = [row for row in self._rows() if row["path"] in active]
        data = rows_to_table(OWN_TABLE, HOST_TABLES[OWN_TABLE], rows)
        self._tables.commit(OWN_TABLE, lambda _: Commit(rows=data, overwrite=True))

    def known(self) -> Mapping[str, str]:
        """Path below the store -> sha256."""
        return {row["path"]: row["sha256"] for row in self._rows()}

    def _rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._tables.dataset(OWN_TABLE).to_table().to_pylist()
        return rows

    def _active(self) -> Iterator[tuple[str, str]]:
        prefix = f"{self._place.uri}/"
        for table_name in LAKE_TABLES:
            if table_name == OWN_TABLE:
                continue
            for path in self._tables.active_files(table_name).paths:
                yield table_name, path.removeprefix(prefix)


def sha256_of(place: Place, path: str) -> str | None:
    """Of a file below the store, or None where it is gone."""
    if place.folder is not None:
        local: Path = place.folder / path
        return file_sha256(local) if local.is_file() else None
    data = place.read(path)
    return None if data is None else hashlib.sha256(data).hexdigest()
