"""What stands in a series figure beside the arms: stretches without a run, environment changes, found changes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import plotly.graph_objects as go

from dashboard import palette as p
from dashboard import words
from dashboard.data.series import Change, EnvironmentChange
from dashboard.figures.run_axis import Place, SeriesView, XAxis
from dashboard.figures.template import label
from dashboard.markup import Tone
from dashboard.palette import Mode

MOST_MARKS = 6
"""More environment marks than this are numbered, and listed under the figure."""
LONG_GAP = timedelta(hours=72)


def draw_gaps(made: go.Figure, view: SeriesView, axis: XAxis) -> None:
    """Long stretches without a run: a surface rectangle with words."""
    if view.by_revision:
        return
    for before, after in zip(axis.times, axis.times[1:], strict=False):
        if after - before <= max(axis.usual * 3.5, LONG_GAP):
            continue
        margin = (after - before) * 0.04
        x0, x1 = axis.place(before + margin), axis.place(after - margin)
        for ref in ("y domain", "y2 domain"):
            made.add_shape(
                type="rect",
                xref="x",
                yref=ref,
                x0=x0,
                x1=x1,
                y0=0,
                y1=1,
                layer="below",
                line={"width": 0},
                fillcolor=p.SURFACE.of(view.mode),
            )
        made.add_annotation(
            xref="x",
            yref="y2 domain",
            x=axis.place(before + (after - before) / 2),
            y=0.5,
            showarrow=False,
            textangle=-90,
            text=f"no data for {round((after - before).total_seconds() / 86400)} days",
            font={"color": p.MUTED.of(view.mode), "size": 12},
        )


def marks_of(environment: Sequence[EnvironmentChange]) -> list[tuple[datetime, list[EnvironmentChange]]]:
    """Environment changes by the run they appeared with, oldest first."""
    grouped: dict[datetime, list[EnvironmentChange]] = {}
    for one in environment:
        grouped.setdefault(one.at, []).append(one)
    return sorted(grouped.items())


def draw_environment(made: go.Figure, view: SeriesView, axis: XAxis) -> None:
    shown = [m for m in marks_of(view.environment) if axis.times and axis.times[0] < m[0] <= axis.times[-1]]
    numbered = len(shown) > MOST_MARKS or view.compact
    muted = p.MUTED.of(view.mode)
    for number, (at, fields) in enumerate(shown, 1):
        x = axis.between(at)
        _vertical(made, x, {"color": muted, "width": 1.2, "dash": "dot"})
        text = str(number) if numbered else _mark_words(fields)
        _lane(made, x, text, muted, level=0)


def _mark_words(fields: Sequence[EnvironmentChange]) -> str:
    first = fields[0]
    said = f"{first.name} {words.shorten(first.before, 14)} → {words.shorten(first.after, 14)}"
    more = f" and {len(fields) - 1} more" if len(fields) > 1 else ""
    return label(said + more)


SURE_STATES = ("confirmed", "acknowledged", "reopened", "resolved", "snoozed")


def change_mark_tone(change: Change) -> Tone:
    """The judgement of a change mark: a doubt while it is not confirmed."""
    if change.state not in SURE_STATES:
        return Tone.UNSURE
    return Tone.SLOWER if change.direction > 0 else Tone.FASTER


def change_ink(change: Change, mode: Mode) -> str:
    """The colour of a change mark; a moved baseline or a changed method is no judgement on the kernel."""
    if change.finding_class in ("baseline", "method", "noise"):
        return p.MUTED.of(mode)
    inks = {Tone.UNSURE: p.UNSURE, Tone.SLOWER: p.SLOWER, Tone.FASTER: p.FASTER}
    return inks[change_mark_tone(change)].of(mode)


def draw_changes(made: go.Figure, view: SeriesView, axis: XAxis) -> None:
    for one in view.changes:
        if one.since_at is None or not axis.times:
            continue
        tone = change_mark_tone(one)
        ink = change_ink(one, view.mode)
        x = axis.between(one.since_at)
        _vertical(made, x, {"color": ink, "width": 1.5, "dash": "dash" if tone is Tone.UNSURE else "solid"})
        word = words.slower_or_faster(one.direction, one.metric)
        doubt = f"{label(one.state)}: " if tone is Tone.UNSURE else ""
        text = (
            f"<b>{doubt}{word} {words.change(one.change)}</b>"
            if one.change is not None
            else f"<b>{label(one.state)}</b>"
        )
        _lane(made, x, text, ink, level=1 if view.environment else 0)


def _vertical(made: go.Figure, x: Place, line: dict[str, Any]) -> None:
    for ref in ("y domain", "y2 domain"):
        made.add_shape(type="line", xref="x", yref=ref, x0=x, x1=x, y0=0, y1=1, line=line)


def _lane(made: go.Figure, x: Place, text: str, colour: str, *, level: int) -> None:
    """A label above the plot; `level` 1 is the upper of two lanes."""
    made.add_annotation(
        xref="x",
        yref="paper",
        x=x,
        y=1,
        yshift=11 + 15 * level,
        text=text,
        showarrow=False,
        xanchor="center",
        yanchor="middle",
        font={"color": colour, "size": 12},
    )
    made.update_layout(margin_t=28 + 16 * level)
