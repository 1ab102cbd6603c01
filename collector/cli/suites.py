"""`collector suite`: which suites there are, and what is in them."""

from __future__ import annotations

import json
from typing import Annotated

import typer

suite_app = typer.Typer(
    help="Which suites there are, and what is in them.", no_args_is_help=True, rich_markup_mode=None
)


def register(app: typer.Typer) -> None:
    """Adds the group, with what `inventory` has for it."""
    from collector.cli import inventory

    inventory.register(suite_app)
    app.add_typer(suite_app, name="suite")


@suite_app.command("list")
def list_suites(as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False) -> None:
    """The suites that ship with the package.

    Example: collector suite list --json
    """
    from bench_suite.suite import load_suite, suite_names

    suites = [load_suite(name) for name in suite_names()]
    if as_json:
        rows = [{"name": s.name, "hash": s.hash, "cases": len(s.cases), "summary": s.summary} for s in suites]
        typer.echo(json.dumps(rows))
        return
    for suite in suites:
        typer.echo(f"{suite.name:<14} {len(suite.cases):>4} cases  {suite.summary}")


@suite_app.command("show")
def show(
    suite: Annotated[str, typer.Argument(help="Name of a shipped suite, or a .toml file.")],
    device: Annotated[str, typer.Option(help="Kind of device that it is resolved for.")] = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """The cases of a suite with weights and where their shapes come from.

    Example: collector suite show quick
    """
    from bench_suite.suite import load_suite

    found = load_suite(suite, device)
    if as_json:
        rows = [
            {"case_id": c.case.case_id, "weight": c.weight, "label": c.label, "provenance": c.provenance}
            for c in found.cases
        ]
        typer.echo(json.dumps({"name": found.name, "hash": found.hash, "cases": rows}))
        return
    typer.echo(f"{found.name} ({found.hash}): {found.summary}")
    for case in found.cases:
        weight = "     –" if case.weight is None else f"{100 * case.weight:5.1f} %"
        typer.echo(f"{weight}  {case.case.case_id}  {case.label}")
    for key, value in found.source:
        typer.echo(f"source {key}: {value}")
