"""What a person can say of findings: each act is one event with its author, and nothing measured is touched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, time, timedelta, tzinfo
from urllib.parse import urlsplit

import streamlit as st

from dashboard import markup, people, words
from dashboard.data import findings as data
from dashboard.sentences import device_name
from detection.findings import Finding, TriageKind
from store.lake.errors import StoreError

LONGEST_TEXT = 2000


def acts(finding_ids: Sequence[str], *, zone: tzinfo, key: str) -> None:
    """The buttons; a viewer gets a sentence in their place."""
    if not people.is_triager():
        st.caption("You may look. A triager may acknowledge, assign, expect, snooze, resolve and note.")
        return
    people.ask_name()
    ids = list(finding_ids)
    with st.container(horizontal=True):
        _act("Acknowledge", key, lambda: _text_form(ids, TriageKind.ACKNOWLEDGED, key, "It is real; somebody looks."))
        _act("Assign", key, lambda: _owner_form(ids, key))
        _act("Expected", key, lambda: _text_form(ids, TriageKind.EXPECTED, key, EXPECTED, needs_text=True))
        _act("Snooze", key, lambda: _snooze_form(ids, zone, key))
        _act("Resolve", key, lambda: _text_form(ids, TriageKind.RESOLVED, key, "It is settled, whatever is measured."))
        _act("Note", key, lambda: _text_form(ids, TriageKind.NOTE, key, "Changes no state.", needs_text=True))
        _act("Link", key, lambda: _link_form(ids, key))


def acts_of_one(found: Finding, *, zone: tzinfo) -> None:
    """The buttons of one finding; where others came with it, they can be said of the whole group at once."""
    ids = [found.finding_id]
    group = data.group_of(found) if people.is_triager() else []
    if group:
        others = [f"{row.name} on {device_name(row.device_model)}" for row in group if row.finding_id not in ids]
        named = words.enumeration([*others[:3], *([f"{len(others) - 3} more"] if len(others) > 3 else [])])
        if st.toggle(f"Of all {len(group)} that began the same night", key="whole-group"):
            ids = [row.finding_id for row in group]
        st.html(markup.note(f"With it began {named}, of the same class and revision."))
    acts(ids, zone=zone, key="one")


EXPECTED = "The new level is the level: from now on runs are compared with it. Say why."


def _act(name: str, key: str, form: Callable[[], None]) -> None:
    with st.popover(name, key=f"{key}-{name}"):
        form()


def _say(finding_ids: Sequence[str], event: TriageKind, **given: object) -> None:
    author = people.author()
    if not author:
        st.error("Say who you are first: the name above is empty.")
        return
    try:
        data.say_of(finding_ids, event, actor=author, **given)  # type: ignore[arg-type]
    except StoreError as error:
        st.error(f"Nothing was written: {error}")
        return
    st.toast(f"{words.capital(event.value)}: {words.counted(len(finding_ids), 'finding')}, by {author}.")
    st.rerun()


def _text_form(
    finding_ids: Sequence[str], event: TriageKind, key: str, explained: str, *, needs_text: bool = False
) -> None:
    with st.form(f"{key}-{event.value}", border=False):
        st.caption(explained)
        text = st.text_area("Why" if needs_text else "Remark, if any", max_chars=LONGEST_TEXT, height=90)
        if st.form_submit_button("Say it"):
            if needs_text and not text.strip():
                st.error("Say why in a few words.")
            else:
                _say(finding_ids, event, text=text.strip() or None)


def _owner_form(finding_ids: Sequence[str], key: str) -> None:
    with st.form(f"{key}-assigned", border=False):
        owner = st.text_input("Owner", max_chars=120, placeholder="a person or a team")
        if st.form_submit_button("Assign to them"):
            if owner.strip():
                _say(finding_ids, TriageKind.ASSIGNED, owner=owner.strip())
            else:
                st.error("Name the owner.")


def _snooze_form(finding_ids: Sequence[str], zone: tzinfo, key: str) -> None:
    tomorrow = datetime.now(zone).date() + timedelta(days=1)
    with st.form(f"{key}-snoozed", border=False):
        day = st.date_input("Until the morning of", value=tomorrow + timedelta(days=6), min_value=tomorrow)
        text = st.text_input("Remark, if any", max_chars=LONGEST_TEXT)
        if st.form_submit_button("Snooze until then"):
            until = datetime.combine(day, time(8), tzinfo=zone).astimezone(UTC)
            _say(finding_ids, TriageKind.SNOOZED, until=until, text=text.strip() or None)


def is_web_address(text: str) -> bool:
    """Whether `text` is an http or https address with a host."""
    try:
        found = urlsplit(text)
    except ValueError:
        return False
    return found.scheme in ("http", "https") and bool(found.hostname)


def _link_form(finding_ids: Sequence[str], key: str) -> None:
    with st.form(f"{key}-linked", border=False):
        address = st.text_input("Address of the issue", max_chars=500, placeholder="https://…")
        if st.form_submit_button("Link to it"):
            if is_web_address(address.strip()):
                _say(finding_ids, TriageKind.LINKED, link=address.strip())
            else:
                st.error("An address starts with http:// or https://.")
