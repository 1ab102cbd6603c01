"""Reads the neutral long form: one line a sample, columns run_id, started_at, host, gpu, case, metric, unit, sample,
value, status, and any of arm, settings, revision, driver. Other column names are given by option.

Values come out in SI units. What is not understood is refused with its line: an unknown unit, a metric whose unit turns
into another kind of quantity, a time without zone. A metric that changes between units of one kind (us, later ms) is
converted, and the conversion is told.
"""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import TextIO

from store.bundle.errors import BundleError
from store.bundle.manifest import checked_run_id
from store.exchange.errors import ImportRefused
from store.exchange.statuses import CaseStatus, case_status
from store.exchange.units import Dimension, Unit, unit_of

REQUIRED = ("run_id", "started_at", "host", "gpu", "case", "metric", "unit", "value")
OPTIONAL = ("sample", "status", "arm", "settings", "revision", "driver")


@dataclass(frozen=True, slots=True, kw_only=True)
class LongCsvOptions:
    """How a file is to be understood."""

    columns: Mapping[str, str] = field(default_factory=dict)
    """Our name -> the file's name, where they differ."""
    time_zone: tzinfo | None = None
    """Of times without one; without it such times are refused."""
    statuses: Mapping[str, str] = field(default_factory=dict)
    """The file's word -> ours, as `failed:crashed`."""
    delimiter: str = ","


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One line of the file, in SI units."""

    line: int
    run_id: str
    started_at: datetime
    host: str
    gpu: str
    case: str
    arm: str
    settings: str
    metric: str
    dimension: Dimension
    sample: str
    value: float | None
    status: CaseStatus
    revision: str | None
    driver: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LongCsv:
    """All readings of a file, in its order, and what was converted, in sentences."""

    readings: tuple[Reading, ...]
    notes: tuple[str, ...]


def read_long_csv(path: str | Path, options: LongCsvOptions | None = None) -> LongCsv:
    """Reads the whole file.

    Raises:
        ImportRefused: it cannot be read, or a line of it cannot be understood; file and line are named.
    """
    reader = _Reader(Path(path), options or LongCsvOptions())
    readings = tuple(reader.readings())
    if not readings:
        raise ImportRefused(f"{path}: has no rows")
    return LongCsv(readings=readings, notes=tuple(reader.notes))


def _open_text(path: Path) -> TextIO:
    """The file as text; a gzipped one is known by its first bytes."""
    with path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
    if packed:
        return gzip.open(path, "rt", newline="", encoding="utf-8-sig")
    return path.open(newline="", encoding="utf-8-sig")


class _Reader:
    def __init__(self, path: Path, options: LongCsvOptions) -> None:
        self._path = path
        self._options = options
        self._units: dict[tuple[str, str, str], tuple[str, Unit]] = {}
        self._seen: set[tuple[str, ...]] = set()
        self.notes: list[str] = []

    def readings(self) -> Iterator[Reading]:
        try:
            with _open_text(self._path) as file:
                rows = csv.DictReader(file, delimiter=self._options.delimiter, strict=True)
                names = self._names(rows.fieldnames or [])
                for row in rows:
                    if None in row or None in row.values():
                        raise self._refusal(rows.line_num, "has not as many fields as the head")
                    yield self._reading(rows.line_num, {ours: row[theirs].strip() for ours, theirs in names.items()})
        except OSError as error:
            raise ImportRefused(f"{self._path}: cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise ImportRefused(f"{self._path}: is not UTF-8 at byte {error.start}") from error
        except (EOFError, zlib.error) as error:
            raise ImportRefused(f"{self._path}: is cut or damaged: {error}") from error
        except csv.Error as error:
            raise ImportRefused(f"{self._path}: is not CSV: {error}") from error

    def _names(self, head: Sequence[str]) -> dict[str, str]:
        unknown = sorted(set(self._options.columns) - {*REQUIRED, *OPTIONAL})
        if unknown:
            raise ImportRefused(f"column option {unknown[0]!r}: must be one of {', '.join((*REQUIRED, *OPTIONAL))}")
        names = {name: self._options.columns.get(name, name) for name in (*REQUIRED, *OPTIONAL)}
        missing = [ours for ours in dict.fromkeys((*REQUIRED, *self._options.columns)) if names[ours] not in head]
        if missing:
            words = ", ".join(repr(ours) if names[ours] == ours else f"{names[ours]!r} for {ours}" for ours in missing)
            raise ImportRefused(
                f"{self._path}: has no column {words}; it has {', '.join(head) or 'no head'};"
                f" name it with --column {missing[0]}=THEIRS"
            )
        return {ours: theirs for ours, theirs in names.items() if theirs in head}

    def _reading(self, line: int, row: Mapping[str, str]) -> Reading:
        for name in ("run_id", "host", "gpu", "case", "metric"):
            if not row[name]:
                raise self._refusal(line, f"{name} is empty")
        try:
            checked_run_id(row["run_id"])
        except BundleError as error:
            raise self._refusal(line, str(error)) from error
        arm, settings = row.get("arm", ""), row.get("settings", "")
        unit = self._unit(line, (row["case"], arm, row["metric"]), row["unit"])
        reading = Reading(
            line=line,
            run_id=row["run_id"],
            started_at=self._time(line, row["started_at"]),
            host=row["host"],
            gpu=row["gpu"],
            case=row["case"],
            arm=arm,
            settings=settings,
            metric=row["metric"],
            dimension=unit.dimension,
            sample=row.get("sample", ""),
            value=self._value(line, row["value"], unit),
            status=self._status(line, row.get("status", "")),
            revision=row.get("revision") or None,
            driver=row.get("driver") or None,
        )
        self._refuse_double(reading)
        return reading

    def _unit(self, line: int, series: tuple[str, str, str], text: str) -> Unit:
        unit = unit_of(text)
        if unit is None:
            raise self._refusal(
                line, f"unit {text!r} is unknown; known are ns us ms s, B to TiB, FLOP/s, B/s, Hz, W, J, C, %"
            )
        before = self._units.get(series)
        if before is not None and before[0] != text:
            if before[1].dimension is not unit.dimension:
                raise self._refusal(
                    line, f"unit of {series[2]} of case {series[0]!r} changes from {before[0]!r} to {text!r}"
                )
            self.notes.append(
                f"line {line}: unit of {series[2]} of case {series[0]!r} changes from {before[0]} to {text};"
                f" all values were converted to {unit.dimension.value}"
            )
        self._units[series] = (text, unit)
        return unit

    def _time(self, line: int, text: str) -> datetime:
        try:
            at = datetime.fromisoformat(text)
        except ValueError as error:
            raise self._refusal(line, f"started_at {text!r} is not an ISO 8601 time") from error
        if at.tzinfo is None:
            if self._options.time_zone is None:
                raise self._refusal(line, f"started_at {text!r} has no time zone; write one, or say --time-zone")
            at = at.replace(tzinfo=self._options.time_zone)
        return at.astimezone(UTC)

    def _value(self, line: int, text: str, unit: Unit) -> float | None:
        if not text:
            return None
        try:
            value = float(text)
        except ValueError as error:
            raise self._refusal(line, f"value {text!r} is not a number") from error
        return value * unit.factor if math.isfinite(value) else value

    def _status(self, line: int, text: str) -> CaseStatus:
        status = case_status(self._options.statuses.get(text, text))
        if status is None:
            raise self._refusal(
                line, f"status {text!r} is unknown; give its meaning with --status {text}=failed:crashed"
            )
        return status

    def _refuse_double(self, reading: Reading) -> None:
        if not reading.sample:
            return
        r = reading
        key = (r.run_id, r.host, r.gpu, r.case, r.arm, r.settings, r.metric, r.sample)
        if key in self._seen:
            raise self._refusal(
                r.line, f"sample {r.sample} of {r.metric} of case {r.case!r} in run {r.run_id!r} is there twice"
            )
        self._seen.add(key)

    def _refusal(self, line: int, what: str) -> ImportRefused:
        return ImportRefused(f"{self._path} line {line}: {what}")
