"""Latency and bus bandwidth of a collective over the size of its message."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from dashboard import palette as p
from dashboard import words
from dashboard.data.latest import Row
from dashboard.figures.arms import arm_style, arm_words
from dashboard.figures.template import figure, label, log_ticks, tick_text
from dashboard.fits import AlphaBeta
from dashboard.palette import Mode


def curves_figure(
    rows: Sequence[Row], fits: dict[str, AlphaBeta | None], link_bytes_per_s: float | None, mode: Mode, *, busbw: bool
) -> go.Figure:
    """One line an arm, both axes logarithmic; the fit dotted, the link's own bandwidth as a roof."""
    made = figure(mode, height=340)
    ys: list[float] = []
    xs: list[float] = []
    for arm in dict.fromkeys(r.arm for r in rows):
        own = sorted((r for r in rows if r.arm == arm), key=lambda r: r.message_bytes or 0)
        points = [(r, v) for r in own if (v := _value(r, busbw=busbw)) and r.message_bytes]
        if not points:
            continue
        colour, line = arm_style(arm, mode)
        xs += [float(r.message_bytes or 1) for r, _ in points]
        ys += [v for _, v in points]
        made.add_scatter(
            x=[r.message_bytes for r, _ in points],
            y=[v for _, v in points],
            text=[_hover(r) for r, _ in points],
            mode="lines+markers",
            name=label(arm_words(arm)),
            line={**line, "color": colour},
            marker={"size": 6, "color": colour},
            hovertemplate="%{text}<extra></extra>",
        )
        fit = fits.get(arm)
        if fit is not None and not busbw:
            grid = np.geomspace(points[0][0].message_bytes or 1, points[-1][0].message_bytes or 1, 40)
            made.add_scatter(
                x=grid,
                y=[1e6 * (fit.alpha_s + s / fit.beta_bytes_per_s) for s in grid],
                mode="lines",
                line={"color": colour, "width": 1, "dash": "dot"},
                hoverinfo="skip",
                showlegend=False,
            )
    if busbw and link_bytes_per_s:
        roof = link_bytes_per_s / 1e9
        ys.append(roof)
        made.add_hline(
            y=roof,
            line={"color": p.NAIVE.of(mode), "width": 1.3, "dash": "dot"},
            annotation={
                "text": f"link {words.bandwidth(link_bytes_per_s)}",
                "font": {"color": p.MUTED.of(mode), "size": 12},
            },
        )
    _axes(made, xs, ys, busbw=busbw)
    return made


def _value(row: Row, *, busbw: bool) -> float | None:
    if busbw:
        return row.busbw_bytes_per_s / 1e9 if row.busbw_bytes_per_s else None
    return row.latency_p50_s * 1e6 if row.latency_p50_s else None


def _axes(made: go.Figure, xs: Sequence[float], ys: Sequence[float], *, busbw: bool) -> None:
    low, high = (min(ys) / 1.3, max(ys) * 1.3) if ys else (1.0, 10.0)
    ticks = log_ticks(low, high, 6)
    made.update_yaxes(
        type="log",
        range=[math.log10(low), math.log10(high)],
        tickvals=ticks,
        ticktext=[tick_text(t) for t in ticks],
        title_text="bus bandwidth, GB/s (log)" if busbw else "latency p50, µs (log)",
    )
    sizes = sorted(set(xs))
    shown = sizes[:: max(1, len(sizes) // 8)]
    made.update_xaxes(
        type="log",
        tickvals=shown,
        ticktext=[words.memory(s) for s in shown],
        title_text="size of the message (log)",
    )
    made.update_layout(margin={"r": 20, "t": 30})


def _hover(row: Row) -> str:
    return (
        f"<b>{label(arm_words(row.arm))}</b>, {words.memory(row.message_bytes)}, {row.world_size or 0} ranks<br>"
        f"p50 {words.time(row.latency_p50_s)}, bus {words.bandwidth(row.busbw_bytes_per_s)}"
    )
