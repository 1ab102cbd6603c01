"""Error margins in time, on one logarithmic axis with the line that nothing may cross."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import tzinfo

import plotly.graph_objects as go

from dashboard import palette as p
from dashboard import words
from dashboard.data.latest import Row, TrailPoint
from dashboard.figures.roofline import short_name
from dashboard.figures.template import figure, label, log_ticks, spread
from dashboard.palette import Mode

DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
HEIGHT = 330


def margin_figure(rows: Sequence[Row], points: Sequence[TrailPoint], zone: tzinfo, mode: Mode) -> go.Figure:
    """A line a case, told apart by its dash and by its name at the right end."""
    made = figure(mode, height=HEIGHT)
    ends = []
    values: list[float] = [1.0]
    for row, dash in zip(rows, DASHES, strict=False):
        own = [q for q in points if q.subject_id == row.subject_id and q.value > 0]
        if not own:
            continue
        values += [q.value for q in own]
        made.add_scatter(
            x=[q.at.astimezone(zone).replace(tzinfo=None) for q in own],
            y=[q.value for q in own],
            mode="lines+markers" if len(own) < 40 else "lines",
            line={"color": p.CANDIDATE.of(mode), "width": 1.5, "dash": dash},
            marker={"size": 4, "color": p.CANDIDATE.of(mode)},
            name=label(row.name),
            showlegend=False,
            hovertemplate=f"{label(words.clip(row.label, 70))}<br>%{{x}}: %{{y:.3f}} of the tolerance<extra></extra>",
        )
        ends.append((own[-1].value, row))
    low, high = min(values) / 1.4, max(values) * 1.4
    ticks = log_ticks(low, high, 7)
    made.update_yaxes(
        type="log",
        range=[math.log10(low), math.log10(high)],
        tickvals=ticks,
        ticktext=[words.roof(t) for t in ticks],
        title_text="error ÷ allowed (log)",
    )
    ink = p.SLOWER.of(mode)
    made.add_shape(
        type="line", xref="paper", yref="y", x0=0, x1=1, y0=1, y1=1, line={"color": ink, "width": 1.3, "dash": "dash"}
    )
    height, span = HEIGHT - 70, math.log10(high / low)
    labels = [(1.0, "tolerance", ink)] + [
        (value, label(words.clip(short_name(row), 28)), p.CANDIDATE.of(mode)) for value, row in ends
    ]
    places = spread([math.log10(value / low) / span * height for value, _, _ in labels], 15)
    for (_, text, colour), place in zip(labels, places, strict=True):
        made.add_annotation(
            xref="paper",
            yref="y domain",
            x=1.008,
            y=place / height,
            text=text,
            showarrow=False,
            xanchor="left",
            yanchor="middle",
            font={"color": colour, "size": 12},
        )
    made.update_xaxes(tickformat="%d %b", nticks=8)
    made.update_layout(margin={"r": 170, "t": 10})
    return made
