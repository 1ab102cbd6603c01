"""`collector gate`: may the latest run go out, and what would a gate have said of the past?"""

from __future__ import annotations

import json
from typing import Annotated

import typer

from collector.cli.places import store_uri


def register(app: typer.Typer) -> None:
    app.command("gate")(gate)


def gate(
    name: Annotated[str, typer.Argument(help="A shipped gate (inference, training) or a .toml file.")] = "inference",
    store: Annotated[str | None, typer.Option(help="Folder or s3:// of the store.")] = None,
    run: Annotated[str | None, typer.Option(help="Run to check; the latest one by default.")] = None,
    curves: Annotated[
        str | None, typer.Option(help="CSV of loss curves (curve, role, step, loss), for the rules of a training gate.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Over all history: how often would it have fired?")
    ] = False,
    days: Annotated[int | None, typer.Option(help="With --dry-run: only the last so many days.", min=1)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Check a run against a gate: exit 0 where every rule passes, 1 where one fails, 4 where one cannot say.

    Examples:

      collector gate inference --store /srv/observatory

      collector gate training --curves losses.csv

      collector gate inference --dry-run --days 90
    """
    from collector.host.curves import read_curves
    from collector.host.gates import check_run, dry_run_gate, load_gate
    from detection.gate import Answer
    from store.lake.lake import Lake

    policy = load_gate(name)
    lake = Lake.open(store_uri(store))
    if dry_run:
        dry = dry_run_gate(lake, policy, days=days)
        document = {"fired": dry.fired, "confirmed": dry.confirmed, "days": dry.days, "runs": len(dry.outcomes)}
        typer.echo(json.dumps(document) if as_json else f"gate {policy.name} {policy.version}: {dry.sentence}")
        return
    outcome = check_run(lake, policy, run, curves=read_curves(curves) if curves else ())
    if outcome is None:
        typer.echo(json.dumps({"answer": "undecided", "lines": []}) if as_json else "no run to check")
        raise typer.Exit(4)
    told = [line for line in outcome.lines if line.answer is not Answer.PASSED]
    if as_json:
        lines = [
            {"rule": line.rule, "case_id": line.case_id, "answer": line.answer.value, "sentence": line.sentence}
            for line in outcome.lines
        ]
        typer.echo(json.dumps({"run_id": outcome.run_id, "answer": outcome.answer.value, "lines": lines}))
    else:
        passed = len(outcome.lines) - len(told)
        typer.echo(
            f"gate {policy.name} {policy.version}, run {outcome.run_id}: {outcome.answer.value}, {passed} passed"
        )
        for line in told:
            typer.echo(f"{line.answer.value}: {line.rule}: {line.sentence}")
    if outcome.answer is not Answer.PASSED:
        raise typer.Exit(1 if outcome.answer is Answer.FAILED else 4)
