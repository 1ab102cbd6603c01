"""A derived list as text: TOML in one canonical form, so that deriving again gives the same bytes."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from bench_suite.shapes.derive import Derivation
from bench_suite.shapes.errors import ShapeError
from bench_suite.shapes.representatives import Origin, Recorded, Representative, ShapeList
from bench_suite.shapes.training_run import Sharding, TrainingRun

FORMAT = 1
_WEIGHTS = ("weight_time", "weight_calls", "weight_flops", "weight_bytes")
_TABLES = {Derivation: "derivation", Recorded: "recording", TrainingRun: "training"}
_SIGNIFICANT = 6
"""Digits of a float: more than a weight means, fewer than differ between machines."""


def write_list(shapes: ShapeList) -> str:
    """The canonical text of a list."""
    return "\n".join(_lines(shapes)) + "\n"


def read_list(path: Path) -> ShapeList:
    """The list in a file that `write_list` made; ShapeError for anything else."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ShapeError(f"shapes {path}: cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ShapeError(f"shapes {path}: {error}") from None
    return parse_list(content, where=f"shapes {path}")


def parse_list(content: Mapping[str, Any], *, where: str) -> ShapeList:
    if content.get("format") != FORMAT:
        raise ShapeError(f"{where}: format is {content.get('format')!r}, must be {FORMAT}; derive it again")
    try:
        quality = content["quality"]
        return ShapeList(
            origin=_origin(content),
            shapes=tuple(_shape(entry) for entry in content["shape"]),
            coverage_time=float(quality["coverage_time"]),
            error_time=float(quality["error_time"]),
            error_total=float(quality["error_total"]),
        )
    except KeyError as error:
        raise ShapeError(f"{where}: key {error.args[0]!r} is missing; derive it again") from None
    except TypeError as error:
        raise ShapeError(f"{where}: {str(error).split('.__init__() ')[-1]}; derive it again") from None


def _origin(content: Mapping[str, Any]) -> Origin:
    if "recording" in content:
        return Recorded(**content["recording"])
    if "training" in content:
        values = dict(content["training"])
        return TrainingRun(sharding=Sharding(values.pop("sharding")), **values)
    return Derivation(**content["derivation"])


def _shape(entry: Mapping[str, Any]) -> Representative:
    values = dict(entry)
    axes = {name: tuple(size) if isinstance(size, list) else size for name, size in values.pop("axes").items()}
    low, high = values.pop("cover")
    return Representative(axes=tuple(axes.items()), cover_low=low, cover_high=high, **values)


def _lines(shapes: ShapeList) -> Iterator[str]:
    origin = shapes.origin
    yield from _header(origin)
    yield "# Weights are shares of everything that ran; cover is the range of M, rows, q or batch."
    yield f"format = {FORMAT}"
    yield ""
    yield f"[{_TABLES[type(origin)]}]"
    for field in fields(origin):
        yield f"{field.name} = {_value(getattr(origin, field.name))}"
    yield ""
    yield "[quality]"
    yield f"representatives = {len(shapes.shapes)}"
    for name in ("coverage_time", "error_time", "error_total"):
        yield f"{name} = {_value(getattr(shapes, name))}"
    for shape in shapes.shapes:
        yield ""
        yield from _shape_lines(shape)


def _header(origin: Origin) -> Iterator[str]:
    if isinstance(origin, TrainingRun):
        yield f"# One optimizer step of one rank: {origin.summary}."
        yield f"# Sizes of the model: {origin.model_source}. Time is roofline time."
    elif isinstance(origin, Recorded):
        yield from _recorded_header(origin)
    else:
        yield from _derived_header(origin)


def _recorded_header(origin: Recorded) -> Iterator[str]:
    yield f"# The heaviest shapes of a {origin.format} recording, weighted by {origin.weighted_by}."


def _derived_header(origin: Derivation) -> Iterator[str]:
    ranks = "one rank" if origin.tensor_parallel == 1 else f"one of {origin.tensor_parallel} ranks"
    yield f"# {origin.model}, {ranks}, serving {origin.trace} at {origin.load:g} times its arrival rate."
    yield f"# Derived from {origin.trace_source} ({origin.trace_licence}) by bench_suite.shapes."
    yield "# Time is roofline time."


def _shape_lines(shape: Representative) -> Iterator[str]:
    yield "[[shape]]"
    for name in ("operator", "family", "phase"):
        yield f"{name} = {_value(getattr(shape, name))}"
    sizes = ", ".join(f"{name} = {_value(size)}" for name, size in shape.axes)
    yield f"axes = {{ {sizes} }}"
    for name in _WEIGHTS:
        yield f"{name} = {_value(getattr(shape, name))}"
    yield f"members = {shape.members}"
    yield f"cover = [{shape.cover_low}, {shape.cover_high}]"


def _value(value: object) -> str:
    """A TOML scalar or list of whole numbers."""
    if isinstance(value, tuple):
        return "[" + ", ".join(str(item) for item in value) + "]"
    if isinstance(value, float):
        text = f"{value:.{_SIGNIFICANT}g}"
        return text if any(mark in text for mark in ".en") else f"{text}.0"
    if isinstance(value, int):
        return str(value)
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'
