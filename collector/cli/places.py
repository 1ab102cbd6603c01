"""Where the store is, when nobody says, and what is said when one is made."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from store.lake.lake import Lake

STORE_VARIABLE = "KERNEL_OBSERVATORY_STORE"
DEFAULT_STORE = "observatory-data"


def store_uri(given: str | None) -> str:
    """The store that was given, else the variable's, else ./observatory-data."""
    return given or os.environ.get(STORE_VARIABLE) or DEFAULT_STORE


def open_or_make(given: str | None) -> Lake:
    """The store at a place; where there is none yet it is made, and that is said on stderr."""
    from store.lake.lake import Lake

    lake = Lake.create(store_uri(given))
    if lake.is_new:
        say_new(lake.uri)
    return lake


def say_new(uri: str) -> None:
    """A store made where another was meant shows here."""
    typer.echo(f"collector: made a new store, {uri}", err=True)
