"""How exact each arm is beside what its contract allows, in time, and which evidence of readiness is there."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, timedelta

import streamlit as st

from dashboard import markup, parts, words
from dashboard.address import link
from dashboard.data import latest
from dashboard.data.source import frame
from dashboard.figures.arms import arm_words
from dashboard.figures.numerics import margin_figure
from dashboard.markup import Html, Tone
from dashboard.sentences import device_name
from dashboard.tables import Column, table, two_lines
from dashboard.views.choose import choose_device, nothing_measured

NIGHTS = 60
TRAILED = 6
SHOWN = 60
NEAR = 0.5
"""From half of what is allowed on, a case is listed as near its tolerance."""
SIDES = (("Inference", ("prefill", "decode", "mixed")), ("Training", ("training", "post_training")))


def draw() -> None:
    """Draws the page."""
    devices = latest.devices()
    if not devices:
        nothing_measured("error figure")
        return
    head = st.container()
    with parts.filters():
        device = choose_device(devices)
    every = [r for r in latest.rows(device) if r.role not in ("aa", "planted")]
    known = sorted((r for r in every if r.error_margin is not None), key=lambda r: -(r.error_margin or 0))
    wrong = [r for r in every if r.status == "wrong"]
    with head:
        st.html(markup.headline(_sentence(device, known, wrong), _second(known, device)))
    if not known and not wrong:
        st.html(markup.empty("No row has an error figure.", "Each run checks every arm against the reference."))
        return
    st.html(markup.heading("Evidence of readiness", "what is there for a gate to decide by; the newest rows"))
    for place, (name, phases) in zip(st.columns(2, gap="medium"), SIDES, strict=True):
        with place:
            st.html(_readiness(every, name, phases))
    gates = markup.link("the gates", link("policies", device=device.device_unit))
    st.html(markup.note(markup.join(["What they decide by it: ", gates, "."])))
    closest = [r for r in known if r.arm.startswith("candidate")][:TRAILED] or known[:TRAILED]
    since = device.latest_at - timedelta(days=NIGHTS)
    points = latest.trail([r.subject_id for r in closest], "error_margin", since)
    st.html(markup.heading("Closest to their tolerance", f"largest error ÷ allowed, {NIGHTS} nights"))
    if len({q.at for q in points}) > 1:
        parts.chart(margin_figure(closest, points, UTC, parts.mode()), key="margins", alt="error margins in time")
    else:
        st.html(markup.empty("A line in time needs a second run of these cases."))
    st.html(_table(wrong, known))
    if len(known) > SHOWN:
        st.html(markup.note(f"{SHOWN} of {len(known):,} rows shown; the downloads have all."))
    parts.downloads("numerics", lambda: frame(latest.ROWS_QUERY, latest.parameters(device)), latest.ROWS_QUERY)


def _sentence(device: latest.Device, known: Sequence[latest.Row], wrong: Sequence[latest.Row]) -> markup.Sentence:
    where = device_name(device.device_model)
    if wrong:
        said = f"{words.plural(len(wrong), 'row')} computed wrong"
        first = f"{wrong[0].name}, {arm_words(wrong[0].arm)}"
        return markup.say(f"{where}: ", markup.Piece(text=said, tone=Tone.SLOWER), f", the first is {first}.")
    if not known:
        return markup.say(f"{where}: no error figure yet.")
    near = [r for r in known if (r.error_margin or 0) >= NEAR]
    worst = known[0]
    top = f"the nearest, {worst.name} ({arm_words(worst.arm)}), at {words.percent(worst.error_margin, 0)}"
    count = f"{words.count_of(len(near), len(known), 'rows')} use half or more of their tolerance"
    return markup.say(f"{where}: every row is within its tolerance; {count}, {top}.")


def _second(known: Sequence[latest.Row], device: latest.Device) -> str:
    return (
        "Error against the reference in higher precision ÷ what the contract allows for its accumulation length; "
        f"above 100 % is wrong and its speed is not kept. {words.counted(len(known), 'row')}, newest run "
        f"{words.moment(device.latest_at, UTC)}."
    )


def readiness(rows: Sequence[latest.Row], phases: Sequence[str] | None) -> list[tuple[str, str, str]]:
    """Lines of evidence for the candidates of some phases: what, how many, and what is missing.

    It states evidence; whether that is enough is the business of a gate's policy.
    """
    own = [r for r in rows if r.role == "candidate" and (phases is None or r.phase in phases)]
    if not own:
        return []
    measured = [r for r in own if r.status == "measured"]
    lines = [
        ("computes right", len([r for r in own if r.error_margin is not None and r.status == "measured"]), "checked"),
        ("has a time", len(measured), "measured"),
        (
            "has an interval against optimized",
            len([r for r in measured if r.ratio_optimized_low is not None]),
            "paired",
        ),
        (
            "has a tail from single calls",
            len([r for r in measured if r.latency_p99_s and r.latency_basis == "single"]),
            "p99",
        ),
        ("has a peak memory", len([r for r in own if r.peak_memory_bytes is not None]), "untimed pass"),
        ("was judged against its history", len([r for r in own if r.verdict not in (None, "not_judged")]), "verdict"),
        ("did not regress", len([r for r in own if r.verdict in ("unchanged", "improved")]), "newest verdict"),
    ]
    return [(name, words.count_of(count, len(own), "candidates"), how) for name, count, how in lines]


def _readiness(rows: Sequence[latest.Row], name: str, phases: Sequence[str]) -> Html:
    lines = readiness(rows, phases)
    if not lines:
        wanted = words.enumeration([phase.replace("_", "-") for phase in phases])
        return markup.empty(f"{name}: no candidate of its phases was measured here.", f"They are {wanted}.")
    columns = (Column(head=name.lower()), Column(head="evidence", number=True), Column(head="by", css="ko-nowrap"))
    return table(columns, lines, label=f"{name}: evidence")


def _table(wrong: Sequence[latest.Row], known: Sequence[latest.Row]) -> Html:
    rows = []
    for row in [*wrong, *(r for r in known if r.status != "wrong")][:SHOWN]:
        status: object = markup.toned(row.status, Tone.MUTED)
        if row.status == "wrong":
            status = two_lines(markup.chip("wrong", Tone.SLOWER), row.status_reason or "no reason was given")
        rows.append(
            [
                two_lines(markup.link(row.name, link("series", subject=row.subject_id)), row.shape or row.case_id),
                arm_words(row.arm),
                status,
                words.percent(row.error_margin) if row.error_margin is not None else "not kept",
                _scientific(row.error_max_abs),
                _scientific(row.error_max_rel),
                words.percent(row.error_mismatch_share, 2) if row.error_mismatch_share is not None else "not kept",
            ]
        )
    columns = (
        Column(head="case", css="ko-name"),
        Column(head="arm", css="ko-nowrap"),
        Column(head="status"),
        Column(head="error ÷ allowed", number=True),
        Column(head="largest absolute", number=True),
        Column(head="largest relative", number=True),
        Column(head="elements off", number=True),
    )
    return markup.join([markup.heading("Every row"), table(columns, rows, label="Errors by case", css="ko-blocks")])


def _scientific(value: float | None) -> str:
    if value is None:
        return "not kept"
    if value == 0:
        return "0"
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    return f"{mantissa}·10{str(int(exponent)).translate(SUPERSCRIPT)}"


SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
