"""`collector gate`: may the latest run go out, and what would a gate have said of the past?"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from collector.cli.places import store_uri

if TYPE_CHECKING:
    from detection.gate import GatePolicy
    from detection.gate_dry_run import DryRun
    from detection.gate_history import GateOutcome

SHOWN = {"failed": 10, "undecided": 1}
"""Lines of a rule that are printed."""


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

    A dry run exits 0, or 4 where no run has a case that the gate concerns.

    Examples:

      collector gate inference --store /srv/observatory

      collector gate training --curves losses.csv

      collector gate inference --dry-run --days 90
    """
    from collector.host.curves import read_curves
    from collector.host.gates import check_run, dry_run_gate, load_gate
    from detection.gate import Answer
    from store.lake.lake import Lake

    if days is not None and not dry_run:
        raise typer.BadParameter("is for --dry-run; a check reads all history", param_hint="--days")
    if dry_run and (run or curves):
        raise typer.BadParameter("goes with no run and no curves: it asks about all runs", param_hint="--dry-run")
    policy = load_gate(name)
    evidence = read_curves(curves) if curves else ()
    lake = Lake.open(store_uri(store))
    title = f"gate {policy.name} {policy.version}"
    if dry_run:
        dry = dry_run_gate(lake, policy, days=days)
        typer.echo(json.dumps(_counts(dry)) if as_json else "\n".join(_dry_lines(title, dry, policy)))
        raise typer.Exit(4 if dry.idle == len(dry.outcomes) else 0)
    outcome = check_run(lake, policy, run, curves=evidence)
    if outcome is None:
        what = f"no run {run!r} in the store" if run else "no run in the store; `collector run` makes one"
        typer.echo(json.dumps({"answer": "undecided", "lines": []}) if as_json else f"{title}: undecided, {what}")
        raise typer.Exit(4)
    if as_json:
        lines = [
            {"rule": line.rule, "case_id": line.case_id, "answer": line.answer.value, "sentence": line.sentence}
            for line in outcome.lines
        ]
        typer.echo(json.dumps({"run_id": outcome.run_id, "answer": outcome.answer.value, "lines": lines}))
    else:
        typer.echo("\n".join(_check_lines(title, outcome)))
    if outcome.answer is not Answer.PASSED:
        raise typer.Exit(1 if outcome.answer is Answer.FAILED else 4)


def _check_lines(title: str, outcome: GateOutcome) -> Iterator[str]:
    """The answer, and behind it what did not pass: failed lines, then undecided ones, a few of each rule."""
    count = Counter(line.answer.value for line in outcome.lines)
    counts = ", ".join(f"{count[word]} {word}" for word in ("failed", "undecided", "passed") if count[word])
    yield f"{title}, run {outcome.run_id}: {outcome.answer.value} (of {len(outcome.lines)} checks {counts})"
    for answer in ("failed", "undecided"):
        by_rule: dict[str, list[str]] = {}
        for line in outcome.lines:
            if line.answer.value == answer:
                by_rule.setdefault(line.rule, []).append(line.sentence)
        for rule, sentences in by_rule.items():
            yield from (f"{answer}: {f'{rule}: ' if rule else ''}{sentence}" for sentence in sentences[: SHOWN[answer]])
            if (more := len(sentences) - SHOWN[answer]) > 0:
                yield f"{answer}: {rule}: and {more} more, --json has them"


def _dry_lines(title: str, dry: DryRun, policy: GatePolicy) -> Iterator[str]:
    from detection.gate import CURVE_METRICS

    yield f"{title}: {dry.sentence}"
    yield from (f"{count.rule}: fired {count.fired} times, {count.confirmed} confirmed" for count in dry.rules)
    left_out = sum(rule.metric in CURVE_METRICS for rule in policy.rules)
    if left_out:
        yield f"{left_out} rules over loss curves are left out: a store keeps no curves"


def _counts(dry: DryRun) -> dict[str, object]:
    from detection.gate import Answer

    return {
        "fired": dry.fired,
        "confirmed": dry.confirmed,
        "days": dry.days,
        "runs": len(dry.outcomes),
        "undecided": sum(outcome.answer is Answer.UNDECIDED for outcome in dry.outcomes),
        "nothing_to_judge": dry.idle,
        "rules": [{"rule": c.rule, "fired": c.fired, "confirmed": c.confirmed} for c in dry.rules],
    }
