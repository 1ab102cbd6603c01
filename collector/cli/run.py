"""`collector run`: measure, keep, judge, confirm, tell; then the verdict table."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from collector.cli.places import store_uri

if TYPE_CHECKING:
    from collector.node.run import RunOptions, RunOutcome

SENTINEL_VARIABLE = "KERNEL_OBSERVATORY_SENTINEL"


def register(app: typer.Typer) -> None:
    app.command("run")(run)


def run(
    suite: Annotated[str, typer.Option(help="Name of a shipped suite, or a .toml file.")] = "quick",
    store: Annotated[
        str | None,
        typer.Option(
            help="Folder or s3:// of the store.", show_default="$KERNEL_OBSERVATORY_STORE or ./observatory-data"
        ),
    ] = None,
    device: Annotated[
        str, typer.Option(help="auto, cpu, cuda, xpu, npu ...; KIND:INDEX for one of several, KIND:0,1 for some.")
    ] = "auto",
    at_once: Annotated[
        bool,
        typer.Option("--at-once/--one-after-the-other", help="Several devices at once: series of their own."),
    ] = False,
    replicates: Annotated[int | None, typer.Option(help="Fresh processes; as the suite says where not given.")] = None,
    case: Annotated[list[str] | None, typer.Option(help="Only this case; may be repeated.")] = None,
    case_limit: Annotated[float, typer.Option(help="Seconds after which one step of a case is called hung.")] = 120.0,
    revision: Annotated[
        str | None, typer.Option(help="Revision of the code under test.", show_default="git of this folder")
    ] = None,
    note: Annotated[str | None, typer.Option(help="A remark kept with the run.")] = None,
    policy: Annotated[str, typer.Option(help="Policy to judge by: a shipped name or a .toml file.")] = "default",
    judge: Annotated[bool, typer.Option("--judge/--no-judge", help="Ingest and judge the run on this machine.")] = True,
    confirm: Annotated[bool, typer.Option("--confirm/--no-confirm", help="Re-run what is suspected.")] = True,
    notify: Annotated[bool, typer.Option("--notify/--no-notify", help="Send the alerts that wait.")] = True,
    prepare_only: Annotated[bool, typer.Option("--prepare-only", help="Compile and check; time nothing.")] = False,
    lock_clocks: Annotated[
        str | None, typer.Option(help="Hold an NVIDIA device's SM clock for the run: base, max, or MHz. Needs root.")
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(help="Time that the run may take, as 20m or 1.5h; the rest is skipped and has its turn later."),
    ] = None,
    audit: Annotated[
        bool, typer.Option("--audit/--no-audit", help="Plant a slow-down of 1, 2 or 5 % on one case: is it seen?")
    ] = True,
    sentinel: Annotated[
        str | None,
        typer.Option(
            help="Python of a frozen environment that runs beside, so that a change of torch, triton or compiler is "
            "judged in pairs.",
            show_default="$KERNEL_OBSERVATORY_SENTINEL or none",
        ),
    ] = None,
    sentinel_share: Annotated[
        float, typer.Option(help="Share of the cases that the sentinel measures too, in (0, 1].")
    ] = 0.25,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run that was cut short here, if it is the same run.")
    ] = False,
    keep_interrupted: Annotated[
        bool,
        typer.Option("--keep-interrupted", help="Stopped, keep the run for --resume; else it is published as partial."),
    ] = False,
    fail_on_regression: Annotated[
        bool, typer.Option("--fail-on-regression", help="Exit 1 on a confirmed one.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="One line instead of the table: for cron.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The rows and verdicts as JSON on stdout.")] = False,
) -> None:
    """Measure a suite on this machine, judge it against its past, and print the verdict table.

    Examples:

      collector run --suite quick

      collector run --suite nightly --device cuda:0 --store /srv/observatory --budget 1.5h

      collector run --suite nightly --device cuda:0,1,2,3 --at-once

      collector run --suite nightly --sentinel /opt/sentinel/bin/python

      collector run --suite my-suite.toml --case 'rms_norm[fp32,rows=8,hidden=4096]'

    For cron there is --quiet; a second run on the same machine yields with exit code 75. Stopped by Ctrl-C or SIGTERM
    it publishes what is measured as partial; what a killed run has left, the next run publishes.
    """
    from collector.cli.night import Confirmation, HostProcess, judge_run, tell
    from collector.cli.progress import reporter
    from collector.cli.table import one_line, print_table
    from collector.cli.words import seconds
    from collector.node.folders import spool_folder, state_folder
    from collector.node.interrupt import RunInterruptedError
    from collector.node.lock import run_lock
    from collector.node.run import RunOptions, run_suite

    place = store_uri(store)
    begun = time.monotonic()
    check_clock(lock_clocks)
    check_share(sentinel_share)
    kind, indices = parse_devices(device)
    if len(indices) > 1:
        from collector.cli.several import run_each

        raise typer.Exit(run_each(kind, indices, sys.argv[1:], at_once=at_once))
    index = indices[0]
    with run_lock(state_folder() / "run.lock"):
        host, is_new = (HostProcess(place, policy) if judge else None), False
        check_writable(place)
        if host is not None:
            is_new = host.make_store()
        options = RunOptions(
            suite=suite,
            device=kind,
            device_index=index,
            at_once=at_once_here(),
            replicates=replicates,
            cases=tuple(case or ()),
            case_limit_s=case_limit,
            revision=revision,
            spool=spool_folder(),
            command=shlex.join(["collector", *sys.argv[1:]]),
            prepare_only=prepare_only,
            note=note,
            destination=destination(place),
            lock_clocks=lock_clocks,
            audit=audit,
            sentinel=sentinel or os.environ.get(SENTINEL_VARIABLE) or None,
            sentinel_share=sentinel_share,
            budget_s=seconds(budget, "--budget") if budget is not None else None,
            resume=resume,
            keep_interrupted=keep_interrupted,
        )
        if not resume:
            publish_left(place)
        try:
            outcome = run_suite(options, reporter(quiet=as_json or quiet))
        except KeyboardInterrupt as stop:
            words = str(stop) if isinstance(stop, RunInterruptedError) else "interrupted; nothing was published"
            typer.echo(f"collector: {words}", err=True)
            raise typer.Exit(130) from None
        if is_new:
            typer.echo(f"collector: {destination(place)} is a new store, this is its first run", err=True)
        if prepare_only:
            typer.echo(f"{suite}: {len(outcome.suite.cases)} cases compiled and checked in {outcome.prepare_s:.0f} s")
            return
        waits = keep(outcome, place)
        judgement = judge_run(host, outcome) if host and not waits else None
        if host and judgement and confirm and outcome.status == "complete":
            known = {planned.case.case_id for planned in outcome.suite.cases}
            again = Confirmation(host, options, outcome.identity.unit, reporter(quiet=as_json or quiet))
            judgement = again.answer_all(judgement, only=known)
        told = tell(host) if host and notify else None
    if waits:
        typer.echo(waits, err=True)
    if as_json:
        typer.echo(json.dumps(as_document(outcome, judgement, told), default=str))
    elif quiet:
        typer.echo(one_line(outcome, judgement))
    else:
        print_table(outcome, judgement, told, wall_s=time.monotonic() - begun, store=None if waits else place)
    if fail_on_regression and judgement and judgement.confirmed:
        raise typer.Exit(1)


def at_once_here() -> int:
    """How many devices of this node run at the same time, as the command that started this one says; 1: alone."""
    from collector.cli.several import AT_ONCE_VARIABLE

    return int(os.environ.get(AT_ONCE_VARIABLE, "1"))


def parse_devices(text: str) -> tuple[str, tuple[int, ...]]:
    """`cuda:0,1` is kind cuda, indices 0 and 1; raises UsageError for an index that is none or comes twice."""
    kind, _, rest = text.partition(":")
    found = [parse_device(f"{kind}:{index}" if index else kind) for index in rest.split(",")]
    indices = tuple(index for _, index in found)
    if len(set(indices)) < len(indices):
        from collector.errors import UsageError

        raise UsageError(f"--device is {text!r}: a device comes twice; name each once, as in cuda:0,1")
    return kind, indices


def parse_device(text: str) -> tuple[str, int]:
    """`cuda:1` is kind cuda, index 1; raises UsageError for an index that is none."""
    from collector.errors import UsageError

    kind, _, index = text.partition(":")
    if not kind.isidentifier() or (index and not index.isdecimal()):
        raise UsageError(f"--device is {text!r}, must be KIND or KIND:INDEX, as in cuda:0")
    return kind, int(index or 0)


def check_clock(lock_clocks: str | None) -> None:
    """Whether --lock-clocks is a clock; raises UsageError."""
    from collector.errors import UsageError
    from collector.node.clocks import is_choice

    if lock_clocks is not None and not is_choice(lock_clocks):
        raise UsageError(f"--lock-clocks is {lock_clocks!r}, must be base, max, or a clock in MHz, as in 1410")


def check_share(share: float) -> None:
    """Whether --sentinel-share is a share; raises UsageError."""
    from collector.errors import UsageError

    if not 0 < share <= 1:
        raise UsageError(f"--sentinel-share is {share:g}, must be above 0 and at most 1, as in 0.25")


def destination(place: str) -> str:
    """One name for a store, from wherever the command is called."""
    return place if "://" in place else str(Path(place).absolute())


def publish_left(place: str) -> None:
    """Publish what killed runs had measured; what cannot be published is one line, and this run goes on."""
    from collector.node.folders import spool_folder, state_folder
    from collector.node.journal import unfinished
    from collector.node.run import RunError, publish_unfinished

    for journal in unfinished(state_folder(), destination(place)):
        try:
            partial = publish_unfinished(journal, spool_folder())
        except RunError as error:
            typer.echo(f"collector: {error}", err=True)
            continue
        if partial is not None:
            waits = keep(partial, place)
            words = waits or f"{partial.run_id} was cut short; what it had measured is published as partial"
            typer.echo(f"collector: {words}", err=True)


def check_writable(place: str) -> None:
    """Find out before measuring, not after: can the store's folder be written?"""
    from collector.errors import UsageError

    if "://" in place:
        return
    path = Path(place)
    existing = next(p for p in (path.absolute(), *path.absolute().parents) if p.exists())
    if not existing.is_dir():
        raise UsageError(f"--store is {place}: {existing} is a file, must be a folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise UsageError(f"--store is {place}: {existing} cannot be written; choose another with --store")


def keep(outcome: RunOutcome, place: str) -> str:
    """Put the bundle into the store's inbox; where that fails it waits in the spool, and the words say so."""
    from collector.node.publish import put
    from store.bundle.errors import BundleError

    assert outcome.bundle is not None
    try:
        put(place, outcome.bundle)
    except BundleError as error:
        return f"{error}; the run waits in {outcome.bundle}: `collector push --store {place}` sends it"
    shutil.rmtree(outcome.bundle)
    outcome.bundle = None
    return ""


def as_document(outcome: RunOutcome, judgement: Any, told: Any) -> dict[str, Any]:
    return {
        "run_id": outcome.run_id,
        "status": outcome.status,
        "wall_s": outcome.wall_s,
        "rows": outcome.rows,
        "verdicts": judgement.verdicts if judgement else None,
        "findings": judgement.findings if judgement else None,
        "alerts": told,
    }


__all__ = ["RunOptions", "register", "run"]
