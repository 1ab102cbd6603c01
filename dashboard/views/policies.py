"""The policies that judged and what they said, a dry run of another floor, and the gates over past runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import streamlit as st

from dashboard import markup, parts, words
from dashboard.data import latest
from dashboard.data import policies as data
from dashboard.data.source import frame
from dashboard.markup import Html
from dashboard.tables import Column, table
from dashboard.views.choose import choose_device
from dashboard.views.gates import draw_gates

SPANS = {"30 days": 30, "90 days": 90, "1 year": 366}


def draw() -> None:
    """Draws the page."""
    uses = data.uses()
    if not uses:
        st.html(markup.headline(markup.say("No policy has judged anything yet.")))
        command = markup.element("code", "collector run")
        st.html(markup.empty("Verdicts come with runs that are judged.", markup.join(["Make one with ", command, "."])))
        _gates()
        return
    st.html(markup.headline(_sentence(uses), _second(uses)))
    st.html(markup.heading("What the policies said", "verdicts against history, by policy, version and metric"))
    st.html(_uses(uses))
    st.html(markup.heading("Dry run", "the same nights against another floor"))
    with parts.filters():
        span = parts.segmented("over", list(SPANS), key="over", default="90 days")
        percent = st.number_input(
            "Floor, %", 0.0, 100.0, 3.0, 0.5, key="floor", bind="query-params", persist_state="session", width=140
        )
    found = data.dry_run(float(percent) / 100, _since(span))
    if found:
        st.html(_dry(found))
    else:
        st.html(markup.empty("No verdict with a size in this span."))
    st.html(
        markup.note(
            "A dry run moves the floor only. It counts the intervals that would have been clear of it; the noise model "
            "and the false-discovery rule are those of the night, so the judge itself may call fewer."
        )
    )
    _gates()
    parts.downloads("policies", lambda: frame(data.USES_QUERY), data.USES_QUERY)


def _since(span: str) -> datetime:
    """Of the hour, so that an answer holds for it."""
    return datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(days=SPANS[span])


def _gates() -> None:
    """Every gate over the runs of one device."""
    devices = [device for device in latest.devices() if device.device_unit]
    if not devices:
        return
    with parts.filters():
        device = choose_device(devices, label="Gates of")
        span = parts.segmented("gates over", list(SPANS), key="gates", default="90 days")
    draw_gates(device, _since(span))


def _sentence(uses: Sequence[data.PolicyUse]) -> markup.Sentence:
    newest = uses[0]
    verdicts = sum(use.verdicts for use in uses)
    called = sum(use.regressed + use.improved for use in uses)
    return markup.say(
        f"Policy {newest.policy}, version {newest.policy_version}, judges now; "
        f"{words.count_of(called, verdicts, 'verdicts')} called a change."
    )


def _second(uses: Sequence[data.PolicyUse]) -> str:
    versions = len({(use.policy, use.policy_version) for use in uses})
    first = min(use.first_at for use in uses)
    since = words.date_year(first, UTC)
    return f"{words.counted(versions, 'version')} since {since}; every verdict names the one that gave it."


def _uses(uses: Sequence[data.PolicyUse]) -> Html:
    rows = [
        [
            use.policy,
            use.policy_version,
            use.metric.replace("_", " "),
            f"{use.verdicts:,}",
            f"{use.regressed:,}",
            f"{use.improved:,}",
            f"{use.unchanged:,}",
            f"{use.inconclusive:,}",
            f"{use.not_judged:,}",
            words.date(use.last_at, UTC),
        ]
        for use in uses
    ]
    heads = ("verdicts", "regressed", "improved", "unchanged", "inconclusive", "not judged")
    columns = (
        Column(head="policy", css="ko-nowrap"),
        Column(head="version"),
        Column(head="metric"),
        *(Column(head=head, number=True) for head in heads),
        Column(head="newest", css="ko-nowrap"),
    )
    return table(columns, rows, label="Verdicts by policy")


def _dry(found: Sequence[data.DryRun]) -> Html:
    rows = []
    for one in found:
        rate = words.fixed(1000 * one.would_regress / one.judged, 1) if one.judged else "0"
        rows.append(
            [
                one.metric.replace("_", " "),
                f"{one.judged:,}",
                f"{one.would_regress:,}",
                f"{rate} per 1,000",
                f"{one.confirmed:,} of {one.would_regress:,}",
                f"{one.would_improve:,}",
            ]
        )
    columns = (
        Column(head="metric"),
        Column(head="judged", number=True),
        Column(head="would be called worse", number=True),
        Column(head="rate", number=True),
        Column(head="of these in a confirmed finding", number=True),
        Column(head="would be called better", number=True),
    )
    return table(columns, rows, label="Dry run")
