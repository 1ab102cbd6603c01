"""How an arm is drawn: its colour and dash, its line with gaps, its band, what a point of it says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import tzinfo
from typing import Any

import plotly.graph_objects as go

from dashboard import palette as p
from dashboard import words
from dashboard.data.series import Point
from dashboard.figures.run_axis import XAxis
from dashboard.figures.template import label, thin
from dashboard.palette import Mode

SENTINEL = "sentinel:"
"""Before the label of an arm that a frozen environment ran beside the normal one."""


def arm_style(arm: str, mode: Mode) -> tuple[str, dict[str, Any]]:
    """Colour and line of an arm; the arms are told apart by dash and width too."""
    if arm == "naive":
        return p.NAIVE.of(mode), {"width": 1.3, "dash": "dash"}
    if arm == "optimized":
        return p.TEXT.of(mode), {"width": 1.6}
    if arm == "aa":
        return p.NAIVE.of(mode), {"width": 1}
    if arm == "candidate":
        return p.CANDIDATE.of(mode), {"width": 2}
    if arm.startswith(SENTINEL):
        return p.MUTED.of(mode), {"width": 1.3, "dash": "dot"}
    return p.CANDIDATE.of(mode), {"width": 1.6, "dash": "dashdot"}


def arm_words(arm: str) -> str:
    """The name of an arm for a reader."""
    if arm.startswith(SENTINEL):
        return f"{arm.removeprefix(SENTINEL)} in the sentinel"
    return {"aa": "A/A copy"}.get(arm, arm)


def line_values(axis: XAxis, points: Sequence[Point], value: Any, text: Any) -> tuple[list[Any], list[Any], list[Any]]:
    """x, y and hover of a line, with a None between runs that are too far apart."""
    xs: list[Any] = []
    ys: list[Any] = []
    texts: list[Any] = []
    for before, point in zip([None, *points], points, strict=False):
        if before is not None and axis.broken(before.at, point.at):
            xs.append(axis.place(before.at + (point.at - before.at) / 2))
            ys.append(None)
            texts.append("")
        xs.append(axis.place(point.at, point.run_id))
        ys.append(value(point))
        texts.append(text(point))
    kept = thin(ys)
    return [xs[i] for i in kept], [ys[i] for i in kept], [texts[i] for i in kept]


def band_trace(
    made: go.Figure, axis: XAxis, points: Sequence[Point], ends: Any, factor: float, colour: str, yaxis: str
) -> None:
    """A filled band, one polygon for each stretch without a gap."""
    stretch: list[tuple[Any, float, float]] = []
    before: Point | None = None

    def close() -> None:
        if len(stretch) > 1:
            stretch[:] = [stretch[i] for i in thin([high for _, _, high in stretch])]
            xs = [x for x, _, _ in stretch] + [x for x, _, _ in reversed(stretch)]
            ys = [high for _, _, high in stretch] + [low for _, low, _ in reversed(stretch)]
            made.add_scatter(
                x=xs,
                y=ys,
                fill="toself",
                fillcolor=colour,
                line={"width": 0},
                mode="lines",
                hoverinfo="skip",
                showlegend=False,
                yaxis=yaxis,
            )
        stretch.clear()

    for point in points:
        low, high = ends(point)
        usable = low is not None and high is not None and math.isfinite(low) and math.isfinite(high)
        if not usable or (before is not None and axis.broken(before.at, point.at)):
            close()
        if usable:
            stretch.append((axis.place(point.at, point.run_id), low * factor, high * factor))
        before = point
    close()


def hover_text(point: Point, zone: tzinfo) -> str:
    """What a point says; names are text."""
    lines = [f"<b>{label(arm_words(point.arm))}</b>, {words.moment(point.at, zone)}"]
    if point.latency_p50_s:
        tail = f", p99 {words.time(point.latency_p99_s)}" if point.latency_p99_s else ""
        basis = "" if point.latency_basis == "single" else f" ({label(point.latency_basis or 'basis unknown')})"
        lines.append(f"p50 {words.time(point.latency_p50_s)}{tail}{basis}")
    if point.ratio and point.arm != "optimized":
        half = words.half_width(point.ratio_low, point.ratio_high)
        width = f"{words.HARD}±{words.HARD}{words.fixed(half, 3)}" if half is not None else ", interval not known"
        lines.append(f"{words.ratio(point.ratio)}{width} of optimized, {point.rounds or 0:,} rounds")
    if not point.counts:
        why = ": ".join(filter(None, (point.status_kind, point.status_reason)))
        lines.append(label(words.shorten(f"{point.status}, kept out of verdicts; {why}", 110)))
    lines.append(f"run {label(words.shorten(point.run_id, 40))}, revision {label((point.revision or 'unknown')[:12])}")
    return "<br>".join(lines)
