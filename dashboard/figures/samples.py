"""Every raw sample of one case in one run: nothing averaged, nothing left out."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from dashboard import palette as p
from dashboard import words
from dashboard.data.series import Samples
from dashboard.figures.arms import arm_style, arm_words
from dashboard.figures.template import figure, label, log_ticks, thin, tick_text
from dashboard.palette import Mode


def samples_figure(samples: Sequence[Samples], timer: str | None, mode: Mode) -> go.Figure:
    """Time of each sample in the order it was taken, processes side by side; hollow where left out of verdicts."""
    made = figure(mode, height=320)
    every = [value for one in samples for value in one.values(timer) if value > 0]
    factor, unit = words.time_unit(max(every)) if every else (1e6, "µs")
    replicates = sorted({one.replicate for one in samples})
    longest = max((len(one.values(timer)) for one in samples), default=1)
    for arm in sorted({one.arm for one in samples}, key=lambda a: (a != "naive", a != "optimized", a)):
        xs: list[float] = []
        ys: list[float | None] = []
        symbols: list[str] = []
        texts: list[str] = []
        symbol = "diamond" if arm.startswith("candidate:") else "circle"
        for one in (s for s in samples if s.arm == arm):
            start = replicates.index(one.replicate) * longest * 1.05
            for number, value in enumerate(one.values(timer)):
                mark = one.mark[number] if number < len(one.mark) else ""
                xs.append(start + number)
                ys.append(value * factor)
                symbols.append(symbol + "-open" if mark else symbol)
                left_out = f", left out: {label(mark)}" if mark else ""
                texts.append(
                    f"<b>{label(arm_words(arm))}</b> process {one.replicate + 1}, sample {number + 1}{left_out}<br>"
                    f"{words.time(value)}"
                )
        kept = thin(ys)
        colour = arm_style(arm, mode)[0]
        made.add_scatter(
            x=[xs[i] for i in kept],
            y=[ys[i] for i in kept],
            text=[texts[i] for i in kept],
            mode="markers",
            name=label(arm_words(arm)),
            hovertemplate="%{text}<extra></extra>",
            marker={"size": 4.5, "color": colour, "symbol": [symbols[i] for i in kept], "opacity": 0.75},
        )
    ticks = log_ticks(min(every) * factor / 1.05, max(every) * factor * 1.05) if every else [1.0]
    made.update_yaxes(type="log", tickvals=ticks, ticktext=[tick_text(t) for t in ticks])
    made.update_yaxes(title_text=f"time of one call, {unit} (log)")
    made.update_xaxes(
        title_text="samples in the order they were taken, one block a process",
        tickvals=[i * longest * 1.05 + longest / 2 for i in range(len(replicates))],
        ticktext=[f"process {r + 1}" for r in replicates],
    )
    made.update_layout(margin_r=20)
    for i in range(1, len(replicates)):
        x = (i * 1.05 - 0.025) * longest
        made.add_vline(x=x, line={"color": p.LINE.of(mode), "width": 1})
    return made
