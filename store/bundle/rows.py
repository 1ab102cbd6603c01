"""Rows to Arrow by an explicit schema: nothing is guessed, widened or dropped.

DuckDB reads a set of Parquet files by the schema of the first: a column that was inferred once as integer truncates
the fractions of every later file without a word. So each table has one schema and rows either fit it or are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from store.bundle.errors import RowsError

Rows: TypeAlias = "Sequence[Mapping[str, Any]] | pa.Table"
"""What a caller may give: dicts with every column, or an Arrow table."""


def rows_to_table(table_name: str, schema: pa.Schema, rows: Rows) -> pa.Table:
    """The rows with exactly the columns of `schema`, in its order.

    Raises:
        RowsError: a column is unknown or missing, or a value has another type. A value that is not known is None,
            its column is there all the same. Whole numbers pass for floats; nothing else is converted.
    """
    if isinstance(rows, pa.Table):
        return _checked_table(table_name, schema, rows)
    names = set(schema.names)
    for number, row in enumerate(rows):
        if row.keys() != names:
            _refuse_columns(f"{table_name} row {number}", names, set(row.keys()))
    columns = [_column(table_name, field, [row[field.name] for row in rows]) for field in schema]
    return pa.table(columns, schema=schema)


def _refuse_columns(where: str, expected: set[str], given: set[str]) -> None:
    if unknown := sorted(given - expected):
        raise RowsError(f"{where}: unknown column {unknown[0]!r}; the columns are those of docs/schema.md")
    if missing := sorted(expected - given):
        raise RowsError(f"{where}: column {missing[0]!r} is missing; give None where there is no value")


def _column(table_name: str, field: pa.Field, values: list[Any]) -> pa.Array:
    if pa.types.is_timestamp(field.type) or _is_timestamp_list(field.type):
        _refuse_naive_times(table_name, field, values)
    _refuse_conversions(table_name, field, values)
    try:
        return pa.array(values, type=field.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError) as error:
        culprit = _first_unfit(field, values)
        raise RowsError(f"{table_name}.{field.name}: {culprit} does not fit {field.type}") from error


def _refuse_conversions(table_name: str, field: pa.Field, values: list[Any]) -> None:
    """Arrow would cut 1.5 to 1 for a whole number, and take True for 1.0."""
    kind = field.type.value_type if pa.types.is_list(field.type) else field.type
    refused: tuple[type, ...]
    if pa.types.is_integer(kind):
        refused = (float, np.floating, bool, np.bool_)
    elif pa.types.is_floating(kind):
        refused = (bool, np.bool_)
    else:
        return
    for number, value in enumerate(values):
        if isinstance(value, np.ndarray):
            culprits = value[:1].tolist() if issubclass(value.dtype.type, refused) else []
        else:
            culprits = [v for v in (value if isinstance(value, list | tuple) else (value,)) if isinstance(v, refused)]
        if culprits:
            raise RowsError(f"{table_name}.{field.name}: row {number} has {culprits[0]!r}, which is no {kind}")


def _is_timestamp_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) and pa.types.is_timestamp(kind.value_type))


def _refuse_naive_times(table_name: str, field: pa.Field, values: list[Any]) -> None:
    for value in values:
        for at in value if isinstance(value, list | tuple) else (value,):
            if at is None or (isinstance(at, datetime) and at.tzinfo is not None):
                continue
            raise RowsError(
                f"{table_name}.{field.name}: {at!r} is not a time with its zone; give an aware UTC datetime"
            )


def _first_unfit(field: pa.Field, values: list[Any]) -> str:
    for number, value in enumerate(values):
        try:
            pa.array([value], type=field.type)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError):
            return f"row {number} has {repr(value)[:80]}, which"
    return "a value"


def _checked_table(table_name: str, schema: pa.Schema, table: pa.Table) -> pa.Table:
    if set(table.column_names) != set(schema.names) or table.num_columns != len(schema):
        _refuse_columns(table_name, set(schema.names), set(table.column_names))
        raise RowsError(f"{table_name}: a column appears twice")
    table = table.select(schema.names)
    if table.schema.equals(schema):
        return table.replace_schema_metadata(None)
    for field, given in zip(schema, table.schema, strict=True):
        if not same_type(given.type, field.type):
            raise RowsError(f"{table_name}.{field.name}: type {given.type} where {field.type} is the rule")
    return table.cast(schema)


def same_type(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether the types are the same but for the name of a list's element and 32- or 64-bit offsets."""
    if pa.types.is_list(wanted):
        lists = pa.types.is_list(given) or pa.types.is_large_list(given)
        return lists and same_type(given.value_type, wanted.value_type)
    if pa.types.is_string(wanted):
        return bool(pa.types.is_string(given) or pa.types.is_large_string(given) or pa.types.is_string_view(given))
    if pa.types.is_binary(wanted):
        return bool(pa.types.is_binary(given) or pa.types.is_large_binary(given) or pa.types.is_binary_view(given))
    return bool(given == wanted)
