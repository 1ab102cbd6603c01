"""The scheduler: nothing overlaps itself, nothing due is forgotten silently, and a child ends when it must."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from collector.host.schedule import job as job_module
from collector.host.schedule.config import JobKeys, read_schedule
from collector.host.schedule.daemon import Daemon, exclusive
from collector.host.schedule.errors import ScheduleBusyError, ScheduleError
from collector.host.schedule.history import History, ScheduleEvent, ScheduleOutcome
from collector.host.schedule.job import LOGS_KEPT, rotate, run_command
from collector.surroundings import whole_environment

SLEEPER = (sys.executable, "-c", "import sys, time; time.sleep(float(sys.argv[1])); sys.exit(int(sys.argv[2]))")


@pytest.fixture(autouse=True)
def sleeping_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs sleep and exit as told, in real processes."""
    monkeypatch.setattr(job_module, "PROGRAM", SLEEPER)


@pytest.fixture
def keeping(tmp_path: Path) -> Iterator[Callable[[str], Daemon]]:
    """Starts schedulers in threads and ends them."""
    started: list[tuple[Daemon, threading.Thread]] = []

    def start(text: str) -> Daemon:
        (tmp_path / "schedule.toml").write_text(text)
        daemon = Daemon(tmp_path / "schedule.toml", tmp_path / "state", tick_s=0.1)
        thread = threading.Thread(target=daemon.run)
        thread.start()
        started.append((daemon, thread))
        return daemon

    yield start
    for daemon, thread in started:
        daemon.stop()
        thread.join(60)
        assert not thread.is_alive()


def history(tmp_path: Path) -> list[ScheduleEvent]:
    return History(tmp_path / "state").read()


def until(tmp_path: Path, outcome: ScheduleOutcome, count: int = 1) -> list[ScheduleEvent]:
    """Waits for so many events of that outcome."""
    for _ in range(2400):
        found = [event for event in history(tmp_path) if event.outcome is outcome]
        if len(found) >= count:
            return found
        time.sleep(0.05)
    raise AssertionError(f"no {outcome} in {history(tmp_path)}")


def every(command: str, *, every_s: float = 1, more: str = "") -> str:
    return f'[[job]]\nname = "night"\nevery_s = {every_s}\ncommand = [{command}]\n{more}\n'


def test_a_job_that_outlasts_its_period_does_not_overlap_itself(
    tmp_path: Path, keeping: Callable[[str], Daemon]
) -> None:
    """The times that fall into a run are written down as overlapped, not started."""
    keeping(every('"3", "0"'))
    until(tmp_path, ScheduleOutcome.DONE)
    events = [event.outcome for event in history(tmp_path)]
    assert events.index(ScheduleOutcome.OVERLAPPED) < events.index(ScheduleOutcome.DONE)
    assert events[: events.index(ScheduleOutcome.DONE)].count(ScheduleOutcome.STARTED) == 1


def test_exit_codes_are_told_apart(tmp_path: Path, keeping: Callable[[str], Daemon]) -> None:
    """75 is a yield to another run, any other code a failure."""
    keeping(every('"0", "75"') + every('"0", "3"').replace("night", "other"))
    assert until(tmp_path, ScheduleOutcome.YIELDED)[0].exit_code == 75
    assert until(tmp_path, ScheduleOutcome.FAILED)[0].job == "other"


def test_a_run_is_ended_at_its_limit(tmp_path: Path, keeping: Callable[[str], Daemon]) -> None:
    """A hanging night does not hold the next one."""
    keeping(every('"600", "0"', more="time_limit_s = 0.5"))
    ended = until(tmp_path, ScheduleOutcome.ENDED)[0]
    assert ended.exit_code == -signal.SIGTERM


def test_what_was_due_while_nobody_was_there_is_written_down(tmp_path: Path, keeping: Callable[[str], Daemon]) -> None:
    """Hours late: each time is recorded as missed and none is replayed; seconds late: it runs once, at once."""
    text = every('"0", "0"', every_s=3600, more="late_by_s = 60")
    first = keeping(text)
    wait_for_jobs(first)
    rest_for(first, tmp_path, timedelta(hours=-3, seconds=-600))
    second = keeping(text)
    wait_for_jobs(second)
    missed = until(tmp_path, ScheduleOutcome.MISSED, 4)
    assert len(missed) == 4 and all(event.due_at is not None and event.due_at <= event.at for event in missed)
    assert not any(event.outcome is ScheduleOutcome.STARTED for event in history(tmp_path))
    rest_for(second, tmp_path, timedelta(seconds=-3))
    keeping(text)
    until(tmp_path, ScheduleOutcome.DONE)
    started = [event for event in history(tmp_path) if event.outcome is ScheduleOutcome.STARTED]
    assert len(started) == 1 and len([e for e in history(tmp_path) if e.outcome is ScheduleOutcome.MISSED]) == 4


def wait_for_jobs(daemon: Daemon) -> None:
    for _ in range(2400):
        if daemon.next_runs():
            return
        time.sleep(0.05)
    raise AssertionError("no job was taken over")


def rest_for(keeping_thread: Daemon, tmp_path: Path, by: timedelta) -> None:
    """Ends the scheduler and makes its stored next run lie in the past, as after a time without one."""
    keeping_thread.stop()
    while True:
        try:
            with exclusive(tmp_path / "state" / "schedule.lock"):
                break
        except ScheduleBusyError:
            time.sleep(0.05)
    spawn = multiprocessing.get_context("spawn")
    child = spawn.Process(target=shift_next_run, args=(str(tmp_path / "state" / "jobs.sqlite"), by.total_seconds()))
    child.start()
    child.join(60)
    assert child.exitcode == 0


def shift_next_run(path: str, by_s: float) -> None:
    """Child process: leaves without a shutdown, which would run what is due."""
    from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
    from apscheduler.schedulers.background import BackgroundScheduler

    store = SQLAlchemyJobStore(url=f"sqlite:///{path}")
    scheduler = BackgroundScheduler(jobstores={"default": store}, timezone=UTC)
    scheduler.start(paused=True)
    scheduler.modify_job("night", next_run_time=datetime.now(UTC) + timedelta(seconds=by_s))
    os._exit(0)


def test_a_changed_file_is_taken_over_and_a_broken_one_is_not(tmp_path: Path, keeping: Callable[[str], Daemon]) -> None:
    """Without a restart; a mistake leaves the schedule as it was and is written down."""
    daemon = keeping(every('"0", "0"', every_s=3600))
    wait_for_jobs(daemon)
    (tmp_path / "schedule.toml").write_text("[[job]]\nname = 1\n")
    refused = until(tmp_path, ScheduleOutcome.CONFIG_REFUSED)[0]
    assert "Expected `str`, got `int`" in refused.words and set(daemon.next_runs()) == {"night"}
    (tmp_path / "schedule.toml").write_text(every('"0", "0"').replace("night", "often"))
    until(tmp_path, ScheduleOutcome.DONE)
    assert set(daemon.next_runs()) == {"often"}


def test_ending_the_scheduler_ends_what_it_runs(tmp_path: Path, keeping: Callable[[str], Daemon]) -> None:
    """No child outlives it."""
    daemon = keeping(every('"600", "0"'))
    until(tmp_path, ScheduleOutcome.STARTED)
    daemon.stop()
    until(tmp_path, ScheduleOutcome.FAILED)


def test_two_schedulers_on_one_folder(tmp_path: Path) -> None:
    """The second yields with a line; a killed holder frees the lock at once."""
    with exclusive(tmp_path / "schedule.lock"), pytest.raises(ScheduleBusyError, match=str(os.getpid())):
        exclusive(tmp_path / "schedule.lock").__enter__()
    spawn = multiprocessing.get_context("spawn")
    holder = spawn.Process(target=hold, args=(str(tmp_path / "schedule.lock"),))
    holder.start()
    while (tmp_path / "schedule.lock").read_text() != str(holder.pid):
        time.sleep(0.02)
    holder.kill()
    holder.join()
    with exclusive(tmp_path / "schedule.lock"):
        pass


def hold(path: str) -> None:
    with exclusive(Path(path)):
        time.sleep(600)


def test_cron_weekdays_are_those_of_cron(tmp_path: Path) -> None:
    """0 and 7 are Sunday, 1-5 Monday to Friday; a span may cross the week's end."""

    def weekdays(field: str) -> str:
        path = tmp_path / "s.toml"
        path.write_text(
            f'timezone = "Europe/Berlin"\n[[job]]\nname = "a"\ncommand = ["x"]\ncron = "10 3 * * {field}"\n'
        )
        return read_schedule(path)[0].cron.split()[4]

    assert weekdays("0") == weekdays("7") == weekdays("sun") == "sun"
    assert weekdays("1-5") == weekdays("mon-fri") == "mon,tue,wed,thu,fri"
    assert weekdays("5-7") == "sun,fri,sat" and weekdays("*") == "*" and weekdays("*/2") == "sun,tue,thu,sat"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[job]]\nname = "a"\ncommand = ["x"]\n', "give either cron or every_s"),
        ('[[job]]\nname = "a"\ncommand = []\ncron = "0 3 * * *"\n', "command is empty"),
        ('[[job]]\nname = "a"\ncommand = ["x"]\ncron = "0 3 * *"\n', "must be five fields"),
        ('[[job]]\nname = "a"\ncommand = ["x"]\ncron = "61 3 * * *"\n', "cron '61 3 * * *'"),
        ('[[job]]\nname = "a"\ncommand = ["x"]\ncron = "0 3 * * 8"\n', "weekday '8' must be 0 to 7"),
        ('[[job]]\nname = "a"\ncommand = ["x"]\ncron = "0 3 1 * 1"\n', "sets day and weekday"),
        ('[[job]]\nname = "a"\ncommand = ["x"]\nevery = 3\n', "unknown key `every`"),
        ('[[job]]\nname = "a"\ncommand = ["x"]\nevery_s = 3\ndeadline = "25:00"\n', "deadline is '25:00'"),
        ('[[job]]\nname = "a"\ncommand = ["x"]\nevery_s = 3\n' * 2, "the name stands twice"),
        ('timezone = "Nowhere"\n', "timezone is 'Nowhere'"),
    ],
)
def test_a_mistake_in_a_schedule_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    """File, job, key and rule."""
    path = tmp_path / "schedule.toml"
    path.write_text(text)
    with pytest.raises(ScheduleError) as raised:
        read_schedule(path)
    assert said in str(raised.value) and str(path) in str(raised.value) and "\n" not in str(raised.value)


def test_a_deadline_is_a_time_of_day(tmp_path: Path) -> None:
    """The limit of a run is what is left until then, or its own limit where that is shorter."""
    path = tmp_path / "schedule.toml"
    path.write_text(
        '[[job]]\nname = "a"\ncommand = ["x"]\ncron = "10 3 * * *"\ndeadline = "07:00"\ntime_limit_s = 7200\n'
    )
    (job,) = read_schedule(path)
    assert job.limit_s(datetime(2026, 11, 30, 3, 10, tzinfo=UTC)) == 7200
    assert job.limit_s(datetime(2026, 11, 30, 6, 0, tzinfo=UTC)) == 3600
    assert job.limit_s(datetime(2026, 11, 30, 7, 0, tzinfo=UTC)) == 7200


def test_the_environment_of_cron_is_made_whole() -> None:
    """An empty one gets a PATH with this Python and the compilers, and a HOME; a given one is kept in front."""
    bare = whole_environment({})
    assert "/usr/bin" in bare["PATH"].split(":") and str(Path(sys.executable).parent) in bare["PATH"].split(":")
    assert bare["HOME"]
    assert whole_environment({"PATH": f"/opt/x:{Path(sys.executable).parent}", "HOME": "/h"})["PATH"].startswith(
        "/opt/x:"
    )


def test_a_stubborn_child_is_killed_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that ignores the request and has a child of its own: both are gone."""
    monkeypatch.setattr(job_module, "GRACE_S", 0.3)
    script = (
        "import signal, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
        "print(child.pid, flush=True); time.sleep(600)"
    )
    log = tmp_path / "x.log"
    code, ended = run_command([sys.executable, "-c", script], log, 2.0)
    assert (code, ended) == (-signal.SIGKILL, True)
    grandchild = int(log.read_text().splitlines()[-1])
    for _ in range(100):
        if not Path(f"/proc/{grandchild}").exists() or "Z" in Path(f"/proc/{grandchild}/stat").read_text().split()[2]:
            return
        time.sleep(0.05)
    raise AssertionError(f"process {grandchild} lives on")


def test_logs_rotate(tmp_path: Path) -> None:
    """A large log becomes .1; no more than a few are kept."""
    log = tmp_path / "night.log"
    for number in range(LOGS_KEPT + 3):
        log.write_bytes(f"{number}".encode() * 6_000_000)
        rotate(log)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"night.log.{n}" for n in range(1, LOGS_KEPT + 1)]


def test_a_history_cut_by_a_kill_is_read_on(tmp_path: Path) -> None:
    """Half a line costs only itself."""
    history = History(tmp_path)
    event = ScheduleEvent(at=datetime.now(UTC), job="night", outcome=ScheduleOutcome.DONE, exit_code=0)
    history.add(event)
    with (tmp_path / "history.jsonl").open("ab") as file:
        file.write(b'{"at": "20')
    assert history.read() == [event]


def test_every_key_of_a_job_is_in_the_docs() -> None:
    """docs/operation.md names each key and each outcome that a person has to understand."""
    docs = (Path(__file__).parents[2] / "docs" / "operation.md").read_text()
    assert all(f"`{key}`" in docs for key in JobKeys.__struct_fields__)
    words = [o for o in ScheduleOutcome if o not in ("started", "clock_jumped", "config_refused")]
    assert all(f"`{word}`" in docs for word in words)
