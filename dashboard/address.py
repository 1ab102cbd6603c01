"""Every view is a link: the query parameters that a page understands, and links built from them.

Links are relative, so that they hold under any `server.baseUrlPath`.
"""

from __future__ import annotations

from urllib.parse import quote, urlencode

HOME = "overview"


def link(page: str, **parameters: str | int | None) -> str:
    """`series?subject=...`; parameters that are None or empty are left out."""
    given = {name: str(value) for name, value in parameters.items() if value not in (None, "")}
    path = "." if page == HOME else page
    return f"{path}?{urlencode(given, quote_via=quote)}" if given else path
