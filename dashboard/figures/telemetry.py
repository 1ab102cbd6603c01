"""The telemetry of a run: one small panel a metric, on the run's own time axis."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

import plotly.graph_objects as go

from dashboard import palette as p
from dashboard.data.fleet import Reading
from dashboard.figures.template import figure, label, linear_ticks, thin, tick_text
from dashboard.palette import Mode

PANEL_PX = 110


def readable_unit(unit: str, largest: float) -> tuple[str, float]:
    """The unit a person reads a metric in, and the factor to it."""
    if unit == "Hz":
        return ("GHz", 1e-9) if largest >= 1e9 else ("MHz", 1e-6)
    if unit in ("bytes", "B"):
        return ("GiB", 2.0**-30) if largest >= 2**30 else ("MiB", 2.0**-20)
    return ("%", 100.0) if unit == "share" else (unit, 1.0)


def telemetry_figure(readings: Sequence[Reading], zone: tzinfo, mode: Mode) -> go.Figure:
    """Panels below each other, each with its own unit and scale."""
    metrics = list(dict.fromkeys(r.metric for r in readings if r.value is not None))
    made = figure(mode, height=PANEL_PX * max(1, len(metrics)) + 50)
    count = max(1, len(metrics))
    for index, metric in enumerate(metrics):
        own = [r for r in readings if r.metric == metric]
        kept = thin([r.value for r in own])
        number = "" if index == 0 else str(index + 1)
        top, bottom = 1 - index / count, 1 - (index + 1) / count + 0.035
        unit, factor = readable_unit(own[0].unit or "", max(abs(r.value) for r in own if r.value is not None))
        values = [r.value * factor for r in own if r.value is not None]
        low, high = min(values), max(values)
        pad = max((high - low) * 0.1, 0.01 * abs(high), 1e-9)
        made.add_scatter(
            x=[own[i].at.astimezone(zone).replace(tzinfo=None) for i in kept],
            y=[None if (value := own[i].value) is None else value * factor for i in kept],
            mode="lines",
            line={"color": p.TEXT.of(mode), "width": 1.2},
            connectgaps=False,
            showlegend=False,
            yaxis=f"y{number}",
            hovertemplate=f"{label(metric)}: %{{y:.4g}} {label(unit)}<br>%{{x|%H:%M:%S}}<extra></extra>",
        )
        ticks = linear_ticks(low - pad, high + pad, 3)
        made.update_layout(
            {
                f"yaxis{number}": {
                    "domain": [bottom, top - 0.02],
                    "range": [low - pad, high + pad],
                    "tickvals": ticks,
                    "ticktext": [tick_text(t) for t in ticks],
                    "anchor": "x",
                }
            }
        )
        made.add_annotation(
            xref="paper",
            yref="paper",
            x=1.008,
            y=(bottom + top) / 2,
            text=f"{label(metric.replace('_', ' '))}<br>{label(unit)}",
            align="left",
            showarrow=False,
            xanchor="left",
            yanchor="middle",
            font={"color": p.MUTED.of(mode), "size": 12},
        )
    last = "" if count == 1 else str(count)
    made.update_layout(xaxis={"anchor": f"y{last}", "tickformat": "%H:%M:%S"}, margin={"t": 6, "b": 30, "r": 150})
    return made
