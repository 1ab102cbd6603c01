"""One finding: its evidence, what differs, what else moved and what did not, how to repeat it, and what people said."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo

import streamlit as st

from dashboard import markup, parts, people, words
from dashboard.address import link
from dashboard.data import findings as data
from dashboard.data import runs as run_data
from dashboard.data import series as series_data
from dashboard.data import told
from dashboard.data.overview import OPEN_STATES
from dashboard.figures.arms import arm_words
from dashboard.figures.finding import Rounds, Trend, paired_rounds, rounds_figure, trend_figure
from dashboard.markup import Html, Tone
from dashboard.sentences import CLASS_WORDS, device_name
from dashboard.tables import Column, table
from dashboard.views import by_link, triage
from detection.findings import Evidence, Finding, Member

TREND_NIGHTS = 60
MEMBERS_SHOWN = 8
STATE_TONES = {"suspected": Tone.UNSURE, "confirmed": Tone.SLOWER, "reopened": Tone.SLOWER}


def draw(finding_id: str) -> None:
    """Draws the page of one finding."""
    found = data.current(finding_id)
    if found is None:
        st.html(markup.headline(markup.say("There is no such finding."), f"Asked for: {finding_id}"))
        st.html(markup.empty("It may be of another store.", markup.link("All findings", link("findings"))))
        return
    zone = parts.zone_of(str(st.query_params.get("zone", "UTC")))
    if by_link.asked():
        by_link.draw(found, zone)
        return
    facts = found.facts
    subject = series_data.subject(facts.subject_id)
    st.html(markup.headline(_sentence(found), _second(found), above=_above(found, zone)))
    if tiles := _tiles(found):
        st.html(tiles)
    if subject is not None:
        _figures(found, subject, zone)
    good = run_data.run(facts.last_good_run_id) if facts.last_good_run_id else None
    bad = run_data.run(facts.since_run_id)
    one, two, three = st.columns(3, gap="medium")
    with one:
        st.html(_environment(found, good, bad, zone))
    with two:
        st.html(_measured(found, good, bad, zone))
    with three:
        st.html(_moved(facts.evidence))
    if rule := _shape_rule(found):
        st.html(rule)
    _repeat(found)
    st.html(markup.heading("Say something", "each act is kept with its author; nothing measured is touched"))
    triage.acts_of_one(found, zone=zone)
    _history(found, zone)
    if bad is not None:
        _retract(bad)


def _judged_tone(found: Finding) -> Tone:
    if found.facts.finding_class in ("baseline", "method", "noise"):
        return Tone.PLAIN
    if found.state in OPEN_STATES or (found.state == "resolved" and found.facts.direction < 0):
        return Tone.SLOWER if found.facts.direction > 0 else Tone.FASTER
    return Tone.PLAIN


def _above(found: Finding, zone: tzinfo) -> Html:
    state = str(found.state)
    tone = STATE_TONES.get(state, Tone.OUTLINE)
    if tone is Tone.SLOWER and found.facts.direction < 0:
        tone = Tone.FASTER
    until = f" until {words.moment(found.snoozed_until, zone)}" if found.snoozed_until else ""
    owner = f"owner {found.owner}" if found.owner else "no owner yet"
    since = words.date_year(found.facts.since_at, zone)
    return markup.join(
        [
            markup.link("Findings", link("findings")),
            f" · {found.finding_id} · ",
            markup.chip(found.facts.finding_class),
            " ",
            markup.chip(state + until, tone),
            f" · since {since} · {owner}",
        ]
    )


def _sentence(found: Finding) -> markup.Sentence:
    facts = found.facts
    where = f"{facts.title or facts.case_id} on {device_name(facts.device_model)}"
    arm = "" if facts.arm == "candidate" else f", {arm_words(facts.arm)},"
    if facts.change is None:
        return markup.say(f"{where}{arm}: {facts.sentence or facts.cause or facts.metric}")
    size = words.change_size(facts.change, facts.change_low, facts.change_high)
    word = words.slower_or_faster(facts.direction, facts.metric)
    against = " against the optimized kernel" if facts.metric == "latency_ratio" else ""
    why = CLASS_WORDS.get(facts.finding_class, "")
    doubt = "may be" if found.state == "suspected" else "was" if found.state in ("resolved", "refuted") else "is"
    return markup.say(
        f"{where}{arm} {doubt} ",
        markup.Piece(text=size, tone=_judged_tone(found)),
        f" {word}{against}{', ' + why if why else ''}.",
    )


def _second(found: Finding) -> str:
    facts = found.facts
    said = [f"{facts.shape}." if facts.shape and facts.shape not in facts.sentence else ""]
    if facts.price is not None:
        said.append(f"Price {words.price(facts.price)} of that device's production time.")
    if len(facts.subject_ids) > 1:
        said.append(f"{len(facts.subject_ids):,} series moved together.")
    for text in (facts.sentence, facts.cause, facts.evidence.confirm):
        if text:
            said.append(words.capital(text.rstrip(".")) + ".")
    return " ".join(filter(None, dict.fromkeys(said)))


WITNESSES = ("tonight", "confirmed", "looked at")


def _tiles(found: Finding) -> Html | None:
    told = found.facts.evidence.tiles
    if not told:
        return None
    second = [tile for tile in told[1:] if tile.label.lower().startswith(WITNESSES)]
    given = [told[0], *second, *(tile for tile in told[1:] if tile not in second)][:4]
    tone = _judged_tone(found)
    items = []
    for tile in given:
        judged = tone if tile.label.lower().startswith(WITNESSES) else Tone.PLAIN
        size = words.change(tile.change, tile.low, tile.high) if tile.change is not None else "no size"
        items.append(markup.Tile(label=tile.label, value=markup.toned(size, judged), line=tile.words))
    return markup.tiles(items)


def _figures(found: Finding, subject: series_data.Subject, zone: tzinfo) -> None:
    facts = found.facts
    arms = series_data.arms_of(subject)
    since = facts.since_at - timedelta(days=TREND_NIGHTS)
    points = series_data.history(arms, since)
    change = series_data.Change(
        finding_id=found.finding_id,
        state=str(found.state),
        finding_class=facts.finding_class,
        direction=facts.direction,
        metric=facts.metric,
        arm=facts.arm,
        since_at=facts.since_at,
        change=facts.change,
        change_low=facts.change_low,
        change_high=facts.change_high,
    )
    base = series_data.baseline(points, [change], facts.arm)
    left, right = st.columns([1.75, 1], gap="medium")
    with left:
        more = markup.link("the whole series", link("series", subject=subject.subject_id))
        st.html(markup.heading("Trend", "one point a run; band: 95 % interval"))
        trend = Trend(
            points=points,
            focus=facts.arm,
            change=change,
            baseline=base,
            smallest_visible_change=subject.smallest_visible_change,
            zone=zone,
            mode=parts.mode(),
        )
        parts.chart(trend_figure(trend), key="trend", alt=markup.plain(_sentence(found)))
        st.html(markup.note(markup.join(["More: ", more, "."])))
    with right:
        _rounds(found, arms, points, zone)


def _rounds(
    found: Finding, arms: Sequence[series_data.Subject], points: Sequence[series_data.Point], zone: tzinfo
) -> None:
    """Every round of the last good run and of the newest run since the change that has samples."""
    facts = found.facts
    st.html(markup.heading("Every round, before and after"))
    own = [p for p in points if p.arm == facts.arm and p.counts]
    before = next((p for p in own if p.run_id == facts.last_good_run_id), None)
    after = next((p for p in own if p.run_id == facts.since_run_id), None)
    if before is None or after is None:
        st.html(markup.empty("It needs a measured run on both sides of the change."))
        return
    drawn = []
    for point in (before, after):
        values = paired_rounds(
            [s for s in series_data.samples(arms, point.run_id) if s.phase == "rounds"], facts.arm, point.ratio_timer
        )
        drawn.append(Rounds(at=point.at, run_id=point.run_id, values=values))
    if not all(len(rounds.values) > 1 for rounds in drawn):
        st.html(markup.empty("The arm was not timed in the same rounds as the optimized one: there are no pairs."))
        return
    figure = rounds_figure(
        drawn[0],
        drawn[1],
        slower=facts.direction > 0,
        zone=zone,
        mode=parts.mode(),
        coloured=_judged_tone(found) is not Tone.PLAIN,
    )
    said = f"rounds of {drawn[0].run_id} ({len(drawn[0].values)}) and of {drawn[1].run_id} ({len(drawn[1].values)})"
    parts.chart(figure, key="rounds", alt=said)


def _environment(found: Finding, good: run_data.RunDetail | None, bad: run_data.RunDetail | None, zone: tzinfo) -> Html:
    was, now = (good.fields() if good else {}), (bad.fields() if bad else {})
    told = {d.field: (d.good, d.bad) for d in found.facts.differing}
    names = list(dict.fromkeys([*told, *was, *now]))
    rows: list[list[object]] = []
    equal: list[list[object]] = []
    for name in names:
        before = told[name][0] if name in told else was.get(name)
        after = told[name][1] if name in told else now.get(name)
        old, new = (words.shorten(value, 26) if value else "absent" for value in (before, after))
        if before != after and good and bad:
            rows.append([name, old, markup.toned(f"≠ {new}", Tone.SLOWER if name in told else Tone.OUTLINE)])
        else:
            equal.append(
                [name, markup.element("span", old, css="ko-muted"), markup.element("span", new, css="ko-muted")]
            )
    if not names:
        return markup.join(
            [markup.heading("Environment"), markup.empty("The runs on both sides are not in the store.")]
        )
    dates = [words.date(run.started_at, zone) if run else "not here" for run in (good, bad)]
    columns = (
        Column(head="field", css="ko-nowrap"),
        Column(head=f"good, {dates[0]}", css="ko-right"),
        Column(head=f"bad, {dates[1]}", css="ko-right"),
    )
    small = f"{len(rows)} of {len(names)} fields differ"
    body = table(columns, rows + equal[: max(0, 10 - len(rows))], label="Environment before and after")
    hidden = len(equal) - max(0, 10 - len(rows))
    tail = [markup.note(f"{hidden} more are equal.")] if hidden > 0 else []
    return markup.join([markup.heading("Environment", small), body, *tail])


def _measured(found: Finding, good: run_data.RunDetail | None, bad: run_data.RunDetail | None, zone: tzinfo) -> Html:
    head = markup.heading("Measured before and after", "the runs on both sides")
    if good is None or bad is None:
        return markup.join([head, markup.empty("The runs on both sides are not in the store.")])
    values = data.values(found.facts.subject_id, good.run_id, bad.run_id)
    was, now = values.get(good.run_id), values.get(bad.run_id)
    if was is None or now is None:
        return markup.join([head, markup.empty("The series was not part of one of the two runs.")])
    rows: list[list[object]] = []
    for name, column, written in MEASURED:
        one, other = getattr(was, column), getattr(now, column)
        if one is None and other is None:
            continue
        moved = words.change(other / one - 1) if one and other is not None else words.NOTHING
        rows.append([name, written(one), written(other), moved])
    if was.status != now.status:
        rows.insert(0, ["status", was.status, now.status, ""])
    columns = (
        Column(head="metric"),
        Column(head="good", number=True),
        Column(head="bad", number=True),
        Column(head="change", number=True),
    )
    return markup.join([head, table(columns, rows, label="Measured before and after")])


MEASURED = (
    ("ratio to optimized", "ratio_optimized", words.ratio),
    ("ratio to naive", "ratio_naive", words.ratio),
    ("latency p50", "latency_p50_s", words.time),
    ("latency p99", "latency_p99_s", words.time),
    ("roofline fraction", "roofline_fraction", words.percent),
    ("bandwidth", "bandwidth_bytes_per_s", words.bandwidth),
    ("rate", "flop_per_s", words.work_rate),
    ("peak memory", "peak_memory_bytes", words.memory),
    ("error ÷ tolerance", "error_margin", words.percent),
    ("compile time", "compile_s", words.time),
)


def _moved(evidence: Evidence) -> Html:
    """The group, what else moved in that run, and what did not."""
    head = markup.heading("What else moved", "and what did not")
    rows: list[list[object]] = []
    for members, said in (
        (evidence.members, "this finding"),
        (evidence.co_movers, "same run"),
        (evidence.not_moved, "not moved"),
    ):
        rows += [_member(member, said) for member in members[:MEMBERS_SHOWN]]
        if len(members) > MEMBERS_SHOWN:
            rows.append([f"{len(members) - MEMBERS_SHOWN} more", "", said])
    if not rows:
        return markup.join([head, markup.empty("The judge names no other series.")])
    columns = (Column(head="series"), Column(head="change", number=True), Column(head="", css="ko-nowrap"))
    return markup.join([head, table(columns, rows, label="What else moved")])


def _shape_rule(found: Finding) -> Html | None:
    """Where in shape space it lies, or why that cannot be said; None of a finding from before that was looked at."""
    evidence = found.facts.evidence
    if not evidence.shape_words:
        return None
    small = f"{words.counted(len(evidence.cases), 'judged case')} of its operator and arm" if evidence.cases else ""
    space = markup.link("the shapes", link("shapes"))
    said = markup.note(markup.join([evidence.shape_words, " See ", space, "."]))
    return markup.join([markup.heading("Where in shape space", small), said])


def _member(member: Member, said: str) -> list[object]:
    linked = markup.link(member.label, link("series", subject=member.subject_id))
    size = words.change(member.change, member.low, member.high) if member.change is not None else "no size"
    return [linked, size, markup.element("span", said, css="ko-muted")]


def _repeat(found: Finding) -> None:
    st.html(markup.heading("Repeat it", "on the device that saw it"))
    if found.facts.repro:
        st.code(found.facts.repro, language=None)
    else:
        st.html(markup.empty("The run kept no command for this case."))


EVENT_WORDS = {
    "moved": "its size or members changed",
    "resolved": "resolved",
    "note": "noted",
    "linked": "linked",
}


def _history(found: Finding, zone: tzinfo) -> None:
    """Everything that was said of it, by the judge and by people, newest first."""
    rows: list[tuple[datetime, list[object]]] = []
    for event in data.events_of(found.finding_id):
        when = words.moment(event.at, zone)
        run = markup.link(event.run_id, link("runs", run=event.run_id)) if event.run_id else ""
        rows.append((event.at, [when, event.actor, EVENT_WORDS.get(event.event, str(event.event)), run]))
    for act in data.acts_of(found.finding_id):
        said: list[object] = []
        if act.owner:
            said.append(f"to {act.owner}")
        if act.until:
            said.append(f"until {words.moment(act.until, zone)}")
        if act.text:
            said.append(act.text)
        if act.link:
            safe = triage.is_web_address(act.link)
            said.append(markup.link(act.link, act.link) if safe else markup.escape(act.link))
        who = act.actor or "nobody"
        row: list[object] = [
            words.moment(act.at, zone),
            who,
            EVENT_WORDS.get(act.event, act.event),
            markup.join(said, "; "),
        ]
        rows.append((act.at, row))
    for delivery in told.deliveries_of(found.finding_id):
        answer = markup.escape(delivery.response if delivery.event in ("failed", "dead") else "")
        rows.append((delivery.at, [words.moment(delivery.at, zone), "messages", delivery.words, answer]))
    rows.sort(key=lambda item: item[0], reverse=True)
    columns = (
        Column(head="when", css="ko-nowrap"),
        Column(head="who", css="ko-nowrap"),
        Column(head="what"),
        Column(head="with"),
    )
    st.html(markup.heading("Its life", "newest first"))
    st.html(table(columns, [row for _, row in rows], label="Events of the finding", css="ko-blocks"))


def _retract(bad: run_data.RunDetail) -> None:
    if not people.is_triager():
        return
    with st.expander(f"Retract the run {bad.run_id}"):
        with st.form("retract", border=False):
            st.caption(
                "Hides the whole run from every page and verdict. Nothing is deleted: `collector store` brings it back."
            )
            reason = st.text_input("Why", max_chars=500)
            if not st.form_submit_button("Retract it"):
                return
        if not people.author():
            st.error("Say who you are first: the name above is empty.")
            return
        data.retract_run(bad.run_id, actor=people.author(), reason=reason)
        st.toast(f"Run {bad.run_id} is retracted.")
        st.rerun()
