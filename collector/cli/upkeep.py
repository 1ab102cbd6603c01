"""`collector store optimize`, `vacuum`, `migrate`, `rebuild`, `expire-samples`, `backup`: keeping a store in order."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from collector.cli.options import DryRun, Json, Store
from collector.cli.places import store_uri


def register(store_app: typer.Typer) -> None:
    """Adds the commands to `collector store`."""
    store_app.command("optimize")(optimize_store)
    store_app.command("vacuum")(vacuum_store)
    store_app.command("migrate")(migrate_store)
    store_app.command("rebuild")(rebuild)
    store_app.command("expire-samples")(expire)
    store_app.command("backup")(backup_store)


def optimize_store(store: Store = None, as_json: Json = False) -> None:
    """Sort and compact days and months that are over.

    Each once; what readers see stays the same.

    Example: collector store optimize --store /srv/observatory
    """
    from dataclasses import asdict

    from store.lake.lake import Lake
    from store.lake.maintenance import optimize

    rewrites = optimize(Lake.open(store_uri(store)))
    if as_json:
        typer.echo(json.dumps({"rewrites": [asdict(rewrite) for rewrite in rewrites]}))
        return
    for done in rewrites:
        where = f"{done.table} {done.month}" if done.month else done.table
        typer.echo(f"{where}: {done.files_before} files are {done.files_after} now ({done.what}), {done.rows:,} rows")
    if not rewrites:
        typer.echo("nothing to do")


def vacuum_store(
    store: Store = None,
    keep_h: Annotated[float, typer.Option(help="Hours of past versions to keep; at least 1, for readers.")] = 24.0,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Delete the files that nobody needs any more.

    Those that no version of the last hours has, and what killed commits left.

    Example: collector store vacuum --dry-run
    """
    import math
    from datetime import timedelta

    from collector.cli.words import counted
    from collector.errors import UsageError
    from store.lake.lake import Lake
    from store.lake.maintenance import vacuum

    if not (math.isfinite(keep_h) and 0 < keep_h < 1e6):
        raise UsageError(f"--keep-h is {keep_h}, must be a number of hours from 1 to a million")
    gone = vacuum(Lake.open(store_uri(store)), keep=timedelta(hours=keep_h), dry_run=dry_run)
    if as_json:
        typer.echo(json.dumps({"dry_run": dry_run, "files": list(gone)}))
        return
    for path in gone:
        typer.echo(path)
    typer.echo(f"{counted(len(gone), 'file')} {'would be deleted' if dry_run else 'deleted'}")


def migrate_store(store: Store = None, dry_run: DryRun = False, as_json: Json = False) -> None:
    """Bring an older store to this version.

    By named steps, which only add tables and columns.

    Example: collector store migrate --dry-run
    """
    from collector.cli.words import counted
    from store.lake.lake import Lake
    from store.lake.migrate import migrate

    steps = migrate(Lake.open(store_uri(store)), dry_run=dry_run)
    if as_json:
        rows = [{"name": step.name, "table": step.table, "columns": list(step.columns)} for step in steps]
        typer.echo(json.dumps({"dry_run": dry_run, "steps": rows}))
        return
    for step in steps:
        typer.echo(step.words)
    words = f"{counted(len(steps), 'step')} {'to do' if dry_run else 'done'}"
    typer.echo(words if steps else "the store is of this version")


def rebuild(store: Store = None, as_json: Json = False) -> None:
    """Fold `series` anew from all of history.

    What to do when `verify` says that it differs from its fold.

    Example: collector store rebuild --store /srv/observatory
    """
    from store.lake.lake import Lake

    lake = Lake.open(store_uri(store))
    lake.rebuild_series()
    count = lake.sql("SELECT count(*) AS n FROM series").to_pylist()[0]["n"]
    typer.echo(json.dumps({"series": count}) if as_json else f"{count:,} series folded from all of history")


def expire(
    before: Annotated[str, typer.Option(help="Let go what is of months before this day, as 2026-03-01.")],
    store: Store = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Let the raw samples of old months go.

    Results, verdicts and findings stay. The next vacuum frees the space.

    Example: collector store expire-samples --before 2026-03-01 --dry-run
    """
    from datetime import UTC, datetime

    import pyarrow.dataset as ds

    from collector.cli.words import counted
    from collector.errors import UsageError
    from store.lake.lake import Lake
    from store.lake.maintenance import expire_samples

    try:
        day = datetime.strptime(before, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise UsageError(f"--before is {before!r}, must be a day, as 2026-03-01") from None
    lake = Lake.open(store_uri(store))
    month = f"{day:%Y-%m}"
    if dry_run:
        rows = int(lake.tables.dataset("samples").count_rows(filter=ds.field("month") < month))
    else:
        rows = expire_samples(lake, before=day)
    if as_json:
        typer.echo(json.dumps({"dry_run": dry_run, "before": month, "rows": rows}))
        return
    typer.echo(f"{counted(rows, 'row')} of samples before {month} {'would go' if dry_run else 'gone'}")


def backup_store(
    target: Annotated[str, typer.Argument(help="A new folder or s3:// prefix.")],
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Copy the store, as it is at one moment, to a new place.

    Example: collector store backup s3://lab-backup/observatory-2026-11-30 --store /srv/observatory
    """
    from store.lake.lake import Lake
    from store.lake.maintenance import backup

    lake = Lake.open(store_uri(store))
    copy = backup(lake, target)
    typer.echo(json.dumps({"store": lake.uri, "backup": copy.uri}) if as_json else f"{lake.uri} copied to {copy.uri}")
