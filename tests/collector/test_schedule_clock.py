"""The scheduler and time: clocks that jump, days with an hour twice, a scheduler that wakes late."""

from __future__ import annotations

import contextlib
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import schedule_child
from clock_shim import SetClock, compiler

from collector.host.schedule.config import Job, read_schedule
from collector.host.schedule.history import History, ScheduleEvent, ScheduleOutcome
from collector.host.schedule.times import after, due_times, next_time, trigger_of


@contextlib.contextmanager
def keeping(folder: Path, text: str, environment: dict[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A scheduler in a process of its own."""
    (folder / "schedule.toml").write_text(text)
    command = [sys.executable, schedule_child.__file__, str(folder / "schedule.toml"), str(folder / "state")]
    child = subprocess.Popen(command, env=environment)
    try:
        yield child
    finally:
        child.send_signal(signal.SIGCONT)
        child.terminate()
        assert child.wait(60) == 0


def history(folder: Path) -> list[ScheduleEvent]:
    return History(folder / "state").read()


def until(folder: Path, outcome: ScheduleOutcome, count: int) -> list[ScheduleEvent]:
    """Waits for so many events of that outcome."""
    for _ in range(2400):
        found = [event for event in history(folder) if event.outcome is outcome]
        if len(found) >= count:
            return found
        time.sleep(0.05)
    raise AssertionError(f"no {count} {outcome} in {history(folder)}")


@pytest.mark.skipif(compiler() is None, reason="no C compiler to build the clock that is set")
def test_a_clock_that_jumps_runs_nothing_twice_and_forgets_nothing(tmp_path: Path) -> None:
    """Forward over a time: it runs late or is written down as missed; back by days: due times are looked up anew; back
    by seconds: what ran does not run again."""
    clock = SetClock(tmp_path)
    before = datetime(2026, 5, 10, 3, 5, tzinfo=UTC)
    """Five minutes, so that a loaded machine does not come to the time before the clock is set again."""
    due = timedelta(minutes=5)
    clock.set(before)
    night = '[[job]]\nname = "night"\ncron = "10 3 * * *"\ncommand = ["x"]\nlate_by_s = 600\n'
    with keeping(tmp_path, night, clock.environment):
        until_taken_over(tmp_path)

        def jump(to: datetime) -> None:
            """Sets the clock and waits until that was noticed."""
            seen = sum(event.outcome is ScheduleOutcome.CLOCK_JUMPED for event in history(tmp_path))
            clock.set(to)
            until(tmp_path, ScheduleOutcome.CLOCK_JUMPED, seen + 1)

        jump(before + due + timedelta(seconds=5))
        until(tmp_path, ScheduleOutcome.DONE, 1)

        jump(before + due + timedelta(days=1, seconds=70))
        until(tmp_path, ScheduleOutcome.DONE, 2)

        jump(before + timedelta(days=2, hours=2))
        (missed,) = until(tmp_path, ScheduleOutcome.MISSED, 1)
        assert missed.due_at == datetime(2026, 5, 12, 3, 10, tzinfo=UTC)

        jump(before - timedelta(days=5))
        jump(before + due - timedelta(days=5) + timedelta(seconds=70))
        until(tmp_path, ScheduleOutcome.DONE, 3)

        jump(before - timedelta(days=5))
        jump(before + due - timedelta(days=5) + timedelta(seconds=70))
        time.sleep(0.5)
    counted = Counter(event.outcome for event in history(tmp_path))
    assert counted[ScheduleOutcome.STARTED] == counted[ScheduleOutcome.DONE] == 3
    assert counted[ScheduleOutcome.MISSED] == 1


def until_taken_over(folder: Path) -> None:
    """Until the scheduler has its jobs from its file."""
    for _ in range(2400):
        with (
            contextlib.suppress(sqlite3.Error),
            contextlib.closing(sqlite3.connect(folder / "state" / "jobs.sqlite")) as found,
        ):
            if found.execute("SELECT count(*) FROM apscheduler_jobs").fetchone()[0]:
                return
        time.sleep(0.05)
    raise AssertionError("no scheduler")


def test_a_scheduler_that_wakes_three_seconds_late_runs_once_and_writes_the_rest_down(tmp_path: Path) -> None:
    """Stopped for three seconds over a job of every second: one run, every other time of these is in the history."""
    text = '[[job]]\nname = "often"\nevery_s = 1\ncommand = ["x"]\nlate_by_s = 60\n'
    with keeping(tmp_path, text) as child:
        until(tmp_path, ScheduleOutcome.DONE, 2)
        child.send_signal(signal.SIGSTOP)
        time.sleep(3.2)
        before = len([e for e in history(tmp_path) if e.outcome is ScheduleOutcome.MISSED])
        child.send_signal(signal.SIGCONT)
        missed = until(tmp_path, ScheduleOutcome.MISSED, before + 2)[before:]
        until(tmp_path, ScheduleOutcome.DONE, 4)
    due = [event.due_at for event in missed if event.due_at is not None]
    assert len(due) >= 2 and due == sorted(set(due))
    assert all(event.due_at is not None and event.due_at < event.at and "late" in event.words for event in missed)
    started = [event for event in history(tmp_path) if event.outcome is ScheduleOutcome.STARTED]
    asleep = [event for event in started if due[0] < event.at < due[1]]
    assert asleep == []


def job(tmp_path: Path, cron: str, zone: str) -> Job:
    path = tmp_path / "schedule.toml"
    path.write_text(f'timezone = "{zone}"\n[[job]]\nname = "a"\ncommand = ["x"]\ncron = "{cron}"\n')
    return read_schedule(path)[0]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
@pytest.mark.parametrize("cron", ["30 2 * * *", "45 1 * * *"])
def test_a_night_is_due_once_on_every_day_of_the_year(tmp_path: Path, cron: str, zone: str) -> None:
    """Also on the day that has its hour twice, and on the day that has it not."""
    night = job(tmp_path, cron, zone)
    first = next_time(night, datetime(2026, 1, 1, 12, tzinfo=UTC))
    times = list(due_times(trigger_of(night), first, datetime(2026, 12, 31, 12, tzinfo=UTC)))
    days = Counter(at.astimezone(ZoneInfo(zone)).date() for at in times)
    assert set(days.values()) == {1} and len(days) in (364, 365)
    assert all(timedelta(hours=22) < b - a < timedelta(hours=26) for a, b in pairwise(times))


def test_an_hourly_job_has_every_hour_of_the_long_day(tmp_path: Path) -> None:
    """Where hours are not named, the doubled hour is two hours: 25 times on that day."""
    hourly = job(tmp_path, "5 * * * *", "Europe/Berlin")
    first = next_time(hourly, datetime(2026, 10, 24, 22, tzinfo=UTC))
    times = list(due_times(trigger_of(hourly), first, datetime(2026, 10, 25, 22, 59, tzinfo=UTC)))
    assert len(times) == 25 and after(trigger_of(hourly), times[-1]) == times[-1] + timedelta(hours=1)


def test_a_deadline_on_the_long_day_is_a_time_of_day(tmp_path: Path) -> None:
    """07:00 is eight hours after 00:00 on the day with an hour twice, six on the day that lacks one."""
    path = tmp_path / "schedule.toml"
    path.write_text(
        'timezone = "Europe/Berlin"\n[[job]]\nname = "a"\ncommand = ["x"]\ncron = "0 0 * * *"\ndeadline = "07:00"\n'
    )
    (night,) = read_schedule(path)
    assert night.limit_s(datetime(2026, 10, 24, 22, tzinfo=UTC)) == 8 * 3600
    assert night.limit_s(datetime(2026, 3, 28, 23, tzinfo=UTC)) == 6 * 3600
