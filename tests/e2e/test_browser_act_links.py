"""A signed link of a message in a real Chromium: opening it writes nothing, its button acts once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import simulated_lake
from deltalake import DeltaTable
from served_dashboard import Visit, browser, served

from dashboard.address import link
from detection.act_links import SECRET_VARIABLE, ActLink
from detection.findings import TriageKind

pytestmark = pytest.mark.browser
SIMULATION = simulated_lake.Simulation(nights=3, devices=simulated_lake.DEVICES[:1], cases=simulated_lake.CASES[3:13])
FINDING = simulated_lake.planted_id(SIMULATION, 0)
SECRET = "a secret of the host and its dashboard"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("acts")
    simulated_lake.build_lake(root, SIMULATION)
    return root / "store"


@pytest.fixture(scope="module")
def visit(store: Path) -> Iterator[Visit]:
    """A tab on a dashboard that knows the secret; it has to stay without an error."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SECRET_VARIABLE, SECRET)
        with served(store) as address, browser() as chromium:
            made = Visit(chromium, address)
            yield made
            assert (made.errors, made.outside) == ([], [])
            made.close()


def asked(act: TriageKind, *, days: float = 1, secret: str = SECRET) -> str:
    """The page that a message would lead to."""
    ends = (datetime.now(UTC) + timedelta(days=days)).replace(microsecond=0)
    return link("findings", **ActLink(finding_id=FINDING, act=act, ends_at=ends).parameters(secret))


def acts(store: Path) -> list[dict[str, Any]]:
    """What was said of the finding, read without any of ours."""
    rows = DeltaTable(str(store / "tables" / "triage")).to_pyarrow_table().to_pylist()
    return [row for row in rows if row["finding_id"] == FINDING]


def buttons(visit: Visit) -> Any:
    return visit.page.get_by_role("button", name="Acknowledge", exact=True)


def test_a_link_that_was_opened_acts_once_its_button_is_pressed(visit: Visit, store: Path) -> None:
    """Opened twice: nothing is written. Pressed: one act. Opened again: it was said, and there is no button."""
    before = acts(store)
    path = asked(TriageKind.ACKNOWLEDGED)
    for _ in range(2):
        visit.go(path)
        visit.says("Nothing is done until it is pressed")
    assert acts(store) == before

    buttons(visit).click()
    visit.page.wait_for_url(lambda url: "seal=" not in url)
    visit.settle()
    visit.go(path)
    visit.says("This was said already")

    said = [act for act in acts(store) if act not in before]
    assert [(act["event"], act["actor"]) for act in said] == [("acknowledged", "link")]
    assert buttons(visit).count() == 0


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (asked(TriageKind.ACKNOWLEDGED, days=-1), "This link ended on"),
        (asked(TriageKind.ACKNOWLEDGED, secret="a secret of somebody else entirely"), "This link was changed"),
        (asked(TriageKind.ACKNOWLEDGED).replace("acknowledged", "expected"), "This link was changed"),
    ],
    ids=["over", "forged", "changed"],
)
def test_a_link_that_is_not_accepted_says_so(visit: Visit, store: Path, path: str, words: str) -> None:
    """One line, no button, nothing written."""
    before = acts(store)
    visit.go(path)
    visit.says(words)
    assert visit.page.locator("[data-testid=stFormSubmitButton]").count() == 0
    assert acts(store) == before
