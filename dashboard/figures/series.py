"""The series figure: raw latency of all arms above, the ratio to optimized below, one x axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from dashboard import palette as p
from dashboard import words
from dashboard.data.series import Point
from dashboard.figures.arms import SENTINEL, arm_style, arm_words, band_trace, hover_text, line_values
from dashboard.figures.run_axis import SeriesView, XAxis
from dashboard.figures.series_marks import draw_changes, draw_environment, draw_gaps
from dashboard.figures.template import RIGHT_MARGIN_PX, figure, label, linear_ticks, log_ticks, spread, tick_text
from dashboard.palette import Mode, translucent

UPPER, LOWER = (0.54, 1.0), (0.0, 0.46)
HEIGHT = 620


def series_figure(view: SeriesView) -> go.Figure:
    """The figure; without a measured point it has axes and words."""
    made = figure(view.mode, height=HEIGHT)
    axis = XAxis(view)
    arms = sorted({point.arm for point in view.points}, key=lambda arm: _arm_order(arm, view.focus))
    latencies = [v for q in view.points for v in (q.latency_p50_s,) if v]
    factor, unit = words.time_unit(max(latencies)) if latencies else (1e6, "µs")
    ends: list[EndLabel] = []
    for arm in arms:
        _draw_latency(made, view, axis, arm, factor, unit, ends)
    _draw_roof(made, view, axis, factor, unit, ends)
    for arm in arms:
        _draw_ratio(made, view, axis, arm)
    _latency_axis(made, view, factor, unit, ends)
    _ratio_axis(made, view)
    draw_gaps(made, view, axis)
    draw_environment(made, view, axis)
    draw_changes(made, view, axis)
    axis.apply(made)
    if view.compact:
        made.update_layout(margin_l=44, margin_r=96)
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class EndLabel:
    """What is written at the right end of a line, at a latency in seconds."""

    at: float
    text: str
    colour: str


def _arm_order(arm: str, focus: str) -> tuple[int, str]:
    """Drawn from the back: naive, A/A copy, optimized, candidates, the focus."""
    if arm == focus:
        return 9, arm
    return {"naive": 0, "aa": 1, "planted": 2, "optimized": 3}.get(arm, 2 if arm.startswith(SENTINEL) else 4), arm


def _nightly(view: SeriesView, arm: str) -> list[Point]:
    return [q for q in view.points if q.arm == arm and q.counts and q.kind != "confirm"]


def _draw_latency(
    made: go.Figure, view: SeriesView, axis: XAxis, arm: str, factor: float, unit: str, ends: list[EndLabel]
) -> None:
    colour, line = arm_style(arm, view.mode)
    points = [q for q in _nightly(view, arm) if q.latency_p50_s]
    if arm == view.focus and view.tail != "p50":
        band_trace(made, axis, points, lambda q: _tail(q, view.tail), factor, translucent(colour, 0.2), "y")
    if arm != "aa" and points:
        xs, ys, texts = line_values(
            axis, points, lambda q: (q.latency_p50_s or 0) * factor, lambda q: hover_text(q, view.zone)
        )
        single = len(points) == 1
        made.add_scatter(
            x=xs,
            y=ys,
            text=texts,
            mode="lines+markers" if len(points) < 40 else "lines",
            line={**line, "color": colour},
            marker={"size": 8 if single else 3.5, "color": colour},
            connectgaps=False,
            name=label(arm_words(arm)),
            showlegend=False,
            hovertemplate="%{text}<extra></extra>",
            yaxis="y",
        )
        newest = points[-1]
        text = f"<b>{label(arm_words(arm))}</b> {words.time(newest.latency_p50_s, unit_of=unit_of(unit))}"
        ends.append(EndLabel(at=newest.latency_p50_s or 0, text=text, colour=_label_colour(arm, view.mode)))
    _odd_points(made, view, axis, arm, factor)


def unit_of(unit: str) -> float:
    """A time in seconds that is shown in `unit`."""
    return 1e-6 if unit == "µs" else 1.0


def _label_colour(arm: str, mode: Mode) -> str:
    return p.MUTED.of(mode) if arm in ("naive", "aa") else arm_style(arm, mode)[0]


def _tail(point: Point, tail: str) -> tuple[float | None, float | None]:
    high = point.latency_p95_s if tail.endswith("p95") else point.latency_p99_s
    return point.latency_p50_s, high


def _odd_points(made: go.Figure, view: SeriesView, axis: XAxis, arm: str, factor: float) -> None:
    """Excluded runs hollow at their value, confirm runs as diamonds: joined to nothing."""
    if arm == "aa":
        return
    excluded = [q for q in view.points if q.arm == arm and not q.counts and q.latency_p50_s]
    confirm = [q for q in view.points if q.arm == arm and q.counts and q.kind == "confirm" and q.latency_p50_s]
    muted, colour = p.MUTED.of(view.mode), arm_style(arm, view.mode)[0]
    for points, symbol, ink in ((excluded, "circle-open", muted), (confirm, "diamond-open", colour)):
        if points:
            made.add_scatter(
                x=[axis.place(q.at, q.run_id) for q in points],
                y=[(q.latency_p50_s or 0) * factor for q in points],
                text=[hover_text(q, view.zone) for q in points],
                mode="markers",
                showlegend=False,
                yaxis="y",
                marker={"symbol": symbol, "size": 8, "color": ink, "line": {"width": 1.6}},
                hovertemplate="%{text}<extra></extra>",
            )


def _draw_roof(made: go.Figure, view: SeriesView, axis: XAxis, factor: float, unit: str, ends: list[EndLabel]) -> None:
    roofed = [q for q in view.points if q.arm == view.focus and q.roofline_latency_s]
    if not roofed:
        return
    newest = roofed[-1].roofline_latency_s or 0
    steps = zip([None, *roofed[:-1]], roofed, [*roofed[1:], None], strict=True)
    roofed = [
        now
        for before, now, after in steps
        if before is None or after is None or len({q.roofline_latency_s for q in (before, now, after)}) > 1
    ]
    colour = p.NAIVE.of(view.mode)
    made.add_scatter(
        x=[axis.place(q.at, q.run_id) for q in roofed],
        y=[(q.roofline_latency_s or 0) * factor for q in roofed],
        mode="lines" if len(roofed) > 1 else "markers",
        line={"color": colour, "width": 1.3, "dash": "dot"},
        marker={"symbol": "line-ew-open", "size": 14, "color": colour},
        hoverinfo="skip",
        showlegend=False,
        yaxis="y",
    )
    text = f"roofline {words.time(newest, unit_of=unit_of(unit))}"
    ends.append(EndLabel(at=newest, text=text, colour=p.MUTED.of(view.mode)))


def _draw_ratio(made: go.Figure, view: SeriesView, axis: XAxis, arm: str) -> None:
    if arm in ("naive", "optimized", "planted"):
        return
    colour, line = arm_style(arm, view.mode)
    points = [q for q in _nightly(view, arm) if q.ratio]
    if arm == view.focus:
        band_trace(made, axis, points, lambda q: (q.ratio_low, q.ratio_high), 1.0, translucent(colour, 0.2), "y2")
    if points:
        xs, ys, texts = line_values(axis, points, lambda q: q.ratio, lambda q: hover_text(q, view.zone))
        made.add_scatter(
            x=xs,
            y=ys,
            text=texts,
            mode="lines+markers" if len(points) < 40 else "lines",
            line={**line, "color": colour},
            marker={"size": 8 if len(points) == 1 else 3.5, "color": colour},
            connectgaps=False,
            showlegend=False,
            opacity=0.7 if arm == "aa" else 1,
            hovertemplate="%{text}<extra></extra>",
            yaxis="y2",
        )
    if arm == "aa":
        return
    odd = [q for q in view.points if q.arm == arm and not q.counts and q.ratio]
    if odd:
        made.add_scatter(
            x=[axis.place(q.at, q.run_id) for q in odd],
            y=[q.ratio for q in odd],
            mode="markers",
            showlegend=False,
            text=[hover_text(q, view.zone) for q in odd],
            hovertemplate="%{text}<extra></extra>",
            yaxis="y2",
            marker={"symbol": "circle-open", "size": 8, "color": p.MUTED.of(view.mode), "line": {"width": 1.6}},
        )


def _latency_axis(made: go.Figure, view: SeriesView, factor: float, unit: str, ends: Sequence[EndLabel]) -> None:
    values = [v * factor for q in view.points for v in (q.latency_p50_s, q.roofline_latency_s) if v and q.arm != "aa"]
    values += [q.latency_p99_s * factor for q in view.points if q.arm == view.focus and q.latency_p99_s]
    low, high = (min(values) / 1.08, max(values) * 1.08) if values else (1.0, 10.0)
    ticks = log_ticks(low, high)
    made.update_layout(
        yaxis={
            "type": "log",
            "domain": list(UPPER),
            "range": [math.log10(low), math.log10(high)],
            "tickvals": ticks,
            "ticktext": [tick_text(t) for t in ticks],
            "title": {"text": f"latency, {unit} (log)"},
        }
    )
    height = HEIGHT * (UPPER[1] - UPPER[0]) * 0.85
    span = math.log10(high / low)
    places = spread([(math.log10(end.at * factor / low)) / span * height for end in ends], 16)
    longest = max((len(end.text.replace("<b>", "").replace("</b>", "")) for end in ends), default=0)
    made.update_layout(margin_r=max(RIGHT_MARGIN_PX, 7 * longest + 14))
    for end, place in zip(ends, places, strict=True):
        made.add_annotation(
            xref="paper",
            yref="paper",
            x=1.008,
            y=UPPER[0] + place / height * (UPPER[1] - UPPER[0]),
            text=end.text,
            showarrow=False,
            xanchor="left",
            yanchor="middle",
            font={"color": end.colour, "size": 12.5},
        )


def _ratio_axis(made: go.Figure, view: SeriesView) -> None:
    shown = [q for q in view.points if q.arm not in ("naive", "optimized", "planted") and q.ratio]
    values = [v for q in shown for v in (q.ratio, *((q.ratio_low, q.ratio_high) if q.arm == view.focus else ())) if v]
    finite = [v for v in values if math.isfinite(v)] or [1.0]
    ordered = sorted(finite)
    if len(ordered) > 20:  # one wide interval should not flatten the picture
        ordered = ordered[len(ordered) // 200 : len(ordered) - len(ordered) // 200]
    low, high = min(ordered[0], 1.0), max(ordered[-1], 1.0)
    pad = max((high - low) * 0.08, 0.01)
    ticks = linear_ticks(low - pad, high + pad)
    decimals = 3 if len(ticks) > 1 and ticks[1] - ticks[0] < 0.00999 else 2
    made.update_layout(
        yaxis2={
            "domain": list(LOWER),
            "range": [low - pad, high + pad],
            "tickvals": ticks,
            "anchor": "x",
            "ticktext": [words.ratio(t, decimals) for t in ticks],
            "title": {"text": f"{_short(view)} ÷ optimized"},
        }
    )
    text, muted = p.TEXT.of(view.mode), p.MUTED.of(view.mode)
    made.add_shape(type="line", xref="paper", x0=0, x1=1, yref="y2", y0=1, y1=1, line={"color": text, "width": 1.3})
    notes = [(1.0, "1 = optimized", text)]
    newest = [q for q in _nightly(view, view.focus) if q.ratio]
    if newest and view.focus not in ("naive", "optimized"):
        ink = arm_style(view.focus, view.mode)[0]
        notes.append((newest[-1].ratio or 1.0, f"<b>now</b> {words.ratio(newest[-1].ratio)}", ink))
    elif not shown:
        made.add_annotation(
            xref="paper",
            yref="y2 domain",
            x=0.5,
            y=0.5,
            showarrow=False,
            font={"color": muted, "size": 12.5},
            text="no ratio: nothing was paired with the optimized arm in these runs",
        )
    height = HEIGHT * (LOWER[1] - LOWER[0]) * 0.85
    span = high - low + 2 * pad
    for (_, said, ink), place in zip(
        notes, spread([(n[0] - low + pad) / span * height for n in notes], 16), strict=True
    ):
        made.add_annotation(
            xref="paper",
            yref="y2 domain",
            x=1.008,
            y=place / height,
            text=said,
            showarrow=False,
            xanchor="left",
            yanchor="middle",
            font={"color": ink, "size": 12.5},
        )
    made.add_shape(
        type="line",
        xref="paper",
        yref="y domain",
        x0=0,
        x1=1,
        y0=0,
        y1=0,
        line={"color": p.LINE.of(view.mode), "width": 1},
    )
    _visible_band(made, view)


def _short(view: SeriesView) -> str:
    return label(words.shorten(view.focus, 24)) if view.focus.startswith("candidate") else "candidate"


def _visible_band(made: go.Figure, view: SeriesView) -> None:
    base, seen = view.baseline, view.smallest_visible_change
    if base is None or seen is None or view.by_revision:
        return
    zone = view.zone
    low, high = base.level * (1 - seen), base.level * (1 + seen)
    newest = max(q.at for q in view.points)
    x0, x1 = (at.astimezone(zone).replace(tzinfo=None) for at in (base.since, newest))
    made.add_shape(
        type="rect",
        xref="x",
        yref="y2",
        x0=x0,
        x1=x1,
        y0=low,
        y1=high,
        layer="below",
        line={"width": 0},
        fillcolor=translucent(p.MUTED.of(view.mode), 0.14),
    )
    said = (
        f"± {words.percent(seen)}"
        if view.compact
        else f"smallest visible change ± {words.percent(seen)} around the baseline"
    )
    made.add_annotation(
        xref="x",
        yref="y2",
        x=x0,
        y=low,
        text=said,
        showarrow=False,
        xanchor="left",
        yanchor="top",
        font={"color": p.MUTED.of(view.mode), "size": 12},
    )
