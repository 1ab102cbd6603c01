"""The gates on the page of policies: the answers of `collector gate`, with what each rule needs."""

from __future__ import annotations

import html
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import simulated_lake

from collector.host.gates import check_run, dry_run_gate, load_gate
from dashboard.data import gates as data
from dashboard.views.gates import allows, needs, reads
from detection.gate import Answer
from store.lake.lake import Lake

Page = Callable[..., Any]
Said = Callable[[Any], str]
DEVICE = simulated_lake.DEVICES[0]


@pytest.mark.parametrize("name", ["inference", "training"])
def test_page_says_what_the_command_says(page: Page, said: Said, store: Path, name: str) -> None:
    """The sentence of a gate is that of `collector gate --dry-run` over the device, and its answer that of the run."""
    lake, gate = Lake.open(store), load_gate(name)
    dry = dry_run_gate(lake, gate, device_unit=DEVICE.unit, days=90)
    shown = said(page(store, "policies", device=DEVICE.unit))
    assert dry.outcomes
    assert html.escape(dry.sentence) in shown
    newest = dry.outcomes[-1]
    checked = check_run(lake, gate, newest.run_id)
    assert checked is not None
    asked = [line for line in checked.lines if line.rule not in CURVES]
    assert [line.answer for line in asked] == [line.answer for line in newest.lines]
    assert data.newest_answer(gate, dry) is checked.answer


CURVES = {rule.name for rule in load_gate("training").rules if rule.metric.value in ("convergence", "checkpoint")}
CURVES |= {rule.name for rule in load_gate("training").rules if rule.metric.value == "determinism"}


def test_every_rule_says_what_it_reads_allows_and_needs(page: Page, said: Said, store: Path) -> None:
    """Each rule of each shipped gate stands on the page with its limit and its least numbers."""
    shown = said(page(store, "policies", device=DEVICE.unit))
    for gate in data.shipped_gates():
        for rule in gate.rules:
            for text in (rule.name, reads(rule), allows(rule), needs(rule)):
                assert html.escape(text) in shown
    inference = {rule.name: rule for rule in load_gate("inference").rules}
    assert needs(inference["p99 of decode"]) == "300 single calls, 10 earlier runs"
    assert allows(inference["p99 of decode"]) == "15.0\u202f% more than its history"
    assert reads(inference["p99 of decode"]) == "latency p99 of candidate in decode"


def test_runs_of_a_rule_are_counted(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each rule the runs it failed and could not answer are those of the outcomes."""
    monkeypatch.setenv("KERNEL_OBSERVATORY_STORE", str(store))
    (gate, _) = data.shipped_gates()
    since = datetime.now(UTC) - timedelta(days=90)
    dry = data.dry_run(gate, DEVICE.unit, since)
    for rule in gate.rules:
        use = data.rule_use(dry, rule.name)
        answers = [{line.answer for line in o.lines if line.rule == rule.name} for o in dry.outcomes]
        assert use.failed_runs == sum(Answer.FAILED in found for found in answers)
        assert use.failed_runs + use.undecided_runs <= len(dry.outcomes)


def test_large_history_is_read_when_it_is_asked_for(
    page: Page, said: Said, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a dry run reads many rows the page waits for somebody to ask."""
    monkeypatch.setattr(data, "AT_ONCE", 10)
    app = page(store, "policies", device=DEVICE.unit)
    assert "Would have fired" not in said(app)
    app.toggle(key="ask-gates").set_value(True)
    assert "Would have fired" in said(app.run())


def test_gates_stand_without_a_verdict(page: Page, said: Said, one_run_store: Path) -> None:
    """With one run there is no history: the rules say what they lack."""
    shown = said(page(one_run_store, "policies"))
    assert "Gate inference" in shown
    assert "earlier run" in shown
