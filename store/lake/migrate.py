"""Brings an older store to the schemas of this version: by named steps, each shown before it is done.

A step only adds: tables, nullable columns, settings of a table's log. What was written stays as it was; a query fills
what older files lack with null. A store that is newer than this version is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from store.lake.delta import LOG_PROPERTIES
from store.lake.errors import StoreError
from store.lake.lake import Lake
from store.lake.tables import LAKE_TABLES, MADE_ANEW, stored_schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One step: its name, and what it does to which table."""

    name: str
    table: str
    columns: tuple[str, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()

    @property
    def words(self) -> str:
        """The step in words."""
        if self.columns:
            return f"{self.name}: {self.table} gets {', '.join(self.columns)}"
        if self.properties:
            return f"{self.name}: {self.table} gets {', '.join(f'{name} = {value}' for name, value in self.properties)}"
        return f"{self.name}: {self.table}"


def pending_migrations(lake: Lake) -> tuple[Migration, ...]:
    """What has to be done; empty for a store of this version. Changes nothing.

    Raises:
        StoreError: a table has columns or types that this version does not know.
        TableLostError: a table that no migration can make is not there.
    """
    return tuple(_pending(lake))


def migrate(lake: Lake, *, dry_run: bool = False, wait_s: float = 60.0) -> tuple[Migration, ...]:
    """Does what has to be done and returns it; with `dry_run` only returns it.

    Raises:
        StoreError: a table is newer than this version.
    """
    with lake.exclusive(wait_s):
        steps = pending_migrations(lake)
        if not dry_run:
            if any(step.name == "add-table" for step in steps):
                lake.tables.create_missing()
            for step in steps:
                if step.name == "add-columns":
                    lake.tables.add_columns(step.table, step.columns)
                elif step.name == "set-properties":
                    lake.tables.set_properties(step.table, dict(step.properties))
    return steps


def _pending(lake: Lake) -> Iterator[Migration]:
    for name in LAKE_TABLES:
        if not lake.tables.exists(name):
            if name not in MADE_ANEW:  # an empty one in its place would hide the loss
                raise lake.tables.missing(name)
            yield Migration(name="add-table", table=name)
            continue
        stored, wanted = lake.tables.columns(name), stored_schema(name).names
        if unknown := [column for column in stored if column not in wanted]:
            raise StoreError(
                f"table {name}: has column {unknown[0]!r}, which this version does not know; upgrade this host"
            )
        if missing := tuple(column for column in wanted if column not in stored):
            yield Migration(name="add-columns", table=name, columns=missing)
        has = lake.tables.properties(name)
        if unset := tuple((key, value) for key, value in LOG_PROPERTIES.items() if has.get(key) != value):
            yield Migration(name="set-properties", table=name, properties=unset)
