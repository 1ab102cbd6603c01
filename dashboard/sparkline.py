"""Sparklines as SVG data images: they need no script and no request, and follow the theme by CSS light-dark()."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence

from dashboard.markup import Html, Tone, element, escape
from dashboard.palette import FASTER, MUTED, SLOWER, UNSURE, Ink

TONES: dict[Tone, Ink] = {Tone.SLOWER: SLOWER, Tone.FASTER: FASTER, Tone.UNSURE: UNSURE}


def finite(values: Sequence[float | None]) -> list[float]:
    return [v for v in values if v is not None and math.isfinite(v)]


def path(values: Sequence[float | None], *, width: float, height: float, low: float, high: float) -> str:
    """The SVG path of `values`, oldest first, over the whole width; broken where a value is missing."""
    span = high - low or 1.0
    step = width / max(1, len(values) - 1)
    drawn, pen_down = [], False
    for index, value in enumerate(values):
        if value is None or not math.isfinite(value):
            pen_down = False
            continue
        y = height - (value - low) / span * height
        drawn.append(f"{'L' if pen_down else 'M'}{index * step:.1f} {y:.1f}")
        pen_down = True
    return "".join(drawn)


def svg(
    values: Sequence[float | None],
    *,
    tone: Tone = Tone.PLAIN,
    since: int | None = None,
    width: int = 110,
    height: int = 30,
    bounds: tuple[float, float] | None = None,
) -> str:
    """An SVG of `values`; from index `since` on the line is drawn in the colour of `tone`, after a dotted mark."""
    known = finite(values)
    if not known:
        return ""
    low, high = bounds or (min(known), max(known))
    if high - low < 0.01 * abs(high):  # a flat line of noise should look flat
        middle = (low + high) / 2
        low, high = middle - 0.005 * abs(middle), middle + 0.005 * abs(middle)
    margin, inner_height = 5, height - 10
    ink = TONES.get(tone, MUTED).css
    line = path(values, width=width - 2 * margin, height=inner_height, low=low, high=high)
    parts = [f'<path d="{line}" fill="none" stroke="{MUTED.light}" style="stroke:{MUTED.css}" stroke-width="1.3"/>']
    step = (width - 2 * margin) / max(1, len(values) - 1)
    if since is not None and 0 < since < len(values):
        shown: list[float | None] = [None if i < since - 1 else v for i, v in enumerate(values)]
        tail = path(shown, width=width - 2 * margin, height=inner_height, low=low, high=high)
        x = (since - 0.5) * step
        parts.append(f'<path d="{tail}" fill="none" style="stroke:{ink}" stroke-width="1.8"/>')
        parts.append(
            f'<path d="M{x:.1f} -5V{height - 5}" style="stroke:{ink}" stroke-width="1.2" stroke-dasharray="2 2"/>'
        )
    last = max(i for i, v in enumerate(values) if v is not None and math.isfinite(v))
    span = high - low or 1.0
    y = inner_height - ((values[last] or 0.0) - low) / span * inner_height
    parts.append(f'<circle cx="{last * step:.1f}" cy="{y:.1f}" r="2.6" style="fill:{ink}"/>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'style="color-scheme:light dark"><g transform="translate({margin} {margin})">{"".join(parts)}</g></svg>'
    )


def image(
    values: Sequence[float | None],
    *,
    alt: str,
    tone: Tone = Tone.PLAIN,
    since: int | None = None,
    width: int = 110,
    height: int = 30,
    bounds: tuple[float, float] | None = None,
) -> Html:
    """The sparkline as an `<img>` with `alt` in words; words alone where there is no value."""
    drawn = svg(values, tone=tone, since=since, width=width, height=height, bounds=bounds)
    if not drawn:
        return element("span", "no values", css="ko-muted")
    data = base64.b64encode(drawn.encode()).decode()
    return Html(
        f'<img class="ko-spark" src="data:image/svg+xml;base64,{data}" alt="{escape(alt)}" '
        f'width="{width}" height="{height}">'
    )
