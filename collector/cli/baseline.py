"""`collector baseline`: move what a series is held against by a recorded act, list the acts, and take one back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from collector.cli.options import Json, Store, user_name
from collector.cli.places import store_uri

if TYPE_CHECKING:
    from collector.host.baselines import BaselineMove

baseline_app = typer.Typer(
    help="What series are held against: moved by recorded acts.", no_args_is_help=True, rich_markup_mode=None
)
Reason = Annotated[str, typer.Option(help="Why; kept with the act.")]
Actor = Annotated[str | None, typer.Option(help="Who says so.", show_default="the user's name")]


def register(app: typer.Typer) -> None:
    baseline_app.command("move")(move)
    baseline_app.command("undo")(undo)
    baseline_app.command("list")(list_moves)
    app.add_typer(baseline_app, name="baseline")


def move(
    case: Annotated[str, typer.Option(help="Case id.")],
    run: Annotated[str, typer.Option(help="The run with which the baseline starts.")],
    reason: Reason,
    arm: Annotated[str | None, typer.Option(help="Arm; all of them by default.")] = None,
    unit: Annotated[str | None, typer.Option(help="Device unit; all of them by default.")] = None,
    metric: Annotated[str, typer.Option(help="Metric, as verdicts name it.")] = "latency_ratio",
    actor: Actor = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Let the baseline of a case start with a run: what it was before is no longer what it is held to.

    Nothing that was said changes; the next judging uses it. `undo` takes it back.

    Example: collector baseline move --case "gemm[bf16,M=8,N=6144,K=4096]" --run R1 --reason "new kernel, agreed"
    """
    from datetime import UTC, datetime

    from collector.errors import UsageError
    from collector.host.baselines import move_baseline
    from detection.verdict import Metric
    from store.lake.lake import Lake

    if metric not in set(Metric):
        raise UsageError(f"--metric is {metric!r}, must be one of {', '.join(Metric)}")
    moves = move_baseline(
        Lake.open(store_uri(store)),
        case_id=case,
        from_run_id=run,
        metric=Metric(metric),
        reason=reason,
        actor=actor or user_name(),
        now=datetime.now(UTC),
        arm=arm,
        device_unit=unit,
    )
    _say(moves, as_json=as_json)


def undo(
    acts: Annotated[list[str], typer.Argument(help="Ids of acts, as `list` shows them.")],
    reason: Reason,
    actor: Actor = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Take moves back: the series are held against what was before again.

    Example: collector baseline undo 5f0c9a1b2c3d4e5f --reason "the kernel was rolled back"
    """
    from datetime import UTC, datetime

    from collector.host.baselines import undo_baseline
    from store.lake.lake import Lake

    lake = Lake.open(store_uri(store))
    _say(undo_baseline(lake, acts, reason=reason, actor=actor or user_name(), now=datetime.now(UTC)), as_json=as_json)


def list_moves(
    every: Annotated[bool, typer.Option("--all", help="Those that were undone too.")] = False,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """List the acts that stand.

    Example: collector baseline list --store /srv/observatory
    """
    from collector.host.baselines import read_moves
    from store.lake.lake import Lake

    moves = [m for m in read_moves(Lake.open(store_uri(store))) if every or m.stands]
    _say(moves, as_json=as_json)


def _say(moves: Sequence[BaselineMove], *, as_json: bool) -> None:
    if as_json:
        documents = [
            {
                "act_id": m.act_id,
                "act": m.act.value,
                "at": m.at.isoformat(),
                "actor": m.actor,
                "case_id": m.case_id,
                "arm": m.arm,
                "device_unit": m.device_unit,
                "metric": m.metric.value,
                "from_run_id": m.from_run_id,
                "reason": m.reason,
                "stands": m.stands,
            }
            for m in moves
        ]
        typer.echo(json.dumps(documents))
        return
    for m in moves:
        typer.echo(
            f"{m.act_id} {m.act.value}: {m.metric.value} of {m.case_id} · {m.arm} · {m.device_unit} "
            f"from run {m.from_run_id} on; {m.actor}, {m.at:%Y-%m-%d %H:%M}: {m.reason}"
        )
    if not moves:
        typer.echo("no act")
