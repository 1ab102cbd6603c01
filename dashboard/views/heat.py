"""Operator x device: how candidates stand, as a table whose cells say their number and lead to their series."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from dashboard import markup, words
from dashboard.address import link
from dashboard.data.overview import HEAT_MEASURES, HeatValue, heat_values
from dashboard.palette import DIVERGING, RATIO_SPAN, SEQUENTIAL, Ink, ratio_ink, share_ink, text_ink
from dashboard.sentences import device_name
from dashboard.tables import HeatCell, heat_table, scale_bar

FAMILIES = ("GEMM", "Attention", "RMSNorm", "SwiGLU", "Softmax", "Collective")


def draw_heat() -> None:
    """Draws the table and the choice of its measure."""
    place = st.container(gap=None)
    measure = st.selectbox(
        "Heat map shows",
        list(HEAT_MEASURES),
        key="heat",
        bind="query-params",
        persist_state="session",
        label_visibility="collapsed",
    )
    with place:
        st.html(heat_html(str(measure), heat_values(str(measure))))


def heat_html(measure: str, values: Sequence[HeatValue]) -> markup.Html:
    """The table of `values`: families in the order of a model's layers, then others by name."""
    is_ratio = HEAT_MEASURES[measure][2]
    kind = "geomean" if is_ratio else "mean"
    if all(value.weighted for value in values):
        kind = f"weighted {kind}"
    elif any(value.weighted for value in values):
        kind += ", weighted where the suite has weights"
    head = markup.heading(measure[:1].upper() + measure[1:], kind)
    if not values:
        needs = "It needs a case whose candidate was measured tonight."
        return markup.join([head, markup.empty("Nothing to show.", needs)])
    known = {value.family for value in values}
    families = [name for name in FAMILIES if name in known] + sorted(known - set(FAMILIES))
    models = sorted({value.device_model for value in values})
    by_place = {(value.family, value.device_model): value for value in values}
    cells = [[_cell(by_place.get((family, model)), measure) for model in models] for family in families]
    built = heat_table(families, [device_name(m) for m in models], cells, label=f"{measure} by operator and device")
    return markup.join([head, built, _scale(measure)])


def _cell(value: HeatValue | None, measure: str) -> HeatCell:
    if value is None or value.value is None:
        return HeatCell(first="no case", second="measured here")
    ink = _ink(measure, value.value)
    first = words.ratio(value.value, 2) if HEAT_MEASURES[measure][2] else words.percent(value.value, 0)
    return HeatCell(
        first=first,
        second=words.counted(value.cases, "case"),
        ground=ink.css,
        text=text_ink(ink).css,
        href=link("series", family=value.family, device=value.device_model),
    )


def _ink(measure: str, value: float) -> Ink:
    return ratio_ink(value) if measure == "candidate ÷ optimized" else share_ink(min(value, 1.0))


def _scale(measure: str) -> markup.Html:
    if measure == "candidate ÷ optimized":
        low, high = RATIO_SPAN
        grounds = [ink.css for ink in DIVERGING]
        return scale_bar(grounds, f"faster {words.ratio(low, 2)}", f"{words.ratio(high, 2)} slower")
    ends = ("0.00×", "1.00×") if HEAT_MEASURES[measure][2] else (f"0{words.THIN}%", f"100{words.THIN}%")
    return scale_bar([ink.css for ink in SEQUENTIAL], *ends)
