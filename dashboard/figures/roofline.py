"""The roofline of a device, and the fraction of it in time. Hue is the operator here: nothing is judged by it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import tzinfo

import plotly.graph_objects as go

from dashboard import palette as p
from dashboard import words
from dashboard.data.latest import Roofs, Row, TrailPoint
from dashboard.figures.template import figure, label, linear_ticks, spread
from dashboard.palette import Mode

HEIGHT = 620
LABELLED = 7
LABEL_GAP_PX = 33


def roofline_figure(
    rows: Sequence[Row], roofs: Roofs | None, dtype: str, mode: Mode, *, labelled: int = LABELLED
) -> go.Figure:
    """Rate over arithmetic intensity, both logarithmic: area is weight, symbol and colour the operator."""
    made = figure(mode, height=HEIGHT)
    points = [r for r in rows if r.flops and r.traffic_bytes and r.flop_per_s]
    rates = [r.flop_per_s or 1.0 for r in points]
    unit, factor = ("TFLOP/s", 1e12) if rates and max(rates) >= 2e11 else ("GFLOP/s", 1e9)
    xs = [_intensity(r) for r in points]
    low_x, high_x = (min(xs) / 2.2, max(xs) * 2.6) if xs else (0.1, 1000.0)
    peak = roofs.flop_per_s.get(dtype) if roofs else None
    bandwidth = roofs.bandwidth_bytes_per_s if roofs else None
    if peak and bandwidth:
        high_x = max(high_x, peak / bandwidth * 3)
    lows = [*rates, *([bandwidth * low_x] if bandwidth else [])]
    low_y, high_y = (min(lows) / factor / 1.5, max([*rates, peak or 0]) / factor * 1.9) if rates else (0.1, 10.0)
    if peak and bandwidth:
        _draw_roof(made, roofs, peak, bandwidth, (low_x, high_x), factor, mode)
    for family in dict.fromkeys(r.family for r in points):
        own = [r for r in points if r.family == family]
        ink, symbol = p.OPERATORS.get(family, p.OTHER_OPERATOR)
        made.add_scatter(
            x=[_intensity(r) for r in own],
            y=[(r.flop_per_s or 0) / factor for r in own],
            mode="markers",
            name=label(family),
            text=[_hover(r) for r in own],
            hovertemplate="%{text}<extra></extra>",
            marker={
                "symbol": symbol,
                "size": [_size(r.weight) for r in own],
                "color": ink.of(mode),
                "opacity": 0.62,
                "line": {"color": ink.of(mode), "width": 1.2},
            },
        )
    heavy = sorted(points, key=lambda r: r.weight or 0, reverse=True)[:labelled]
    _label_heaviest(made, heavy, factor, (low_x, high_x), (low_y, high_y), mode)
    made.update_xaxes(
        type="log",
        range=[math.log10(low_x), math.log10(high_x)],
        title_text="arithmetic intensity, FLOP per byte of ideal traffic",
        tickvals=_decades(low_x, high_x),
        ticktext=[f"{t:,g}" for t in _decades(low_x, high_x)],
    )
    made.update_yaxes(
        type="log",
        range=[math.log10(low_y), math.log10(high_y)],
        title_text=unit,
        tickvals=_decades(low_y, high_y),
        ticktext=[f"{t:,g}" for t in _decades(low_y, high_y)],
    )
    made.update_layout(margin={"r": 20, "t": 30})
    return made


def _intensity(row: Row) -> float:
    return (row.flops or 0) / (row.traffic_bytes or 1)


def _size(weight: float | None) -> float:
    """Diameter in pixels; the area is the share of production time."""
    return 8 + 60 * math.sqrt(min(weight, 0.4)) if weight else 8


def _decades(low: float, high: float) -> list[float]:
    found = [10.0**e for e in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)]
    return found if len(found) > 1 else [low * (high / low) ** share for share in (0.1, 0.5, 0.9)]


def _draw_roof(
    made: go.Figure,
    roofs: Roofs | None,
    peak: float,
    bandwidth: float,
    ends: tuple[float, float],
    factor: float,
    mode: Mode,
) -> None:
    assert roofs is not None
    ridge = peak / bandwidth
    measured = roofs.kind == "measured"
    colour = p.TEXT.of(mode) if measured else p.NAIVE.of(mode)
    made.add_scatter(
        x=[ends[0], ridge, ends[1]],
        y=[bandwidth * ends[0] / factor, peak / factor, peak / factor],
        mode="lines",
        line={"color": colour, "width": 2 if measured else 1.4, "dash": "solid" if measured else "dot"},
        hoverinfo="skip",
        showlegend=False,
    )
    word = label(roofs.kind)
    for x, y, text, anchor in (
        (math.sqrt(ridge * ends[1]), peak, f"<b>{word} {words.work_rate(peak)}</b>", "bottom"),
        (math.sqrt(ends[0] * ridge), None, f"<b>{word} {words.bandwidth(bandwidth)}</b>", "bottom"),
    ):
        made.add_annotation(
            x=math.log10(x),
            y=math.log10((y if y else bandwidth * x) / factor),
            text=text,
            showarrow=False,
            xanchor="center" if y else "right",
            yanchor=anchor,
            yshift=3,
            xshift=0 if y else -10,
            font={"color": colour, "size": 12},
        )


def _label_heaviest(
    made: go.Figure,
    heavy: Sequence[Row],
    factor: float,
    xs: tuple[float, float],
    ys: tuple[float, float],
    mode: Mode,
) -> None:
    if not heavy:
        return
    height = HEIGHT - 90
    span = math.log10(ys[1] / ys[0])
    natural = [math.log10((r.flop_per_s or 1) / factor / ys[0]) / span * height for r in heavy]
    for row, place, wanted in zip(heavy, spread(natural, LABEL_GAP_PX), natural, strict=True):
        x = _intensity(row)
        right_side = math.log10(x / xs[0]) / math.log10(xs[1] / xs[0]) < 0.66
        share = f", {words.percent(row.weight)} of time" if row.weight else ""
        size = _size(row.weight) / 2 + 8
        made.add_annotation(
            x=math.log10(x),
            y=math.log10((row.flop_per_s or 1) / factor),
            ax=size if right_side else -size,
            ay=-(place - wanted),
            axref="pixel",
            ayref="pixel",
            xanchor="left" if right_side else "right",
            align="left" if right_side else "right",
            text=f"{label(words.clip(short_name(row), 38))}<br>"
            f"<b>{words.roof(row.roofline_fraction)}</b> of roof{share}",
            bgcolor=p.translucent(p.BACKGROUND.of(mode), 0.75),
            borderpad=1,
            showarrow=True,
            arrowwidth=0.8,
            arrowhead=0,
            arrowcolor=p.LINE.of(mode),
            font={"color": p.TEXT.of(mode), "size": 12},
        )


def short_name(row: Row) -> str:
    """Title and the axis that changes from call to call."""
    first = next(iter(row.axis_values.items()), None)
    if first is None:
        return row.name
    value = first[1]
    text = f"{value:,}" if isinstance(value, int) else str(value)
    return f"{row.name}, {first[0]} {words.shorten(text, 14)}"


def _hover(row: Row) -> str:
    rate = (
        words.work_rate(row.flop_per_s)
        if row.roofline_bound == "compute"
        else words.bandwidth(row.bandwidth_bytes_per_s)
    )
    share = f"<br>{words.percent(row.weight)} of production time" if row.weight else ""
    return (
        f"<b>{label(words.clip(row.label, 80))}</b><br>{label(row.arm)}: {rate}, "
        f"{words.roof(row.roofline_fraction)} of the {label(row.roofline_bound or 'unknown')} roof{share}"
    )


def trail_figure(rows: Sequence[Row], trail: Mapping[str, Sequence[TrailPoint]], zone: tzinfo, mode: Mode) -> go.Figure:
    """The fraction of the roof in time, a line a case, named at its right end."""
    made = figure(mode, height=310)
    ends = []
    for row in rows:
        points = trail.get(row.subject_id, [])
        if not points:
            continue
        ink, symbol = p.OPERATORS.get(row.family, p.OTHER_OPERATOR)
        made.add_scatter(
            x=[q.at.astimezone(zone).replace(tzinfo=None) for q in points],
            y=[100 * q.value for q in points],
            mode="lines+markers",
            name=label(row.name),
            line={"color": ink.of(mode), "width": 1.6},
            marker={"symbol": symbol, "size": 5, "color": ink.of(mode)},
            showlegend=False,
            hovertemplate=f"{label(words.clip(row.label, 70))}<br>%{{x}}: %{{y:.1f}} %<extra></extra>",
        )
        ends.append((100 * points[-1].value, row, ink.of(mode)))
    values = [100 * q.value for points in trail.values() for q in points] or [0.0, 100.0]
    pad = max(3.0, (max(values) - min(values)) * 0.08)
    low, high = max(0.0, min(values) - pad), max(values) + pad
    ticks = linear_ticks(low, high, 5)
    made.update_yaxes(range=[low, high], tickvals=ticks, ticktext=[f"{t:g}{words.THIN}%" for t in ticks])
    height = 230
    places = spread([(end - low) / (high - low) * height for end, _, _ in ends], 15)
    for (_, row, colour), place in zip(ends, places, strict=True):
        made.add_annotation(
            xref="paper",
            yref="y domain",
            x=1.01,
            y=place / height,
            text=label(words.clip(short_name(row), 24)),
            showarrow=False,
            xanchor="left",
            yanchor="middle",
            font={"color": colour, "size": 12},
        )
    made.update_xaxes(tickformat="%d %b", nticks=6)
    made.update_layout(margin={"r": 150, "t": 8, "l": 50, "b": 30})
    return made
