"""Length traces: when each request came, how many tokens it brought and how many it asked for."""

from __future__ import annotations

import csv
import hashlib
import json
import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench_suite.shapes.errors import ShapeError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LengthTrace:
    """Requests in order of arrival; all arrays have one element per request."""

    name: str
    arrival_s: NDArray[np.float64]
    """Seconds since the first request, never falling."""
    input_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    cached_prefix_tokens: NDArray[np.int64]
    """Leading input tokens whose keys and values an earlier request left in the cache: attended to, not computed."""
    source: str
    licence: str
    sha256: str
    """Of the file the trace was read from."""

    def __len__(self) -> int:
        return int(self.arrival_s.size)

    def slice(self, start: int, stop: int) -> LengthTrace:
        """Requests start..stop-1, with time counted from the first of them."""
        if not 0 <= start < stop <= len(self):
            raise ShapeError(
                f"trace {self.name}: requests {start}:{stop} of {len(self)}, must be a part that is not empty"
            )
        part = np.s_[start:stop]
        return replace(
            self,
            name=f"{self.name}[{start}:{stop}]",
            arrival_s=self.arrival_s[part] - self.arrival_s[start],
            input_tokens=self.input_tokens[part],
            output_tokens=self.output_tokens[part],
            cached_prefix_tokens=self.cached_prefix_tokens[part],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceColumns:
    """Which column of a CSV file, or key of a JSON line, holds what."""

    arrival: str | None = "arrival_s"
    """None: the file has no arrival times, and `requests_per_s` spreads them."""
    input_tokens: str = "input_tokens"
    output_tokens: str = "output_tokens"
    cached_prefix_tokens: str | None = None
    arrival_unit: str = "s"
    """s, ms, or iso (dates and times)."""


KNOWN_COLUMNS: Mapping[str, TraceColumns] = {
    "observatory": TraceColumns(),
    "azure": TraceColumns(
        arrival="TIMESTAMP", input_tokens="ContextTokens", output_tokens="GeneratedTokens", arrival_unit="iso"
    ),
    "burstgpt": TraceColumns(arrival="Timestamp", input_tokens="Request tokens", output_tokens="Response tokens"),
    "mooncake": TraceColumns(
        arrival="timestamp", input_tokens="input_length", output_tokens="output_length", arrival_unit="ms"
    ),
}
"""Column names of public traces; a file whose header has all three of an entry needs no option."""


def read_trace(
    path: Path, columns: TraceColumns | None = None, *, requests_per_s: float | None = None, seed: int = 0
) -> LengthTrace:
    """The trace in a CSV or JSON-lines file (.csv, .jsonl, .ndjson).

    Without `columns` the header is matched against KNOWN_COLUMNS. `requests_per_s` replaces the arrival times by a
    Poisson process of that rate from `seed`, and must be given where the file has none.
    Raises ShapeError with file, row and value for anything that is not a trace.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ShapeError(f"trace {path}: cannot be read ({error.strerror})") from None
    return _parse(path.name, text, columns, requests_per_s, seed)


def shipped_traces() -> tuple[str, ...]:
    """The names of the traces in configs/traces."""
    index = resources.files("configs") / "traces" / "traces.toml"
    return tuple(tomllib.loads(index.read_text(encoding="utf-8")))


def shipped_trace(name: str) -> LengthTrace:
    """A trace of configs/traces with its source and licence; ShapeError lists the known names."""
    folder = resources.files("configs") / "traces"
    index = tomllib.loads((folder / "traces.toml").read_text(encoding="utf-8"))
    if name not in index:
        raise ShapeError(
            f"trace {name!r}: not shipped, must be one of {', '.join(sorted(index))}, or a path to your own"
        )
    entry = index[name]
    file: Traversable = folder / str(entry["file"])
    trace = _parse(file.name, file.read_bytes(), KNOWN_COLUMNS["observatory"], None, 0)
    return replace(trace, name=name, source=str(entry["source"]), licence=str(entry["licence"]))


def trace_named(name_or_path: str) -> LengthTrace:
    """A shipped trace by its name, or the file at a path."""
    path = Path(name_or_path)
    return read_trace(path) if path.suffix or path.exists() else shipped_trace(name_or_path)


def _parse(
    name: str, content: bytes, columns: TraceColumns | None, requests_per_s: float | None, seed: int
) -> LengthTrace:
    rows = list(_rows(name, content.decode("utf-8-sig")))
    if not rows:
        raise ShapeError(f"trace {name}: no requests in it")
    chosen = columns or _recognise(name, rows[0])
    if chosen.cached_prefix_tokens is None and "cached_prefix_tokens" in rows[0]:
        chosen = replace(chosen, cached_prefix_tokens="cached_prefix_tokens")
    inputs = _whole(name, rows, chosen.input_tokens, least=1)
    outputs = _whole(name, rows, chosen.output_tokens, least=1)
    cached = (
        np.zeros_like(inputs)
        if chosen.cached_prefix_tokens is None
        else _whole(name, rows, chosen.cached_prefix_tokens, least=0)
    )
    arrival = _arrivals(name, rows, chosen, requests_per_s, seed)
    order = np.argsort(arrival, kind="stable")
    return LengthTrace(
        name=name.split(".")[0],
        arrival_s=arrival[order] - arrival[order[0]],
        input_tokens=inputs[order],
        output_tokens=outputs[order],
        cached_prefix_tokens=np.minimum(cached, inputs - 1)[order],
        source=name,
        licence="not stated",
        sha256=hashlib.sha256(content).hexdigest(),
    )


def _rows(name: str, text: str) -> Iterator[Mapping[str, Any]]:
    if not name.endswith((".jsonl", ".ndjson")):
        yield from csv.DictReader(text.splitlines())
        return
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                raise ShapeError(f"trace {name}: line {number} is not JSON") from None
            if not isinstance(row, dict):
                raise ShapeError(f"trace {name}: line {number} is no JSON object")
            yield row


def _recognise(name: str, row: Mapping[str, Any]) -> TraceColumns:
    for columns in KNOWN_COLUMNS.values():
        if {columns.arrival, columns.input_tokens, columns.output_tokens} <= set(row):
            return columns
    raise ShapeError(
        f"trace {name}: columns are {', '.join(map(str, row))}; name those of arrival, input and output tokens"
    )


def _cells(name: str, rows: list[Mapping[str, Any]], column: str) -> list[Any]:
    if column not in rows[0]:
        raise ShapeError(f"trace {name}: no column {column!r}, must be one of {', '.join(map(str, rows[0]))}")
    return [row.get(column) for row in rows]


def _whole(name: str, rows: list[Mapping[str, Any]], column: str, *, least: int) -> NDArray[np.int64]:
    values = []
    for number, cell in enumerate(_cells(name, rows, column), start=1):
        try:
            value = int(cell)
        except (TypeError, ValueError):
            value = least - 1
        if value < least:
            raise ShapeError(f"trace {name}: request {number}: {column} is {cell!r}, must be a whole number >= {least}")
        values.append(value)
    return np.asarray(values, dtype=np.int64)


def _arrivals(
    name: str, rows: list[Mapping[str, Any]], columns: TraceColumns, requests_per_s: float | None, seed: int
) -> NDArray[np.float64]:
    if requests_per_s is not None:
        if not (requests_per_s > 0 and math.isfinite(requests_per_s)):
            raise ShapeError(f"trace {name}: rate is {requests_per_s} requests/s, must be > 0")
        gaps = np.random.default_rng(seed).exponential(1 / requests_per_s, len(rows))
        return np.asarray(np.cumsum(gaps), dtype=np.float64)
    if columns.arrival is None:
        raise ShapeError(f"trace {name}: no arrival times; give a rate in requests/s")
    if columns.arrival_unit not in ("s", "ms", "iso"):
        raise ShapeError(f"trace {name}: arrival unit is {columns.arrival_unit!r}, must be s, ms or iso")
    times = []
    for number, cell in enumerate(_cells(name, rows, columns.arrival), start=1):
        try:
            time = _seconds(cell, columns.arrival_unit)
        except (TypeError, ValueError):
            time = math.nan
        if not math.isfinite(time):
            raise ShapeError(f"trace {name}: request {number}: {columns.arrival} is {cell!r}, is no time")
        times.append(time)
    return np.asarray(times, dtype=np.float64)


def _seconds(cell: Any, unit: str) -> float:
    if unit != "iso":
        return float(cell) * (1e-3 if unit == "ms" else 1.0)
    whole, _, fraction = str(cell).partition(".")  # Azure writes seven decimals, datetime reads six
    digits = fraction.rstrip("Z").partition("+")[0]
    moment = datetime.fromisoformat(whole.rstrip("Z") + "+00:00")
    return moment.timestamp() + (float(f"0.{digits}") if digits else 0.0)
