"""What all plotly figures share: the template of a theme, labels at the end of lines, ticks by hand.

A name that comes from outside goes through `label` before it is given to plotly, which reads a little HTML.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from dashboard import palette as p
from dashboard.palette import Mode

FONT = '"Source Sans", sans-serif'
RIGHT_MARGIN_PX = 132
MOST_POINTS = 2000
"""Points of one trace; more are thinned on the server (100,000 took a browser 48 s)."""
CONFIG: dict[str, Any] = {
    "displaylogo": False,
    "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"],
    "toImageButtonOptions": {"format": "png", "scale": 2},
}


def label(name: object) -> str:
    """`name` as text in a title, a tick, a legend or a hover box."""
    return html.escape(str(name), quote=True).replace("%{", "%&#123;")


def template(mode: Mode) -> go.layout.Template:
    """The look of every figure in a theme: transparent, thin grid, no zero line, ticks outside, titles muted."""
    muted, line, grid = p.MUTED.of(mode), p.LINE.of(mode), p.GRID.of(mode)
    axis = {
        "gridcolor": grid,
        "linecolor": line,
        "showline": True,
        "zeroline": False,
        "ticks": "outside",
        "ticklen": 4,
        "tickcolor": line,
        "tickfont": {"color": muted, "size": 12},
        "title": {"font": {"color": muted, "size": 12.5}, "standoff": 8},
        "automargin": True,
    }
    return go.layout.Template(
        layout={
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"family": FONT, "size": 12.5, "color": p.TEXT.of(mode)},
            "xaxis": axis,
            "yaxis": axis,
            "margin": {"l": 60, "r": RIGHT_MARGIN_PX, "t": 28, "b": 40},
            "hoverlabel": {
                "bgcolor": p.SURFACE.of(mode),
                "bordercolor": line,
                "font": {"family": FONT, "size": 12.5, "color": p.TEXT.of(mode)},
                "align": "left",
            },
            "legend": {
                "orientation": "h",
                "x": 0,
                "xanchor": "left",
                "y": 1.02,
                "yanchor": "bottom",
                "font": {"color": muted, "size": 12.5},
                "bgcolor": "rgba(0,0,0,0)",
                "itemsizing": "constant",
            },
            "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": muted, "activecolor": p.TEXT.of(mode)},
            "hovermode": "closest",
            "dragmode": "zoom",
        }
    )


def figure(mode: Mode, *, height: int) -> go.Figure:
    """An empty figure of the template."""
    made = go.Figure()
    made.update_layout(template=template(mode), height=height)
    return made


TICK_STEPS = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)
COARSE_STEPS = (1.0, 2.0, 5.0)


def log_ticks(low: float, high: float, most: int = 8) -> list[float]:
    """Round numbers between two positive ends for a log axis: 70, 100, 150 ...; thinned to at most `most`."""
    for steps in (TICK_STEPS, COARSE_STEPS, (1.0,)):
        exponents = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
        ticks = [step * 10.0**e for e in exponents for step in steps if low <= step * 10.0**e <= high]
        if len(ticks) <= most:
            break
    if len(ticks) < 2:
        ticks = linear_ticks(low, high)
    stride = math.ceil(len(ticks) / most)
    return ticks[::stride]


def linear_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers (1, 2 or 5 times a power of ten apart) between two ends."""
    if not high > low:
        return [low]
    raw = (high - low) / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * f for f in (1, 2, 5, 10) if power * f >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(k * step, 12) for k in range(first, math.floor(high / step + 1e-9) + 1)]


def tick_text(value: float) -> str:
    """A tick as short as it is exact: 2, 1.5, 0.7, 3,000."""
    return f"{float(f'{value:.4g}'):,g}" if abs(value) < 1e5 else f"{value:,.0f}"


def spread(places: Sequence[float], gap: float) -> list[float]:
    """Places moved apart by at least `gap`, order kept, each as near to its own as that allows."""
    blocks: list[list[int]] = []
    for index in sorted(range(len(places)), key=lambda i: places[i]):
        block = [index]
        while (
            blocks and _middle(block, places) - _middle(blocks[-1], places) < gap * (len(block) + len(blocks[-1])) / 2
        ):
            block = blocks.pop() + block
        blocks.append(block)
    moved = list(places)
    for block in blocks:
        for position, index in enumerate(block):
            moved[index] = _middle(block, places) + gap * (position - (len(block) - 1) / 2)
    return moved


def _middle(block: Sequence[int], places: Sequence[float]) -> float:
    return sum(places[i] for i in block) / len(block)


def thin(values: Sequence[float | None], most: int = MOST_POINTS) -> list[int]:
    """Indices to draw: all, or of each bucket its least and greatest value and every missing one's first."""
    if len(values) <= most:
        return list(range(len(values)))
    size = math.ceil(len(values) / (most / 3))
    kept: set[int] = {0, len(values) - 1}
    for start in range(0, len(values), size):
        known = [(v, i) for i, v in enumerate(values[start : start + size], start) if v is not None]
        if known:
            kept |= {min(known)[1], max(known)[1]}
        missing = next((i for i, v in enumerate(values[start : start + size], start) if v is None), None)
        if missing is not None:
            kept.add(missing)
    return sorted(kept)
