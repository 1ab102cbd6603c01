"""The daily or weekly digest of a route: how things stand, dearest open finding first. News goes out beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

from collector.host.notify.build import FindingEvent, Row, finding_message
from collector.host.notify.hours import Rhythm
from collector.host.notify.message import DigestEntry, Links, Message, MessageKind, Severity
from collector.host.notify.routes import AlertConfig, Route
from collector.host.notify.wording import gravest_first, headline
from store.lake.lake import Lake

FRESH_H = 26
"""A device that measured within so many hours counts as measuring: a night and two hours."""
ENTRIES_KEPT = 200

_OPEN = "SELECT * FROM findings_state WHERE state IN ('confirmed', 'acknowledged', 'reopened')"
_EVENTS = """
SELECT f.event, count(DISTINCT f.finding_id) AS n FROM findings f
WHERE f.at >= $since AND f.event IN ('confirmed', 'reopened', 'resolved') GROUP BY f.event
"""
_DEVICES = "SELECT device_unit, host, max(latest_at) AS latest FROM series GROUP BY device_unit, host"


def digest_notices(lake: Lake, config: AlertConfig, now: datetime) -> list[Message]:
    """One digest for each route whose digest time has passed since the last one; its id names route and time."""
    due = [(route, _last_time(route, now)) for route in config.routes if route.digest is not None]
    fresh = [(route, at) for route, at in due if now - at < timedelta(hours=12)]
    return [_digest(lake, config, route, at) for route, at in fresh]


def _last_time(route: Route, now: datetime) -> datetime:
    """The latest time of the digest that is not in the future."""
    assert route.digest is not None
    step = timedelta(days=1 if route.digest.rhythm is Rhythm.DAILY else 7)
    at = route.digest.next_after(now - step - timedelta(hours=2))
    following = route.digest.next_after(at)
    return following if following <= now else at


def _digest(lake: Lake, config: AlertConfig, route: Route, at: datetime) -> Message:
    assert route.digest is not None
    days = 1 if route.digest.rhythm is Rhythm.DAILY else 7
    rows = lake.sql(_OPEN).to_pylist()
    messages = gravest_first([_as_message(row, at, config.base_url) for row in rows])
    counts = {row["event"]: row["n"] for row in lake.sql(_EVENTS, {"since": at - timedelta(days=days)}).to_pylist()}
    devices = lake.sql(_DEVICES).to_pylist()
    return digest_message(route, at, messages, counts, devices, config.base_url)


def digest_message(
    route: Route,
    at: datetime,
    open_findings: Sequence[Message],
    counts: dict[str, int],
    devices: Sequence[Row],
    base_url: str,
) -> Message:
    """The digest of one route: pure."""
    assert route.digest is not None
    day = f"{at.day} {at:%b %Y}"
    fresh = sum(at - row["latest"] <= timedelta(hours=FRESH_H) for row in devices if row["latest"] is not None)
    since = "yesterday" if route.digest.rhythm is Rhythm.DAILY else "a week ago"
    sentence = (
        f"{_count(len(open_findings), 'finding')} open; since {since} {counts.get('confirmed', 0):,} new, "
        f"{counts.get('reopened', 0):,} back, {counts.get('resolved', 0):,} recovered; "
        f"{fresh:,} of {_count(len(devices), 'device')} measured in the last {FRESH_H}\u202fh."
    )
    severities = Counter(message.severity for message in open_findings)
    return Message(
        message_id=f"digest-{route.name}-{at:%Y%m%dT%H%M}",
        finding_id="",
        kind=MessageKind.DIGEST,
        severity=max(severities, key=lambda s: -s.rank, default=Severity.LOW),
        at=at,
        title=f"{route.digest.rhythm}, {day}",
        sentence=sentence,
        links=Links(overview=f"{base_url}/" if base_url else ""),
        entries=tuple(_entry(message) for message in open_findings[:ENTRIES_KEPT]),
    )


def _entry(message: Message) -> DigestEntry:
    return DigestEntry(
        finding_id=message.finding_id,
        kind=message.kind,
        severity=message.severity,
        headline=headline(message),
        price=message.price,
        link=message.links.finding,
    )


def _as_message(row: Row, at: datetime, base_url: str) -> Message:
    event = FindingEvent(
        event_id=row["finding_id"], finding_id=row["finding_id"], event="confirmed", at=row["updated_at"] or at
    )
    return finding_message(row, event, base_url=base_url)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
