"""One static number of one kernel and chip through its compilations: a step line, since nothing lies between two."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

import plotly.graph_objects as go

from dashboard import palette as p
from dashboard.data.static import Compiled
from dashboard.figures.template import figure, label, linear_ticks, tick_text
from dashboard.palette import Mode

HEIGHT = 260


def static_figure(
    rows: Sequence[Compiled], values: Sequence[float | None], *, title: str, zone: tzinfo, mode: Mode
) -> go.Figure:
    """`rows` oldest first with their `values`; a filled mark is a binary that differs from the one before."""
    made = figure(mode, height=HEIGHT)
    ink = p.CANDIDATE.of(mode)
    at = [row.measured_at.astimezone(zone).replace(tzinfo=None) for row in rows]
    hashes = [row.static_binary_sha256 for row in rows]
    differs = [i > 0 and hashes[i] != hashes[i - 1] for i in range(len(rows))]
    said = [f"{row.revision or 'revision not known'}, triton {row.triton or 'not known'}" for row in rows]
    made.add_scatter(
        x=at,
        y=list(values),
        mode="lines+markers",
        line={"color": ink, "width": 1.5, "shape": "hv"},
        connectgaps=False,
        marker={
            "size": 9,
            "color": [ink if other else p.BACKGROUND.of(mode) for other in differs],
            "line": {"color": ink, "width": 1.5},
        },
        customdata=[label(text) for text in said],
        hovertemplate="%{x}: %{y:,}<br>%{customdata}<extra></extra>",
        showlegend=False,
    )
    known = [value for value in values if value is not None]
    top = max(known, default=1.0) or 1.0
    ticks = linear_ticks(0.0, top * 1.1)
    made.update_yaxes(title_text=label(title), range=[0, top * 1.15], tickvals=ticks, ticktext=[*map(tick_text, ticks)])
    days = (at[-1] - at[0]).days if at else 0
    made.update_xaxes(tickformat="%d %b" if days > 7 else "%d %b<br>%H:%M", nticks=8)
    made.update_layout(margin={"r": 20, "t": 10})
    return made
