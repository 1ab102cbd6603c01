"""Tells what has not been told: queues it, then sends it, one leased sender for a store.

At least once: a delivery is `sent` only after its service said yes, so a kill in between repeats it with the same ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from collector.host.notify.clock import Clock, SystemClock
from collector.host.notify.digest import digest_notices
from collector.host.notify.dispatch import Dispatcher, deliver
from collector.host.notify.message import Links, Message, MessageKind, Severity
from collector.host.notify.notices import set_aside
from collector.host.notify.outbox import Outbox
from collector.host.notify.post import Patience, client
from collector.host.notify.routes import AlertConfig, Route
from collector.host.notify.services.service import Verdict
from collector.host.notify.telling import Telling, untold
from collector.host.notify.wording import headline
from store.lake.errors import StoreBusyError
from store.lake.lake import Lake
from store.lake.lease import held

LEASE = "sender"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyReport:
    """What one call did. `lines` say it to a person and hold no secret."""

    queued: int = 0
    sent: int = 0
    waiting: int = 0
    dead: int = 0
    lines: tuple[str, ...] = ()


def notify(
    lake: Lake,
    config: AlertConfig,
    *,
    notices: Sequence[Message] = (),
    dry_run: bool = False,
    patience_s: float = 10.0,
    post_patience: Patience | None = None,
    clock: Clock | None = None,
) -> NotifyReport:
    """Queues every finding event that a route has not been told, and sends what is due.

    Args:
        lake: the store; its `findings` and `findings_state` are read, its `deliveries` appended to.
        config: the routes.
        notices: further messages that are no findings, told once by their `message_id`; bundles in quarantine
            and digests are found here.
        dry_run: only say what would go where.
        patience_s: how long to go on with retries within this call; what is left waits for the next call.
        post_patience: limits of one POST.
        clock: time; the machine's by default.

    Returns a report; a service that cannot be reached is no error, what it should get waits.
    """
    time = clock or SystemClock()
    outbox = Outbox(lake)
    if dry_run:
        return _dry_run(lake, config, outbox, time.now(), notices)
    try:
        with held(lake.place, LEASE, wait_s=patience_s) as lease:
            now = time.now()
            new = _new(lake, config, outbox, now, notices)
            outbox.queue([(t.route.name, t.message, t.not_before) for t in new], now)
            done = Dispatcher(config, outbox, lease, time, post_patience or Patience()).run(patience_s)
    except StoreBusyError as error:
        waiting = len(outbox.waiting())
        return NotifyReport(waiting=waiting, lines=(f"another sender is at work, nothing sent by this one: {error}",))
    return NotifyReport(queued=len(new), sent=done.sent, waiting=done.waiting, dead=done.dead, lines=tuple(done.lines))


def _new(lake: Lake, config: AlertConfig, outbox: Outbox, now: datetime, notices: Sequence[Message]) -> list[Telling]:
    """What has to be queued. Without a route nothing is looked up."""
    if not config.routes:
        return []
    found = [
        *notices,
        *set_aside(lake, now, base_url=config.base_url),
        *digest_notices(lake, config, now),
    ]
    return untold(lake, config, outbox.told(), now, found)


def send_test(
    route: Route, *, base_url: str = "", post_patience: Patience | None = None, clock: Clock | None = None
) -> Verdict:
    """Sends one message that says it is a test straight to a route, past outbox, quiet hours and filters."""
    now = (clock or SystemClock()).now()
    message = Message(
        message_id=f"test-{now:%Y%m%dT%H%M%S}",
        finding_id="",
        kind=MessageKind.TEST,
        severity=Severity.LOW,
        at=now,
        title=f"route {route.name}",
        sentence="This is a test asked for by a person; nothing was measured and nothing is wrong.",
        links=Links(overview=f"{base_url}/" if base_url else ""),
    )
    patience = post_patience or Patience()
    with client(patience) as http:
        return deliver(http, route, route.service.render([message]), message.message_id, now, patience)


def _dry_run(
    lake: Lake, config: AlertConfig, outbox: Outbox, now: datetime, notices: Sequence[Message]
) -> NotifyReport:
    new = _new(lake, config, outbox, now, notices)
    waiting = outbox.waiting()
    lines = [_plan_line(t.route.name, t.message, t.not_before) for t in new]
    lines += [_plan_line(d.route, d.message, d.not_before) for d in waiting]
    return NotifyReport(waiting=len(lines), lines=tuple(lines))


def _plan_line(route: str, message: Message, not_before: datetime | None) -> str:
    when = f", not before {not_before:%Y-%m-%d %H:%M} UTC" if not_before else ""
    return f"{route} <- {message.severity} {message.kind} {message.finding_id}: {headline(message)}{when}"
