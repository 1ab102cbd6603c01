"""`collector import`: somebody's history as runs of a store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from collector.cli.options import DryRun, Json, Store
from collector.cli.places import open_or_make

if TYPE_CHECKING:
    from datetime import tzinfo

    from store.exchange.imported_runs import ImportReport
    from store.exchange.long_csv import LongCsv
    from store.lake.lake import IngestReport


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("import")(import_history)


def import_history(
    file: Annotated[Path, typer.Argument(help="A CSV file in long form, gzipped or not: one line a sample.")],
    column: Annotated[
        list[str] | None, typer.Option(help="OURS=THEIRS, as case=benchmark, where a column has another name.")
    ] = None,
    status: Annotated[
        list[str] | None, typer.Option(help="THEIRS=OURS, as boom=failed:crashed, for a status not known here.")
    ] = None,
    time_zone: Annotated[str | None, typer.Option(help="Zone of times that have none, as Europe/Berlin.")] = None,
    delimiter: Annotated[str, typer.Option(help="Between fields; `tab` for tabulators.")] = ",",
    arm: Annotated[str, typer.Option(help="Arm of lines that name none.")] = "candidate",
    model: Annotated[
        list[str] | None, typer.Option(help="NAME=MODEL, where a device goes by several names; may be repeated.")
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="Where the numbers are from; kept with the runs.", show_default="the file's name")
    ] = None,
    ignore_clock: Annotated[
        bool, typer.Option("--ignore-clock", help="Take runs from before 2001 and from the future, too.")
    ] = False,
    store: Store = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Take in a history that something else measured.

    `collector detect` then judges it.

    Columns: run_id, started_at, host, gpu, case, metric, unit, value; where there are any also sample, status, arm,
    settings, revision, driver. Units become SI units; what is not understood is refused with its line. Every value is
    kept. The same file again adds nothing.

    Examples:

      collector import history.csv --store /srv/observatory

      collector import bench.csv --column case=benchmark --column gpu=device --time-zone Europe/Berlin

      collector detect --replay --store /srv/observatory
    """
    from bench_suite.datasheets import datasheets
    from store.exchange.imported_runs import RunWords, import_runs
    from store.exchange.long_csv import LongCsvOptions, read_long_csv

    options = LongCsvOptions(
        columns=_pairs("--column", column),
        time_zone=_zone(time_zone),
        statuses=_pairs("--status", status),
        delimiter=_delimiter(delimiter),
    )
    words = RunWords(
        source=source or file.name, arm=arm, models=_pairs("--model", model), known_models=frozenset(datasheets())
    )
    content = read_long_csv(file, options)
    if dry_run:
        _say(content, None, None, as_json=as_json)
        return
    lake = open_or_make(store)
    report = import_runs(content, lake.inbox, words)
    _say(content, report, lake.ingest(check_clock=not ignore_clock), as_json=as_json)


def _say(content: LongCsv, report: ImportReport | None, taken: IngestReport | None, *, as_json: bool) -> None:
    """What was in the file, what was converted, and what the store made of it; UsageError where it refused a run."""
    from collector.cli.words import counted
    from collector.errors import UsageError

    runs = sorted({reading.run_id for reading in content.readings})
    cases = {reading.case for reading in content.readings}
    ours = set(report.names) if report else set()
    notes = report.notes if report else content.notes
    refused = [(name, why) for name, why in (taken.quarantined if taken else ()) if name in ours]
    if as_json:
        new = set(taken.ingested) if taken else set()
        document = {
            "runs": runs,
            "cases": sorted(cases),
            "values": len(content.readings),
            "notes": list(report.notes if report else content.notes),
        }
        document["ingested"] = [run_id for run_id in report.run_ids if run_id in new] if report else []
        document["refused"] = [list(entry) for entry in refused]
        typer.echo(json.dumps(document))
    else:
        for note in notes:
            typer.echo(note)
        counts = ((len(content.readings), "value"), (len(cases), "case"), (len(runs), "run"))
        typer.echo(", ".join(counted(number, noun) for number, noun in counts))
        if report and taken:
            new_runs = len(set(report.run_ids) & set(taken.ingested))
            typer.echo(f"{new_runs} new in the store, {len(report.names) - new_runs - len(refused)} known already")
    if refused:
        name, why = refused[0]
        raise UsageError(f"{len(refused)} of {counted(len(ours), 'run')} went to quarantine, first {name}: {why}")


def _pairs(option: str, texts: list[str] | None) -> Mapping[str, str]:
    from collector.errors import UsageError

    pairs: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise UsageError(f"{option} is {text!r}, must be NAME=NAME")
        if pairs.setdefault(name, value) != value:
            raise UsageError(f"{option}: {name} is given twice, as {pairs[name]!r} and {value!r}")
    return pairs


def _zone(name: str | None) -> tzinfo | None:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    from collector.errors import UsageError

    try:
        return ZoneInfo(name) if name else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(f"--time-zone is {name!r}, must be the name of a zone, as UTC or Europe/Berlin") from None


def _delimiter(text: str) -> str:
    from collector.errors import UsageError

    chosen = "\t" if text == "tab" else text
    if len(chosen) != 1 or chosen in '\r\n"':
        raise UsageError(f"--delimiter is {text!r}, must be one character, or tab")
    return chosen
