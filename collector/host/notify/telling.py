"""Which finding events have not been told yet, and on which routes they belong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from collector.host.notify.build import FindingEvent, Row, finding_message, kind_of
from collector.host.notify.message import Message, MessageKind
from collector.host.notify.outbox import Told, delivery_id
from collector.host.notify.routes import AlertConfig, Route
from store.lake.lake import Lake

LOOK_BACK = timedelta(days=7)
"""A new route is not told the history; a host that was off for a week tells nothing older."""

FOLLOW_UPS = frozenset({MessageKind.RECOVERED, MessageKind.REFUTED, MessageKind.ESCALATED, MessageKind.REOPENED})
"""Told where the finding itself was told, whatever the route's threshold says now."""

_ENDS = frozenset({MessageKind.RECOVERED, MessageKind.REFUTED})
GROWTH = 1.5
"""A finding that is open and known is told again when its price, size or number of series grew by so much."""
_QUIET_STATES = frozenset({"expected", "snoozed"})

_EVENTS = """
SELECT f.event_id, f.finding_id AS event_finding_id, f.event, f.at, f.run_id, f.payload, f.as_of_seq, s.*
FROM findings f JOIN findings_state s USING (finding_id)
WHERE f.event IN ('confirmed', 'reopened', 'resolved', 'refuted', 'moved') AND f.at >= $since
ORDER BY f.as_of_seq, f.at, f.event_id
"""

_LABELS = """
SELECT subject_id, any_value(title) AS title, any_value(shape) AS shape, any_value(device_unit) AS unit
FROM series WHERE list_contains($subjects, subject_id) GROUP BY subject_id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """A message for a route, and when it may go out if not at once."""

    route: Route
    message: Message
    not_before: datetime | None


def untold(lake: Lake, config: AlertConfig, told: Told, now: datetime, notices: Sequence[Message]) -> list[Telling]:
    """What has to be queued, in the order in which it is to be told: by night, within a night the gravest first."""
    messages = [*_finding_messages(lake, config, now), *notices]
    tellings = []
    heard = dict(told.latest)
    for message in messages:
        for route in config.routes:
            if delivery_id(message.message_id, route.name) in told.deliveries:
                continue
            before = heard.get((message.finding_id, route.name)) if message.finding_id else None
            if _belongs(message, route, before):
                tellings.append(Telling(route=route, message=message, not_before=_not_before(message, route, now)))
                heard[message.finding_id, route.name] = message
    return tellings


def _belongs(message: Message, route: Route, before: Message | None) -> bool:
    if message.kind is MessageKind.DIGEST:
        return message.message_id.startswith(f"digest-{route.name}-")
    if message.kind is MessageKind.ESCALATED:
        return before is not None and route.follows(message) and grew(before, message)
    if message.kind in FOLLOW_UPS and before is not None:
        return route.follows(message)
    return message.kind not in _ENDS and route.takes(message)


def grew(before: Message, now: Message) -> bool:
    """Whether a finding is graver than it was told: a class up, or half as much again of price, size or series."""
    pairs = ((before.price, now.price), (before.change, now.change), (before.member_count, now.member_count))
    larger = any(old and new is not None and abs(new) >= GROWTH * abs(old) for old, new in pairs)
    return larger or now.severity.rank < before.severity.rank


def _not_before(message: Message, route: Route, now: datetime) -> datetime | None:
    return None if message.kind is MessageKind.DIGEST else route.held_until(message, now)


def _finding_messages(lake: Lake, config: AlertConfig, now: datetime) -> list[Message]:
    rows = lake.sql(_EVENTS, {"since": now - LOOK_BACK}).to_pylist()
    labels = _labels(lake, rows)
    ranked = []
    for index, row in enumerate(rows):
        kind = kind_of(row["event"], row)
        if kind is None or (row["state"] in _QUIET_STATES and kind not in _ENDS):
            continue
        message = _owned(finding_message(row, _event(row), base_url=config.base_url, labels=labels), config)
        night = row["as_of_seq"] or 0
        ranked.append(((night, message.severity.rank, -(message.price or 0.0), index), message))
    return [message for _, message in sorted(ranked, key=lambda pair: pair[0])]


def _event(row: Row) -> FindingEvent:
    return FindingEvent(
        event_id=row["event_id"],
        finding_id=row["event_finding_id"],
        event=row["event"],
        at=row["at"],
        run_id=row["run_id"] or "",
        payload=row["payload"] or "",
    )


def _owned(message: Message, config: AlertConfig) -> Message:
    team = next((team for team in config.teams if team.owns(message)), None)
    return message if team is None else replace(message, team=team.name, owner=message.owner or team.owner)


def _labels(lake: Lake, rows: Sequence[Row]) -> dict[str, str]:
    subjects = sorted({subject for row in rows for subject in row["subject_ids"] or ()})
    if not subjects:
        return {}
    found = lake.sql(_LABELS, {"subjects": subjects}).to_pylist()
    return {r["subject_id"]: " · ".join(p for p in (r["title"], r["shape"], r["unit"]) if p) for r in found}
