"""The command line: `collector COMMAND`. Each command imports what it needs when it runs, so that help is quick."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from collector.cli import (
    alerts,
    baseline,
    dashboard,
    demo,
    doctor,
    gate,
    importing,
    judging,
    lake,
    measure,
    run,
    schedule,
    shapes,
    suites,
)
from collector.log_lines import VARIABLE, LogFormat, log
from collector.surroundings import make_whole

app = typer.Typer(
    name="collector",
    help=(
        "Kernel Observatory: measure this machine's kernels, judge them against their past, show it, tell it.\n\n"
        "A first look: collector run --suite quick\n\nThe dashboard:  collector dashboard"
    ),
    epilog=(
        "Exit codes: 0 done (failed rows are data), 1 regression where asked to fail on it, 2 usage or configuration, "
        "3 device or environment, 4 undecided where asked to decide, 75 another run holds the lock."
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
run.register(app)
measure.register(app)
doctor.register(app)
judging.register(app)
alerts.register(judging.notify_app)
lake.register(app)
shapes.register(app)
suites.register(app)
importing.register(app)
schedule.register(app)
dashboard.register(app)
demo.register(app)
gate.register(app)
baseline.register(app)


@app.callback()
def begin(
    context: typer.Context,
    log_format: Annotated[
        LogFormat, typer.Option(envvar=VARIABLE, help="What stderr says of start, end and errors.")
    ] = LogFormat.TEXT,
) -> None:
    log.begin(log_format, context.invoked_subcommand)


def main() -> int:
    """Run a command; known errors are one line on stderr and their exit code."""
    make_whole()
    try:
        app(standalone_mode=True)
    except SystemExit as end:
        log.end(end.code if isinstance(end.code, int) else int(end.code is not None))
        raise
    except KeyboardInterrupt:
        sys.stderr.write("collector: interrupted; nothing was published\n")
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        return log.report(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
