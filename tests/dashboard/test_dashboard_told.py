"""What became of messages is on the pages: told, waiting, given up."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import simulated_lake

from collector.host.notify.message import Message, MessageKind, Severity
from collector.host.notify.outbox import DeliveryEvent, Outbox
from dashboard.data import told
from dashboard.data.source import forget
from store.lake.lake import Lake

SIMULATION = simulated_lake.Simulation(nights=3, devices=simulated_lake.DEVICES[:1], cases=simulated_lake.CASES[3:13])
NIGHT = datetime(2026, 11, 29, 3, 10, tzinfo=UTC)


@pytest.fixture
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    simulated_lake.build_lake(tmp_path, SIMULATION)
    monkeypatch.setenv("KERNEL_OBSERVATORY_STORE", str(tmp_path / "store"))
    return tmp_path / "store"


def test_a_message_that_was_given_up_is_on_the_pages_until_it_is_revived(
    own_store: Path, page: Callable[..., Any], said: Callable[[Any], str]
) -> None:
    """The list counts it, the finding's life names route, tries and answer; revived, it waits; sent, it was told."""
    finding = simulated_lake.planted_id(SIMULATION, 0)
    message = Message(
        message_id="event-1",
        finding_id=finding,
        kind=MessageKind.REGRESSED,
        severity=Severity.HIGH,
        at=NIGHT,
        title="GEMM",
        sentence="slower",
    )
    outbox = Outbox(Lake.open(own_store))
    outbox.queue([("kernels", message, None), ("other", message, None)], NIGHT)
    on = {delivery.route: delivery for delivery in outbox.waiting()}
    outbox.record([on["other"]], DeliveryEvent.SENT, NIGHT, response="200 ok")
    outbox.record([on["kernels"]], DeliveryEvent.DEAD, NIGHT, response="404 <b>no_team</b>")
    assert "could not be told on kernels" in said(page(own_store, "findings"))
    life = said(page(own_store, "findings", finding=finding))
    assert "could not be told on kernels: given up at try 1" in life and "told on other" in life
    assert "404 &lt;b&gt;no_team" in life
    outbox.revive(outbox.dead(), NIGHT + timedelta(hours=1))
    forget()
    assert told.dead_letters() == []
    assert {d.words for d in told.deliveries_of(finding)} == {"told on other", "waits for kernels"}
