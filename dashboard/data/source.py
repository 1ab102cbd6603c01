"""The store that is shown: one handle a server, answers kept until the lake moves on.

A page asks with `ask` (rows as records) or `frame`; both are cached by the question and by the lake's stamp, so a rerun
costs nothing and new data shows on the next one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from dataclasses import fields
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import streamlit as st

from store.lake.errors import StoreError
from store.lake.layout import default_store

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from store.lake.lake import Lake

STAMP_SECONDS = 5.0
"""How old an answer may be: the lake is asked for its stamp at most so often."""

WATCHED = ("runs", "series", "findings_state", "triage", "verdicts", "audits", "requests", "deliveries", "baselines")
"""Results, samples and telemetry come with `runs`."""

Record = TypeVar("Record")
Parameters = Mapping[str, Any]


def store_uri() -> str:
    """The store's place: `-- --store X`, else the environment, else ./observatory-data."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--store")
    given, _ = parser.parse_known_args(sys.argv[1:])
    return given.store or default_store()


class Watch:
    """Tells one state of the lake from the next by the versions of its tables, from the logs alone."""

    def __init__(self, uri: str) -> None:
        from store.lake.delta import DeltaTables

        self._tables = DeltaTables(uri)
        self._lock = Lock()

    def stamp(self) -> str:
        """The versions of all tables that a page reads."""
        with self._lock:
            return ".".join(str(self._tables.load(name).version()) for name in WATCHED)


@st.cache_resource(show_spinner=False)
def _handle(uri: str) -> Lake:
    from store.lake.lake import Lake

    return Lake.open(uri)


@st.cache_resource(show_spinner=False)
def _watch(uri: str) -> Watch:
    return Watch(_handle(uri).uri)


def lake() -> Lake:
    """The store that is shown.

    Raises:
        StoreError: there is none, or it cannot be read.
    """
    return _handle(store_uri())


@st.cache_data(show_spinner=False, max_entries=64)
def _stamp(uri: str, tick: int) -> str:
    return _watch(uri).stamp()


def stamp() -> str:
    """Changes when the lake does; at most `STAMP_SECONDS` old."""
    return _stamp(store_uri(), int(time.monotonic() / STAMP_SECONDS))


# A table is immutable, so all sessions share the one answer; cache_data would copy it for each.
@st.cache_resource(show_spinner=False, max_entries=256, ttl=900)
def _answer(uri: str, at: str, query: str, parameters: tuple[tuple[str, Any], ...]) -> pa.Table:
    return _handle(uri).sql(query, dict(parameters) or None)


def table(query: str, parameters: Parameters | None = None) -> pa.Table:
    """The answer to a question with bound parameters ($name)."""
    return _answer(store_uri(), stamp(), query, tuple(sorted((parameters or {}).items())))


def ask(kind: type[Record], query: str, parameters: Parameters | None = None) -> list[Record]:
    """The answer as records; the query has to give every field of `kind` by name."""
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    return [kind(**row) for row in table(query, parameters).select(names).to_pylist()]


def frame(query: str, parameters: Parameters | None = None) -> pd.DataFrame:
    """The answer for a download or a long list."""
    found: pd.DataFrame = table(query, parameters).to_pandas()
    return found


def reachable() -> StoreError | None:
    """Why the store cannot be shown, or None."""
    try:
        lake()
    except StoreError as error:
        return error
    return None


def forget() -> None:
    """After a triage act: the next question goes to the lake."""
    _stamp.clear()
