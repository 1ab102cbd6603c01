"""When a job is due: APScheduler's triggers, repaired for the day on which clocks are set back.

A time of day that exists twice on that day is one time: a nightly job does not run twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger

from collector.host.schedule.config import Job
from collector.host.schedule.errors import ScheduleError

JUST_AFTER = timedelta(microseconds=1)
MOST_TIMES = 100_000
"""Times looked at when a span is walked through; a job every second for a day is fewer."""


class CivilCronTrigger(CronTrigger):  # type: ignore[misc]
    """Cron times; where the hours are named, not the second of a pair that one clock time makes."""

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        """The next time after the previous one, or not before `now`; in UTC.

        APScheduler compares local times without their fold: given the second 02:30 as the previous time it returns it
        again for ever, and the scheduler hangs. In UTC there is no such time.
        """
        previous = None if previous_fire_time is None else previous_fire_time.astimezone(UTC)
        found = self._following(previous, now.astimezone(UTC))
        while found is not None and self._names_hours() and found.astimezone(self.timezone).fold:
            found = self._following(found, found + JUST_AFTER)
        return found

    def _following(self, previous: datetime | None, now: datetime) -> datetime | None:
        found: datetime | None = super().get_next_fire_time(previous, now)
        found = None if found is None else found.astimezone(UTC)
        if found is not None and previous is not None and found <= previous:
            raise ScheduleError(f"cron {self}: the time after {previous} is {found}, which is not after it")
        return found

    def _names_hours(self) -> bool:
        hours = next(str(field) for field in self.fields if field.name == "hour")
        return not hours.startswith("*")


def trigger_of(job: Job) -> CronTrigger | IntervalTrigger:
    """The trigger of a job."""
    if job.cron:
        return CivilCronTrigger.from_crontab(job.cron, timezone=job.zone)
    return IntervalTrigger(seconds=job.every_s, timezone=UTC)


def next_time(job: Job, now: datetime) -> datetime:
    """The next time that a job is due, in UTC."""
    at: datetime = trigger_of(job).get_next_fire_time(None, now)
    return at.astimezone(UTC)


def due_times(trigger: Any, first: datetime | None, until: datetime) -> Iterator[datetime]:
    """The times of a trigger from `first`, one of them, up to and with `until`; in UTC."""
    at, seen = first, 0
    while at is not None and at <= until and seen < MOST_TIMES:
        yield at.astimezone(UTC)
        at, seen = trigger.get_next_fire_time(at, at + JUST_AFTER), seen + 1


def after(trigger: Any, at: datetime) -> datetime | None:
    """The time of a trigger that follows `at`, one of its times."""
    found: datetime | None = trigger.get_next_fire_time(at, at + JUST_AFTER)
    return found
