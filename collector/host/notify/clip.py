"""Cuts text to a service's limit after escaping, without cutting through an escape."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from collector.host.notify.escape import Escape, visible

Measure = Callable[[str], int]


def utf8_bytes(text: str) -> int:
    """Length as services count it that state their limit in bytes."""
    return len(text.encode("utf-8", "replace"))


def utf16_units(text: str) -> int:
    """Length as services count it that are written in JavaScript or Java."""
    return len(text.encode("utf-16-le", "replace")) // 2


def fit(text: str, limit: int, escape: Escape, measure: Measure = utf16_units) -> str:
    """`escape(visible(text))`, with as much of the text as fits `limit`; a cut ends in "…"."""
    text = visible(text)
    whole = escape(text)
    if measure(whole) <= limit:
        return whole
    low, high = 0, len(text)
    while low < high:  # the escaped length of a prefix never shrinks as it grows
        middle = (low + high + 1) // 2
        if measure(escape(text[:middle])) + measure("…") <= limit:
            low = middle
        else:
            high = middle - 1
    return escape(text[:low].rstrip()) + "…"


def fit_items(items: Sequence[str], limit: int, *, separator: str, total: int, measure: Measure = utf16_units) -> str:
    """As many whole items as fit `limit`, then "and N more" counted against `total`; items are escaped already."""
    for count in range(len(items), -1, -1):
        rest = total - count
        tail = [f"and {rest:,} more"] if rest > 0 else []
        joined = separator.join([*items[:count], *tail])
        if measure(joined) <= limit:
            return joined
    return ""
