"""The two figures of a finding: its trend with the change in it, and every round before and after."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo

import numpy as np
import plotly.graph_objects as go

from dashboard import palette as p
from dashboard import words
from dashboard.data.series import Baseline, Change, Point, Samples
from dashboard.figures.arms import band_trace, hover_text, line_values
from dashboard.figures.run_axis import SeriesView, XAxis
from dashboard.figures.series_marks import change_ink
from dashboard.figures.template import figure, label, linear_ticks
from dashboard.palette import Mode, translucent

TREND_HEIGHT = 300
DRAWN_ROUNDS = 1500


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """What the trend shows: the focus arm's ratio, or its latency where it has no ratio."""

    points: Sequence[Point]
    focus: str
    change: Change
    baseline: Baseline | None
    smallest_visible_change: float | None
    zone: tzinfo
    mode: Mode


def trend_figure(trend: Trend) -> go.Figure:
    """The value of every run around the change, with the interval, the level before and what is too small to see."""
    made = figure(trend.mode, height=TREND_HEIGHT)
    own = [q for q in trend.points if q.arm == trend.focus]
    use_ratio = any(q.ratio for q in own) and trend.focus != "optimized"
    axis = XAxis(SeriesView(points=own, focus=trend.focus, zone=trend.zone, mode=trend.mode))
    counted = [q for q in own if q.counts and (q.ratio if use_ratio else q.latency_p50_s)]
    factor, unit = words.time_unit(max((q.latency_p50_s or 0 for q in counted), default=1e-6))

    def value(point: Point) -> float:
        return (point.ratio or 0) if use_ratio else (point.latency_p50_s or 0) * factor

    colour = p.CANDIDATE.of(trend.mode)
    if use_ratio:
        band_trace(made, axis, counted, lambda q: (q.ratio_low, q.ratio_high), 1.0, translucent(colour, 0.2), "y")
    xs, ys, texts = line_values(axis, counted, value, lambda q: hover_text(q, trend.zone))
    made.add_scatter(
        x=xs,
        y=ys,
        text=texts,
        mode="lines+markers",
        line={"color": colour, "width": 1.8},
        marker={"size": 4.5, "color": colour},
        connectgaps=False,
        showlegend=False,
        hovertemplate="%{text}<extra></extra>",
    )
    excluded = [q for q in own if not q.counts and (q.ratio if use_ratio else q.latency_p50_s)]
    made.add_scatter(
        x=[axis.place(q.at, q.run_id) for q in excluded],
        y=[value(q) for q in excluded],
        text=[hover_text(q, trend.zone) for q in excluded],
        mode="markers",
        marker={"symbol": "circle-open", "size": 8, "color": p.MUTED.of(trend.mode), "line": {"width": 1.6}},
        showlegend=False,
        hovertemplate="%{text}<extra></extra>",
    )
    _trend_axis(made, trend, [value(q) for q in counted], use_ratio=use_ratio, unit=unit)
    if trend.change.since_at is not None and axis.times:
        ink = change_ink(trend.change, trend.mode)
        x = axis.between(trend.change.since_at)
        made.add_shape(
            type="line", xref="x", yref="y domain", x0=x, x1=x, y0=0, y1=1, line={"color": ink, "width": 1.5}
        )
        word = words.slower_or_faster(trend.change.direction, trend.change.metric)
        made.add_annotation(
            xref="x",
            yref="paper",
            x=x,
            y=1,
            xshift=-6,
            xanchor="right",
            yanchor="top",
            showarrow=False,
            text=f"<b>{word}</b> {words.change(trend.change.change)}",
            font={"color": ink, "size": 12.5},
        )
    axis.apply(made)
    made.update_layout(xaxis={"anchor": "y"}, margin={"r": 16, "l": 60, "t": 24, "b": 30})
    return made


def _trend_axis(made: go.Figure, trend: Trend, values: Sequence[float], *, use_ratio: bool, unit: str) -> None:
    known = [v for v in values if math.isfinite(v)] or [1.0]
    low, high = min(known), max(known)
    if use_ratio and 1.0 - high < 0.5 * (high - low) + 0.1 and low - 1.0 < 0.5 * (high - low) + 0.1:
        low, high = min(low, 1.0), max(high, 1.0)
        made.add_shape(
            type="line",
            xref="paper",
            x0=0,
            x1=1,
            yref="y",
            y0=1,
            y1=1,
            line={"color": p.TEXT.of(trend.mode), "width": 1.3},
        )
        made.add_annotation(
            xref="paper",
            yref="y",
            x=0,
            y=1,
            text="1 = optimized",
            showarrow=False,
            xanchor="left",
            yanchor="bottom",
            font={"color": p.MUTED.of(trend.mode), "size": 12},
        )
    seen, base = trend.smallest_visible_change, trend.baseline
    if use_ratio and seen is not None and base is not None:
        low, high = min(low, base.level * (1 - seen)), max(high, base.level * (1 + seen))
        made.add_shape(
            type="rect",
            xref="paper",
            x0=0,
            x1=1,
            yref="y",
            y0=base.level * (1 - seen),
            y1=base.level * (1 + seen),
            layer="below",
            line={"width": 0},
            fillcolor=translucent(p.MUTED.of(trend.mode), 0.14),
        )
        made.add_annotation(
            xref="paper",
            yref="y",
            x=0,
            y=base.level * (1 - seen),
            text=f"smallest visible change ± {words.percent(seen)}",
            showarrow=False,
            xanchor="left",
            yanchor="top",
            font={"color": p.MUTED.of(trend.mode), "size": 12},
        )
    pad = max((high - low) * 0.14, 1e-3 * abs(high))
    ticks = linear_ticks(low - pad, high + pad)
    decimals = 3 if len(ticks) > 1 and ticks[1] - ticks[0] < 0.00999 else 2
    texts = [words.ratio(t, decimals) if use_ratio else words.significant(t) for t in ticks]
    title = f"{label(words.shorten(trend.focus, 24))} ÷ optimized" if use_ratio else f"latency, {unit}"
    made.update_yaxes(range=[low - pad, high + pad], tickvals=ticks, ticktext=texts, title_text=title)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """The paired ratios of a run's rounds."""

    at: datetime
    run_id: str
    values: tuple[float, ...]


def paired_rounds(samples: Sequence[Samples], arm: str, timer: str | None) -> tuple[float, ...]:
    """arm / optimized for each round of each process in which both were timed, marked rounds left out."""
    by_arm: dict[str, dict[tuple[int, int], list[float]]] = {}
    for one in samples:
        rounds = by_arm.setdefault(one.arm, {})
        for number, value in enumerate(one.values(timer)):
            if number < len(one.mark) and one.mark[number]:
                continue
            which = one.round[number] if number < len(one.round) else number
            rounds.setdefault((one.replicate, which), []).append(value)
    base = by_arm.get("optimized", {})
    found = []
    for key, values in by_arm.get(arm, {}).items():
        if key in base:
            below = float(np.median(base[key]))
            if below > 0:
                found.append(float(np.median(values)) / below)
    return tuple(found)


def rounds_figure(
    before: Rounds, after: Rounds, *, slower: bool, zone: tzinfo, mode: Mode, coloured: bool = True
) -> go.Figure:
    """Two densities and under each every round as a dot; the vertical stroke is the median."""
    made = figure(mode, height=TREND_HEIGHT)
    judged = (p.SLOWER if slower else p.FASTER) if coloured else p.TEXT
    drawn = [(after, judged.of(mode), 0.0, "after"), (before, p.MUTED.of(mode), 1.15, "before")]
    everything = np.array([*before.values, *after.values])
    low, high = np.quantile(everything, [0.002, 0.998])
    pad = (high - low) * 0.12 or 0.01
    low, high = float(low - pad), float(high + pad)
    random = np.random.default_rng(0)
    for rounds, colour, bottom, when in drawn:
        values = np.array(rounds.values)
        xs, ys = density(values, low, high)
        made.add_scatter(
            x=[*xs, *xs[::-1]],
            y=[*(bottom + 0.28 + 0.72 * ys), *([bottom + 0.28] * len(xs))],
            fill="toself",
            fillcolor=translucent(colour, 0.25),
            line={"color": colour, "width": 1.3},
            mode="lines",
            hoverinfo="skip",
            showlegend=False,
        )
        shown = values if len(values) <= DRAWN_ROUNDS else random.choice(values, DRAWN_ROUNDS, replace=False)
        made.add_scatter(
            x=shown,
            y=bottom + 0.04 + 0.18 * random.random(len(shown)),
            mode="markers",
            marker={"size": 3.5, "color": colour, "opacity": 0.6},
            showlegend=False,
            hovertemplate="%{x:.4f}×<extra></extra>",
        )
        middle = float(np.median(values))
        made.add_shape(
            type="line",
            x0=middle,
            x1=middle,
            y0=bottom + 0.2,
            y1=bottom + 0.42,
            line={"color": p.TEXT.of(mode), "width": 2},
        )
        right = middle < (low + high) / 2
        made.add_annotation(
            xref="paper",
            yref="y",
            x=1 if right else 0,
            y=bottom + 0.98,
            showarrow=False,
            xanchor="right" if right else "left",
            yanchor="top",
            align="right" if right else "left",
            font={"color": colour, "size": 12},
            text=f"<b>{when}, {words.date(rounds.at, zone)}</b><br>median {words.ratio(middle)}"
            f"<br>n {len(values):,} rounds",
        )
    ticks = linear_ticks(low, high, 5)
    decimals = 3 if len(ticks) > 1 and ticks[1] - ticks[0] < 0.00999 else 2
    made.update_xaxes(
        range=[low, high],
        tickvals=ticks,
        ticktext=[words.ratio(t, decimals) for t in ticks],
        title_text="candidate ÷ optimized, one round each",
    )
    made.update_yaxes(visible=False, range=[-0.05, 2.25])
    made.update_layout(margin={"l": 8, "r": 8, "t": 8, "b": 40})
    return made


def density(values: np.ndarray, low: float, high: float, points: int = 160) -> tuple[np.ndarray, np.ndarray]:
    """A Gaussian kernel estimate scaled to a height of 1; bandwidth after Silverman 1986 (3.31), robust."""
    xs = np.linspace(low, high, points)
    if len(values) < 2:
        return xs, np.exp(-0.5 * ((xs - float(values.mean())) / ((high - low) / 60)) ** 2)
    quartiles = np.quantile(values, [0.25, 0.75])
    spread = min(float(values.std(ddof=1)), float(quartiles[1] - quartiles[0]) / 1.34) or float(values.std(ddof=1))
    width = max(0.9 * spread * len(values) ** -0.2, (high - low) / 400)
    ys = np.exp(-0.5 * ((xs[:, None] - values[None, :]) / width) ** 2).sum(axis=1)
    return xs, ys / ys.max()
