"""Devices and nodes: who is silent, who stands out from its model, and what the sensors said during a run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo

import streamlit as st

from dashboard import markup, parts, words
from dashboard.address import link
from dashboard.data import fleet as data
from dashboard.data.source import frame
from dashboard.figures.telemetry import telemetry_figure
from dashboard.markup import Html, Tone
from dashboard.sentences import device_name, is_stale
from dashboard.tables import Column, table
from dashboard.views.choose import nothing_measured

STANDS_OUT = 0.05
"""A unit whose median series is so far from the middle of its model is marked."""
SHOWN = 200


def draw() -> None:
    """Draws the page."""
    units = data.units()
    if not units:
        nothing_measured("device")
        return
    now = datetime.now(UTC)
    head = st.container()
    zone = parts.choose_zone()
    with head:
        st.html(markup.headline(_sentence(units, now), _second(units)))
    st.html(_table(units[:SHOWN], now, zone))
    if len(units) > SHOWN:
        st.html(markup.note(f"{SHOWN} of {len(units):,} units shown, those that stand out first."))
    _telemetry(units, zone)


def stands_out(unit: data.Unit) -> bool:
    """Whether the unit is faster or slower than the middle of its model by more than `STANDS_OUT`."""
    return unit.beside_model_log is not None and unit.units > 2 and abs(math.expm1(unit.beside_model_log)) > STANDS_OUT


def _sentence(units: Sequence[data.Unit], now: datetime) -> markup.Sentence:
    stale = [unit for unit in units if is_stale(unit.latest_at, now)]
    odd = [unit for unit in units if stands_out(unit)]
    count = words.plural(len(units), "device")
    fresh = (
        f"{words.capital(count)}, all heard of within a day" if len(units) > 1 else "One device, heard of within a day"
    )
    pieces: list[str | markup.Piece] = []
    if stale:
        silent = words.plural(len(stale), "device is", "devices are")
        pieces += [f"{words.capital(count)}; ", markup.Piece(text=f"{silent} silent", tone=Tone.SLOWER)]
    else:
        pieces.append(fresh)
    if odd:
        first = odd[0]
        change = math.expm1(first.beside_model_log or 0)
        word = words.slower_or_faster(change)
        pieces.append(
            f"; {first.host or first.device_unit} is {words.change_size(change)} {word} than the middle of its model"
        )
    elif any(unit.units > 2 for unit in units):
        pieces.append("; none stands out from its model")
    return markup.say(*pieces, ".")


def _second(units: Sequence[data.Unit]) -> str:
    models = Counter(device_name(unit.device_model) for unit in units)
    said = ", ".join(f"{name} {count}" for name, count in models.most_common(8))
    return (
        f"Units by model: {said}. Beside its model: median over a unit's series of its time ÷ the median of the "
        "model's units, newest runs; it needs three units."
    )


def _table(units: Sequence[data.Unit], now: datetime, zone: tzinfo) -> Html:
    rows = []
    for unit in units:
        stale = is_stale(unit.latest_at, now)
        beside: object = "alone" if unit.units < 2 else "needs a common case"
        if unit.beside_model_log is not None and unit.units > 1:
            change = math.expm1(unit.beside_model_log)
            tone = (Tone.SLOWER if change > 0 else Tone.FASTER) if stands_out(unit) else Tone.PLAIN
            beside = markup.toned(f"{words.change(change)} over {unit.compared:,} series", tone)
        rows.append(
            [
                markup.chip("▲ stale", Tone.SLOWER) if stale else markup.chip("● fresh"),
                device_name(unit.device_model),
                unit.host or words.NOTHING,
                markup.link(unit.device_unit or words.NOTHING, link("fleet", unit=unit.device_unit)),
                f"{words.moment(unit.latest_at, zone)}, {words.ago(unit.latest_at, now)}",
                f"{unit.runs:,}",
                f"{unit.series:,}",
                f"{unit.not_measured:,}" + (f", {unit.invalid:,} invalid" if unit.invalid else ""),
                beside,
            ]
        )
    columns = (
        Column(head=""),
        Column(head="model", css="ko-nowrap"),
        Column(head="host", css="ko-nowrap"),
        Column(head="unit"),
        Column(head="newest run"),
        Column(head="runs", number=True),
        Column(head="series", number=True),
        Column(head="not measured", number=True),
        Column(head="beside its model", number=True),
    )
    return table(columns, rows, label="Devices", css="ko-blocks")


def _telemetry(units: Sequence[data.Unit], zone: tzinfo) -> None:
    asked = st.query_params.get("unit")
    current = next((u for u in units if u.device_unit == asked), max(units, key=lambda u: u.latest_at))
    st.html(markup.heading("Telemetry of a run", "sampled beside it by a process of its own"))
    options = [(u.device_unit, f"{device_name(u.device_model)} · {u.host or ''} · {u.device_unit}") for u in units]
    runs = data.runs_of_unit(current.device_unit or None)
    with parts.filters():
        picked = parts.pick("Device", options, current.device_unit, key="pick-unit", width=420)
        if picked is not None:
            parts.go_to(unit=picked, run=None)
        if not runs:
            st.html(markup.note("It has no run."))
            return
        by_id = {run.run_id: run for run in runs}
        run = by_id.get(st.query_params.get("run", ""), runs[0])
        choices = [(r.run_id, f"{words.moment(r.started_at, zone)} · {r.run_id}") for r in runs]
        picked = parts.pick("Run", choices, run.run_id, key="pick-telemetry-run", width=460)
        if picked is not None:
            parts.go_to(run=picked)
    readings = data.telemetry(run)
    without = {r.metric: r.reason for r in readings if r.value is None}
    measured = {r.metric for r in readings if r.value is not None}
    if measured:
        said = f"{words.enumeration(sorted(measured))} during {run.run_id}"
        parts.chart(telemetry_figure(readings, zone, parts.mode()), key="telemetry", alt=said)
        parameters = data.telemetry_parameters(run)
        parts.downloads("telemetry", lambda: frame(data.TELEMETRY_QUERY, parameters), data.TELEMETRY_QUERY)
    else:
        st.html(markup.empty("This run kept no telemetry.", "The device gives none, or the sampler did not start."))
    missing = [
        f"{metric}: {reason or 'no reason given'}" for metric, reason in without.items() if metric not in measured
    ]
    if missing:
        st.html(markup.note(f"Not available here: {'; '.join(missing)}."))
