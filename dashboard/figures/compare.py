"""The forest of a comparison: a square a case at its ratio, a line for its interval, a diamond for all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import plotly.graph_objects as go

from dashboard import palette as p
from dashboard import words
from dashboard.comparison import Compared, Comparison
from dashboard.figures.template import figure, label, log_ticks
from dashboard.palette import Mode, translucent

ROW_PX = 32
COLUMNS = (("change, 95 %", 0.885), ("weight", 0.945), ("price", 1.0))
PLOT_END = 0.76


def forest_figure(
    found: Comparison, shown: Sequence[Compared], mode: Mode, *, axis: str, compact: bool = False
) -> go.Figure:
    """The cases of `shown`, first on top, and below them the geomean of all; `compact` leaves the columns out."""
    height = ROW_PX * (len(shown) + 1) + 110
    made = figure(mode, height=height)
    muted, text = p.MUTED.of(mode), p.TEXT.of(mode)
    low, high = _bounds(found, shown)
    count = len(shown) + 1
    made.add_shape(
        type="rect",
        xref="x",
        yref="paper",
        x0=1 / (1 + found.floor),
        x1=1 + found.floor,
        y0=0,
        y1=1,
        layer="below",
        line={"width": 0},
        fillcolor=translucent(muted, 0.14),
    )
    made.add_shape(type="line", xref="x", yref="paper", x0=1, x1=1, y0=0, y1=1, line={"color": text, "width": 1.3})
    for index, row in enumerate(shown):
        _draw_row(made, row, count - 1 - index, (low, high), mode, columns=not compact)
    if found.total is not None:
        _draw_total(made, found, mode, columns=not compact)
    sides = ((1 / (1 + found.floor), "← B faster", "right"), (1 + found.floor, "B slower →", "left"))
    for x, said, anchor in () if compact else sides:
        made.add_annotation(
            xref="x",
            yref="paper",
            x=math.log10(x),
            y=1,
            yshift=9,
            text=said,
            showarrow=False,
            xanchor=anchor,
            xshift=-4 if anchor == "right" else 4,
            font={"color": muted, "size": 12},
        )
    for head, x in () if compact else COLUMNS:
        made.add_annotation(
            xref="paper",
            yref="paper",
            x=x,
            y=1,
            yshift=9,
            text=head,
            showarrow=False,
            xanchor="right",
            font={"color": muted, "size": 12},
        )
    ticks = log_ticks_around_one(low, high)
    made.update_xaxes(
        type="log",
        range=[math.log10(low), math.log10(high)],
        domain=[0, 1 if compact else PLOT_END],
        tickvals=ticks,
        ticktext=["1" if t == 1 else words.ratio(t, 2) for t in ticks],
        title_text=f"{axis} of B ÷ A (log)"
        if compact
        else f"{axis} of B ÷ {axis} of A (log); grey: smallest visible change ± {words.percent(found.floor)}",
    )
    names = [label(words.clip(row.name, 20) if compact else words.clip(_name(row), 46)) for row in shown]
    made.update_yaxes(
        range=[-0.6, count - 0.4],
        tickvals=list(range(count)),
        ticktext=["<b>weighted geomean</b>" if found.weighted else "<b>geomean</b>", *reversed(names)],
        tickfont={"color": text, "size": 12},
        showgrid=False,
        showline=False,
        ticks="",
    )
    made.update_layout(margin={"l": 10, "r": 10, "t": 30, "b": 46})
    return made


def _name(row: Compared) -> str:
    return f"{row.name}, {row.shape}" if row.shape else row.name


def _bounds(found: Comparison, shown: Sequence[Compared]) -> tuple[float, float]:
    ends = [1 / (1 + found.floor), 1 + found.floor]
    ends += [1 + v for row in shown for v in (row.low, row.high, row.change) if math.isfinite(v) and v > -0.95]
    distances = sorted(abs(math.log(e)) for e in ends)
    widest = distances[-1]
    if len(shown) > 4:  # one wide interval is cut rather than flattening all others; an estimate never is
        middles = [abs(math.log1p(row.change)) for row in shown]
        widest = min(widest, max(1.15 * max(middles), 3 * distances[int(0.8 * (len(distances) - 1))]))
    low = max(min(ends), math.exp(-widest)) / 1.01
    high = min(max(ends), math.exp(widest)) * 1.01
    return low, high


def log_ticks_around_one(low: float, high: float) -> list[float]:
    """Round ratios for a log axis that has 1 on it."""
    for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0):
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first <= 8:
            return [round(k * step, 4) for k in range(first, last + 1) if k > 0]
    return log_ticks(low, high)


INKS = {"slower": p.SLOWER, "faster": p.FASTER, "inconclusive": p.UNSURE, "unchanged": p.MUTED}


def _draw_row(
    made: go.Figure, row: Compared, y: int, bounds: tuple[float, float], mode: Mode, *, columns: bool
) -> None:
    ink = INKS[row.verdict].of(mode)
    low, high = (min(max(1 + v, bounds[0]), bounds[1]) for v in (row.low, row.high))
    x = min(max(1 + row.change, bounds[0]), bounds[1])
    half = words.half_width(row.low, row.high)
    size = words.change(row.change, row.low, row.high)
    said = f"<b>{label(words.clip(_name(row), 80))}</b><br>{size}, {row.verdict}"
    made.add_scatter(
        x=[low, high], y=[y, y], mode="lines", line={"color": ink, "width": 1.8}, hoverinfo="skip", showlegend=False
    )
    made.add_scatter(
        x=[x],
        y=[y],
        mode="markers",
        text=[said + ("" if half is not None else "<br>no interval: one process")],
        hovertemplate="%{text}<extra></extra>",
        showlegend=False,
        marker={
            "symbol": "square-open" if row.verdict == "inconclusive" else "square",
            "size": 7 + 26 * math.sqrt(min(row.weight or 0.0, 0.3)),
            "color": ink,
            "line": {"width": 1.6, "color": ink},
        },
    )
    if not columns:
        return
    judged = row.verdict in ("slower", "faster")
    colour = ink if judged else p.TEXT.of(mode)
    _cell(made, COLUMNS[0][1], y, f"<b>{size}</b>" if judged else size, colour)
    _cell(made, COLUMNS[1][1], y, words.percent(row.weight) if row.weight is not None else "none", p.TEXT.of(mode))
    _cell(made, COLUMNS[2][1], y, words.price(row.price) if row.price is not None else "", p.TEXT.of(mode))


def _draw_total(made: go.Figure, found: Comparison, mode: Mode, *, columns: bool) -> None:
    assert found.total is not None
    total = found.total.exp()
    judged = total.low > 1 or total.high < 1
    ink = (p.SLOWER if total.estimate > 1 else p.FASTER).of(mode) if judged else p.TEXT.of(mode)
    made.add_shape(
        type="line",
        xref="x",
        yref="paper",
        x0=total.estimate,
        x1=total.estimate,
        y0=0,
        y1=1,
        line={"color": ink, "width": 1.3, "dash": "dash"},
    )
    made.add_scatter(
        x=[total.estimate],
        y=[0],
        mode="markers",
        marker={"symbol": "diamond", "size": 14, "color": ink},
        showlegend=False,
        hovertemplate=f"geomean of {len(found.rows):,} cases<extra></extra>",
    )
    if not columns:
        return
    size = words.change(total.estimate - 1, total.low - 1, total.high - 1)
    _cell(made, COLUMNS[0][1], 0, f"<b>{size}</b>", ink)
    weight = sum(row.weight or 0 for row in found.rows)
    _cell(made, COLUMNS[1][1], 0, words.percent(weight, 0) if found.weighted else "", p.TEXT.of(mode))


def _cell(made: go.Figure, x: float, y: float, text: str, colour: str) -> None:
    made.add_annotation(
        xref="paper",
        yref="y",
        x=x,
        y=y,
        text=text,
        showarrow=False,
        xanchor="right",
        yanchor="middle",
        font={"color": colour, "size": 12},
    )
