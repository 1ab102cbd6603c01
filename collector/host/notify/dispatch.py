"""Sends what waits: one route after the other, each in its own order, no faster than its service bears.

A failure holds back its whole route until the next try: order is kept, and a struggling service is left alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import httpx

from collector.host.notify.clock import Clock
from collector.host.notify.links import rights, with_acts
from collector.host.notify.message import MessageKind
from collector.host.notify.outbox import Delivery, DeliveryEvent, Outbox
from collector.host.notify.post import Patience, client, post
from collector.host.notify.routes import AlertConfig, Route
from collector.host.notify.secrets import Secret, mask
from collector.host.notify.services.service import JsonObject, Outcome, Render, Verdict
from store.lake.lease import LEASE_S, Lease

SINGLES = 10
"""So many waiting messages go out one by one; more of them together, so that a bad night is not a flood."""
ALONE_FROM = 2
"""After so many failed tries a message goes alone, so that one that is refused takes no other with it."""
FIRST_WAIT_S, LONGEST_WAIT_S = 2.0, 3600.0
LONGEST_ASKED_S = 86400.0
"""A Retry-After beyond a day is not believed."""
LEAST_TRIES = 12
REFUSED_FOR, PASSING_FOR = timedelta(days=2), timedelta(days=7)
"""How long a delivery is tried before it is a dead letter: while it is refused, and while a fault may pass."""
PLAIN_FROM = 3
"""After so many tries a payload that is called invalid goes in its plainest form."""


@dataclass(slots=True)
class Tally:
    """What a dispatcher did."""

    sent: int = 0
    dead: int = 0
    waiting: int = 0
    lines: list[str] = field(default_factory=list)


class Dispatcher:
    """The holder of the lease, for one pass over all routes."""

    def __init__(self, config: AlertConfig, outbox: Outbox, lease: Lease, clock: Clock, patience: Patience) -> None:
        self._config, self._outbox, self._lease = config, outbox, lease
        self._clock, self._patience = clock, patience
        self._tally = Tally()
        self._queues: dict[str, list[Delivery]] = {route.name: [] for route in config.routes}
        self._free_at: dict[str, float] = {}  # address -> monotonic second from which the next POST may go

    def run(self, patience_s: float) -> Tally:
        """Sends what is due and goes on with what becomes due within `patience_s`."""
        orphans = self._fill()
        deadline = self._clock.monotonic_s() + patience_s
        with client(self._patience) as http:
            while any(self._queues.values()):
                tried = [self._step(http, route) for route in self._config.routes]
                if not any(tried) and not self._wait(deadline):
                    break
        self._tally.waiting = sum(len(queue) for queue in self._queues.values()) + orphans
        self._tally.lines += self._waiting_lines(orphans)
        return self._tally

    def _fill(self) -> int:
        """Takes what waits into the queues; how many belong to routes that are not configured."""
        orphans = 0
        for delivery in self._outbox.waiting():
            queue = self._queues.get(delivery.route)
            if queue is None:
                orphans += 1
            else:
                queue.append(delivery)
        return orphans

    def _step(self, http: httpx.Client, route: Route) -> bool:
        """Sends the head of a route's queue if its time has come; whether something was tried."""
        queue = self._queues[route.name]
        if not queue or self._due_in_s(route, queue) > 0:
            return False
        batch = self._batch(route, queue)
        self._lease.renew()
        now = self._clock.now()
        config = self._config
        messages = [with_acts(delivery.message, config.base_url, config.link_secret, now) for delivery in batch]
        payload = _render_for(route, batch[0])(messages)
        signed = [right for message in messages for right in rights(message)]
        verdict = deliver(http, route, payload, _batch_id(batch), now, self._patience, rights=signed)
        self._free_at[route.url.secret.reveal()] = self._clock.monotonic_s() + route.service.pause_s
        self._settle(route, queue, batch, verdict)
        return True

    def _batch(self, route: Route, queue: list[Delivery]) -> list[Delivery]:
        due = [delivery for delivery in queue if self._clock_due(delivery)]
        held = [delivery for delivery in due if delivery.held]
        together = len(due) > SINGLES or (queue[0].held and len(held) > 1)
        if not together or queue[0].attempt >= ALONE_FROM or _is_digest(queue[0]):
            return queue[:1]
        batch = []
        for delivery in queue[: route.service.batch]:
            if not self._clock_due(delivery) or _is_digest(delivery):
                break
            batch.append(delivery)
        return batch

    def _settle(self, route: Route, queue: list[Delivery], batch: list[Delivery], verdict: Verdict) -> None:
        now = self._clock.now()
        if verdict.outcome is Outcome.SENT:
            self._outbox.record(batch, DeliveryEvent.SENT, now, response=verdict.words)
            self._tally.sent += len(batch)
            del queue[: len(batch)]
            return
        attempt = batch[0].attempt + 1
        if self._given_up(batch[0], verdict, attempt, now):
            self._outbox.record(batch, DeliveryEvent.DEAD, now, response=verdict.words)
            self._tally.dead += len(batch)
            self._tally.lines.append(f"{route.name}: gave up on {_ids(batch)} after {attempt} tries: {verdict.words}")
            del queue[: len(batch)]
            return
        not_before = now + timedelta(seconds=wait_s(batch[0].delivery_id, attempt, verdict.wait_s))
        self._outbox.record(batch, DeliveryEvent.FAILED, now, response=verdict.words, not_before=not_before)
        queue[: len(batch)] = [_failed(delivery, now, not_before, verdict.words) for delivery in batch]

    def _given_up(self, delivery: Delivery, verdict: Verdict, attempt: int, now: datetime) -> bool:
        longest = REFUSED_FOR if verdict.outcome is Outcome.REFUSED else PASSING_FOR
        tried_for = now - (delivery.first_tried_at or now)
        return attempt >= LEAST_TRIES and tried_for > longest

    def _due_in_s(self, route: Route, queue: list[Delivery]) -> float:
        pause = self._free_at.get(route.url.secret.reveal(), 0.0) - self._clock.monotonic_s()
        return max(pause, self._until_due_s(queue[0]))

    def _until_due_s(self, delivery: Delivery) -> float:
        if delivery.not_before is None:
            return 0.0
        wait = (delivery.not_before - self._clock.now()).total_seconds()
        # A wall clock that was set back must not silence a route: no wait of ours is longer than this.
        return 0.0 if wait > LONGEST_ASKED_S and not delivery.held else max(0.0, wait)

    def _clock_due(self, delivery: Delivery) -> bool:
        return self._until_due_s(delivery) <= 0.0

    def _wait(self, deadline: float) -> bool:
        """Sleeps until the next route may go; False where that is beyond this call's patience."""
        busy = [(route, self._queues[route.name]) for route in self._config.routes if self._queues[route.name]]
        if not busy:
            return False
        shortest = min(self._due_in_s(route, queue) for route, queue in busy)
        if self._clock.monotonic_s() + shortest > deadline:
            return False
        self._clock.sleep(min(max(shortest, 0.001), LEASE_S / 4))
        self._lease.renew()
        return True

    def _waiting_lines(self, orphans: int) -> list[str]:
        lines = []
        for name, queue in self._queues.items():
            if queue:
                head = queue[0]
                why = f", last answer: {head.response}" if head.response else ""
                when = f", next try not before {head.not_before:%Y-%m-%d %H:%M:%S} UTC" if head.not_before else ""
                lines.append(f"{name}: {len(queue):,} waiting{when}{why}")
        if orphans:
            lines.append(f"{orphans:,} waiting for routes that are not in {self._config.source}")
        return lines


def deliver(
    http: httpx.Client,
    route: Route,
    payload: JsonObject,
    key: str,
    now: datetime,
    patience: Patience,
    *,
    rights: Sequence[Secret] = (),
) -> Verdict:
    """Signs and sends one payload to a route; no secret and no signed link stands in what it returns."""
    secrets = (*route.secrets, *rights)
    if route.service.deliver is not None:
        verdict = route.service.deliver(payload, route.url.secret)
        return replace(verdict, words=mask(verdict.words, secrets))
    secret = route.secret.secret if route.secret else None
    request = route.service.sign(payload, route.url.secret, secret, now).with_header("Idempotency-Key", key)
    return post(http, route.service, request, secrets, patience)


def wait_s(delivery_id: str, attempt: int, asked_s: float | None) -> float:
    """Seconds to the next try: doubling from 2 s to an hour, less up to a half by a hash of the id; never less than
    the service asked for."""
    longest = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(attempt - 1, 20))
    spread = int.from_bytes(hashlib.sha256(f"{delivery_id} {attempt}".encode()).digest()[:4]) / 2**32
    return max(longest * (1.0 - spread / 2), min(asked_s or 0.0, LONGEST_ASKED_S))


def _render_for(route: Route, head: Delivery) -> Render:
    """The full form, or the plain one where the service keeps calling the full one invalid."""
    invalid = head.attempt >= PLAIN_FROM and head.response.startswith(("400", "413", "422", "200 with an error"))
    return route.service.plain if invalid and route.service.plain is not None else route.service.render


def _failed(delivery: Delivery, now: datetime, not_before: datetime, words: str) -> Delivery:
    return replace(
        delivery,
        state=DeliveryEvent.FAILED,
        attempt=delivery.attempt + 1,
        not_before=not_before,
        first_tried_at=delivery.first_tried_at or now,
        response=words,
    )


def _is_digest(delivery: Delivery) -> bool:
    """A digest goes alone: in a list its own lines would be lost."""
    return delivery.message.kind is MessageKind.DIGEST


def _batch_id(batch: Sequence[Delivery]) -> str:
    if len(batch) == 1:
        return batch[0].delivery_id
    return hashlib.sha256("\n".join(delivery.delivery_id for delivery in batch).encode()).hexdigest()[:32]


def _ids(batch: Sequence[Delivery]) -> str:
    shown = ", ".join(delivery.message.finding_id or delivery.message.message_id for delivery in batch[:5])
    return shown if len(batch) <= 5 else f"{shown} and {len(batch) - 5:,} more"
