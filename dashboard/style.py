"""The one style sheet: the palette as CSS custom properties, then style.css.

Colours are CSS light-dark() pairs, so they follow the theme at once, without a rerun.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from dashboard import palette
from dashboard.markup import Html


def custom_properties() -> str:
    """`--ko-slower: light-dark(...)` for every ink of the palette."""
    inks = {name: ink for name, ink in vars(palette).items() if isinstance(ink, palette.Ink)}
    return "".join(f"--ko-{name.lower().replace('_', '-')}: {ink.css};" for name, ink in inks.items())


@cache
def style_sheet() -> Html:
    rules = Path(__file__).with_name("style.css").read_text(encoding="utf-8")
    return Html(f"<style>.stApp {{{custom_properties()}}}\n{rules}</style>")
