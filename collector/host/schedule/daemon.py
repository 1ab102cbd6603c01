"""Keeps the schedule: APScheduler with a job store on disk, so that a restart knows what was due meanwhile.

Each job at most once at a time; runs that became due while nobody was there are merged into one if it is not too late
for it, and every one that did not run is written down. A changed file is taken over without a restart.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from apscheduler.events import (
    EVENT_JOB_ERROR,
    EVENT_JOB_MAX_INSTANCES,
    EVENT_JOB_MISSED,
    EVENT_JOB_SUBMITTED,
    JobExecutionEvent,
    JobSubmissionEvent,
)
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler

from collector.host.schedule.config import Job, read_schedule
from collector.host.schedule.errors import ScheduleBusyError, ScheduleError
from collector.host.schedule.history import History, ScheduleEvent, ScheduleOutcome
from collector.host.schedule.job import run_job, stop_all
from collector.host.schedule.times import after, due_times, trigger_of
from collector.kernel_lock import kernel_lock

TICK_S = 5.0
JUMP_S = 5.0
WORKERS = 8
MISSED_NAMED = 50
"""Missed times written down one by one; of more only the number."""


class Daemon:
    """A scheduler for one file of jobs and one folder of state."""

    def __init__(self, config: Path, folder: Path, *, tick_s: float = TICK_S) -> None:
        self._config, self._folder, self._tick_s = config, folder, tick_s
        self._history = History(folder)
        self._stopped = threading.Event()
        self._jobs: dict[str, Job] = {}
        self._seen: tuple[int, int] | None = None
        self._wall, self._steady = 0.0, 0.0
        """Both clocks, where the wall clock was last believed."""
        self._scheduler = BackgroundScheduler(
            jobstores={"default": SQLAlchemyJobStore(url=f"sqlite:///{folder / 'jobs.sqlite'}")},
            executors={"default": ThreadPoolExecutor(WORKERS)},
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": 3600},
            timezone=UTC,
        )
        self._due: dict[str, datetime] = {}
        """The next time of each job; those between it and the one that ran were merged into that run."""
        heard = EVENT_JOB_SUBMITTED | EVENT_JOB_MISSED | EVENT_JOB_MAX_INSTANCES | EVENT_JOB_ERROR
        self._scheduler.add_listener(self._heard, heard)

    def run(self) -> None:
        """Keeps the schedule until `stop`. Raises ScheduleError, or ScheduleBusyError where another one keeps it."""
        with exclusive(self._folder / "schedule.lock"):
            self._history.trim()
            self._wall, self._steady = time.time(), time.monotonic()
            self._scheduler.start(paused=True)
            try:
                self._take_over(read_schedule(self._config))
                self._scheduler.resume()
                self._watch()
            finally:
                self._end()

    def _end(self) -> None:
        """Shuts down first, so that what is due meanwhile stays due, and ends children until none is waited for."""
        done = threading.Event()

        def end_children() -> None:
            while not done.wait(0.1):
                stop_all()

        ending = threading.Thread(target=end_children, name="end children")
        ending.start()
        self._scheduler.shutdown(wait=True)
        done.set()
        ending.join()

    def stop(self) -> None:
        """Ends `run`; what runs is ended too, asked first."""
        self._stopped.set()

    def next_runs(self) -> dict[str, datetime]:
        """When each job runs next."""
        return {job.id: job.next_run_time.astimezone(UTC) for job in self._scheduler.get_jobs() if job.next_run_time}

    def _watch(self) -> None:
        while not self._stopped.wait(self._tick_s):
            self._reload()
            jump = (time.time() - self._wall) - (time.monotonic() - self._steady)
            if abs(jump) > JUMP_S:
                self._say("", ScheduleOutcome.CLOCK_JUMPED, words=f"the clock jumped by {jump:+.0f} s")
                self._wall, self._steady = time.time(), time.monotonic()
                if jump < 0:
                    self._look_up_anew(timedelta(seconds=-jump))
                self._scheduler.wakeup()

    def _look_up_anew(self, back: timedelta) -> None:
        """After a clock was set back by more than a job may be late, the job is due at its next time by the new clock.

        By less, it stays as it is: what ran at 03:10 does not run again when it is 03:10 once more.
        """
        now = datetime.now(UTC)
        for stored in self._scheduler.get_jobs():
            job = self._jobs.get(stored.id)
            first = None if job is None else trigger_of(job).get_next_fire_time(None, now)
            if job is None or first is None or stored.next_run_time is None:
                continue
            if back > timedelta(seconds=job.late_by_s) and first < stored.next_run_time:
                stored.modify(next_run_time=first)
                self._due[job.name] = first

    def _reload(self) -> None:
        if self._stamp() == self._seen:
            return
        try:
            jobs = read_schedule(self._config)
        except ScheduleError as error:
            self._seen = self._stamp()
            self._say("", ScheduleOutcome.CONFIG_REFUSED, words=str(error))
            return
        self._take_over(jobs)

    def _take_over(self, jobs: tuple[Job, ...]) -> None:
        """Brings the job store to the file: new times for changed jobs, kept times for the others."""
        self._seen = self._stamp()
        self._jobs = {job.name: job for job in jobs}
        for stored in self._scheduler.get_jobs():
            if stored.id not in self._jobs:
                self._scheduler.remove_job(stored.id)
        for job in jobs:
            stored = self._scheduler.get_job(job.name)
            if stored is not None and stored.name == job.trigger_text:
                self._write_down_missed(job, stored)
                stored.modify(args=self._arguments(job), misfire_grace_time=_grace(job))
            else:
                self._scheduler.add_job(
                    run_limited,
                    trigger_of(job),
                    args=self._arguments(job),
                    id=job.name,
                    name=job.trigger_text,
                    misfire_grace_time=_grace(job),
                    replace_existing=True,
                )
        self._due = {stored.id: stored.next_run_time for stored in self._scheduler.get_jobs() if stored.next_run_time}

    def _arguments(self, job: Job) -> list[Any]:
        return [job, str(self._folder)]

    def _write_down_missed(self, job: Job, stored: Any) -> None:
        """Times that went by with nobody there. The last one still runs if it is not too late: not missed then."""
        now = datetime.now(UTC)
        due = list(due_times(stored.trigger, stored.next_run_time, now))
        if not due:
            return
        runs_late = now - due[-1] <= timedelta(seconds=job.late_by_s)
        self._say_missed(job.name, due[:-1] if runs_late else due, "no scheduler was running")
        stored.modify(next_run_time=due[-1] if runs_late else after(stored.trigger, due[-1]))

    def _say_missed(self, job: str, missed: list[datetime], why: str) -> None:
        for moment in missed[-MISSED_NAMED:]:
            self._say(job, ScheduleOutcome.MISSED, due_at=moment, words=why)
        if len(missed) > MISSED_NAMED:
            words = f"{len(missed) - MISSED_NAMED:,} more before these; {why}"
            self._say(job, ScheduleOutcome.MISSED, words=words)

    def _merged(self, event: JobSubmissionEvent) -> None:
        """A scheduler that wakes late finds several times of a job due: the newest runs, the rest is written down."""
        job = self._jobs.get(event.job_id)
        if job is None:
            return
        trigger, newest = trigger_of(job), event.scheduled_run_times[-1]
        between = [at for at in due_times(trigger, self._due.get(job.name), newest) if at < newest]
        self._say_missed(job.name, between, "the scheduler was late; merged into the run that follows")
        following = after(trigger, newest)
        if following is not None:
            self._due[job.name] = following

    def _heard(self, event: JobSubmissionEvent | JobExecutionEvent) -> None:
        if event.code in (EVENT_JOB_SUBMITTED, EVENT_JOB_MAX_INSTANCES):
            self._merged(event)
        if event.code == EVENT_JOB_SUBMITTED:
            return
        if event.code == EVENT_JOB_MAX_INSTANCES:
            for due in event.scheduled_run_times:
                self._say(event.job_id, ScheduleOutcome.OVERLAPPED, due_at=due, words="the run before is not done")
        elif event.code == EVENT_JOB_MISSED:
            self._say(event.job_id, ScheduleOutcome.MISSED, due_at=event.scheduled_run_time, words="too late for it")
        else:
            self._say(
                event.job_id, ScheduleOutcome.FAILED, words=f"{type(event.exception).__name__}: {event.exception}"
            )

    def _say(self, job: str, outcome: ScheduleOutcome, *, due_at: datetime | None = None, words: str = "") -> None:
        at = datetime.now(UTC)
        due = None if due_at is None else due_at.astimezone(UTC)
        self._history.add(ScheduleEvent(at=at, job=job, outcome=outcome, due_at=due, words=words))

    def _stamp(self) -> tuple[int, int] | None:
        try:
            status = self._config.stat()
        except OSError:
            return None
        return (status.st_mtime_ns, status.st_size)


def run_limited(job: Job, folder: str) -> None:
    """What the job store calls: the limit depends on when it starts."""
    run_job(job.name, job.command, job.limit_s(datetime.now(UTC)), folder)


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """A kernel lock: free the moment its holder ends. Raises ScheduleBusyError at once."""

    def refusal(holder: str) -> ScheduleBusyError:
        return ScheduleBusyError(f"another scheduler holds {path} (process {holder}); this one yields")

    with kernel_lock(path, refusal):
        yield


def _grace(job: Job) -> int:
    return max(1, round(job.late_by_s))
