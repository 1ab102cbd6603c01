"""What people say of findings: events with an author, seen at once, nothing measured touched."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import simulated_lake
from one_cause import add_companion

from dashboard.data import findings as data
from detection.findings import FindingState, TriageKind
from store.lake.lake import Lake

SIMULATION = simulated_lake.Simulation(nights=3, devices=simulated_lake.DEVICES[:2], cases=simulated_lake.CASES[3:13])
Said = Callable[[Any], str]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store that each test gets a copy of."""
    root = tmp_path_factory.mktemp("triage")
    simulated_lake.build_lake(root, SIMULATION)
    return root / "store"


@pytest.fixture
def own_store(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of one's own to write into."""
    shutil.copytree(built, tmp_path / "store")
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


def test_findings_of_one_cause_are_a_group(own_store: Path) -> None:
    """Open findings of a class, a way and a revision that began in one night stand together; others do not."""
    assert data.groups(data.all_findings()) == {}
    both = add_companion(Lake.open(own_store), SIMULATION)
    data.forget()
    ((named, own),) = data.groups(data.all_findings()).items()
    assert {row.finding_id for row in own} == set(both)
    assert named.startswith("2 worse since ") and named.endswith("class code at 9d02aa1")
    found = data.current(both[1])
    assert found is not None
    assert {row.finding_id for row in data.group_of(found)} == set(both)
    data.say_of([both[1]], TriageKind.RESOLVED, actor="ana")
    assert data.group_of(found) == []


def test_act_on_a_whole_group_from_one_page(own_store: Path, page: Callable[..., Any], said: Said) -> None:
    """The page of a finding names what began with it, and one act is an event of each with its author."""
    both = add_companion(Lake.open(own_store), SIMULATION)
    app = page(own_store, "findings", finding=both[0])
    assert "With it began Companion on H200" in said(app)
    app.toggle(key="whole-group").set_value(True).run()
    app.text_input(key="triager-name").set_value("Ana")
    next(button for button in app.button if button.label == "Say it").click().run()
    assert [[(act.event, act.actor) for act in data.acts_of(name)] for name in both] == [[("acknowledged", "Ana")]] * 2


def test_a_group_is_chosen_in_the_list(own_store: Path, page: Callable[..., Any]) -> None:
    """A button of the list takes all findings of a group, and an act on them is one event each."""
    both = add_companion(Lake.open(own_store), SIMULATION)
    app = page(own_store, "findings")
    next(button for button in app.button if button.label.startswith("These 2 worse since")).click().run()
    assert set(app.multiselect(key="bulk").value) == set(both)
    app.text_input(key="triager-name").set_value("Bo")
    app.text_input(key="triager-name").run()
    owner = next(field for field in app.text_input if field.label == "Owner")
    owner.set_value("kernels team")
    next(button for button in app.button if button.label == "Assign to them").click().run()
    owners = [found.owner for name in both if (found := data.current(name)) is not None]
    assert owners == ["kernels team"] * 2


ACTS = (
    ("Say it", None, "acknowledged"),
    ("Assign to them", ("Owner", "bo"), "assigned"),
    ("Snooze until then", None, "snoozed"),
    ("Link to it", ("Address of the issue", "https://example.com/1"), "linked"),
)


@pytest.mark.parametrize(("button", "field", "event"), ACTS, ids=[act[2] for act in ACTS])
def test_every_form_writes_its_event(
    own_store: Path, page: Callable[..., Any], button: str, field: tuple[str, str] | None, event: str
) -> None:
    """Each form of the page writes one event of its kind, with its author and what was given."""
    finding = simulated_lake.planted_id(SIMULATION, 1)
    app = page(own_store, "findings", finding=finding)
    app.text_input(key="triager-name").set_value("Ana")
    if field is not None:
        next(f for f in app.text_input if f.label == field[0]).set_value(field[1])
    next(b for b in app.button if b.label == button).click().run()
    assert [(act.event, act.actor) for act in data.acts_of(finding)] == [(event, "Ana")]


@pytest.mark.parametrize("event", ["expected", "resolved", "note"])
def test_every_text_form_writes_its_event(own_store: Path, page: Callable[..., Any], event: str) -> None:
    """The forms that ask for a text write it down with the event and its author."""
    finding = simulated_lake.planted_id(SIMULATION, 1)
    app = page(own_store, "findings", finding=finding)
    app.text_input(key="triager-name").set_value("Ana")
    place = ["acknowledged", "expected", "resolved", "note"].index(event)
    app.text_area[place].set_value("because")
    [b for b in app.button if b.label == "Say it"][place].click().run()
    assert [(act.event, act.actor, act.text) for act in data.acts_of(finding)] == [(event, "Ana", "because")]


def test_prices_of_two_devices_are_not_added_up(own_store: Path, page: Callable[..., Any], said: Said) -> None:
    """A price is a share of one device's time: the pages name the device where slow-downs cost most, and its sum."""
    one = data.current(simulated_lake.planted_id(SIMULATION, 0))
    assert one is not None and one.facts.price is not None
    add_companion(Lake.open(own_store), SIMULATION, device=simulated_lake.DEVICES[1], price=one.facts.price / 2)
    data.forget()
    cost = f"{one.facts.price * 100:.2f}\u202f%"
    overview = said(page(own_store, "overview"))
    assert f"<b>{cost}</b> <span>of the H200&#x27;s time</span>" in overview
    assert "2 findings on 2 devices, most on this one" in overview
    listed = said(page(own_store, "findings", state="open"))
    assert f"On H200, where they cost most, the confirmed slow-downs among them cost {cost} of it." in listed
