"""Where the store is, when nobody says."""

from __future__ import annotations

import os

STORE_VARIABLE = "KERNEL_OBSERVATORY_STORE"
DEFAULT_STORE = "observatory-data"


def store_uri(given: str | None) -> str:
    """The store that was given, else the variable's, else ./observatory-data."""
    return given or os.environ.get(STORE_VARIABLE) or DEFAULT_STORE
