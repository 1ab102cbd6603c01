"""The first page: what changed since yesterday, how sure, what it costs. HTML and small images only, so it is quick."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import streamlit as st

from dashboard import markup, words
from dashboard.address import link
from dashboard.data import overview as data
from dashboard.data.findings import with_acts
from dashboard.markup import Html, Tone
from dashboard.sentences import (
    change_tone,
    change_words,
    device_name,
    is_stale,
    overview_second,
    overview_sentence,
    state_tone,
)
from dashboard.sparkline import image
from dashboard.tables import Column, table, two_lines
from dashboard.views.heat import draw_heat
from detection.audit import AuditKind, Share, binomial_share

SHOWN_FINDINGS = 8


def draw() -> None:
    """Draws the page."""
    lake = data.totals()
    if not lake.runs:
        _nothing_measured()
        return
    found, judged = data.finding_totals(), data.judged()
    findings = with_acts(data.findings_by_price(SHOWN_FINDINGS))
    new = with_acts(data.new_findings(lake))
    scores = data.scores()
    second = overview_second(lake, new, found, judged, UTC)
    st.html(markup.headline(overview_sentence(lake, new, found, judged), second))
    st.html(_tiles(scores, found, judged, lake.runs))
    st.html(_device_strip(data.devices(), datetime.now(UTC)))
    left, right = st.columns([2.55, 1], gap="medium")
    with left:
        st.html(_findings(findings, found))
    with right:
        draw_heat()
    one, two, three = st.columns([1.42, 1.03, 1.2], gap="medium")
    with one:
        st.html(_score_table(scores, data.score_histories(scores)))
    with two:
        st.html(_audit_table(data.audit()))
    with three:
        st.html(_visible_table(data.visible_changes()))


def _nothing_measured() -> None:
    st.html(markup.headline(markup.say("Nothing has been measured yet.")))
    command = markup.element("code", "collector run --suite quick")
    way_out = markup.join(["Run ", command, " on the machine to be watched; it takes about three minutes."])
    st.html(markup.empty("The store is here and empty.", way_out))


def _tiles(scores: Sequence[data.Score], found: data.FindingTotals, judged: data.Judged, runs: int) -> Html:
    return markup.tiles([_score_tile(scores), _cost_tile(found), _judged_tile(judged, runs), _visible_tile(judged)])


def _score_tile(scores: Sequence[data.Score]) -> markup.Tile:
    label = "Suite score, candidate ÷ optimized"
    if not scores or scores[0].value is None:
        return markup.Tile(label=label, value="no score", line="no candidate has been measured")
    score, value = scores[0], scores[0].value
    half = score.half_width_log
    width = f"± {words.fixed(value * half, 3)}" if half is not None else ""
    moved = score.since_previous_log
    since = f"{words.change(moved)} since the run before; " if moved is not None else ""
    mean = "" if score.weighted else "; cases without weight count nothing"
    return markup.Tile(
        label=label, value=words.ratio(score.value), qualifier=width, line=f"{since}below 1 is faster{mean}"
    )


def _cost_tile(found: data.FindingTotals) -> markup.Tile:
    label = "Open slow-downs cost"
    if not found.open_slower:
        doubt = (
            f"{words.capital(words.number_word(found.suspected))} suspected" if found.suspected else "none suspected"
        )
        return markup.Tile(label=label, value=f"0.00{words.THIN}%", qualifier="none is open", line=doubt)
    line = words.counted(found.open_slower, "finding")
    if found.devices > 1:
        line += f" on {found.devices} devices, most on this one"
    if found.suspected_price:
        line += f"; {words.percent(found.suspected_price, 2)} only suspected"
    if found.unpriced:
        line += f"; {found.unpriced} without a weight"
    value = words.percent(found.open_price, 2) if found.open_price is not None else "not priced"
    whose = f"of the {device_name(found.dearest_model)}'s time" if found.open_price is not None else ""
    return markup.Tile(label=label, value=value, qualifier=whose, line=line)


def _judged_tile(judged: data.Judged, runs: int) -> markup.Tile:
    label = "Judged tonight"
    if not judged.judged:
        why = "history starts with the second run" if runs == 1 else "no verdict against history is in the store"
        return markup.Tile(label=label, value="0", qualifier=f"of {judged.series:,} series", line=why)
    line = f"{judged.inconclusive:,} inconclusive, {judged.not_judged:,} not judged"
    return markup.Tile(label=label, value=f"{judged.judged:,}", qualifier=f"of {judged.series:,} series", line=line)


def _visible_tile(judged: data.Judged) -> markup.Tile:
    label = "Smallest visible change"
    if judged.visible_median is None:
        return markup.Tile(label=label, value="not known", line="it is stated with the first verdict against history")
    value = words.percent(judged.visible_median)
    return markup.Tile(label=label, value=value, qualifier="median", line="of candidate ÷ optimized, over all series")


def _device_strip(devices: Sequence[data.DeviceRow], now: datetime) -> Html:
    parts = [markup.element("b", "Devices")]
    for group in group_devices(devices, now):
        first = group[0]
        stale = is_stale(first.latest_at, now)
        chip = markup.chip("▲ stale", Tone.SLOWER) if stale else markup.chip("● fresh")
        day = "" if not stale else f"{words.date(first.latest_at, UTC)} "
        name = device_name(first.device_model) + (f" {first.device_slice}" if first.device_slice else "")
        which = f"{len(group)} units" if len(group) > 1 else (f"· {first.host}" if first.host else "")
        when = f"{day}{words.clock(first.latest_at, UTC)}, {words.ago(first.latest_at, now)}"
        linked = markup.link(name, link("runs", run=first.latest_run_id))
        muted = markup.element("span", f"{when}{_health(group)}", css="ko-muted")
        parts.append(markup.element("span", markup.join([chip, " ", linked, f" {which} ", muted])))
    return markup.element("div", markup.join(parts), css="ko-strip")


def group_devices(devices: Sequence[data.DeviceRow], now: datetime) -> list[list[data.DeviceRow]]:
    """Units of one model that are equally fresh and healthy stand together; a stale or sick one stands alone."""
    groups: dict[tuple[object, ...], list[data.DeviceRow]] = {}
    for device in devices:
        sick = bool(device.invalid or device.failed or device.wrong)
        alone = device.device_unit if sick or is_stale(device.latest_at, now) else ""
        groups.setdefault((device.device_model, device.device_slice, alone), []).append(device)
    return list(groups.values())


def _health(group: Sequence[data.DeviceRow]) -> str:
    words_of = []
    for count, word in (
        (sum(d.invalid for d in group), f"invalid ({group[0].invalid_kind})" if group[0].invalid_kind else "invalid"),
        (sum(d.failed for d in group), "failed"),
        (sum(d.wrong for d in group), "wrong"),
    ):
        if count:
            words_of.append(f"{count} {word}")
    return f" · {', '.join(words_of)}" if words_of else ""


FINDING_COLUMNS = (
    Column(head="", css="ko-rank"),
    Column(head="operator and shape", css="ko-name"),
    Column(head="class"),
    Column(head="device", css="ko-nowrap", small_head=False),
    Column(head="change, 95 % interval", number=True),
    Column(head="price", number=True),
    Column(head="since", css="ko-nowrap"),
    Column(head="30 nights", small_head=False),
    Column(head="state", small_head=False),
)


def _findings(findings: Sequence[data.FindingRow], found: data.FindingTotals) -> Html:
    head = markup.heading("Findings by price", "share of production time × change")
    if not findings:
        text = "No change was found that lasts: nothing is suspected, confirmed or waiting."
        return markup.join([head, markup.empty(text)])
    rows = [finding_cells(number, finding) for number, finding in enumerate(findings, 1)]
    parts = [head, table(FINDING_COLUMNS, rows, label="Findings by price", css="ko-blocks")]
    if found.shown > len(findings):
        more = markup.link(f"all {found.shown:,} findings", link("findings"))
        parts.append(markup.note(markup.join([f"The {len(findings)} dearest; ", more, "."])))
    return markup.join(parts)


def finding_cells(number: int, finding: data.FindingRow) -> list[object]:
    name = markup.link(finding.name, link("findings", finding=finding.finding_id))
    shape = finding.shape or ""
    if finding.group_size > 1:
        shape = f"{shape} and {finding.group_size - 1} more" if shape else f"{finding.group_size} series"
    size = words.change(finding.change, finding.change_low, finding.change_high)
    if finding.change is None:
        size = change_words(finding)
    tone = change_tone(finding)
    change = markup.toned(size, tone) if tone is not Tone.PLAIN else markup.element("span", size, css="ko-strong")
    spark = (
        image(
            finding.sparkline,
            alt=f"last {len(finding.sparkline)} runs, change {size}",
            tone=Tone.UNSURE if finding.state == "suspected" else tone,
            since=finding.since_index,
        )
        if finding.sparkline
        else markup.element("span", f"{finding.metric.replace('_', ' ')}", css="ko-muted")
    )
    return [
        number,
        two_lines(name, shape),
        markup.chip(finding.finding_class or "not classed"),
        device_name(finding.device_model),
        change,
        words.price(finding.price),
        words.date(finding.since_at, UTC) if finding.since_at else words.NOTHING,
        spark,
        markup.chip(finding.state, state_tone(finding)),
    ]


def _score_table(scores: Sequence[data.Score], histories: dict[str, list[float]]) -> Html:
    by_device = [s for s in scores if s.device_model is not None and s.value is not None]
    if not by_device:
        needs = "It needs a candidate arm that was measured beside the optimized one."
        return markup.join([markup.heading("Suite score"), markup.empty("No score yet.", needs)])
    drawn = [v for s in by_device for v in histories.get(s.device_model or "", [])]
    nights = max((len(h) for h in histories.values()), default=1)
    low, high = (min(drawn), max(drawn)) if drawn else (1.0, 1.0)
    small = f"same scale, {words.ratio(low, 2)} to {words.ratio(high, 2)}" if nights > 1 else ""
    columns = (
        Column(head="device", css="ko-nowrap", small_head=False),
        Column(head="", small_head=False),
        Column(head="now", number=True),
        Column(head="since last run", number=True),
    )
    rows = []
    for score in by_device:
        values = histories.get(score.device_model or "", [])
        spark = image(values, alt=f"{len(values)} nights", width=170, bounds=(low, high)) if len(values) > 1 else ""
        now = markup.element("b", words.ratio(score.value))
        moved = words.change(score.since_previous_log) if score.since_previous_log is not None else "first run"
        rows.append([device_name(score.device_model), spark, now, moved])
    title = f"Suite score, {words.counted(nights, 'night')}" if nights > 2 else "Suite score"
    head = markup.heading(title, small)
    return markup.join([head, table(columns, rows, label="Suite score by device")])


def _audit_table(rows: Sequence[data.AuditRow]) -> Html:
    head = markup.heading("Can the alarms be trusted?", "last 30 days")
    if not rows:
        needs = "It fills when the copy of the optimized kernel (arm aa) has been through the detector."
        return markup.join([head, markup.empty("No audit is in the store.", needs)])
    cells = []
    for row in rows:
        alarms = binomial_share(row.alarmed, row.n)
        if row.kind == AuditKind.AA:
            for name, of in (
                ("False alarms, A/A series", alarms),
                ("Suspicions there, told to nobody", binomial_share(row.suspected, row.n)),
            ):
                rate = f"{words.fixed(1000 * of.share, 1)} per 1,000"
                cells.append([name, markup.element("b", rate), _audit_counts(of, scale=1000)])
        else:
            name = f"Planted {words.percent(row.planted, 0)} slow-down noticed that night"
            cells.append([name, markup.element("b", words.percent(alarms.share, 0)), _audit_counts(alarms)])
    columns = (
        Column(head="audit"),
        Column(head="result", number=True),
        Column(head="series-nights (95 % interval)", number=True),
    )
    return markup.join([head, table(columns, cells, label="Audit of the alarms")])


def _audit_counts(share: Share, *, scale: int = 100) -> str:
    """`3 of 1,240 (0.8 to 7.1)`: the counts, and the interval in the unit of the rate."""
    low, high = words.fixed(scale * share.low, 1), words.fixed(scale * share.high, 1)
    return f"{share.count:,} of {share.n:,} ({low} to {high})"


def _visible_table(rows: Sequence[data.VisibleChange]) -> Html:
    head = markup.heading("Smallest visible change", "by operator")
    if not rows:
        needs = "Each verdict against history states it; there is none yet."
        return markup.join([head, markup.empty("Not known yet.", needs)])
    columns = (
        Column(head="operator"),
        Column(head="median series", number=True),
        Column(head="worst tenth", number=True),
    )
    cells = [[row.family, words.percent(row.median_series), words.percent(row.worst_tenth)] for row in rows]
    return markup.join([head, table(columns, cells, label="Smallest visible change by operator")])
