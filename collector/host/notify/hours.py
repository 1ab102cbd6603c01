"""When a message may go out: quiet hours and the times of a digest, on a route's own clock."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

_WINDOW = re.compile(r"^(\d\d):(\d\d)-(\d\d):(\d\d)$")
_CLOCK = re.compile(r"^(\d\d):(\d\d)$")
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


class Rhythm(StrEnum):
    """How often a digest goes out."""

    DAILY = "daily"
    WEEKLY = "weekly"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietHours:
    """From `start` to `end` of every day in `zone`; the window may cross midnight."""

    start: time
    end: time
    zone: ZoneInfo

    def ends_at(self, now: datetime) -> datetime | None:
        """When the window that holds `now` ends, in UTC; None outside of it."""
        local = now.astimezone(self.zone)
        clock = local.time()
        crosses = self.start > self.end
        inside = (clock >= self.start or clock < self.end) if crosses else self.start <= clock < self.end
        if not inside:
            return None
        day = local.date() + timedelta(days=1) if crosses and clock >= self.start else local.date()
        return datetime.combine(day, self.end, tzinfo=self.zone).astimezone(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestTimes:
    """Every day, or every week on `weekday` (0 Monday), at `at` in `zone`."""

    rhythm: Rhythm
    at: time
    weekday: int
    zone: ZoneInfo

    def next_after(self, now: datetime) -> datetime:
        """The first time of a digest after `now`, in UTC."""
        local = now.astimezone(self.zone)
        for ahead in range(9):
            day = local.date() + timedelta(days=ahead)
            moment = datetime.combine(day, self.at, tzinfo=self.zone).astimezone(UTC)
            if moment > now and (self.rhythm is Rhythm.DAILY or day.weekday() == self.weekday):
                return moment
        raise AssertionError("a week has every weekday")


def parse_window(text: str, zone: ZoneInfo) -> QuietHours:
    """ "22:00-07:00". Raises ValueError with the rule."""
    match = _WINDOW.match(text)
    try:
        if match is None:
            raise ValueError
        hours = [int(part) for part in match.groups()]
        start, end = time(hours[0], hours[1]), time(hours[2], hours[3])
    except ValueError:
        raise ValueError(f'is {text!r}, must be two times of day such as "22:00-07:00"') from None
    if start == end:
        raise ValueError(f"is {text!r}: both times are the same; leave the key out, or mute the route")
    return QuietHours(start=start, end=end, zone=zone)


def parse_digest(rhythm: str, at: str, weekday: str, zone: ZoneInfo) -> DigestTimes:
    """A rhythm of "daily" or "weekly" at "08:00" on "monday". Raises ValueError with the rule."""
    if rhythm not in list(Rhythm):
        raise ValueError(f'is {rhythm!r}, must be "daily" or "weekly"')
    match = _CLOCK.match(at)
    if match is None or int(match[1]) > 23 or int(match[2]) > 59:
        raise ValueError(f'is at {at!r}, must be a time of day such as "08:00"')
    if weekday.lower() not in _WEEKDAYS:
        raise ValueError(f"is on {weekday!r}, must be one of {', '.join(_WEEKDAYS)}")
    return DigestTimes(
        rhythm=Rhythm(rhythm),
        at=time(int(match[1]), int(match[2])),
        weekday=_WEEKDAYS.index(weekday.lower()),
        zone=zone,
    )
