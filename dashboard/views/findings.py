"""All findings by price, with what a person can say of several at once; or one of them, where the address names it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC

import streamlit as st

from dashboard import markup, parts, people, words
from dashboard.address import link
from dashboard.data import findings as data
from dashboard.data import told
from dashboard.data.overview import OPEN_STATES, FindingRow
from dashboard.sentences import device_name
from dashboard.tables import table
from dashboard.views import finding, triage
from dashboard.views.overview import FINDING_COLUMNS, finding_cells

STATES = {
    "open": data.OPEN,
    "suspected": ("suspected",),
    "settled": ("resolved", "expected", "refuted"),
    "all": None,
}
A_PAGE = 50
MOST_GROUPS = 6


def draw() -> None:
    """Draws the list, or the one finding that the address names."""
    asked = st.query_params.get("finding")
    if asked:
        finding.draw(asked)
        return
    rows = data.all_findings()
    if not rows:
        st.html(markup.headline(markup.say("No finding: nothing has been suspected of having changed.")))
        way_out = markup.join(["Findings come with the second run: ", markup.element("code", "collector run")])
        st.html(markup.empty("The judge compares each run with the ones before it.", way_out))
        return
    head = st.container()
    with parts.filters():
        state = parts.segmented("state", list(STATES), key="state", default="open")
        classes = sorted({row.finding_class or "not classed" for row in rows})
        chosen_class = _select("Class", classes, "class")
        devices = sorted({device_name(row.device_model) for row in rows})
        chosen_device = _select("Device", devices, "on")
        search = st.text_input("Search", key="q", bind="query-params", persist_state="session", width=220) or ""
    wanted = STATES[state]
    shown = [
        row
        for row in rows
        if (wanted is None or row.state in wanted)
        and chosen_class in (None, row.finding_class or "not classed")
        and chosen_device in (None, device_name(row.device_model))
        and search.lower()
        in " ".join(filter(None, (row.name, row.shape, row.case_id, row.finding_id, row.owner))).lower()
    ]
    with head:
        st.html(markup.headline(_sentence(rows), _second(rows, shown)))
    _list(shown)
    _not_told()
    _bulk(shown)


def _not_told() -> None:
    """Messages that were given up: somebody who counts on being told does not know."""
    dead = told.dead_letters()
    if dead:
        routes = ", ".join(sorted({letter.route for letter in dead}))
        said = f"{words.plural(len(dead), 'message')} could not be told on {routes}; nobody tries again. "
        st.html(markup.note(markup.join([said, markup.element("code", "collector notify dead"), " names them."])))


def _select(label: str, options: Sequence[str], key: str) -> str | None:
    chosen = st.selectbox(label, ["any", *options], key=key, bind="query-params", persist_state="session", width=170)
    return None if chosen in (None, "any") else str(chosen)


def _sentence(rows: Sequence[FindingRow]) -> markup.Sentence:
    counts = Counter(row.state for row in rows)
    standing = sum(counts[state] for state in data.OPEN)
    if not standing:
        return markup.say(f"No finding is open; {words.counted(len(rows), 'one', 'all')} of the past settled.")
    said = ", ".join(f"{counts[state]:,} {state}" for state in data.OPEN if counts[state])
    verb = "is" if standing == 1 else "are"
    return markup.say(f"{words.capital(words.plural(standing, 'finding'))} {verb} open: {said}.")


def _second(rows: Sequence[FindingRow], shown: Sequence[FindingRow]) -> str:
    without = sum(row.price is None for row in shown)
    said = (
        f"{words.count_of(len(shown), len(rows), 'findings')} shown, by price: share of its device's production time "
        "× change."
    )
    if dearest := _dearest(shown):
        model, price, devices = dearest
        most = ", where they cost most," if devices > 1 else ""
        said += (
            f" On {device_name(model)}{most} the confirmed slow-downs among them cost {words.percent(price, 2)} of it."
        )
    return f"{said} {without:,} have no weight." if without else said


def _dearest(shown: Sequence[FindingRow]) -> tuple[str | None, float, int] | None:
    """The model of the device that its open slow-downs cost most, how much of its time, and how many devices have some.

    A price is a share of one device's time: those of several devices are not added up.
    """
    prices: Counter[tuple[str | None, str | None]] = Counter()
    for row in shown:
        if row.price is not None and row.price > 0 and row.state in OPEN_STATES:
            prices[row.device_unit, row.device_model] += row.price  # type: ignore[assignment]
    if not prices:
        return None
    (_, model), price = prices.most_common(1)[0]
    return model, price, len(prices)


def _list(shown: Sequence[FindingRow]) -> None:
    if not shown:
        st.html(markup.empty("No finding fits these filters.", markup.link("Show all", link("findings", state="all"))))
        return
    pages = -(-len(shown) // A_PAGE)
    page = int(st.number_input("page", 1, pages, 1, width=120)) if pages > 1 else 1
    start = (page - 1) * A_PAGE
    cells = [finding_cells(start + i, row) for i, row in enumerate(shown[start : start + A_PAGE], 1)]
    st.html(table(FINDING_COLUMNS, cells, label="Findings", css="ko-blocks"))


def _bulk(shown: Sequence[FindingRow]) -> None:
    if not shown or not people.is_triager():
        return
    with st.expander("Say something of several findings at once"):
        names = {
            row.finding_id: f"{row.finding_id} · {row.name} on {device_name(row.device_model)} · "
            f"{words.change(row.change)} · {row.state}"
            for row in shown
        }
        chosen = st.multiselect(
            "Findings", list(names), format_func=lambda name: names[name], key="bulk", placeholder="one or more"
        )
        with st.container(horizontal=True):
            st.button("All that are shown", on_click=_choose_all, args=(list(names),))
            for number, (words_of, own) in enumerate(list(data.groups(shown).items())[:MOST_GROUPS]):
                ids = [row.finding_id for row in own]
                st.button(f"These {words_of}", key=f"group-{number}", on_click=_choose_all, args=(ids,))
        if chosen:
            triage.acts(chosen, zone=UTC, key="bulk")


def _choose_all(names: Sequence[str]) -> None:
    st.session_state["bulk"] = list(names)
