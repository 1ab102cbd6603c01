"""HTML tables: text in the DOM, so that it can be read, copied, searched and tested."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.markup import Html, element, escape, join


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column: its lower-case head, whether its cells are numbers (set right), a class for its width."""

    head: str
    number: bool = False
    css: str = ""
    small_head: bool = True
    """Whether the head is written before the cell when the table becomes blocks on a phone."""

    @property
    def classes(self) -> str:
        return " ".join(filter(None, ("ko-num" if self.number else "", self.css)))


def table(columns: Sequence[Column], rows: Sequence[Sequence[object]], *, label: str, css: str = "") -> Html:
    """A table named `label` for those who cannot see it. Cells that are not Html are escaped."""
    heads = join(
        [element("th", column.head, css=column.classes, attributes={"scope": "col"}) for column in columns],
    )
    body = []
    for row in rows:
        if len(row) != len(columns):
            raise ValueError(f"table {label!r}: a row has {len(row)} cells, must have {len(columns)}")
        cells = [
            element("td", cell, css=column.classes, attributes={"data-head": column.head if column.small_head else ""})
            for column, cell in zip(columns, row, strict=True)
        ]
        body.append(element("tr", join(cells)))
    inner = join([element("thead", element("tr", heads)), element("tbody", join(body))])
    built = element("table", inner, css=f"ko-table {css}".strip(), attributes={"aria-label": label})
    return element("div", built, css="ko-scroll", attributes={"tabindex": "0", "role": "region", "aria-label": label})


def two_lines(first: object, second: object) -> Html:
    """A cell of two lines, the second muted: the operator, and its shape in words."""
    return join([element("div", first), element("div", second, css="ko-small")])


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatCell:
    """A cell of a heat table: the number, a second line, and the ground it stands on (empty where none)."""

    first: str
    second: str = ""
    ground: str = ""
    """CSS colour, from dashboard.palette."""
    text: str = ""
    """CSS colour of the text on it."""
    href: str = ""
    title: str = ""


def heat_table(rows: Sequence[str], columns: Sequence[str], cells: Sequence[Sequence[HeatCell]], *, label: str) -> Html:
    """A heat map as a table: every cell says its number, so that the colour is only a help."""
    head = join([element("th", "", attributes={"scope": "col"})])
    head = join([head, *(element("th", name, attributes={"scope": "col"}) for name in columns)])
    body = []
    for name, line in zip(rows, cells, strict=True):
        body.append(element("tr", join([element("th", name, attributes={"scope": "row"}), *map(_heat_cell, line)])))
    inner = join([element("thead", element("tr", head)), element("tbody", join(body))])
    built = element("table", inner, css="ko-heat", attributes={"aria-label": label})
    return element("div", built, css="ko-scroll", attributes={"tabindex": "0", "role": "region", "aria-label": label})


def _heat_cell(cell: HeatCell) -> Html:
    lines = join([element("div", cell.first, css="ko-heat-first"), element("div", cell.second, css="ko-small")])
    if cell.href:
        lines = element("a", lines, attributes={"href": cell.href, "target": "_self"})
    attributes = {"title": cell.title} if cell.title else {}
    if cell.ground:
        attributes["style"] = f"background:{cell.ground};color:{cell.text}"
    return element("td", lines, css="" if cell.ground else "ko-heat-none", attributes=attributes)


def scale_bar(grounds: Sequence[str], low: str, high: str) -> Html:
    """The colours of a heat map with the words of its two ends."""
    steps = join([element("i", "", attributes={"style": f"background:{ground}"}) for ground in grounds])
    return element("div", join([escape(low), element("span", steps), escape(high)]), css="ko-scale")
