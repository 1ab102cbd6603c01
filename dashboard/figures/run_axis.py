"""What a series figure is given, and its x axis: runs in time, or in order with ticks at new revisions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from statistics import median

import plotly.graph_objects as go

from dashboard.data.series import Baseline, Change, EnvironmentChange, Point
from dashboard.figures.template import label
from dashboard.palette import Mode

Place = datetime | float


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesView:
    """All that the figure shows."""

    points: Sequence[Point]
    focus: str
    """The arm whose band and ratio are in the foreground."""
    environment: Sequence[EnvironmentChange] = ()
    changes: Sequence[Change] = ()
    baseline: Baseline | None = None
    smallest_visible_change: float | None = None
    tail: str = "p50 to p99"
    by_revision: bool = False
    zone: tzinfo = field(kw_only=True)
    mode: Mode = Mode.LIGHT
    compact: bool = False
    """Whether there is little room: marks are numbered, labels short."""


class XAxis:
    """Runs in time, or runs in order with a tick where the revision changes."""

    def __init__(self, view: SeriesView) -> None:
        self.view = view
        times = sorted({(q.at, q.run_id) for q in view.points})
        self.order = {run: i for i, (_, run) in enumerate(times)}
        self.times = [at for at, _ in times]
        spacings = [(b - a).total_seconds() for a, b in zip(self.times, self.times[1:], strict=False)]
        long = [s for s in spacings if s > 3600]
        self.usual = timedelta(seconds=median(long) if long else 86400)

    def place(self, at: datetime, run_id: str | None = None) -> Place:
        if not self.view.by_revision:
            return at.astimezone(self.view.zone).replace(tzinfo=None)
        if run_id in self.order:
            return float(self.order[run_id])
        return sum(1 for t in self.times if t < at) - 0.5

    def between(self, at: datetime) -> Place:
        """The place of a change that lies between the run at `at` and the one before it."""
        earlier = [t for t in self.times if t < at]
        if self.view.by_revision:
            return len(earlier) - 0.5
        if not earlier:
            return self.place(at)
        return self.place(at - (at - earlier[-1]) / 2)

    def broken(self, before: datetime, after: datetime) -> bool:
        """Whether a line between two runs would pretend to know what was not measured."""
        if self.view.by_revision:
            return False
        return after - before > max(self.usual * 1.9, timedelta(hours=36))

    def apply(self, made: go.Figure) -> None:
        made.update_layout(xaxis={"domain": [0, 1], "anchor": "y2"})
        if self.view.by_revision:
            made.update_xaxes(title_text="runs in order; ticks name the revision")
            revisions = {q.run_id: q.revision for q in self.view.points}
            ticks, texts, last = [], [], object()
            for run, place in self.order.items():
                if revisions[run] != last:
                    last = revisions[run]
                    ticks.append(place)
                    texts.append(label((last or "unknown")[:10]))
            stride = math.ceil(len(ticks) / 12) or 1
            made.update_xaxes(tickvals=ticks[::stride], ticktext=texts[::stride])
        elif len(self.times) > 1:
            span = self.times[-1] - self.times[0]
            formats = "%d %b" if span > timedelta(days=3) else "%d %b %H:%M"
            pad = max(span * 0.02, timedelta(seconds=20))
            made.update_xaxes(
                tickformat=formats, range=[self.place(self.times[0] - pad), self.place(self.times[-1] + pad)]
            )
        elif self.times:
            day = timedelta(hours=12)
            made.update_xaxes(
                tickformat="%d %b %H:%M", range=[self.place(self.times[0] - day), self.place(self.times[0] + day)]
            )
