"""`collector demo`: a store with a simulated fleet, to look at before there is one of your own."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command("demo")(demo)


def demo(
    store: Annotated[str, typer.Option(help="Folder for the store; must not hold one with runs.")] = "observatory-demo",
    seed: Annotated[int, typer.Option(help="Another seed is another fleet with another fate.")] = 1,
    nights: Annotated[int, typer.Option(min=20, max=1000, help="Nights to simulate.")] = 120,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Simulate three models of four units over 120 nights, judge them, and list what was planted and what was found.

    Nothing is measured: every name and note says that it is simulated. Look at it with `collector dashboard`.

    Example: collector demo --store /tmp/demo && collector dashboard --store /tmp/demo
    """
    from collector.host.demo import build_demo, describe

    shown = sys.stderr.isatty() and not as_json

    def tell(words: str) -> None:
        if shown:
            sys.stderr.write(f"\r\x1b[2K{words}")
            sys.stderr.flush()

    report = build_demo(store, seed=seed, nights=nights, progress=tell)
    tell("")
    if as_json:
        planted = [
            {
                "happening": p.event.happening.value,
                "night": p.event.night,
                "findings": p.findings,
                "found": p.found,
                "classed": p.classed,
            }
            for p in report.planted
        ]
        typer.echo(json.dumps({"runs": report.runs, "planted": planted, "unplanted": report.unplanted}))
        return
    typer.echo(f"{report.runs} simulated runs in {store}, {report.findings} confirmed findings")
    for line in describe(report):
        typer.echo(line)
