"""What the host says comes back as it was said: every host table, any values."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.lake.lake import Lake
from store.lake.tables import HOST_TABLES


def values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Any value of a column, null among them."""
    if pa.types.is_list(kind):
        known: st.SearchStrategy[Any] = st.lists(values_of(kind.value_type), max_size=3)
    elif pa.types.is_string(kind):
        known = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
    elif pa.types.is_floating(kind):
        known = st.floats(allow_nan=False)
    elif pa.types.is_boolean(kind):
        known = st.booleans()
    elif pa.types.is_integer(kind):
        bound = 2 ** (kind.bit_width - 1)
        known = st.integers(-bound, bound - 1)
    elif pa.types.is_timestamp(kind):
        known = st.datetimes(datetime(1970, 1, 1), datetime(2099, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001
    else:
        known = st.binary(max_size=12)
    return st.none() | known


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """One store for all examples."""
    return Lake.create(tmp_path_factory.mktemp("host") / "store")


@settings(max_examples=3)
@given(data=st.data())
def test_every_host_table_round_trips(lake: Lake, data: st.DataObject) -> None:
    """Rows of every table that the host writes are read as they were written."""
    for name, schema in HOST_TABLES.items():
        row = st.fixed_dictionaries({field.name: values_of(field.type) for field in schema})
        rows = data.draw(st.lists(row, min_size=1, max_size=3), label=name)
        lake.overwrite(name, rows)
        found = lake.sql(f"SELECT * FROM {name}").to_pylist()  # noqa: S608 own names
        assert sorted(map(repr, found)) == sorted(map(repr, _utc(rows)))


def _utc(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As Arrow gives them back."""
    return pa.Table.from_pylist(rows, schema=None if not rows else _schema_of(rows)).to_pylist()


def _schema_of(rows: list[dict[str, Any]]) -> pa.Schema:
    return next(schema for schema in HOST_TABLES.values() if set(schema.names) == set(rows[0]))
