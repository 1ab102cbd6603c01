"""Signed links of messages: opening one does nothing, its button says one thing once, a changed one says nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import simulated_lake

from dashboard.data import findings as data
from detection.act_links import SECRET_VARIABLE, ActLink, ActLinkError, read_link
from detection.findings import FindingState, TriageKind

SIMULATION = simulated_lake.Simulation(nights=3, devices=simulated_lake.DEVICES[:1], cases=simulated_lake.CASES[3:13])
SECRET = "a secret of the host and its dashboard"
Said = Callable[[Any], str]


@pytest.fixture
def finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A confirmed finding in a store of its own, and a dashboard that knows the secret."""
    simulated_lake.build_lake(tmp_path, SIMULATION)
    monkeypatch.setenv("KERNEL_OBSERVATORY_STORE", str(tmp_path / "store"))
    monkeypatch.setenv(SECRET_VARIABLE, SECRET)
    return simulated_lake.planted_id(SIMULATION, 0)


def parameters(finding: str, act: TriageKind, *, days: float = 1, secret: str = SECRET) -> dict[str, str]:
    """The address that a message would hold."""
    ends = (datetime.now(UTC) + timedelta(days=days)).replace(microsecond=0)
    return ActLink(finding_id=finding, act=act, ends_at=ends).parameters(secret)


def state_of(finding: str) -> FindingState:
    found = data.current(finding)
    assert found is not None
    return found.state


def test_opening_a_link_says_what_it_would_do_and_does_nothing(
    tmp_path: Path, finding: str, page: Callable[..., Any], said: Said
) -> None:
    """A chat that fetches the link, and a person who only looks, change nothing."""
    shown = said(page(tmp_path / "store", "findings", **parameters(finding, TriageKind.ACKNOWLEDGED)))
    assert "Acknowledge: " in shown and "Nothing is done until it is pressed" in shown
    assert data.acts_of(finding) == [] and state_of(finding) is FindingState.CONFIRMED


def test_the_button_says_it_once_with_the_author_link(
    tmp_path: Path, finding: str, page: Callable[..., Any], said: Said
) -> None:
    """Pressed: one triage event by `link`; opened again: it was said already, and there is no button."""
    asked = parameters(finding, TriageKind.SNOOZED)
    app = page(tmp_path / "store", "findings", **asked)
    (button,) = app.button
    assert button.label == "Snooze"
    button.click().run()
    (act,) = data.acts_of(finding)
    assert (act.event, act.actor) == ("snoozed", "link")
    assert act.until is not None and act.until > datetime.now(UTC) + timedelta(days=6)
    assert state_of(finding) is FindingState.SNOOZED
    again = page(tmp_path / "store", "findings", **asked)
    assert "This was said already" in said(again) and not again.button
    assert len(data.acts_of(finding)) == 1


def test_two_presses_at_once_are_one_event(tmp_path: Path, finding: str, page: Callable[..., Any]) -> None:
    """Two people with the page open: both press, and it is said once."""
    asked = parameters(finding, TriageKind.ACKNOWLEDGED)
    apps = [page(tmp_path / "store", "findings", **asked) for _ in range(2)]
    for app in apps:
        app.button[0].click().run()
    assert len({act.event_id for act in data.acts_of(finding)}) == 1


def test_expected_asks_why(tmp_path: Path, finding: str, page: Callable[..., Any]) -> None:
    """An act that moves a baseline is not said without a reason."""
    app = page(tmp_path / "store", "findings", **parameters(finding, TriageKind.EXPECTED))
    app.button[0].click().run()
    assert "Say why" in app.error[0].value and data.acts_of(finding) == []
    app.text_input[0].set_value("the new tolerance costs that")
    app.button[0].click().run()
    assert [(a.event, a.text) for a in data.acts_of(finding)] == [("expected", "the new tolerance costs that")]


@pytest.mark.parametrize(
    "change",
    [
        {"finding": "F-other"},
        {"act": "expected"},
        {"act": "resolved"},
        {"act": "dropped"},
        {"ends": "1999999999"},
        {"ends": "9" * 40},
        {"ends": "٣"},
        {"ends": ""},
        {"seal": "A" * 24},
        {"seal": "ü"},
        {"seal": ""},
    ],
)
def test_any_change_of_a_link_breaks_its_seal(change: dict[str, str]) -> None:
    """Another finding, act, end or seal is refused in one line; the link as it was made is read back."""
    now = datetime.now(UTC)
    fine = parameters("F-1", TriageKind.ACKNOWLEDGED)
    assert read_link(*fine.values(), secret=SECRET, now=now).act is TriageKind.ACKNOWLEDGED
    with pytest.raises(ActLinkError, match="This link was changed on its way"):
        read_link(*(fine | change).values(), secret=SECRET, now=now)
    with pytest.raises(ActLinkError, match="This link was changed on its way"):
        read_link(*fine.values(), secret="another secret of somebody", now=now)


def test_a_refused_link_is_one_line_without_a_button(
    tmp_path: Path, finding: str, page: Callable[..., Any], said: Said
) -> None:
    """One that was changed and one that is over: nothing is offered and nothing is written."""
    changed = parameters(finding, TriageKind.ACKNOWLEDGED) | {"act": "expected"}
    app = page(tmp_path / "store", "findings", **changed)
    assert "This link was changed on its way" in said(app) and not app.button
    app = page(tmp_path / "store", "findings", **parameters(finding, TriageKind.ACKNOWLEDGED, days=-1))
    assert "This link ended on" in said(app) and not app.button
    assert data.acts_of(finding) == []


def test_a_dashboard_without_the_secret_says_so(
    tmp_path: Path, finding: str, page: Callable[..., Any], said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable is named; a reference to a file is read; nothing is accepted unchecked."""
    asked = parameters(finding, TriageKind.ACKNOWLEDGED)
    monkeypatch.delenv(SECRET_VARIABLE)
    assert f"${SECRET_VARIABLE} is not set" in said(page(tmp_path / "store", "findings", **asked))
    monkeypatch.setenv(SECRET_VARIABLE, "short")
    assert "too short" in said(page(tmp_path / "store", "findings", **asked))
    monkeypatch.setenv(SECRET_VARIABLE, f"file:{tmp_path / 'nowhere'}")
    assert "cannot read the file" in said(page(tmp_path / "store", "findings", **asked))
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    monkeypatch.setenv(SECRET_VARIABLE, f"file:{tmp_path / 'secret'}")
    assert "Acknowledge: " in said(page(tmp_path / "store", "findings", **asked))
