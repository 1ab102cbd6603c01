"""How near each case comes to what its device can do, tonight and in time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, timedelta
from statistics import median

import streamlit as st

from dashboard import markup, parts, words
from dashboard.address import link
from dashboard.data import latest as data
from dashboard.data.source import frame
from dashboard.figures.roofline import LABELLED, roofline_figure, trail_figure
from dashboard.sentences import device_name, lower_first
from dashboard.tables import Column, table, two_lines
from dashboard.views.choose import arms_in, choose_device, nothing_measured

GOOD_FRACTION = 0.8
TRAIL_NIGHTS = 30
TRAILED = 4
SHOWN = 8


def draw() -> None:
    """Draws the page."""
    devices = data.devices()
    if not devices:
        nothing_measured("roofline")
        return
    head = st.container()
    with parts.filters():
        device = choose_device(devices)
        every = data.rows(device)
        dtypes = sorted({r.dtype for r in every if r.dtype}) or ["unknown"]
        heaviest = max(dtypes, key=lambda d: sum(r.weight or 1e-9 for r in every if r.dtype == d))
        dtype = parts.segmented("dtype", dtypes, key=f"dtype-{len(dtypes)}", default=heaviest)
        arm = parts.segmented("arm", arms_in(every), key="arm", default=arms_in(every)[0])
    rows = [r for r in every if r.dtype == dtype and r.arm == arm]
    measured = [r for r in rows if r.status == "measured" and r.roofline_fraction]
    roofs = data.roofs(device)
    heavy = sorted(measured, key=lambda r: r.weight or 0, reverse=True)[:TRAILED]
    since = device.latest_at - timedelta(days=TRAIL_NIGHTS)
    points = data.trail([r.subject_id for r in heavy], "roofline_fraction", since)
    trail = {r.subject_id: [q for q in points if q.subject_id == r.subject_id] for r in heavy}
    with head:
        sentence = _sentence(device, dtype, measured, heavy, trail)
        st.html(markup.headline(sentence, _second(roofs, dtype, device)))
    if not measured:
        needs = "A roof needs a calibrated or known device: run collector calibrate, then measure again."
        st.html(markup.empty("No case of this choice has a roofline.", needs))
        return
    left, right = st.columns([2.1, 1], gap="medium")
    with left:
        labelled = 2 if parts.compact() else LABELLED
        figure = roofline_figure(measured, roofs, dtype, parts.mode(), labelled=labelled)
        parts.chart(figure, key="roofline", alt=markup.plain(sentence))
    with right:
        st.html(markup.heading("Trail", f"fraction of the roof, {TRAIL_NIGHTS} nights"))
        if max((len(own) for own in trail.values()), default=0) > 1:
            parts.chart(trail_figure(heavy, trail, UTC, parts.mode()), key="trail", alt="fraction of the roof in time")
        else:
            st.html(markup.empty("A trail needs more than one run of these cases."))
        st.html(_table(measured))
    parts.downloads("roofline", lambda: frame(data.ROWS_QUERY, data.parameters(device)), data.ROWS_QUERY)


def _sentence(
    device: data.Device,
    dtype: str,
    rows: Sequence[data.Row],
    heavy: Sequence[data.Row],
    trail: dict[str, list[data.TrailPoint]],
) -> markup.Sentence:
    where = f"{device_name(device.device_model)}, {dtype}"
    if not rows:
        return markup.say(f"{where}: no roofline yet.")
    weights = [r.weight or 0 for r in rows]
    mean = sum(w * (r.roofline_fraction or 0) for w, r in zip(weights, rows, strict=True)) / (sum(weights) or 1)
    good = [r for r in rows if (r.roofline_fraction or 0) >= GOOD_FRACTION]
    share = sum(r.weight or 0 for r in good) / (sum(weights) or 1)
    if sum(weights) > 0 and share < 0.05:
        moved = _moved(heavy, trail)
        return markup.say(f"{where}: the suite's weighted time runs at {words.roof(mean)} of the roof{moved}.")
    if sum(weights) > 0:
        said = f"{words.percent(share, 0)} of the suite's weighted time runs"
    else:
        said = f"{words.count_of(len(good), len(rows), 'cases')} run"
    moved = _moved(heavy, trail)
    return markup.say(f"{where}: {said} at {words.percent(GOOD_FRACTION, 0)} of the roof or better{moved}.")


def _moved(heavy: Sequence[data.Row], trail: dict[str, list[data.TrailPoint]]) -> str:
    """The heaviest case whose fraction of the roof is not what it was at the beginning of the trail."""
    for row in heavy:
        values = [q.value for q in trail.get(row.subject_id, [])]
        if len(values) < 6:
            continue
        before, now = median(values[: len(values) // 2]), values[-1]
        if abs(now / before - 1) > 0.04:
            verb = "fell" if now < before else "rose"
            return f"; {lower_first(row.name)} {verb} from {words.roof(before)} to {words.roof(now)}"
    return ""


def _second(roofs: data.Roofs | None, dtype: str, device: data.Device) -> str:
    if roofs is None:
        return "The roof of this device is not known: its runs kept none."
    peak = roofs.flop_per_s.get(dtype)
    parts_of = [f"{words.work_rate(peak)}" if peak else f"no peak known for {dtype}"]
    parts_of.append(words.bandwidth(roofs.bandwidth_bytes_per_s))
    how = roofs.source or roofs.kind
    when = f", {roofs.measured_at[:10]}" if roofs.measured_at else ""
    said = f"{words.capital(roofs.kind)} roofs: {', '.join(parts_of)} ({how}{when})."
    return f"{said} Point area: share of production time. Newest run {words.moment(device.latest_at, UTC)}."


def _table(rows: Sequence[data.Row]) -> markup.Html:
    """GB/s below the ridge, TFLOP/s above it."""
    cells = []
    for row in sorted(rows, key=lambda r: r.weight or 0, reverse=True)[:SHOWN]:
        compute = row.roofline_bound == "compute"
        rate = words.work_rate(row.flop_per_s) if compute else words.bandwidth(row.bandwidth_bytes_per_s)
        name = two_lines(markup.link(row.name, link("series", subject=row.subject_id)), row.shape or row.case_id)
        weight = words.percent(row.weight) if row.weight is not None else "no weight"
        cells.append([name, weight, rate, words.roof(row.roofline_fraction)])
    columns = (
        Column(head="case"),
        Column(head="time", number=True),
        Column(head="rate", number=True),
        Column(head="roof", number=True),
    )
    return markup.join([markup.heading("Heaviest cases"), table(columns, cells, label="Heaviest cases")])
