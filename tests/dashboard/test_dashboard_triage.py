"""What people say of findings: events with an author, seen at once, nothing measured touched."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import simulated_lake

from dashboard.data import findings as data
from detection.findings import FindingState, TriageKind
from store.lake.lake import Lake

SIMULATION = simulated_lake.Simulation(nights=3, devices=simulated_lake.DEVICES[:2], cases=simulated_lake.CASES[3:13])
Said = Callable[[Any], str]


@pytest.fixture
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of one's own to write into."""
    simulated_lake.build_lake(tmp_path, SIMULATION)
    monkeypatch.setenv("KERNEL_OBSERVATORY_STORE", str(tmp_path / "store"))
    return tmp_path / "store"


def test_act_is_an_event_with_its_author_and_is_seen_at_once(own_store: Path) -> None:
    """An act appends one row to `triage`, and the state is folded anew without the host."""
    finding = simulated_lake.planted_id(SIMULATION, 0)
    before = Lake.open(own_store).sql("select count(*) as n from results").to_pylist()
    found = data.current(finding)
    assert found is not None
    assert found.state is FindingState.CONFIRMED
    data.say_of([finding], TriageKind.ACKNOWLEDGED, actor="ana", text="looking")
    data.say_of([finding], TriageKind.ASSIGNED, actor="ana", owner="bo")
    found = data.current(finding)
    assert found is not None
    assert (found.state, found.owner) == (FindingState.ACKNOWLEDGED, "bo")
    listed = next(row for row in data.all_findings() if row.finding_id == finding)
    assert (listed.state, listed.owner) == ("acknowledged", "bo")
    lake = Lake.open(own_store)
    rows = lake.sql("select * from triage where actor = 'ana' and finding_id = $f order by \"at\"", {"f": finding})
    assert [row["event"] for row in rows.to_pylist()] == ["acknowledged", "assigned"]
    assert json.loads(rows.to_pylist()[0]["payload"]) == {"text": "looking"}
    assert lake.sql("select count(*) as n from results").to_pylist() == before


def test_snooze_ends_by_itself(own_store: Path) -> None:
    """A snooze that is over leaves the finding as it was before."""
    finding = simulated_lake.planted_id(SIMULATION, 0)
    data.say_of([finding], TriageKind.SNOOZED, actor="ana", until=datetime.now(UTC) + timedelta(days=2))
    found = data.current(finding)
    assert found is not None
    assert found.state is FindingState.SNOOZED
    data.say_of([finding], TriageKind.SNOOZED, actor="ana", until=datetime.now(UTC) - timedelta(seconds=1))
    found = data.current(finding)
    assert found is not None
    assert found.state is FindingState.CONFIRMED


def test_group_is_said_in_one_commit(own_store: Path) -> None:
    """An act on several findings is one commit with a row each."""
    ids = [simulated_lake.planted_id(SIMULATION, n) for n in (0, 1)]
    lake = Lake.open(own_store)
    version = lake.tables.load("triage").version()
    data.say_of(ids, TriageKind.NOTE, actor="bo", text="same night")
    assert lake.tables.load("triage").version() == version + 1
    assert [act.text for name in ids for act in data.acts_of(name)] == ["same night"] * 2


def test_retracted_run_is_gone_from_every_page(own_store: Path) -> None:
    """A retraction hides the run and says who did it and why; nothing is deleted."""
    run = simulated_lake.run_id(2, SIMULATION.devices[0])
    data.retract_run(run, actor="ana", reason="the wrong clock was set")
    lake = Lake.open(own_store)
    assert lake.sql("select count(*) as n from runs where run_id = $r", {"r": run}).to_pylist() == [{"n": 0}]
    (row,) = lake.sql("select actor, reason from retractions").to_pylist()
    assert row == {"actor": "ana", "reason": "the wrong clock was set"}


def test_hostile_words_of_people_are_text(own_store: Path, page: Callable[..., Any], said: Said) -> None:
    """What people write is shown as text, and an address that is no web address is no link."""
    finding = simulated_lake.planted_id(SIMULATION, 0)
    hostile = simulated_lake.HOSTILE
    data.say_of([finding], TriageKind.NOTE, actor=hostile, text=hostile)
    data.say_of([finding], TriageKind.ASSIGNED, actor="ana", owner=hostile)
    data.say_of([finding], TriageKind.LINKED, actor="ana", link="javascript:alert(1)")
    shown = said(page(own_store, "findings", finding=finding))
    assert "<img src=x" not in shown
    assert 'href="javascript' not in shown
    assert "&lt;img src=x" in shown


def test_act_without_a_name_writes_nothing(own_store: Path, page: Callable[..., Any]) -> None:
    """Somebody who gives no name is asked for it, and no event is written."""
    finding = simulated_lake.planted_id(SIMULATION, 1)
    app = page(own_store, "findings", finding=finding)
    before = len(data.acts_of(finding))
    next(button for button in app.button if button.label == "Say it").click().run()
    assert "Say who you are first" in app.error[0].value
    assert len(data.acts_of(finding)) == before


def test_act_through_the_page_is_shown_by_it(own_store: Path, page: Callable[..., Any], said: Said) -> None:
    """With a name the form of the page writes the act, and the page shows it with its author."""
    finding = simulated_lake.planted_id(SIMULATION, 1)
    app = page(own_store, "findings", finding=finding)
    app.text_input(key="triager-name").set_value("Ana")
    next(button for button in app.button if button.label == "Say it").click().run()
    assert [(act.event, act.actor) for act in data.acts_of(finding)] == [("acknowledged", "Ana")]
    shown = said(page(own_store, "findings", finding=finding))
    assert "acknowledged" in shown
    assert "Ana" in shown


def test_unknown_finding_is_said(own_store: Path, page: Callable[..., Any], said: Said) -> None:
    """A link to a finding that is not here says so and leads to the list."""
    assert "There is no such finding." in said(page(own_store, "findings", finding="F-00000000"))
