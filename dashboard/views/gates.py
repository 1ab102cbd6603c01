"""May this go out? Each gate with what it reads, needs before it answers, and would have said of the past."""

from __future__ import annotations

from datetime import UTC, datetime

import streamlit as st

from dashboard import markup, words
from dashboard.address import link
from dashboard.data import gates as data
from dashboard.data import latest
from dashboard.markup import Html, Tone
from dashboard.sentences import device_name
from dashboard.tables import Column, table, two_lines
from detection.gate import CURVE_METRICS, LEAST_SAMPLES, Against, Answer, GateMetric, GatePolicy, GateRule
from detection.gate_dry_run import DryRun

ANSWER_TONES = {Answer.PASSED: Tone.OUTLINE, Answer.FAILED: Tone.SLOWER, Answer.UNDECIDED: Tone.UNSURE}
COLUMNS = (
    Column(head="rule", css="ko-name"),
    Column(head="reads"),
    Column(head="allows"),
    Column(head="needs at least"),
    Column(head="newest run"),
    Column(head="runs failed", number=True),
    Column(head="runs undecided", number=True),
)


def draw_gates(device: latest.Device, since: datetime) -> None:
    """Draws every shipped gate for one device."""
    runs = data.gate_runs(device.device_unit, since)
    small = f"{device_name(device.device_model)}, {words.counted(len(runs), 'run')} since {words.date(since, UTC)}"
    st.html(markup.heading("Gates", small))
    if not runs:
        st.html(markup.empty("No run of this device in this span.", "A longer one can be chosen above."))
        return
    rows = data.rows_to_read(device.device_unit, len(runs))
    if rows > data.AT_ONCE and not st.toggle(f"Ask the gates about {words.counted(rows, 'row')}", key="ask-gates"):
        st.html(markup.note("It takes about a second for each 10,000 rows."))
        return
    for gate in data.shipped_gates():
        st.html(_gate(gate, data.dry_run(gate, device.device_unit, since)))
    command = markup.element("code", "collector gate inference --dry-run --days 90")
    curves = markup.element("code", "collector gate training --curves FILE.csv")
    asks = [command, " asks the same over all devices; ", curves, " adds the evidence of training runs. "]
    st.html(markup.note(markup.join([*asks, "What a gate says is not kept: it follows from the runs."])))


def _gate(gate: GatePolicy, dry: DryRun) -> Html:
    newest = dry.outcomes[-1] if dry.outcomes else None
    said: object = "no run of it"
    if newest is not None:
        answer = data.newest_answer(gate, dry)
        chip = markup.chip(answer.value, ANSWER_TONES[answer])
        said = markup.join(["newest run ", markup.link(newest.run_id, link("runs", run=newest.run_id)), " ", chip])
    head = markup.join([markup.element("b", f"{words.capital(gate.name)}, version {gate.version}"), ": ", said])
    cells = [_rule(rule, data.rule_use(dry, rule.name)) for rule in gate.rules]
    built = table(COLUMNS, cells, label=f"Gate {gate.name}", css="ko-blocks")
    return markup.join([markup.note(head), markup.note(dry.sentence), built])


def _rule(rule: GateRule, use: data.RuleUse) -> list[object]:
    if rule.metric in CURVE_METRICS:
        newest: object = markup.element("span", "loss curves are not in a store", css="ko-muted")
        counts: list[object] = ["", ""]
    else:
        newest = _newest(use, rule.metric is GateMetric.FAILURES)
        counts = [words.count(use.failed_runs), words.count(use.undecided_runs)]
    return [rule.name, reads(rule), allows(rule), needs(rule), newest, *counts]


def _newest(use: data.RuleUse, of_the_run: bool) -> object:
    if not use.newest:
        return markup.element("span", "no case of its phases", css="ko-muted")
    worst = next(a for a in (Answer.FAILED, Answer.UNDECIDED, Answer.PASSED) if use.newest.get(a))
    whole = sum(use.newest.values())
    chip = markup.chip(worst.value, ANSWER_TONES[worst])
    count = words.count_of(use.newest[worst], whole, "cases" if whole != 1 else "case")
    first = chip if of_the_run else markup.join([chip, " ", count])
    return two_lines(first, words.clip(use.telling.sentence, 240)) if use.telling else first


def reads(rule: GateRule) -> str:
    """What the rule looks at, of which arm and which phases."""
    what = "wrong or failed cases" if rule.metric is GateMetric.FAILURES else rule.metric.value.replace("_", " ")
    if rule.metric in CURVE_METRICS:
        return f"{what} of loss curves"
    phases = f" in {words.enumeration([p.replace('_', '-') for p in rule.phases])}" if rule.phases else ""
    return f"{what} of {rule.arm}{phases}"


def allows(rule: GateRule) -> str:
    """The limit: a change against history or the optimized arm, or a value."""
    if rule.metric is GateMetric.FAILURES:
        return f"{rule.at_most:g} of them"
    if rule.against is Against.LIMIT:
        return f"up to {rule.at_most:g}"
    way = "less" if rule.metric is GateMetric.THROUGHPUT else "more"
    beside = "its history" if rule.against is Against.HISTORY else "the optimized arm"
    slack = f", or {words.counted(round(rule.at_least), 'byte')}" if rule.metric is GateMetric.PEAK_MEMORY else ""
    return f"{words.percent(rule.at_most)} {way} than {beside}{slack if rule.at_least else ''}"


def needs(rule: GateRule) -> str:
    """The numbers below which it is undecided."""
    if rule.metric in CURVE_METRICS:
        steps = f"{max(rule.minimum_samples, 1)} common steps"
        accepted = f"{max(rule.minimum_runs, 2)} accepted runs, " if rule.metric is GateMetric.CONVERGENCE else ""
        return f"{accepted}{steps}"
    said = []
    if samples := max(rule.minimum_samples, LEAST_SAMPLES.get(rule.metric, 0)):
        said.append(f"{samples:,} single calls")
    if rule.metric is GateMetric.LATENCY_RATIO and rule.minimum_processes:
        said.append(words.counted(rule.minimum_processes, "process", "processes"))
    if rule.against is Against.HISTORY:
        said.append(words.counted(rule.minimum_runs, "earlier run"))
    return ", ".join(said) or "a value"
