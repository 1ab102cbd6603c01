"""Peak memory and workspace of each case beside naive, and how far from the ideal traffic a call is."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC

import streamlit as st

from dashboard import markup, parts, words
from dashboard.address import link
from dashboard.data import latest
from dashboard.data.source import frame
from dashboard.markup import Html
from dashboard.sentences import device_name, lower_first
from dashboard.tables import Column, table, two_lines
from dashboard.views.choose import choose_device, nothing_measured

SHOWN = 60


def draw() -> None:
    """Draws the page."""
    devices = latest.devices()
    if not devices:
        nothing_measured("memory figure")
        return
    head = st.container()
    with parts.filters():
        device = choose_device(devices)
        order = parts.segmented("order", ["weight", "peak", "saving"], key="order", default="weight")
    cases = group_cases(latest.rows(device))
    with head:
        st.html(markup.headline(_sentence(device, cases), _second(device, cases)))
    keys = {
        "weight": lambda c: -(c.weight or 0),
        "peak": lambda c: -(c.candidate or 0),
        "saving": lambda c: c.against_naive if c.against_naive is not None else 9e9,
    }
    shown = sorted(cases, key=keys[order])[:SHOWN]
    if shown:
        st.html(_table(shown))
    else:
        st.html(markup.empty("No row has a memory figure.", "A run measures it in a pass of its own, never timed."))
    if len(cases) > SHOWN:
        st.html(markup.note(f"{SHOWN} of {len(cases):,} cases shown; the downloads have all."))
    parts.downloads("memory", lambda: frame(latest.ROWS_QUERY, latest.parameters(device)), latest.ROWS_QUERY)


class CaseMemory:
    """The memory of one case's arms in its newest run."""

    def __init__(self, rows: Sequence[latest.Row]) -> None:
        by_role = {row.arm: row for row in rows}
        self.first = by_role.get("candidate") or next((r for r in rows if r.arm.startswith("candidate")), rows[0])
        self.weight = self.first.weight
        self.naive = _peak(by_role.get("naive"))
        self.optimized = _peak(by_role.get("optimized"))
        self.candidate = self.first.peak_memory_bytes if self.first.arm.startswith("candidate") else None
        self.workspace = self.first.workspace_bytes

    @property
    def against_naive(self) -> float | None:
        """Peak of the candidate over that of naive."""
        return self.candidate / self.naive if self.candidate is not None and self.naive else None

    @property
    def least_traffic_share(self) -> float | None:
        """Time that ideal traffic would take over the time that a call takes."""
        return self.first.bandwidth_utilization


def _peak(row: latest.Row | None) -> int | None:
    return row.peak_memory_bytes if row is not None else None


def group_cases(rows: Sequence[latest.Row]) -> list[CaseMemory]:
    """One entry a case that has at least one memory figure."""
    grouped: dict[tuple[str, str | None], list[latest.Row]] = {}
    for row in rows:
        grouped.setdefault((row.case_id, row.settings), []).append(row)
    return [CaseMemory(own) for own in grouped.values() if any(r.peak_memory_bytes is not None for r in own)]


def _sentence(device: latest.Device, cases: Sequence[CaseMemory]) -> markup.Sentence:
    where = device_name(device.device_model)
    compared = [case for case in cases if case.against_naive is not None]
    if not compared:
        return markup.say(f"{where}: no candidate's peak memory stands beside naive yet.")
    less = [case for case in compared if (case.against_naive or 1) < 0.995]
    more = [case for case in compared if (case.against_naive or 1) > 1.005]
    most = max(compared, key=lambda case: case.candidate or 0)
    said = f"{len(less):,} of {words.counted(len(compared), 'candidate')} need less memory than naive"
    also = f", {len(more):,} more" if more else ""
    top = f"{lower_first(most.first.name)} needs most, {words.memory(most.candidate)}"
    return markup.say(f"{where}: {said}{also}; {top}.")


def _second(device: latest.Device, cases: Sequence[CaseMemory]) -> str:
    newest = words.moment(device.latest_at, UTC)
    return (
        f"Peak above what was allocated before the call, untimed pass. {words.counted(len(cases), 'case')}, newest run "
        f"{newest}. Last column: time of the ideal traffic at the measured bandwidth ÷ time of a call."
    )


def _table(cases: Sequence[CaseMemory]) -> Html:
    rows = []
    widest = max((case.candidate or 0 for case in cases), default=0) or 1
    for case in cases:
        against = case.against_naive
        bar = _bar((case.candidate or 0) / widest) if case.candidate is not None else ""
        reason = "no candidate" if case.candidate is None else ""
        rows.append(
            [
                two_lines(
                    markup.link(case.first.name, link("series", subject=case.first.subject_id)),
                    case.first.shape or case.first.case_id,
                ),
                words.percent(case.weight) if case.weight is not None else "no weight",
                words.memory(case.naive),
                words.memory(case.optimized),
                words.memory(case.candidate) if case.candidate is not None else reason,
                bar,
                words.ratio(against, 2) if against is not None else "no pair",
                words.memory(case.workspace),
                words.roof(case.least_traffic_share),
            ]
        )
    columns = (
        Column(head="case", css="ko-name"),
        Column(head="weight", number=True),
        Column(head="naive", number=True),
        Column(head="optimized", number=True),
        Column(head="candidate", number=True),
        Column(head="", css="ko-bars"),
        Column(head="÷ naive", number=True),
        Column(head="workspace", number=True),
        Column(head="ideal traffic", number=True),
    )
    return table(columns, rows, label="Peak memory by case", css="ko-blocks")


def _bar(share: float) -> Html:
    return markup.element("i", "", css="ko-bar", attributes={"style": f"width:{max(1, round(100 * share))}%"})
