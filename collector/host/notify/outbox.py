"""The outbox: what has to go out, as events in the lake's table `deliveries`, and its fold.

A delivery is one finding event on one route; its id is a hash of both, so that saying it twice is saying it once.
Events: `queued` (with the message), `failed` (attempt, not_before), `sent`, `dead`, and again `queued` where a person
revives a dead one. The order of a delivery's events is (attempt, event), not the clock: clocks jump.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from collector.host.notify.message import Message
from store.lake.lake import Lake

_LATEST = """
SELECT d.finding_id, d.route, arg_max(d.message, d.at) AS message
FROM deliveries d WHERE d.event = 'queued' AND d.finding_id <> '' GROUP BY d.finding_id, d.route
"""

RESPONSE_KEPT = 300
"""Characters of a service's answer that are kept."""


class DeliveryEvent(StrEnum):
    """What happened to a delivery."""

    FAILED = "failed"
    DEAD = "dead"
    QUEUED = "queued"
    SENT = "sent"


_RANK = {DeliveryEvent.FAILED: 0, DeliveryEvent.DEAD: 1, DeliveryEvent.QUEUED: 2, DeliveryEvent.SENT: 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A delivery as its events fold."""

    delivery_id: str
    route: str
    message: Message
    queued_at: datetime
    state: DeliveryEvent
    attempt: int
    """Tries made so far."""
    not_before: datetime | None
    first_tried_at: datetime | None
    held: bool
    """Whether it was queued for a later time: after quiet hours, a mute, or with a digest."""
    response: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What was queued before: deliveries, and which finding on which route."""

    deliveries: frozenset[str]
    latest: Mapping[tuple[str, str], Message]
    """(finding id, route) -> what that route heard of it last."""


def delivery_id(message_id: str, route: str) -> str:
    """The id of telling that event on that route."""
    return hashlib.sha256(f"{message_id}\n{route}".encode()).hexdigest()[:32]


class Outbox:
    """The table `deliveries` of a lake, read and appended to."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def told(self) -> Told:
        """Everything that was ever queued."""
        ids = self._lake.sql("SELECT DISTINCT delivery_id FROM deliveries").to_pylist()
        rows = self._lake.sql(_LATEST).to_pylist()
        return Told(
            deliveries=frozenset(row["delivery_id"] for row in ids),
            latest={(row["finding_id"], row["route"]): Message.from_json(row["message"]) for row in rows},
        )

    def waiting(self) -> list[Delivery]:
        """What still has to go out, in the order in which it was queued."""
        done = "SELECT delivery_id FROM deliveries WHERE event = 'sent'"
        rows = self._lake.sql(f"SELECT * FROM deliveries WHERE delivery_id NOT IN ({done})").to_pylist()  # noqa: S608
        return [delivery for delivery in fold(rows) if delivery.state is not DeliveryEvent.DEAD]

    def dead(self) -> list[Delivery]:
        """Dead letters: given up on, and not revived."""
        dying = "SELECT delivery_id FROM deliveries WHERE event = 'dead'"
        rows = self._lake.sql(f"SELECT * FROM deliveries WHERE delivery_id IN ({dying})").to_pylist()  # noqa: S608
        return [delivery for delivery in fold(rows) if delivery.state is DeliveryEvent.DEAD]

    def queue(self, entries: Sequence[tuple[str, Message, datetime | None]], now: datetime) -> None:
        """Queues (route, message, not before) in this order; one commit, repeatable without doubling."""
        if not entries:
            return
        start = self._after_the_last(now)
        rows = []
        for index, (route, message, not_before) in enumerate(entries):
            at = start + timedelta(microseconds=index)
            name = delivery_id(message.message_id, route)
            rows.append(_row(name, message, route, DeliveryEvent.QUEUED, 0, at, not_before, message.to_json(), ""))
        key = "queue-" + hashlib.sha256("\n".join(sorted(row["event_id"] for row in rows)).encode()).hexdigest()[:32]
        self._lake.append("deliveries", rows, key=key)

    def record(
        self,
        deliveries: Iterable[Delivery],
        event: DeliveryEvent,
        now: datetime,
        *,
        response: str,
        not_before: datetime | None = None,
    ) -> None:
        """Appends the outcome of one try for deliveries that went out together."""
        rows = [
            _row(
                d.delivery_id, d.message, d.route, event, d.attempt + 1, now, not_before, None, response[:RESPONSE_KEPT]
            )
            for d in deliveries
        ]
        self._lake.append("deliveries", rows)

    def revive(self, deliveries: Sequence[Delivery], now: datetime) -> None:
        """Queues dead letters again, at the end of their route."""
        start = self._after_the_last(now)
        rows = [
            _row(
                d.delivery_id,
                d.message,
                d.route,
                DeliveryEvent.QUEUED,
                d.attempt,
                start + timedelta(microseconds=index),
                None,
                d.message.to_json(),
                "revived",
            )
            for index, d in enumerate(deliveries)
        ]
        self._lake.append("deliveries", rows)

    def _after_the_last(self, now: datetime) -> datetime:
        """`now`, or just after the last queued row where a clock was set back: order must not turn."""
        last = self._lake.sql("SELECT max(d.at) AS latest FROM deliveries d WHERE d.event = 'queued'").to_pylist()[0][
            "latest"
        ]
        return now if last is None else max(now, last.astimezone(UTC) + timedelta(microseconds=1))


def fold(rows: Iterable[dict[str, Any]]) -> list[Delivery]:
    """The state of each delivery among these rows of `deliveries`, in queue order."""
    by_id: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_id.setdefault(row["delivery_id"], []).append(row)
    folded = [_fold_one(events) for events in by_id.values()]
    return sorted((d for d in folded if d is not None), key=lambda d: (d.queued_at, d.delivery_id))


def _fold_one(events: list[dict[str, Any]]) -> Delivery | None:
    events.sort(key=lambda row: (row["attempt"], _RANK[DeliveryEvent(row["event"])], row["at"]))
    queued = next((row for row in reversed(events) if row["event"] == DeliveryEvent.QUEUED), None)
    if queued is None:
        return None
    last = events[-1]
    sent = any(row["event"] == DeliveryEvent.SENT for row in events)
    queued_at = queued["at"].astimezone(UTC)
    held_to = queued["not_before"]
    tried = [row["at"].astimezone(UTC) for row in events if row["event"] == DeliveryEvent.FAILED]
    not_before = last["not_before"]
    return Delivery(
        delivery_id=queued["delivery_id"],
        route=queued["route"],
        message=Message.from_json(queued["message"]),
        queued_at=queued_at,
        state=DeliveryEvent.SENT if sent else DeliveryEvent(last["event"]),
        attempt=int(last["attempt"]),
        not_before=None if not_before is None else not_before.astimezone(UTC),
        first_tried_at=min(tried) if tried else None,
        held=held_to is not None and held_to.astimezone(UTC) > queued_at,
        response=last["response"] or "",
    )


def _row(
    name: str,
    message: Message,
    route: str,
    event: DeliveryEvent,
    attempt: int,
    at: datetime,
    not_before: datetime | None,
    text: str | None,
    response: str,
) -> dict[str, Any]:
    return {
        "event_id": hashlib.sha256(f"{name}\n{event}\n{attempt}".encode()).hexdigest()[:32],
        "delivery_id": name,
        "event": str(event),
        "at": at,
        "finding_id": message.finding_id,
        "finding_event_id": message.message_id,
        "route": route,
        "attempt": attempt,
        "not_before": not_before,
        "message": text,
        "response": response,
    }
