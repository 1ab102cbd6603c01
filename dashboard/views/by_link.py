"""What a signed link of a message leads to: what it would say of a finding, and the button that says it.

Chats fetch the links of a message, and so do mail scanners: opening this page writes nothing, only its button does.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path

import streamlit as st

from dashboard import markup, people, words
from dashboard.address import link
from dashboard.data import findings as data
from dashboard.sentences import device_name
from detection.act_links import SECRET_VARIABLE, SNOOZE_DAYS, ActLink, ActLinkError, read_link
from detection.findings import Finding, TriageKind
from store.lake.errors import StoreError

AUTHOR = "link"
"""Who an act is written down for where nobody signs in: whoever held the link."""

VERBS = {
    TriageKind.ACKNOWLEDGED: "Acknowledge",
    TriageKind.SNOOZED: "Snooze",
    TriageKind.EXPECTED: "Call it expected",
}


def asked() -> bool:
    """Whether the address asks for an act."""
    return "act" in st.query_params


def draw(found: Finding, zone: tzinfo) -> None:
    """Draws what the link would do and its button, or in one line why it is not accepted."""
    given = {name: str(st.query_params.get(name, "")) for name in ("act", "ends", "seal")}
    try:
        secret = link_secret()
        read = read_link(
            found.finding_id, given["act"], given["ends"], given["seal"], secret=secret, now=datetime.now(UTC)
        )
    except ActLinkError as error:
        st.html(markup.headline(markup.say(str(error)), _to_the_finding(found)))
        return
    said = next((act for act in data.acts_of(found.finding_id) if act.event_id == read.event_id), None)
    if said is not None:
        when = words.moment(said.at, zone)
        st.html(markup.headline(markup.say(f"This was said already, on {when}."), _to_the_finding(found)))
        return
    until = datetime.now(UTC) + timedelta(days=SNOOZE_DAYS)
    st.html(markup.headline(markup.say(f"{VERBS[read.act]}: {_what(found)}?"), _effect(read, found, until, zone)))
    _button(read, until)
    st.html(markup.note(_to_the_finding(found)))


def link_secret() -> str:
    """The secret that links are checked with. Raises ActLinkError where this dashboard has none."""
    given = os.environ.get(SECRET_VARIABLE, "").strip()
    if given.startswith("file:"):
        try:
            given = Path(given.removeprefix("file:")).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            raise ActLinkError(f"This dashboard cannot read the file that ${SECRET_VARIABLE} names.") from None
    if not given:
        raise ActLinkError(f"This dashboard cannot check links: ${SECRET_VARIABLE} is not set for it.")
    return given


def _what(found: Finding) -> str:
    facts = found.facts
    where = f" on {device_name(facts.device_model)}" if facts.device_model else ""
    size = words.change_size(facts.change, facts.change_low, facts.change_high) if facts.change is not None else ""
    moved = f", {size} {words.slower_or_faster(facts.direction, facts.metric)}" if size else ""
    return f"{facts.title or facts.case_id or found.finding_id}{where}{moved}"


EFFECTS = {
    TriageKind.ACKNOWLEDGED: "says that it is real and somebody looks; it stays open",
    TriageKind.SNOOZED: "makes it quiet until {until}",
    TriageKind.EXPECTED: "makes the new level the level: from now on runs are compared with it",
}


def _effect(read: ActLink, found: Finding, until: datetime, zone: tzinfo) -> str:
    effect = EFFECTS[read.act].format(until=words.moment(until, zone))
    return f"{found.finding_id} is {found.state} now. The button {effect}. Nothing is done until it is pressed."


def _button(read: ActLink, until: datetime) -> None:
    with st.form("act", border=False):
        wants_why = read.act is TriageKind.EXPECTED
        text = st.text_input("Why" if wants_why else "Remark, if any", max_chars=500)
        if not st.form_submit_button(VERBS[read.act], type="primary"):
            return
    if wants_why and not text.strip():
        st.error("Say why in a few words.")
        return
    signed_in = people.signed_in_address()
    try:
        data.say_of(
            [read.finding_id],
            read.act,
            actor=f"{signed_in} by {AUTHOR}" if signed_in else AUTHOR,
            until=until if read.act is TriageKind.SNOOZED else None,
            text=text.strip() or None,
            event_id=read.event_id,
        )
    except StoreError as error:
        st.error(f"Nothing was written: {error}")
        return
    st.toast(f"{words.capital(read.act.value)}: {read.finding_id}.")
    for name in ("act", "ends", "seal"):
        del st.query_params[name]
    st.rerun()


def _to_the_finding(found: Finding) -> markup.Html:
    return markup.join(["The whole of it: ", markup.link(found.finding_id, link("findings", finding=found.finding_id))])
