"""Small pieces of a page that several views use: theme, time zone, charts, downloads with their SQL."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import streamlit as st

from dashboard.export import csv_bytes, parquet_bytes
from dashboard.palette import Mode

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go


def mode() -> Mode:
    """The reader's theme, as the browser told it when the page was loaded."""
    return Mode.DARK if st.context.theme.type == "dark" else Mode.LIGHT


def compact() -> bool:
    """Whether the reader has a phone: figures then number their marks and list them below."""
    return "Mobi" in (st.context.headers.get("User-Agent") or "")


def zone_of(name: str | None) -> tzinfo:
    """A time zone by its name; UTC where there is none of that name."""
    try:
        return ZoneInfo(name) if name and name != "UTC" else UTC
    except (ZoneInfoNotFoundError, ValueError):
        return UTC


def choose_zone() -> tzinfo:
    """The chooser of the time zone: UTC, or the browser's own."""
    own = st.context.timezone
    options = ["UTC"] + ([own] if own and own != "UTC" else [])
    chosen = st.selectbox("Time zone", options, key="zone", bind="query-params", persist_state="session", width=190)
    return zone_of(str(chosen))


def segmented(label: str, options: list[str], *, key: str, default: str) -> str:
    """A row of buttons of which one is chosen; its choice is in the address."""
    chosen = st.segmented_control(
        label, options, key=key, default=default, bind="query-params", persist_state="session", required=True
    )
    return str(chosen or default)


def filters() -> Any:
    """A row for choosers, tops aligned."""
    return st.container(horizontal=True, vertical_alignment="top")


def chart(figure: go.Figure, *, key: str, alt: str) -> None:
    """A figure in the dashboard's own look. `alt` says in words what it shows."""
    from dashboard.figures.template import CONFIG

    st.plotly_chart(figure, theme=None, config=CONFIG, key=key, alt=alt)


def downloads(name: str, load: Callable[[], pd.DataFrame], query: str) -> None:
    """CSV, Parquet and the SQL of what is on the page. The frame is loaded when a file is asked for."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.download_button(
            "CSV", lambda: csv_bytes(load()), f"{name}.csv", "text/csv", key=f"csv-{name}", on_click="ignore"
        )
        st.download_button(
            "Parquet", lambda: parquet_bytes(load()), f"{name}.parquet", key=f"parquet-{name}", on_click="ignore"
        )
        with st.popover("SQL"):
            st.code(query.strip(), language=None)


def go_to(**parameters: str | None) -> None:
    """Puts parameters into the address and draws the page anew."""
    for name, value in parameters.items():
        if value is None:
            st.query_params.pop(name, None)
        else:
            st.query_params[name] = value
    st.rerun()


def pick(label: str, options: list[tuple[str, str]], current: str, *, key: str, width: Any = "stretch") -> str | None:
    """A chooser of (value, words) whose value lives in an unbound parameter; returns a value that was just picked."""
    values = [value for value, _ in options]
    names = dict(options)
    index = values.index(current) if current in values else None
    chosen = st.selectbox(
        label, values, index=index, format_func=lambda v: names.get(v, v), key=f"{key}:{current}", width=width
    )
    return None if chosen is None or chosen == current else str(chosen)
