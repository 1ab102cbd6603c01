"""`collector schedule`: run commands at their times where there is no cron."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from collector.cli.options import Json

schedule_app = typer.Typer(
    help="Run commands at their times, where there is no cron.", no_args_is_help=True, rich_markup_mode=None
)
File = Annotated[Path, typer.Option(help="The schedule.")]
Folder = Annotated[Path | None, typer.Option(help="Where jobs, history and logs are kept.")]
DEFAULT = Path("schedule.toml")


def register(app: typer.Typer) -> None:
    app.add_typer(schedule_app, name="schedule")


@schedule_app.command("run")
def run(config: File = DEFAULT, state: Folder = None) -> None:
    """Keep the schedule until told to end (SIGTERM or Ctrl-C). A second one on the same folder yields with 75.

    The file is read again when it changes. What was missed is in `collector schedule history`.

    Example: collector schedule run --config /etc/kernel-observatory/schedule.toml
    """
    import signal

    from collector.host.schedule.daemon import Daemon

    daemon = Daemon(config, schedule_folder(state))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: daemon.stop())
    daemon.run()


@schedule_app.command("check")
def check(config: File = DEFAULT, as_json: Json = False) -> None:
    """Say whether a schedule can be used, and when each job runs next.

    Example: collector schedule check --config /etc/kernel-observatory/schedule.toml
    """
    from datetime import UTC, datetime

    from collector.host.schedule.config import read_schedule
    from collector.host.schedule.times import next_time

    now = datetime.now(UTC)
    jobs = read_schedule(config)
    if as_json:
        rows = [
            {"name": job.name, "command": list(job.command), "trigger": job.trigger_text}
            | {"next": next_time(job, now).isoformat()}
            for job in jobs
        ]
        typer.echo(json.dumps(rows))
        return
    for job in jobs:
        soon = f"{next_time(job, now):%a %d %b %H:%M} UTC"
        typer.echo(f"{job.name}: collector {' '.join(job.command)}; {job.trigger_text}; next {soon}")


@schedule_app.command("history")
def history(
    state: Folder = None,
    last: Annotated[int, typer.Option(help="So many lines, the newest.")] = 30,
    as_json: Json = False,
) -> None:
    """What became of each time a job was due: done, failed, ended at its limit, overlapped, missed.

    Example: collector schedule history --last 100
    """
    from dataclasses import asdict

    from collector.host.schedule.history import History

    events = History(schedule_folder(state)).read()[-last:]
    if as_json:
        typer.echo(json.dumps([asdict(event) for event in events], default=str))
        return
    for event in events:
        due = f", due {event.due_at:%Y-%m-%d %H:%M:%S}" if event.due_at else ""
        code = f", exit {event.exit_code}" if event.exit_code else ""
        words = f": {event.words}" if event.words else ""
        typer.echo(f"{event.at:%Y-%m-%d %H:%M:%S} {event.job or 'scheduler'} {event.outcome}{due}{code}{words}")


def schedule_folder(given: Path | None) -> Path:
    """Where the scheduler keeps its state: given, $STATE_DIRECTORY (systemd), else the user's state folder."""
    if given is not None:
        return given
    if os.environ.get("STATE_DIRECTORY"):
        return Path(os.environ["STATE_DIRECTORY"].split(":")[0])
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "kernel-observatory" / "schedule"
