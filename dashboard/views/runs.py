"""The runs: of one its rows, their validity and its environment; the list of all; the quarantine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING

import streamlit as st

from dashboard import markup, parts, words
from dashboard.address import link
from dashboard.data import runs as data
from dashboard.data.source import frame
from dashboard.figures.arms import arm_words
from dashboard.markup import Html, Tone
from dashboard.sentences import device_name
from dashboard.tables import Column, table, two_lines

if TYPE_CHECKING:
    from store.lake.ingest import QuarantineReason

LISTED = 500
STATUS_ORDER = ("measured", "wrong", "failed", "skipped", "invalid")
STATUS_TONES = {"wrong": Tone.SLOWER, "failed": Tone.SLOWER, "invalid": Tone.UNSURE, "skipped": Tone.OUTLINE}


def draw() -> None:
    """Draws the page."""
    listed = data.runs(LISTED)
    refused = data.quarantine()
    if not listed:
        st.html(markup.headline(markup.say("No run is in the store.")))
        st.html(markup.empty("Make one with", markup.element("code", "collector run --suite quick")))
        _quarantine(refused, parts.zone_of("UTC"))
        return
    asked = st.query_params.get("run")
    measured = next((row for row in listed if row.kind != "import"), listed[0])
    one = data.run(asked or measured.run_id)
    if one is None:
        st.html(markup.headline(markup.say("There is no such run."), f"Asked for: {asked}"))
        st.html(markup.empty("It may be of another store, or retracted.", markup.link("Newest run", link("runs"))))
        return
    top = st.container()
    with parts.filters():
        zone = _choose_run(listed, one)
    rows = data.results(one)
    with top:
        st.html(markup.headline(_sentence(one, rows), _second(one, zone)))
    if strip := _status_strip(rows):
        st.html(strip)
    _rows_table(one, rows)
    left, right = st.columns([1.2, 1], gap="medium")
    with left:
        st.html(_environment(one, data.run_before(one), zone))
    with right:
        st.html(_made_by(one, zone))
        _quarantine(refused, zone)
    _all_runs(listed)


def _choose_run(listed: Sequence[data.RunRow], one: data.RunDetail) -> tzinfo:
    slot = st.container()
    zone = parts.choose_zone()
    options = [
        (r.run_id, f"{words.moment(r.started_at, zone)} · {device_name(r.device_model)} · {r.run_id}") for r in listed
    ]
    if one.run_id not in dict(options):
        options.insert(0, (one.run_id, one.run_id))
    with slot:
        picked = parts.pick("Run", options, one.run_id, key="pick-run", width=560)
    if picked:
        parts.go_to(run=picked)
    return zone


def _sentence(one: data.RunDetail, rows: Sequence[data.ResultRow]) -> markup.Sentence:
    counts = Counter(row.status for row in rows)
    cases = len({row.case_id for row in rows})
    where = f"{device_name(one.device_model)}, {one.suite or 'no suite'}"
    measured = counts.get("measured", 0)
    lead = "" if one.status == "complete" else f"{words.capital(one.status or 'unfinished')} run on "
    if not rows:
        return markup.say(f"{lead}{where}: the run has no rows.")
    said = f"{lead}{where}: {measured:,} of {len(rows):,} rows measured over {words.counted(cases, 'case')}"
    bad = [f"{counts[s]:,} {s}" for s in ("wrong", "failed") if counts.get(s)]
    rest = [f"{counts[s]:,} {s}" for s in ("skipped", "invalid") if counts.get(s)]
    if not bad and not rest:
        return markup.say(f"{said}, none left out.")
    pieces: list[str | markup.Piece] = [f"{said}; "]
    if bad:
        pieces.append(markup.Piece(text=words.enumeration(bad), tone=Tone.SLOWER))
    if rest:
        pieces.append((", " if bad else "") + words.enumeration(rest))
    return markup.say(*pieces, ".")


def _second(one: data.RunDetail, zone: tzinfo) -> str:
    said = [f"{words.moment(one.started_at, zone)}, {words.duration(one.wall_s)}"]
    if one.host:
        said.append(f"host {one.host}")
    said.append(f"revision {one.revision[:12]}" if one.revision else "revision not known")
    if one.kind == "confirm":
        said.append(f"confirms {one.confirms}" if one.confirms else "a confirm run")
    if one.note:
        said.append(f"note: {one.note}")
    return " · ".join(said)


def _status_strip(rows: Sequence[data.ResultRow]) -> Html:
    """Why rows are not evidence: each kind with its count."""
    kinds = Counter((row.status, row.status_kind or "") for row in rows if row.status != "measured")
    if not kinds:
        return Html("")
    shown = []
    for (status, kind), count in sorted(kinds.items(), key=lambda item: (STATUS_ORDER.index(item[0][0]), item[0][1])):
        name = f"{status}: {kind.replace('_', ' ')}" if kind else status
        shown.append(markup.join([markup.chip(name, STATUS_TONES.get(status, Tone.PLAIN)), f" {count:,}"]))
    return markup.element("div", markup.join(shown, " "), css="ko-strip")


ROW_COLUMNS = (
    Column(head="case", css="ko-name"),
    Column(head="arm", css="ko-nowrap"),
    Column(head="status", css="ko-nowrap"),
    Column(head="p50", number=True),
    Column(head="p99", number=True),
    Column(head="÷ optimized, 95 %", number=True),
    Column(head="roofline", number=True),
    Column(head="rate", number=True),
    Column(head="peak memory", number=True),
    Column(head="error ÷ allowed", number=True),
)
ROWS_A_PAGE = 120


def _rows_table(one: data.RunDetail, rows: Sequence[data.ResultRow]) -> None:
    with parts.filters():
        odd_only = parts.segmented("rows", ["all", "not measured"], key="rows", default="all") == "not measured"
        pages = max(1, -(-len(rows) // ROWS_A_PAGE))
        page = int(st.number_input("page", 1, pages, 1, width=120)) if pages > 1 and not odd_only else 1
    shown = [row for row in rows if row.status != "measured"] if odd_only else list(rows)
    shown = shown[(page - 1) * ROWS_A_PAGE : page * ROWS_A_PAGE]
    if shown:
        cells = [_cells(row, i == 0 or shown[i - 1].case_id != row.case_id) for i, row in enumerate(shown)]
        st.html(table(ROW_COLUMNS, cells, label="Rows of the run", css="ko-blocks"))
    else:
        st.html(markup.note("Every row was measured." if rows else "No rows."))
    if len(rows) > len(shown):
        st.html(markup.note(f"{len(shown):,} of {len(rows):,} rows shown; the downloads have all."))
    parameters = data.result_parameters(one)
    parts.downloads(f"run-{one.ingest_seq}", lambda: frame(data.RESULTS_QUERY, parameters), data.RESULTS_QUERY)


def _cells(row: data.ResultRow, first: bool) -> list[object]:
    name: object = two_lines(row.title or row.case_id, row.shape or row.case_id) if first else ""
    status: object = markup.toned(row.status, Tone.MUTED)
    if row.status != "measured":
        status = markup.chip(row.status, STATUS_TONES.get(row.status, Tone.PLAIN))
        why = ": ".join(filter(None, ((row.status_kind or "").replace("_", " "), row.status_reason)))
        status = two_lines(status, why or "no reason was given")
    return [
        name,
        markup.link(arm_words(row.arm), link("series", subject=row.subject_id)),
        status,
        _number(row, "latency_p50_s", words.time(row.latency_p50_s)),
        _number(row, "latency_p99_s", words.time(row.latency_p99_s)),
        _ratio(row),
        _number(row, "roofline_fraction", words.roof(row.roofline_fraction)),
        _rate(row),
        _number(row, "peak_memory_bytes", words.memory(row.peak_memory_bytes)),
        _number(row, "error_margin", words.percent(row.error_margin)),
    ]


def _number(row: data.ResultRow, column: str, text: str) -> Html:
    """The number, or in words why there is none."""
    if text != words.NOTHING:
        return markup.escape(text)
    return markup.element("span", words.shorten(row.why_null(column), 34), css="ko-small")


def _ratio(row: data.ResultRow) -> object:
    if row.role == "optimized":
        return markup.element("span", "is 1", css="ko-small")
    half = words.half_width(row.ratio_optimized_low, row.ratio_optimized_high)
    if row.ratio_optimized is None:
        return _number(row, "ratio_optimized", words.NOTHING)
    width = f"{words.HARD}±{words.HARD}{words.fixed(half, 3)}" if half is not None else ", no interval"
    return f"{words.ratio(row.ratio_optimized)}{width}"


def _rate(row: data.ResultRow) -> object:
    """GB/s below the ridge, TFLOP/s above it."""
    if row.roofline_bound == "compute":
        return _number(row, "flop_per_s", words.work_rate(row.flop_per_s))
    return _number(row, "bandwidth_bytes_per_s", words.bandwidth(row.bandwidth_bytes_per_s))


def _environment(one: data.RunDetail, before: data.RunDetail | None, zone: tzinfo) -> Html:
    """Field by field against the device's run before: differences first."""
    now, was = one.fields(), before.fields() if before else {}
    names = list(dict.fromkeys([*now, *was]))
    differing = [name for name in names if before and now.get(name) != was.get(name)]
    rows: list[list[object]] = []
    for name in differing + [n for n in names if n not in differing]:
        old, new = was.get(name, "absent"), now.get(name, "absent")
        if name in differing:
            rows.append([name, old, markup.toned(f"≠ {new}", Tone.OUTLINE)])
        else:
            rows.append([name, markup.element("span", old if before else "", css="ko-muted"), new])
    small = (
        f"{len(differing)} of {len(names)} fields differ from {words.date(before.started_at, zone)}"
        if before
        else f"{len(names)} fields; the first run of this device"
    )
    columns = (Column(head="field"), Column(head="the run before"), Column(head="this run"))
    return markup.join([markup.heading("Environment", small), table(columns, rows, label="Environment of the run")])


def _made_by(one: data.RunDetail, zone: tzinfo) -> Html:
    facts = [
        ("run", one.run_id),
        ("kind", one.kind or words.NOTHING),
        ("device", " ".join(filter(None, (one.device_model, one.device_slice))) or words.NOTHING),
        ("unit", one.device_unit or words.NOTHING),
        ("seed", words.NOTHING if one.seed is None else str(one.seed)),
        ("ingested", f"{words.moment(one.ingested_at, zone)}, number {one.ingest_seq}"),
        ("command", markup.element("code", one.command) if one.command else words.NOTHING),
    ]
    columns = (Column(head="fact"), Column(head="value"))
    body = table(columns, facts, label="How the run was made")
    return markup.join([markup.heading("How it was made"), body])


def _quarantine(refused: Sequence[QuarantineReason], zone: tzinfo) -> None:
    st.html(markup.heading("Quarantine", "bundles that were refused, with the reason"))
    if not refused:
        st.html(markup.note("Empty: every bundle that arrived was taken in."))
        return
    columns = (Column(head="bundle"), Column(head="refused", css="ko-nowrap"), Column(head="why"))
    rows = [[words.shorten(r.name, 48), words.moment(r.at, zone), r.reason] for r in refused[:50]]
    st.html(table(columns, rows, label="Bundles in quarantine"))
    st.html(markup.note(markup.join(["They lie in ", markup.element("code", "quarantine/"), " of the store."])))


def _all_runs(listed: Sequence[data.RunRow]) -> None:
    import pandas as pd

    with st.expander(f"The newest {len(listed):,} runs as a list"):
        shown = pd.DataFrame(
            {
                "started (UTC)": [r.started_at for r in listed],
                "device": [device_name(r.device_model) for r in listed],
                "host": [r.host for r in listed],
                "suite": [r.suite for r in listed],
                "kind": [r.kind for r in listed],
                "state": [r.status for r in listed],
                "revision": [r.revision for r in listed],
                "seconds": [r.wall_s for r in listed],
                "run": [r.run_id for r in listed],
            }
        )
        st.dataframe(shown, hide_index=True)
