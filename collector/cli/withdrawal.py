"""`collector store retract`, `release`, `quarantine`: what does not count, and bringing it back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from collector.cli.options import Json, Store, user_name
from collector.cli.places import store_uri

if TYPE_CHECKING:
    from store.lake.lake import Lake

quarantine_app = typer.Typer(help="Bundles that were refused.", no_args_is_help=True, rich_markup_mode=None)
Runs = Annotated[list[str] | None, typer.Argument(help="Run ids.")]
Reason = Annotated[str, typer.Option(help="Why; kept with the act.")]
Actor = Annotated[str | None, typer.Option(help="Who says so.", show_default="the user's name")]


def register(store_app: typer.Typer) -> None:
    """Adds the commands to `collector store`."""
    store_app.command("retract")(retract_runs)
    store_app.command("release")(release_runs)
    quarantine_app.command("list")(list_quarantine)
    quarantine_app.command("requeue")(requeue_bundle)
    store_app.add_typer(quarantine_app, name="quarantine")


def retract_runs(
    reason: Reason,
    run_ids: Runs = None,
    host: Annotated[str | None, typer.Option(help="Every run of this node instead.")] = None,
    actor: Actor = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Hide runs from every reader, with the reason.

    Nothing is deleted: `release` brings them back.

    Examples:

      collector store retract 20261130T031000Z-9f3c1a2b --reason "the fan was broken"

      collector store retract --host node-07 --reason "wrong power limit for a week"
    """
    from store.lake.lake import Lake
    from store.lake.maintenance import retract

    lake = Lake.open(store_uri(store))
    chosen = _chosen(lake, run_ids, host)
    who = actor or user_name()
    retract(lake, chosen, reason=reason, actor=who)
    _say("retracted", chosen, who, as_json=as_json)


def release_runs(
    reason: Reason,
    run_ids: Runs = None,
    actor: Actor = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Show retracted runs again.

    Example: collector store release 20261130T031000Z-9f3c1a2b --reason "the fan was fine after all"
    """
    from store.lake.lake import Lake
    from store.lake.maintenance import release

    lake = Lake.open(store_uri(store))
    chosen = _chosen(lake, run_ids, None)
    who = actor or user_name()
    release(lake, chosen, reason=reason, actor=who)
    _say("released", chosen, who, as_json=as_json)


def _chosen(lake: Lake, run_ids: list[str] | None, host: str | None) -> list[str]:
    from collector.errors import UsageError
    from store.lake.maintenance import runs_of_host

    if bool(run_ids) == bool(host):
        raise UsageError("which runs? give their ids, or a node's name with --host where there is that option")
    if host is None:
        return list(dict.fromkeys(run_ids or ()))
    chosen = list(runs_of_host(lake, host))
    if not chosen:
        raise UsageError(f"--host is {host!r}: no visible run is of it; `collector store sql` over runs lists them")
    return chosen


def _say(event: str, run_ids: list[str], actor: str, *, as_json: bool) -> None:
    from collector.cli.words import counted

    if as_json:
        typer.echo(json.dumps({event: run_ids, "actor": actor}))
        return
    for run_id in run_ids:
        typer.echo(f"{event} {run_id}")
    typer.echo(f"{counted(len(run_ids), 'run')} {event} by {actor}")


def list_quarantine(store: Store = None, as_json: Json = False) -> None:
    """List the bundles that were refused, each with the reason.

    Example: collector store quarantine list --store /srv/observatory
    """
    from collector.cli.words import counted
    from store.lake.lake import Lake
    from store.lake.maintenance import quarantined

    refused = quarantined(Lake.open(store_uri(store)))
    if as_json:
        typer.echo(json.dumps([{"name": q.name, "reason": q.reason, "at": q.at.isoformat()} for q in refused]))
        return
    for entry in refused:
        typer.echo(f"{entry.at:%Y-%m-%d %H:%M} UTC {entry.name}: {entry.reason}")
    typer.echo(f"{counted(len(refused), 'bundle')} in quarantine")


def requeue_bundle(
    name: Annotated[str, typer.Argument(help="Name of the bundle, as `quarantine list` has it.")],
    ignore_clock: Annotated[
        bool, typer.Option("--ignore-clock", help="Take it although its clock was wrong; its times stay as they are.")
    ] = False,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Take a refused bundle in after all.

    It goes back to the inbox and is ingested; where it is refused again the reason is said, exit code 2.

    Example: collector store quarantine requeue 20261130T031000Z-9f3c1a2b-5d41402abc4b2a76.bundle --ignore-clock
    """
    from collector.cli.words import counted
    from collector.errors import UsageError
    from store.lake.lake import Lake
    from store.lake.maintenance import requeue

    report = requeue(Lake.open(store_uri(store)), name, check_clock=not ignore_clock)
    again = dict(report.quarantined).get(name)
    if again is not None:
        raise UsageError(f"{name}: refused again: {again}")
    if as_json:
        document = {"ingested": list(report.ingested), "already_known": list(report.already_known)}
        typer.echo(json.dumps(document))
        return
    typer.echo(f"{counted(len(report.ingested), 'run')} ingested, {len(report.already_known)} known already")
