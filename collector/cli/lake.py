"""`collector store create`, `ingest`, `sql`, `stats`, `verify`: filling a store and asking it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from collector.cli.options import Json, Store
from collector.cli.places import store_uri

if TYPE_CHECKING:
    from store.lake.lake import Lake
    from store.lake.maintenance import StoreStats

store_app = typer.Typer(
    help="The store: what is in it, and keeping it in order.", no_args_is_help=True, rich_markup_mode=None
)


def register(app: typer.Typer) -> None:
    """Adds the group, with all that the modules of upkeep and of withdrawal have for it."""
    from collector.cli import lake_metrics, upkeep, withdrawal

    store_app.command("create")(create)
    store_app.command("ingest")(ingest)
    store_app.command("sql")(sql)
    store_app.command("stats")(show_stats)
    store_app.command("verify")(verify_store)
    upkeep.register(store_app)
    withdrawal.register(store_app)
    lake_metrics.register(store_app)
    app.add_typer(store_app, name="store")


def create(store: Store = None, as_json: Json = False) -> None:
    """Make a store at a new place: a folder whose parent is there, or a prefix of a bucket.

    A store that is there stays as it is. Nodes push into a store that is there, and into nothing else.

    Example: collector store create --store s3://observatory/lake
    """
    from store.lake.lake import Lake

    lake = Lake.create(store_uri(store))
    if as_json:
        typer.echo(json.dumps({"store": lake.uri, "new": lake.is_new}))
        return
    typer.echo(f"made a new store, {lake.uri}" if lake.is_new else f"{lake.uri} is a store already, nothing to do")


def ingest(store: Store = None, as_json: Json = False) -> None:
    """Take every bundle of the inbox into the tables, once.

    Example: collector store ingest --store s3://observatory/lake
    """
    from collector.cli.words import counted
    from collector.log_lines import log
    from store.lake.lake import Lake

    report = Lake.open(store_uri(store)).ingest()
    log.say("ingested", runs=len(report.ingested), already_known=len(report.already_known))
    for name, reason in report.quarantined:
        log.say("quarantined", level="warning", bundle=name, reason=reason)
    document: dict[str, Any] = {
        "ingested": list(report.ingested),
        "already_known": list(report.already_known),
        "quarantined": [list(entry) for entry in report.quarantined],
    }
    if as_json:
        typer.echo(json.dumps(document))
        return
    typer.echo(f"{counted(len(report.ingested), 'run')} ingested, {len(report.already_known)} known already")
    for name, reason in report.quarantined:
        typer.echo(f"quarantined {name}: {reason}")


def sql(
    query: Annotated[str, typer.Argument(help="One SELECT; the tables are views of the same names.")],
    store: Store = None,
    as_of: Annotated[
        str | None,
        typer.Option(help="Answer as was known then: a time, as 2026-11-24T06:00Z, or an ingest sequence, as 17."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Rows as JSON, one a line.")] = False,
) -> None:
    """Ask the store a question in SQL.

    Example: collector store sql "SELECT case_id, arm, latency_p50_s FROM results ORDER BY measured_at DESC LIMIT 5"
    """
    from store.lake.lake import Lake

    lake = Lake.open(store_uri(store))
    table = lake.sql(query, as_of=None if as_of is None else _sequence(lake, as_of))
    if as_json:
        for row in table.to_pylist():
            typer.echo(json.dumps(row, default=str))
        return
    typer.echo("\t".join(table.column_names))
    for row in table.to_pylist():
        typer.echo("\t".join("" if value is None else str(value) for value in row.values()))


def _sequence(lake: Lake, text: str) -> int:
    """The ingest sequence that --as-of means."""
    from datetime import datetime

    from collector.errors import UsageError

    if text.isdecimal():
        latest = lake.latest_seq()
        if int(text) > latest:
            raise UsageError(f"--as-of is {text}, must be at most {latest}, the newest ingest sequence of the store")
        return int(text)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"--as-of is {text!r}, must be an ingest sequence or a time, as 2026-11-24T06:00Z") from None
    if at.tzinfo is None:
        raise UsageError(f"--as-of is {text!r}, has no time zone: write {text}{'Z' if 'T' in text else 'T00:00Z'}")
    return lake.seq_at(at)


def show_stats(store: Store = None, as_json: Json = False) -> None:
    """Say how much is in a store.

    Runs, what waits, what was refused, and the size of each table; from the logs alone.

    Example: collector store stats --store /srv/observatory
    """
    from dataclasses import asdict

    from store.lake.lake import Lake
    from store.lake.maintenance import stats

    lake = Lake.open(store_uri(store))
    found = stats(lake)
    if as_json:
        quarantined = [{"name": q.name, "reason": q.reason, "at": q.at.isoformat()} for q in found.quarantined]
        document = {"store": lake.uri, "runs": found.runs, "retracted_runs": found.retracted_runs}
        document |= {"latest_seq": found.latest_seq, "waiting": found.waiting, "quarantined": quarantined}
        typer.echo(json.dumps(document | {"tables": [asdict(table) for table in found.tables]}))
        return
    for line in _stats_lines(lake.uri, found):
        typer.echo(line)


def _stats_lines(uri: str, found: StoreStats) -> list[str]:
    from collector.cli.words import counted, memory

    hidden = f", {found.retracted_runs} retracted" if found.retracted_runs else ""
    waits = f"{found.waiting} waiting in the inbox, {len(found.quarantined)} in quarantine"
    lines = [f"{uri}: {counted(found.runs, 'run')}{hidden}, the latest is number {found.latest_seq}; {waits}"]
    lines.append(f"{'table':<16} {'rows':>12} {'files':>7} {'size':>10} {'version':>8}")
    for table in found.tables:
        size = memory(table.size_bytes)
        lines.append(f"{table.table:<16} {table.rows:>12,} {table.files:>7,} {size:>10} {table.version:>8,}")
    return lines


def verify_store(
    store: Store = None,
    fold: Annotated[
        bool, typer.Option("--fold/--no-fold", help="Fold `series` from the start and compare; takes the lock.")
    ] = True,
    as_json: Json = False,
) -> None:
    """List what is wrong with a store; exit 1 if anything is.

    Everything is read once: files gone, changed or unreadable, runs that are not complete, a fold that differs.

    Example: collector store verify --store /srv/observatory
    """
    from dataclasses import asdict

    from collector.cli.words import counted
    from store.lake.lake import Lake
    from store.lake.maintenance import verify

    lake = Lake.open(store_uri(store))
    problems = verify(lake, rebuild=fold)
    if as_json:
        typer.echo(json.dumps({"store": lake.uri, "problems": [asdict(problem) for problem in problems]}))
    else:
        for problem in problems:
            typer.echo(f"{problem.table}{f' {problem.path}' if problem.path else ''}: {problem.what}")
        typer.echo(f"{lake.uri}: {counted(len(problems), 'problem')}")
    if problems:
        raise typer.Exit(1)
