"""`collector shapes list`, `show`, `compare`: looking at weighted lists."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from collector.cli.options import Json

if TYPE_CHECKING:
    from bench_suite.shapes.compare import ListComparison
    from bench_suite.shapes.representatives import Representative, ShapeList

List = Annotated[str, typer.Argument(help="Name of a shipped list, or a .toml file.")]
LONGEST_LENGTHS = 4
"""Lengths of a ragged batch beyond this are told by their number and ends."""


def register(shapes_app: typer.Typer) -> None:
    """Adds the commands to `collector shapes`."""
    shapes_app.command("list")(list_known)
    shapes_app.command("show")(show_list)
    shapes_app.command("compare")(compare)


def list_known(as_json: Json = False) -> None:
    """Name the shipped traces, models, chips and lists.

    Example: collector shapes list
    """
    from bench_suite.shapes.chips import CHIPS
    from bench_suite.shapes.models import load_models
    from bench_suite.shapes.shipped import ALL_RECIPES
    from bench_suite.shapes.traces import shipped_traces

    known = {"traces": list(shipped_traces()), "models": list(load_models()), "chips": list(CHIPS)}
    known["lists"] = list(ALL_RECIPES)
    if as_json:
        typer.echo(json.dumps(known))
        return
    for kind, names in known.items():
        typer.echo(f"{kind}:")
        for name in names:
            typer.echo(f"  {name}")


def show_list(
    shapes: List,
    most: Annotated[int, typer.Option(help="Rows of the table to print, heaviest first.")] = 64,
    as_json: Json = False,
) -> None:
    """Show a weighted list: where it comes from, how well it stands for all, and its shapes.

    Example: collector shapes show llama-3.1-8b_tp1_azure2023-conv_load1_budget2048
    """
    say_list(named_list(shapes), most, as_json=as_json)


def compare(a: List, b: List, as_json: Json = False) -> None:
    """Compare two lists: time by operator, and how much of each the other stands for.

    Example: collector shapes compare llama-3.1-8b_tp1_azure2023-conv_load1_budget2048 mine.toml
    """
    from bench_suite.shapes.compare import compare_lists

    found = compare_lists(named_list(a), named_list(b))
    if as_json:
        typer.echo(json.dumps({"a": a, "b": b} | asdict(found)))
        return
    for line in comparison_lines(a, b, found):
        typer.echo(line)


def named_list(name: str) -> ShapeList:
    """A shipped list, or the one in a file."""
    from bench_suite.shapes.listing import read_list
    from bench_suite.shapes.shipped import shipped_list

    return read_list(Path(name)) if name.endswith(".toml") else shipped_list(name)


def say_list(found: ShapeList, most: int, *, as_json: bool = False) -> None:
    """Provenance, quality and the heaviest shapes of a list, for a person or as JSON."""
    if as_json:
        typer.echo(json.dumps(asdict(found)))
        return
    for line in list_lines(found, most):
        typer.echo(line)


def list_lines(found: ShapeList, most: int) -> list[str]:
    """The lines of `show`."""
    lines = [found.origin.summary, *_quality(found)]
    lines.append(f"{'weight':>7} {'calls':>7}  {'operator':<24} {'family':<16} {'phase':<8} sizes")
    shown = sorted(found.shapes, key=lambda s: -s.weight_time)[: max(0, most)]
    lines += [_shape_line(shape) for shape in shown]
    if len(shown) < len(found.shapes):
        rest = sum(s.weight_time for s in found.shapes) - sum(s.weight_time for s in shown)
        lines.append(f"{_share(rest):>7} in {len(found.shapes) - len(shown)} more")
    return lines


def _quality(found: ShapeList) -> list[str]:
    """What the cut costs: a derived list stands for all that ran, a recorded one leaves the rest out."""
    from bench_suite.shapes.derive import Derivation
    from bench_suite.shapes.representatives import COVERED_RATIO
    from bench_suite.shapes.training_run import TrainingRun
    from collector.cli.words import change, counted

    number = counted(len(found.shapes), "shape")
    if isinstance(found.origin, TrainingRun):
        return [f"{number}: all of one step, {found.origin.step_s:.3g} s by the roofline"]
    if not isinstance(found.origin, Derivation):
        return [f"{number} with {_share(found.coverage_time)} of the time; the rest is left out"]
    within = f"{100 * (COVERED_RATIO - 1):g} %"
    return [
        f"{number} for all that ran; {_share(found.coverage_time)} of the time is within {within} of one in size",
        f"error of the time: {_share(found.error_time)} a shape in the mean, {change(found.error_total)} in total",
    ]


def _shape_line(shape: Representative) -> str:
    sizes = " ".join(f"{name}={_size(size)}" for name, size in shape.axes)
    weights = f"{_share(shape.weight_time):>7} {_share(shape.weight_calls):>7}"
    return f"{weights}  {shape.operator:<24} {shape.family:<16} {shape.phase:<8} {sizes}"


def _size(size: int | tuple[int, ...]) -> str:
    if isinstance(size, int):
        return str(size)
    if len(size) <= LONGEST_LENGTHS:
        return "/".join(map(str, size))
    return f"{min(size)}..{max(size)} ({len(size)} lengths)"


def _share(share: float) -> str:
    return f"{100 * share:.1f} %"


def comparison_lines(a: str, b: str, found: ListComparison) -> list[str]:
    """The lines of `compare`."""
    from bench_suite.shapes.representatives import COVERED_RATIO
    from collector.cli.words import change, counted

    lines = [f"A {a}", f"B {b}"]
    lines += [f"  {name}: {one} | {other}" for name, one, other in found.settings]
    lines.append(f"{'operator':<24} {'family':<18} {'time of A':>10} {'of B':>8} {'B - A':>8} {'shapes':>8}")
    for family in found.families:
        difference = change(family.share_b - family.share_a)
        shapes = f"{family.shapes_a}, {family.shapes_b}"
        shares = f"{_share(family.share_a):>10} {_share(family.share_b):>8} {difference:>8} {shapes:>8}"
        lines.append(f"{family.operator:<24} {family.family:<18} {shares}")
    within = f"{100 * (COVERED_RATIO - 1):g} %"
    lines += [
        f"{_share(found.distance)} of the time lies with other operators",
        f"{counted(found.common_shapes, 'shape')} in both: {_share(found.common_share_a)} of A's time, "
        f"{_share(found.common_share_b)} of B's",
        f"within {within} of a shape of the other in size: {_share(found.near_share_a)} of A's time, "
        f"{_share(found.near_share_b)} of B's",
    ]
    return lines
