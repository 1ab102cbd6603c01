"""Downloads of what a page shows. A text that a spreadsheet would run as a formula is written as text."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def harmless(value: object) -> object:
    """A text with an apostrophe before what a spreadsheet takes for a formula; anything else unchanged."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA_STARTS) else value


def csv_bytes(frame: pd.DataFrame) -> bytes:
    """The frame as UTF-8 CSV, names of columns and texts harmless to a spreadsheet."""
    texts = [name for name in frame.columns if frame[name].dtype.kind not in "biufM"]
    safe = frame.assign(**{name: frame[name].map(harmless) for name in texts})
    return safe.rename(columns=lambda name: str(harmless(name))).to_csv(index=False).encode()


def parquet_bytes(frame: pd.DataFrame) -> bytes:
    """The frame as Parquet, unchanged: types are kept there."""
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False)
    return buffer.getvalue()
