"""Laying the cases of an operator out in a plane: which axis goes across, what names a line. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

AxisValue = object


@dataclass(frozen=True, slots=True, kw_only=True)
class Plane:
    """Where each case stands: `across` is the axis with the most values; `lines` name the rest."""

    across: str
    columns: tuple[str, ...]
    lines: tuple[str, ...]
    places: Mapping[int, tuple[int, int]]
    """Index of the case -> (line, column)."""


def axis_text(value: AxisValue) -> str:
    """A size with thousands; a ragged axis as its smallest and largest size."""
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, int | float):
        return f"{value:,}"
    if isinstance(value, list | tuple):
        sizes = sorted(v for v in value if isinstance(v, int | float))
        if not sizes:
            return str(value)
        return f"{sizes[0]:,}" if sizes[0] == sizes[-1] else f"{sizes[0]:,} to {sizes[-1]:,}"
    return str(value)


def _order(value: AxisValue) -> tuple[int, float, str]:
    if isinstance(value, int | float):
        return 0, float(value), ""
    if isinstance(value, list | tuple):
        sizes = [float(v) for v in value if isinstance(v, int | float)]
        return 0, sum(sizes) / len(sizes) if sizes else 0.0, str(value)
    return 1, 0.0, str(value)


FIRST_ACROSS = ("M", "rows", "tokens", "batch", "bytes", "elements")
"""Axes that change from call to call in production, tried first when several have as many values."""


def plane(cases: Sequence[Mapping[str, AxisValue]]) -> Plane | None:
    """A plane for the cases, each given by its named axes; None where there is none."""
    names = list(dict.fromkeys(name for case in cases for name in case))
    if not names:
        return None
    counts = {name: len({axis_text(case.get(name)) for case in cases}) for name in names}
    across = max(names, key=lambda n: (counts[n], -FIRST_ACROSS.index(n) if n in FIRST_ACROSS else -99))
    varying = [name for name in names if name != across and counts[name] > 1]
    columns = sorted(
        {axis_text(case.get(across)): case.get(across) for case in cases}.items(), key=lambda i: _order(i[1])
    )
    column_of = {text: index for index, (text, _) in enumerate(columns)}
    line_names: dict[str, tuple[tuple[int, float, str], ...]] = {}
    for case in cases:
        line_names[_line(case, varying)] = tuple(_order(case.get(name)) for name in varying)
    lines = sorted(line_names, key=lambda text: line_names[text])
    line_of = {text: index for index, text in enumerate(lines)}
    places = {
        index: (line_of[_line(case, varying)], column_of[axis_text(case.get(across))])
        for index, case in enumerate(cases)
    }
    return Plane(across=across, columns=tuple(text for text, _ in columns), lines=tuple(lines), places=places)


def _line(case: Mapping[str, AxisValue], varying: Sequence[str]) -> str:
    return " · ".join(f"{name} {axis_text(case.get(name))}" for name in varying) or "all"
