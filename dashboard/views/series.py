"""One case on one device through time: every arm, what changed around it, and the raw samples of any run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo

import streamlit as st

from dashboard import markup, parts, words
from dashboard.address import link
from dashboard.data import series as data
from dashboard.data.source import frame
from dashboard.figures.arms import arm_words
from dashboard.figures.run_axis import SeriesView
from dashboard.figures.samples import samples_figure
from dashboard.figures.series import series_figure
from dashboard.figures.series_marks import MOST_MARKS, marks_of
from dashboard.sentences import device_name, series_second, series_sentence
from dashboard.tables import Column, table

RANGES = {"30 nights": 30, "90 nights": 90, "210 nights": 210, "1 year": 366, "all": 36500}


def draw() -> None:
    """Draws the page."""
    chosen = _chosen()
    if chosen is None:
        return
    if chosen.device_kind == "static":
        _compiled(chosen)
        return
    arms = data.arms_of(chosen)
    headline = st.container()
    _choosers(chosen)
    with parts.filters():
        by_revision = parts.segmented("x axis", ["time", "revision"], key="x", default="time") == "revision"
        nights = parts.segmented("range", list(RANGES), key="range", default="90 nights")
        tails = ["p50 to p99", "p50 to p95", "p50"]
        tail = st.selectbox("Tail", tails, key="tail", bind="query-params", persist_state="session", width=150)
        zone = parts.choose_zone()
    since = (chosen.latest_at or datetime.now(UTC)) - timedelta(days=RANGES[nights])
    points = data.history(arms, since)
    focus = next(arm for arm in arms if arm.arm == chosen.arm)
    found = data.changes(arms)
    environment = data.environment_changes(data.environments(chosen.device_unit, since))
    own = [change for change in found if change.arm in (None, focus.arm)]
    base = data.baseline(points, own, focus.arm)
    with headline:
        newest = [p for p in points if p.arm == focus.arm]
        sentence = series_sentence(focus, newest, own, base, zone)
        st.html(markup.headline(sentence, series_second(focus, points, environment)))
    figure = series_figure(
        SeriesView(
            points=points,
            focus=focus.arm,
            environment=environment,
            changes=[c for c in own if c.since_at is not None and c.since_at >= since],
            baseline=base,
            smallest_visible_change=focus.smallest_visible_change,
            tail=str(tail),
            by_revision=by_revision,
            zone=zone,
            mode=parts.mode(),
            compact=parts.compact(),
        )
    )
    parts.chart(figure, key="series-figure", alt=markup.plain(sentence))
    st.html(_legend(points, found, focus, zone))
    _marks(environment, zone)
    parameters = data.history_parameters(arms, since)
    query = data.history_query(len(arms))
    parts.downloads("series", lambda: frame(query, parameters), query)
    _raw_samples(arms, focus, points, zone)


def _compiled(chosen: data.Subject) -> None:
    """A kernel that was compiled and never ran: its series is on another page."""
    st.html(markup.headline(markup.say(f"{chosen.case_id} was compiled for {chosen.device_model}, not measured.")))
    address = link("static", kernel=chosen.case_id, chip=chosen.device_model)
    st.html(markup.empty("It has registers and spills in the place of times:", markup.link("Static", address)))


def _chosen() -> data.Subject | None:
    asked = st.query_params.get("subject")
    family, device = st.query_params.get("family"), st.query_params.get("device")
    chosen = data.subject(asked) if asked else data.default_subject(family, device, st.query_params.get("case"))
    if chosen is not None:
        return chosen
    if asked or family or device:
        said = asked or " on ".join(filter(None, (family, device)))
        st.html(markup.headline(markup.say("There is no such series."), f"Asked for: {said}"))
        st.html(markup.empty("It may be of another store.", markup.link("All series", link("series"))))
        return None
    st.html(markup.headline(markup.say("No series yet: nothing has been measured.")))
    st.html(markup.empty("A series starts with the first run.", markup.element("code", "collector run --suite quick")))
    return None


def _choosers(chosen: data.Subject) -> None:
    with parts.filters():
        families = [(name, name) for name in data.families()]
        family = chosen.family or "other"
        picked = parts.pick("Operator", families, family, key="pick-family", width=170)
        if picked:
            other = data.default_subject(picked, chosen.device_unit) or data.default_subject(picked)
            parts.go_to(subject=other.subject_id if other else None, family=None, device=None, case=None, run=None)
        cases = data.cases(family, chosen)
        places = data.places(chosen)
        case_id = _pick_subject("Case", cases, chosen, "pick-case")
        place = _pick_subject("Device", places, chosen, "pick-place")
        arms = [data.Choice(subject_id=a.subject_id, name=arm_words(a.arm)) for a in data.arms_of(chosen)]
        arm = _pick_subject("Arm", arms, chosen, "pick-arm", width=170)
    for subject in (case_id, place, arm):
        if subject:
            parts.go_to(subject=subject, family=None, device=None, case=None, run=None)


def _pick_subject(
    label: str, choices: Sequence[data.Choice], chosen: data.Subject, key: str, width: int | str = "stretch"
) -> str | None:
    options = [(choice.subject_id, choice.name) for choice in choices]
    if chosen.subject_id not in dict(options):
        # The chooser shows one series a place; the chosen one is another arm of it.
        siblings = {arm.subject_id for arm in data.arms_of(chosen)}
        options = [(chosen.subject_id if value in siblings else value, name) for value, name in options]
    return parts.pick(label, options, chosen.subject_id, key=key, width=width)


def _legend(
    points: Sequence[data.Point], found: Sequence[data.Change], focus: data.Subject, zone: tzinfo
) -> markup.Html:
    """What the lines are, what is missing and why, and where to go from here."""
    basis = {p.latency_basis for p in points if p.arm == focus.arm and p.latency_basis}
    calls = "single calls" if basis <= {"single"} else " and ".join(sorted(basis)).replace("_", " ")
    said = [f"Lines: median of the run. Band above: tail of {calls}. Band below: 95 % interval of the paired ratio. "]
    excluded = [p for p in points if p.arm == focus.arm and p.status == "invalid"]
    if excluded:
        kinds = sorted({p.status_kind or "no reason given" for p in excluded})
        said += [markup.element("span", "", css="ko-key")]
        said += [f"{words.counted(len(excluded), 'excluded run')} ({', '.join(kinds)}), kept out of verdicts. "]
    without = [p for p in points if p.arm == focus.arm and p.status in ("failed", "wrong", "skipped")]
    if without:
        newest = without[-1]
        why = ": ".join(filter(None, (newest.status_kind, newest.status_reason)))
        said += [f"{words.counted(len(without), 'run')} without a time; the newest {newest.status}"]
        said += [f" on {words.date(newest.at, zone)}: {why}. " if why else f" on {words.date(newest.at, zone)}. "]
    if any(p.kind == "confirm" for p in points if p.arm == focus.arm):
        said += ["◇ confirm run. "]
    links: list[object] = []
    for change in found:
        links += [markup.link(change.finding_id, link("findings", finding=change.finding_id)), " · "]
    if focus.latest_run_id:
        links += [markup.link("newest run", link("runs", run=focus.latest_run_id))]
    return markup.note(markup.join([*said, *links]))


def _marks(environment: Sequence[data.EnvironmentChange], zone: tzinfo) -> None:
    marks = marks_of(environment)
    if not marks:
        return
    rows = []
    for number, (at, fields) in enumerate(marks, 1):
        for one in fields:
            rows.append([number, words.date_year(at, zone), one.name, one.before, one.after])
    columns = (
        Column(head="", css="ko-rank"),
        Column(head="since", css="ko-nowrap"),
        Column(head="field"),
        Column(head="before"),
        Column(head="after"),
    )
    title = f"{words.counted(len(rows), 'change')} of the environment in this range"
    with st.expander(title, expanded=len(marks) > MOST_MARKS or parts.compact()):
        st.html(table(columns, rows, label=title))


def _raw_samples(arms: Sequence[data.Subject], focus: data.Subject, points: Sequence[data.Point], zone: tzinfo) -> None:
    runs = {p.run_id: p for p in points if p.arm == focus.arm}
    if not runs:
        return
    ordered = sorted(runs.values(), key=lambda p: p.at, reverse=True)
    asked = st.query_params.get("run")
    current = asked if asked in runs else ordered[0].run_id
    st.html(markup.heading("Raw samples of a run", "every value that was timed"))
    options = [(p.run_id, f"{words.moment(p.at, zone)} · {p.run_id} · {p.status}") for p in ordered]
    with parts.filters():
        picked = parts.pick("Run", options, current, key="pick-run", width=520)
        every_arm = parts.segmented("arms", ["fast ones", "all"], key="arms", default="fast ones") == "all"
    if picked:
        parts.go_to(run=picked)
    found = [s for s in data.samples(arms, current) if s.phase == "rounds"]
    if not every_arm and {s.arm for s in found} - {"naive"}:
        found = [s for s in found if s.arm != "naive"]
    point = runs[current]
    if not found:
        why = point.status_reason or "the run kept none for this case"
        st.html(markup.empty(f"No samples: {why}."))
        return
    count = sum(len(s.values(point.ratio_timer)) for s in found)
    said = f"{count:,} samples of {words.counted(len({s.arm for s in found}), 'arm')} in run {current}"
    parts.chart(samples_figure(found, point.ratio_timer, parts.mode()), key="samples-figure", alt=said)
    marked = sum(1 for s in found for m in s.mark if m)
    left = f" {marked:,} hollow ones are left out of verdicts." if marked else ""
    name = device_name(focus.device_model)
    run_link = markup.link("that run", link("runs", run=current))
    clock = (point.ratio_timer or "wall").replace("_", " ")
    st.html(markup.note(markup.join([f"{said} on {name}, by {clock}.{left} More about ", run_link, "."])))
