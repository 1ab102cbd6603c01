"""Collectives: latency and bus bandwidth over the message, the line under them, and ranks that wait."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC

import streamlit as st

from dashboard import markup, parts, words
from dashboard.address import link
from dashboard.data import latest
from dashboard.data.source import frame
from dashboard.figures.arms import arm_words
from dashboard.figures.collectives import curves_figure
from dashboard.fits import AlphaBeta, fit_alpha_beta
from dashboard.markup import Html
from dashboard.sentences import device_name
from dashboard.tables import Column, table, two_lines
from dashboard.views.choose import choose_device, nothing_measured

WIDE_SPREAD = 1.1
"""Slowest rank over fastest: from here on somebody waits for somebody."""


def draw() -> None:
    """Draws the page."""
    devices = latest.devices()
    if not devices:
        nothing_measured("collective")
        return
    head = st.container()
    with parts.filters():
        device = choose_device(devices)
        every = [r for r in latest.rows(device) if r.message_bytes]
        operators = sorted({r.operator or "other" for r in every})
        operator = parts.segmented("operation", operators, key="op", default=operators[0]) if operators else ""
        worlds = sorted({r.world_size or 0 for r in every if r.operator == operator})
        world = (
            parts.segmented("ranks", [str(w) for w in worlds], key="ranks", default=str(worlds[-1])) if worlds else ""
        )
    if not every:
        with head:
            st.html(markup.headline(markup.say(f"{device_name(device.device_model)}: no collective was measured.")))
        command = markup.element("code", "collector run --suite collectives")
        st.html(markup.empty("They run on real ranks of one node.", markup.join(["Measure them with ", command, "."])))
        return
    rows = [r for r in every if r.operator == operator and str(r.world_size or 0) == world]
    timed = [r for r in rows if r.status == "measured" and r.arm not in ("aa", "planted")]
    fits = {arm: _fit([r for r in timed if r.arm == arm]) for arm in dict.fromkeys(r.arm for r in timed)}
    roofs = latest.roofs(device)
    with head:
        st.html(markup.headline(_sentence(device, rows, timed), _second(rows, device)))
    left, right = st.columns(2, gap="medium")
    with left:
        st.html(markup.heading("Bus bandwidth", "what one link carries, as nccl-tests counts it"))
        roof = roofs.link_bytes_per_s if roofs else None
        parts.chart(
            curves_figure(timed, fits, roof, parts.mode(), busbw=True), key="busbw", alt="bus bandwidth by message"
        )
    with right:
        st.html(markup.heading("Latency", "dotted: alpha + size ÷ beta"))
        parts.chart(
            curves_figure(timed, fits, roof, parts.mode(), busbw=False), key="latency", alt="latency by message size"
        )
    st.html(_fit_table(fits))
    st.html(_rows_table(rows))
    parts.downloads("collectives", lambda: frame(latest.ROWS_QUERY, latest.parameters(device)), latest.ROWS_QUERY)


def _fit(rows: Sequence[latest.Row]) -> AlphaBeta | None:
    pairs = [(r.message_bytes, r.latency_p50_s) for r in rows if r.message_bytes and r.latency_p50_s]
    return fit_alpha_beta([float(s) for s, _ in pairs], [float(t) for _, t in pairs])


def _sentence(device: latest.Device, rows: Sequence[latest.Row], timed: Sequence[latest.Row]) -> markup.Sentence:
    title = rows[0].title or rows[0].operator or "Collective"
    ranks = words.counted(rows[0].world_size or 0, "rank")
    where = f"{title} on {device_name(device.device_model)}, {ranks}"
    own = [r for r in timed if r.arm == "optimized" and r.busbw_bytes_per_s]
    if not own:
        return markup.say(f"{where}: no measured bandwidth.")
    best = max(own, key=lambda r: r.busbw_bytes_per_s or 0)
    said = f"{words.bandwidth(best.busbw_bytes_per_s)} of bus bandwidth at {words.memory(best.message_bytes)}"
    wide = [r for r in timed if (r.rank_spread or 1) >= WIDE_SPREAD]
    if not wide:
        return markup.say(f"{where}: {said}; no rank waits for another.")
    worst = max(wide, key=lambda r: r.rank_spread or 1)
    who = f"rank {worst.straggler_rank}" if worst.straggler_rank is not None else "one rank"
    late = f"{who} takes {words.ratio(worst.rank_spread, 2)} of the fastest at {words.memory(worst.message_bytes)}"
    return markup.say(f"{where}: {said}; {late}.")


def _second(rows: Sequence[latest.Row], device: latest.Device) -> str:
    sizes = words.counted(len({r.message_bytes for r in rows}), "message size")
    basis = {r.latency_basis for r in rows if r.latency_basis}
    how = "single calls" if basis <= {"single"} else "means of several calls"
    return f"{sizes}, slowest rank of each round, {how}. Newest run {words.moment(device.latest_at, UTC)}."


def _fit_table(fits: dict[str, AlphaBeta | None]) -> Html:
    head = markup.heading("Alpha and beta", "latency of an empty message, bandwidth of a long one")
    if not any(fits.values()):
        return markup.join([head, markup.empty("A line needs three message sizes; the suite has fewer.")])
    rows = [
        [
            arm_words(arm),
            words.time(fit.alpha_s) if fit else "fewer than three sizes",
            words.bandwidth(fit.beta_bytes_per_s) if fit else "",
            words.percent(fit.worst_error, 0) if fit else "",
            f"{fit.n}" if fit else "",
        ]
        for arm, fit in fits.items()
    ]
    columns = (
        Column(head="arm"),
        Column(head="alpha", number=True),
        Column(head="beta", number=True),
        Column(head="worst point off the line", number=True),
        Column(head="sizes", number=True),
    )
    return markup.join([head, table(columns, rows, label="Alpha and beta")])


def _series(row: latest.Row) -> str:
    return link("series", subject=row.subject_id)


def _rows_table(rows: Sequence[latest.Row]) -> Html:
    cells = []
    for row in sorted(rows, key=lambda r: (r.message_bytes or 0, r.arm)):
        reason = (row.status_kind or row.status).replace("_", " ")
        good = row.status == "measured"
        cells.append(
            [
                two_lines(
                    markup.link(words.memory(row.message_bytes), link("series", subject=row.subject_id)),
                    row.shape or "",
                ),
                arm_words(row.arm),
                words.time(row.latency_p50_s) if good else reason,
                words.time(row.latency_p99_s) if good and row.latency_p99_s else "too few calls" if good else "",
                words.bandwidth(row.algbw_bytes_per_s) if good else "",
                words.bandwidth(row.busbw_bytes_per_s) if good else "",
                words.ratio(row.rank_spread, 2) if row.rank_spread else "not stated",
                str(row.straggler_rank) if row.straggler_rank is not None else "none",
            ]
        )
    columns = (
        Column(head="message"),
        Column(head="arm"),
        Column(head="p50", number=True),
        Column(head="p99", number=True),
        Column(head="algorithm bandwidth", number=True),
        Column(head="bus bandwidth", number=True),
        Column(head="slowest ÷ fastest rank", number=True),
        Column(head="straggler", number=True),
    )
    return markup.join([markup.heading("Every size"), table(columns, cells, label="Collectives by size")])
