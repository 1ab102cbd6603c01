"""Reads schedule.toml: which commands run when. Strict, and cron's own meaning of weekdays (0 and 7 are Sunday)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from collector.host.schedule.errors import ScheduleError

_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")
_CLOCK = re.compile(r"^([01]\d|2[0-3]):([0-5]\d)$")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


class JobKeys(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The keys of [[job]]."""

    name: str
    command: list[str]
    cron: str = ""
    every_s: float = 0.0
    late_by_s: float = 3600.0
    time_limit_s: float = 0.0
    deadline: str = ""


class FileKeys(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The keys of the file."""

    timezone: str = "UTC"
    job: list[dict[str, Any]] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A command of collector and its times."""

    name: str
    command: tuple[str, ...]
    """Arguments after `collector`."""
    cron: str
    """Five fields, weekdays as names; empty where `every_s` is given."""
    every_s: float
    late_by_s: float
    """How late a run may still start; later it is written down as missed."""
    time_limit_s: float | None
    deadline: time | None
    """Time of day after which a run is ended, in `zone`."""
    zone: ZoneInfo

    @property
    def trigger_text(self) -> str:
        """Its times in words; equal text, equal times."""
        return f"cron {self.cron} in {self.zone.key}" if self.cron else f"every {self.every_s:g} s"

    def limit_s(self, now: datetime) -> float | None:
        """Seconds that a run starting now may take."""
        limits = [] if self.time_limit_s is None else [self.time_limit_s]
        if self.deadline is not None:
            local = now.astimezone(self.zone)
            end = datetime.combine(local.date(), self.deadline, tzinfo=self.zone)
            if end <= local:
                end = datetime.combine(local.date() + timedelta(days=1), self.deadline, tzinfo=self.zone)
            limits.append((end - now).total_seconds())
        return min(limits, default=None)


def read_schedule(path: Path) -> tuple[Job, ...]:
    """The jobs of a file. Raises ScheduleError."""
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ScheduleError(f"{path}: cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ScheduleError(f"{path}: is not TOML: {error}") from None
    try:
        keys = msgspec.convert(tree, type=FileKeys)
    except msgspec.ValidationError as error:
        raise ScheduleError(f"{path}: {_words(error)}") from None
    try:
        zone = ZoneInfo(keys.timezone)
    except (OSError, ValueError, KeyError):
        raise ScheduleError(f"{path}: timezone is {keys.timezone!r}, must be a name such as Europe/Berlin") from None
    jobs = tuple(_job(row, f"{path}: job {row.get('name') or index + 1!r}", zone) for index, row in enumerate(keys.job))
    names = [job.name for job in jobs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ScheduleError(f"{path}: job {twice!r}: the name stands twice; each must be its own")
    return jobs


def _job(row: Mapping[str, Any], where: str, zone: ZoneInfo) -> Job:
    try:
        keys = msgspec.convert(row, type=JobKeys)
    except msgspec.ValidationError as error:
        raise ScheduleError(f"{where}: {_words(error)}") from None
    if not _NAME.match(keys.name):
        raise ScheduleError(f"{where}: name must be 1 to 64 letters, digits, dashes or underscores")
    if not keys.command:
        raise ScheduleError(
            f'{where}: command is empty, must be words after collector such as ["run", "--suite", "quick"]'
        )
    if bool(keys.cron) == bool(keys.every_s):
        raise ScheduleError(f"{where}: give either cron or every_s")
    if keys.every_s < 0 or keys.late_by_s < 0 or keys.time_limit_s < 0:
        raise ScheduleError(f"{where}: every_s, late_by_s and time_limit_s must be 0 or more seconds")
    clock = _CLOCK.match(keys.deadline) if keys.deadline else None
    if keys.deadline and clock is None:
        raise ScheduleError(f'{where}: deadline is {keys.deadline!r}, must be a time of day such as "07:00"')
    return Job(
        name=keys.name,
        command=tuple(keys.command),
        cron=_cron(keys.cron, where) if keys.cron else "",
        every_s=keys.every_s,
        late_by_s=keys.late_by_s,
        time_limit_s=keys.time_limit_s or None,
        deadline=time(int(clock[1]), int(clock[2])) if clock else None,
        zone=zone,
    )


def _cron(text: str, where: str) -> str:
    """Five fields whose weekdays are names, since APScheduler counts its numbers from Monday."""
    fields = text.split()
    if len(fields) != 5:
        raise ScheduleError(f"{where}: cron is {text!r}, must be five fields: minute hour day month weekday")
    if fields[2] != "*" and fields[4] != "*":
        raise ScheduleError(f"{where}: cron {text!r} sets day and weekday, which crons read differently; set one")
    fields[4] = _weekdays(fields[4], f"{where}: cron {text!r}")
    from apscheduler.triggers.cron import CronTrigger

    try:
        CronTrigger.from_crontab(" ".join(fields))
    except ValueError as error:
        raise ScheduleError(f"{where}: cron {text!r}: {error}") from None
    return " ".join(fields)


def _weekdays(field: str, where: str) -> str:
    if field == "*":
        return field
    chosen: set[int] = set()
    for part in field.lower().split(","):
        span, _, step_text = part.partition("/")
        first, _, last = span.partition("-")
        try:
            start, end = (0, 6) if span == "*" else (_weekday(first), _weekday(last or first))
            step = int(step_text or "1")
            if step < 1:
                raise ValueError
        except ValueError:
            raise ScheduleError(f"{where}: weekday {part!r} must be 0 to 7 or sun to sat") from None
        chosen |= {day % 7 for day in range(start, (end if end >= start else end + 7) + 1, step)}
    return ",".join(_WEEKDAYS[day] for day in sorted(chosen))


def _weekday(text: str) -> int:
    if text in _WEEKDAYS:
        return _WEEKDAYS.index(text)
    number = int(text)
    if not 0 <= number <= 7:
        raise ValueError
    return number


def _words(error: msgspec.ValidationError) -> str:
    return str(error).replace("Object contains unknown field", "unknown key").replace("Object missing", "missing")
