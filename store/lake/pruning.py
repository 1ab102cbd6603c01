"""Which files a query can leave closed: those whose smallest and largest values exclude what its WHERE asks for.

The log has them for a few columns of each file. Opening a year's files to learn from their footers that one of them has
the series costs more than reading it. Looked at are only comparisons of a column with a bound parameter that hold for
every row of the answer: conditions joined by AND, in the WHERE of a SELECT from that one table, which is named nowhere
else in the query.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from store.lake.delta import ActiveFiles

_OPERATORS = {
    "COMPARE_EQUAL": "=",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_GREATERTHANOREQUALTO": ">",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_LESSTHANOREQUALTO": "<",
}
_COARSE = timedelta(seconds=1)
"""A log may keep times in whole milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A comparison of a column with a parameter: `=`, `<` or `>`, the latter two with equality or without."""

    column: str
    operator: str
    parameter: str


def bounds_of(tree: str) -> dict[str, tuple[Bound, ...]]:
    """Table -> the comparisons that hold for each of its rows that matter; from DuckDB's `json_serialize_sql`."""
    parsed = json.loads(tree)
    nodes = list(_nodes(parsed))
    if any(node.get("cte_map", {}).get("map") for node in nodes):
        return {}
    named = [node["table_name"] for node in nodes if node.get("type") == "BASE_TABLE"]
    found: dict[str, tuple[Bound, ...]] = {}
    for node in nodes:
        source = node.get("from_table") if node.get("type") == "SELECT_NODE" else None
        if source and source.get("type") == "BASE_TABLE" and named.count(source["table_name"]) == 1:
            found[source["table_name"]] = tuple(_bounds(node.get("where_clause")))
    return {table: bounds for table, bounds in found.items() if bounds}


def kept_files(files: ActiveFiles, bounds: Sequence[Bound], parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """The paths of the files that may have a row for which all bounds hold."""
    keep = [True] * len(files.paths)
    for bound in bounds:
        value = parameters.get(bound.parameter)
        lows, highs = files.statistic(f"min.{bound.column}"), files.statistic(f"max.{bound.column}")
        for number, (low, high) in enumerate(zip(lows, highs, strict=True)):
            keep[number] = keep[number] and not _excluded(bound.operator, value, low, high)
    return tuple(path for path, kept in zip(files.paths, keep, strict=True) if kept)


def named_parameters(parameters: Any) -> dict[str, Any]:
    """By the names that the query's tree has: `$name`, or 1, 2 ... for question marks."""
    if isinstance(parameters, Mapping):
        return dict(parameters)
    return {str(number): value for number, value in enumerate(parameters or (), start=1)}


def _excluded(operator: str, value: Any, low: Any, high: Any) -> bool:
    """Whether no value from `low` to `high` is in that relation to `value`; no where they cannot be compared."""
    if isinstance(value, datetime) and isinstance(low, datetime) and isinstance(high, datetime):
        if value.tzinfo is None or low.tzinfo is None or high.tzinfo is None:
            return False
        low, high = low - _COARSE, high + _COARSE
    elif type(value) not in (str, int) or type(low) is not type(value) or type(high) is not type(value):
        return False
    return bool((operator != "<" and value > high) or (operator != ">" and value < low))


def _bounds(condition: Any) -> Iterator[Bound]:
    if not condition:
        return
    if condition.get("type") == "CONJUNCTION_AND":
        for child in condition["children"]:
            yield from _bounds(child)
    elif (operator := _OPERATORS.get(condition.get("type", ""))) is not None:
        left, right = condition["left"], condition["right"]
        if left.get("type") == "COLUMN_REF" and right.get("type") == "VALUE_PARAMETER":
            yield Bound(column=left["column_names"][-1], operator=operator, parameter=right["identifier"])


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        yield tree
        for value in tree.values():
            yield from _nodes(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _nodes(value)
