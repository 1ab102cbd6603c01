"""`collector shapes derive` and `import`: from what production ran to a weighted list that a suite can take."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from collector.cli.options import Json

if TYPE_CHECKING:
    from bench_suite.shapes.models import ModelConfig
    from bench_suite.shapes.representatives import ShapeList
    from bench_suite.shapes.traces import LengthTrace

shapes_app = typer.Typer(
    help="Shapes that production runs, as weighted lists.", no_args_is_help=True, rich_markup_mode=None
)
Out = Annotated[Path | None, typer.Option(help="Write the list here, as TOML that a suite can name.")]
Most = Annotated[int, typer.Option(help="Rows of the table to print; the list has all.")]


def register(app: typer.Typer) -> None:
    """Adds the group, with what `shape_lists` has for it."""
    from collector.cli import shape_lists
    from collector.cli.training_shapes import derive_training_shapes

    shape_lists.register(shapes_app)
    shapes_app.command("derive")(derive_shapes)
    shapes_app.command("derive-training")(derive_training_shapes)
    shapes_app.command("import")(import_recording)
    app.add_typer(shapes_app, name="shapes")


def derive_shapes(
    trace: Annotated[str | None, typer.Option(help="Name of a shipped trace, or a .csv or .jsonl file.")] = None,
    model: Annotated[str | None, typer.Option(help="Name of a shipped model, or of a table in --models.")] = None,
    models: Annotated[Path | None, typer.Option(help="Your own models: a TOML file, one table each.")] = None,
    tp: Annotated[int, typer.Option(help="Tensor-parallel ranks; the shapes are those of one.")] = 1,
    budget: Annotated[int, typer.Option(help="Tokens that one forward pass may take.")] = 2048,
    max_seqs: Annotated[int, typer.Option(help="Sequences that may run at once.")] = 256,
    load: Annotated[float, typer.Option(help="Factor on the trace's arrival rate.")] = 1.0,
    padding: Annotated[str, typer.Option(help="Of decode batches: none or cudagraph.")] = "none",
    chip: Annotated[str, typer.Option(help="Whose roofline gives the times: a100 or h100.")] = "h100",
    representatives: Annotated[int, typer.Option("--representatives", "-k", help="Shapes to keep.")] = 64,
    arrival: Annotated[str | None, typer.Option(help="Column of arrival times, where the names are not known.")] = None,
    arrival_unit: Annotated[str, typer.Option(help="Of that column: s, ms or iso.")] = "s",
    input_tokens: Annotated[str | None, typer.Option(help="Column of input lengths.")] = None,
    output_tokens: Annotated[str | None, typer.Option(help="Column of output lengths.")] = None,
    cached_tokens: Annotated[str | None, typer.Option(help="Column of cached prefix lengths, if there is one.")] = None,
    rate: Annotated[float | None, typer.Option(help="Requests a second, where the file has no arrival times.")] = None,
    seed: Annotated[int, typer.Option(help="Of the arrivals that --rate makes.")] = 0,
    shipped: Annotated[str | None, typer.Option(help="Derive this shipped list again, and compare the bytes.")] = None,
    out: Out = None,
    most: Most = 20,
    as_json: Json = False,
) -> None:
    """Derive the shapes of serving a trace with a model, cut down to few that stand for all.

    The scheduler is simulated (continuous batching, chunked prefill); every shape that ran is weighted by its roofline
    time; the representatives are medoids. What the cut costs is said: coverage and error. The same arguments give the
    same bytes.

    Examples:

      collector shapes derive --trace azure2023_conv --model llama-3.1-8b --load 4 -k 64 --out mine.toml

      collector shapes derive --trace log.csv --input-tokens prompt --output-tokens answer --rate 12 --model qwen3-8b

      collector shapes derive --shipped llama-3.1-8b_tp1_azure2023-conv_load1_budget2048
    """
    from bench_suite.shapes.derive import derive
    from bench_suite.shapes.representatives import represent
    from collector.cli.shape_lists import say_list
    from collector.errors import UsageError

    if shipped is not None:
        if trace is not None or model is not None:
            raise UsageError("--shipped says trace and model already; leave out --trace and --model")
        _again(shipped, out, most, as_json=as_json)
        return
    if trace is None or model is None:
        raise UsageError("--trace and --model are needed; `collector shapes list` names the shipped ones")
    columns = (arrival, arrival_unit, input_tokens, output_tokens, cached_tokens)
    table = derive(
        _trace(trace, columns, rate, seed),
        named_model(model, models),
        tensor_parallel=tp,
        token_budget=budget,
        max_seqs=max_seqs,
        load=load,
        padding=padding,
        chip=chip,
    )
    found = represent(table, representatives)
    save(found, out)
    say_list(found, most, as_json=as_json)


def _again(name: str, out: Path | None, most: int, *, as_json: bool) -> None:
    """Derives a shipped list anew; exit 1 where it is not the shipped one, byte for byte."""
    from bench_suite.shapes.listing import write_list
    from bench_suite.shapes.shipped import ALL_RECIPES, shipped_list, shipped_text
    from collector.cli.shape_lists import say_list

    shipped_list(name)  # an unknown name is said before minutes of work
    found = ALL_RECIPES[name].derive()
    save(found, out)
    same = write_list(found) == shipped_text(name)
    if as_json:
        typer.echo(json.dumps({"name": name, "reproduced": same} | asdict(found)))
    else:
        say_list(found, most)
        typer.echo(f"{'equal to' if same else 'NOT equal to'} the shipped list, byte for byte")
    if not same:
        raise typer.Exit(1)


Columns = tuple[str | None, str, str | None, str | None, str | None]


def _trace(name: str, columns: Columns, rate: float | None, seed: int) -> LengthTrace:
    """A shipped trace, or a file; where any column is named the others have the names of our own format."""
    from bench_suite.shapes.traces import TraceColumns, read_trace, trace_named

    arrival, unit, inputs, outputs, cached = columns
    if not any((arrival, inputs, outputs, cached)) and rate is None:
        return trace_named(name)
    usual = TraceColumns()
    chosen = TraceColumns(
        arrival=arrival or (usual.arrival if rate is None else None),
        input_tokens=inputs or usual.input_tokens,
        output_tokens=outputs or usual.output_tokens,
        cached_prefix_tokens=cached,
        arrival_unit=unit,
    )
    named = any((arrival, inputs, outputs, cached))
    return read_trace(Path(name), chosen if named else None, requests_per_s=rate, seed=seed)


def named_model(name: str, file: Path | None) -> ModelConfig:
    """A shipped model, or one of a file."""
    from bench_suite.shapes.models import load_models, model_named
    from collector.errors import UsageError

    if file is None:
        return model_named(name)
    known = load_models(file)
    if name not in known:
        raise UsageError(f"--model is {name!r}: not in {file}, must be one of {', '.join(known)}")
    return known[name]


def import_recording(
    file: Annotated[Path, typer.Argument(help="A profiler trace, execution trace, NCCL log or operator log.")],
    form: Annotated[
        str | None,
        typer.Option("--format", help="kineto, execution_trace, nccl_log or input_log; recognised where not given."),
    ] = None,
    ranks: Annotated[int | None, typer.Option(help="Group size of collectives, where the file has none.")] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Take what there is, although some operators have no sizes.")
    ] = False,
    dtype: Annotated[
        str | None, typer.Option(help="Element type to keep.", show_default="the one with the most time")
    ] = None,
    chip: Annotated[str, typer.Option(help="Whose roofline weighs shapes without times: a100 or h100.")] = "h100",
    representatives: Annotated[int, typer.Option("--representatives", "-k", help="Shapes to keep.")] = 64,
    out: Out = None,
    most: Most = 20,
    as_json: Json = False,
) -> None:
    """Take the shapes that a run recorded itself: the heaviest, weighted by device time where there is any.

    Read are torch profiler (Kineto) traces, execution traces, NCCL debug logs and operator input logs, plain or gzip.
    No name of a host, user or job is kept.

    Example: collector shapes import trace.json.gz --out mine.toml
    """
    from bench_suite.shapes.importers.files import import_shapes
    from bench_suite.shapes.importers.weigh import weigh
    from collector.cli.shape_lists import say_list

    recording = import_shapes(file, form, ranks=ranks, partial=partial)
    found = weigh(recording, representatives, dtype=dtype, chip=chip)
    save(found, out)
    if as_json:
        typer.echo(json.dumps(asdict(found) | {"skipped": [list(entry) for entry in recording.skipped]}))
        return
    say_list(found, most)
    for reason, calls in recording.skipped:
        typer.echo(f"not used: {reason} ({calls:,} calls)")


def save(found: ShapeList, out: Path | None) -> None:
    """Write the canonical text; UsageError where the place cannot be written."""
    from bench_suite.shapes.listing import write_list
    from collector.errors import UsageError

    if out is None:
        return
    try:
        out.write_text(write_list(found), encoding="utf-8", newline="\n")
    except OSError as error:
        raise UsageError(f"--out is {out}: cannot be written: {error.strerror}") from None
