"""The shapes of an operator: which were measured, what they weigh, and where in their space something moved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC

import streamlit as st

from dashboard import markup, parts, words
from dashboard.address import link
from dashboard.data import latest
from dashboard.data.cliffs import cliffs
from dashboard.data.shapes import Moved, moved_of, rules_of
from dashboard.data.source import frame
from dashboard.markup import Html, Tone
from dashboard.palette import (
    CHANGE_SPAN,
    DIVERGING,
    RATIO_SPAN,
    SEQUENTIAL,
    Ink,
    change_ink,
    ratio_ink,
    share_ink,
    text_ink,
)
from dashboard.sentences import device_name
from dashboard.shapespace import Plane, plane
from dashboard.tables import Column, HeatCell, heat_table, scale_bar, table, two_lines
from dashboard.views.choose import arms_in, choose_device, nothing_measured

MEASURES = ("change", "ratio to optimized", "roofline fraction", "error")
MOST_CELLS = 900
CLIFFS_SHOWN = 12


def draw() -> None:
    """Draws the page."""
    devices = latest.devices()
    if not devices:
        nothing_measured("shape")
        return
    head = st.container()
    with parts.filters():
        device = choose_device(devices)
        every = latest.rows(device)
        families = sorted({r.family for r in every})
        family = parts.segmented("operator", families, key="family", default=_heaviest(every, families))
        arm = parts.segmented("arm", arms_in(every), key="arm", default=arms_in(every)[0])
        measure = parts.segmented("colour", list(MEASURES), key="colour", default="change")
    own = [r for r in every if r.family == family and r.arm == arm]
    operators = sorted({r.operator or "" for r in own})
    moved = moved_of([r.subject_id for r in own]) if own else {}
    with head:
        st.html(markup.headline(_sentence(device, family, arm, own, moved), _second(own, measure)))
    if not own:
        st.html(markup.empty("This arm has no case of that operator here.", markup.link("All series", link("series"))))
        return
    for operator in operators:
        _draw_operator([r for r in own if (r.operator or "") == operator], operator, measure, moved)
    st.html(_scale(measure))
    if rules := _rules(family, device):
        st.html(rules)
    st.html(_cliffs(family, device, arm))
    _coverage(every, family)
    parts.downloads("shapes", lambda: frame(latest.ROWS_QUERY, latest.parameters(device)), latest.ROWS_QUERY)


def _heaviest(rows: Sequence[latest.Row], families: Sequence[str]) -> str:
    weights: Counter[str] = Counter()
    for row in rows:
        weights[row.family] += row.weight or 0  # type: ignore[assignment]
    return max(families, key=lambda name: weights[name])


def _sentence(
    device: latest.Device, family: str, arm: str, rows: Sequence[latest.Row], moved: dict[str, Moved]
) -> markup.Sentence:
    where = f"{family} on {device_name(device.device_model)}"
    if not rows:
        return markup.say(f"{where}: no case of arm {arm}.")
    slower = [r for r in rows if r.subject_id in moved and moved[r.subject_id].status == "regressed"]
    faster = [r for r in rows if r.subject_id in moved and moved[r.subject_id].status == "improved"]
    cases = words.counted(len(rows), "measured shape")
    if not slower and not faster:
        judged = sum(1 for r in rows if r.subject_id in moved and moved[r.subject_id].status != "not_judged")
        if not judged:
            return markup.say(f"{where}: {cases}, none judged against its history yet.")
        return markup.say(f"{where}: none of {cases} moved.")
    pieces: list[str | markup.Piece] = [f"{where}: "]
    if slower:
        pieces.append(markup.Piece(text=f"{len(slower):,} of {cases} got slower", tone=Tone.SLOWER))
    if faster:
        lead = ", " if slower else ""
        pieces += [lead, markup.Piece(text=f"{len(faster):,} of {cases} got faster", tone=Tone.FASTER)]
    return markup.say(*pieces, ".")


def _second(rows: Sequence[latest.Row], measure: str) -> str:
    weighted = [r.weight for r in rows if r.weight is not None]
    share = f" They are {words.percent(sum(weighted))} of production time." if weighted else " No case has a weight."
    said = {
        "change": "Change of the ratio to optimized in the newest run against the runs before.",
        "ratio to optimized": "Time of the arm ÷ time of the optimized arm, newest run.",
        "roofline fraction": "Share of the roof that the newest run reached.",
        "error": "Largest error ÷ what the tolerance allows, newest run.",
    }[measure]
    return f"{said}{share} A cell's second line is its share of production time."


def _draw_operator(rows: Sequence[latest.Row], operator: str, measure: str, moved: dict[str, Moved]) -> None:
    found = plane([row.axis_values for row in rows])
    titles = {row.title for row in rows if row.title}
    title = titles.pop() if len(titles) == 1 else operator or rows[0].family
    if found is None or len(found.columns) * len(found.lines) > MOST_CELLS:
        st.html(markup.heading(title, "its cases have no common axes to lay out"))
        st.html(markup.empty(f"{len(rows):,} cases; see them one by one.", markup.link("Series", link("series"))))
        return
    st.html(markup.heading(title, f"across: {found.across}"))
    st.html(shape_table(rows, found, measure, moved, title))


def shape_table(rows: Sequence[latest.Row], found: Plane, measure: str, moved: dict[str, Moved], title: str) -> Html:
    """The plane as a heat table, with the weights of its columns and lines at the edges."""
    total = sum(r.weight or 0 for r in rows)
    by_place: dict[tuple[int, int], latest.Row] = {}
    for index, place in found.places.items():
        by_place.setdefault(place, rows[index])
    columns = [f"{text}" for text in found.columns]
    cells: list[list[HeatCell]] = []
    for line in range(len(found.lines)):
        row_cells = [_cell(by_place.get((line, column)), measure, moved) for column in range(len(columns))]
        weight = sum(r.weight or 0 for (at, _), r in ((p, rows[i]) for i, p in found.places.items()) if at == line)
        row_cells.append(_weight_cell(weight, total))
        cells.append(row_cells)
    last = []
    for column in range(len(columns)):
        weight = sum(rows[i].weight or 0 for i, (_, at) in found.places.items() if at == column)
        last.append(_weight_cell(weight, total))
    cells.append([*last, HeatCell(first="", second="")])
    names = [*found.lines, "share of time"]
    return heat_table(names, [*columns, "share of time"], cells, label=f"{title}: {measure} by shape")


def _weight_cell(weight: float, total: float) -> HeatCell:
    if not total:
        return HeatCell(first="no weight")
    ink = share_ink(min(0.999, weight / total))
    return HeatCell(first=words.percent(weight), ground=ink.css, text=text_ink(ink).css)


def _cell(row: latest.Row | None, measure: str, moved: dict[str, Moved]) -> HeatCell:
    if row is None:
        return HeatCell(first="not", second="measured")
    weight = words.percent(row.weight) if row.weight is not None else "no weight"
    href = link("series", subject=row.subject_id)
    if row.status != "measured":
        kind = (row.status_kind or row.status).replace("_", " ")
        return HeatCell(first=kind, second=weight, href=href, title=row.status_reason or "")
    value, said, ink = _value(row, measure, moved)
    if value is None or ink is None:
        return HeatCell(first=said, second=weight, href=href, title=row.label)
    return HeatCell(first=said, second=weight, ground=ink.css, text=text_ink(ink).css, href=href, title=row.label)


def _value(row: latest.Row, measure: str, moved: dict[str, Moved]) -> tuple[float | None, str, Ink | None]:
    if measure == "change":
        found = moved.get(row.subject_id)
        if found is None or found.change is None:
            return None, "not judged", None
        return found.change, words.change(found.change), change_ink(found.change)
    if measure == "ratio to optimized":
        value = row.ratio_optimized
        return value, words.ratio(value, 2), ratio_ink(value) if value else None
    value = row.roofline_fraction if measure == "roofline fraction" else row.error_margin
    if value is None:
        return None, words.NOTHING, None
    return value, words.roof(value), share_ink(min(0.999, value))


def _scale(measure: str) -> Html:
    if measure == "change":
        low, high = CHANGE_SPAN
        return scale_bar([ink.css for ink in DIVERGING], f"{words.change(low)} faster", f"{words.change(high)} slower")
    if measure == "ratio to optimized":
        low, high = RATIO_SPAN
        return scale_bar(
            [ink.css for ink in DIVERGING], f"faster {words.ratio(low, 2)}", f"{words.ratio(high, 2)} slower"
        )
    return scale_bar([ink.css for ink in SEQUENTIAL], f"0{words.THIN}%", f"100{words.THIN}%")


def _rules(family: str, device: latest.Device) -> Html:
    """What the open findings of the operator say of where in shape space they lie."""
    said = [
        markup.join([markup.link(rule.finding_id, link("findings", finding=rule.finding_id)), ": ", rule.words])
        for rule in rules_of(family, device.device_model)
    ]
    if not said:
        return Html("")
    return markup.join(
        [markup.heading("Where it got slower", "a rule is said if it holds on held-out cases"), *map(markup.note, said)]
    )


def _cliffs(family: str, device: latest.Device, arm: str) -> Html:
    """Neighbours in shape space between which the time for a unit of work jumps."""
    found = [c for c in cliffs(device_model=device.device_model) if c.family == family and c.arm == arm]
    head = markup.heading("Cliffs", "neighbouring sizes, time for a unit of work, 99 % interval")
    if not found:
        return markup.join([head, markup.note("No two neighbours measured here are a cliff apart.")])
    rows = []
    for cliff in found[:CLIFFS_SHOWN]:
        size = words.change(cliff.change, cliff.change_low, cliff.change_high)
        rows.append(
            [
                two_lines(
                    markup.link(cliff.sentence, link("series", subject=cliff.large_subject_id)), cliff.large_case_id
                ),
                cliff.axis,
                f"{cliff.small:,.0f} → {cliff.large:,.0f}",
                f"{words.time(cliff.small_s)} → {words.time(cliff.large_s)}",
                size,
                words.date_year(cliff.since_at, UTC),
            ]
        )
    columns = (
        Column(head="cliff", css="ko-name"),
        Column(head="axis", css="ko-nowrap"),
        Column(head="size", number=True),
        Column(head="time", number=True),
        Column(head="for a unit of work", number=True),
        Column(head="since", css="ko-nowrap"),
    )
    more = [markup.note(f"{CLIFFS_SHOWN} of {len(found):,} shown, the largest.")] if len(found) > CLIFFS_SHOWN else []
    return markup.join([head, table(columns, rows, label="Cliffs", css="ko-blocks"), *more])


def _coverage(rows: Sequence[latest.Row], family: str) -> None:
    """What of the operator's production time stands behind the numbers."""
    own = {r.case_id: r for r in rows if r.family == family}
    by_status: Counter[str] = Counter()
    weights: Counter[str] = Counter()
    for row in rows:
        if row.family == family and row.role == "candidate":
            by_status[row.status] += 1
            weights[row.status] += row.weight or 0  # type: ignore[assignment]
    if not by_status:
        st.html(markup.note(f"{words.counted(len(own), 'case')} of {family}, none with a candidate."))
        return
    said = [
        f"{count:,} {status} ({words.percent(float(weights[status]))} of production time)"
        for status, count in by_status.most_common()
    ]
    st.html(markup.note(f"Candidates of {family}: {words.enumeration(said)}."))
