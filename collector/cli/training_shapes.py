"""`collector shapes derive-training`: the shapes of a training step, by the sizes of a model and how it is cut."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from collector.cli.options import Json
from collector.cli.shape_lists import say_list

if TYPE_CHECKING:
    from bench_suite.shapes.training_run import Sharding


def derive_training_shapes(
    model: Annotated[str, typer.Option(help="Name of a shipped model, or of a table in --models.")],
    models: Annotated[Path | None, typer.Option(help="Your own models: a TOML file, one table each.")] = None,
    sequence: Annotated[int, typer.Option(help="Tokens of a training sequence.")] = 8192,
    micro_batch: Annotated[int, typer.Option(help="Sequences of one forward and backward pass.")] = 1,
    micro_batches: Annotated[int, typer.Option(help="Passes of an optimizer step.")] = 1,
    tp: Annotated[int, typer.Option(help="Tensor-parallel ranks, with sequence parallelism.")] = 1,
    pp: Annotated[int, typer.Option(help="Pipeline stages; the shapes are those of the last.")] = 1,
    dp: Annotated[int, typer.Option(help="Data-parallel ranks.")] = 1,
    sharding: Annotated[str, typer.Option(help="What data-parallel ranks hold: ddp or fsdp.")] = "fsdp",
    chip: Annotated[str, typer.Option(help="Whose roofline gives the times: a100 or h100.")] = "h100",
    out: Annotated[Path | None, typer.Option(help="Write the list here, as TOML that a suite can name.")] = None,
    most: Annotated[int, typer.Option(help="Rows of the table to print; the list has all.")] = 20,
    as_json: Json = False,
) -> None:
    """Derive every shape and message of one optimizer step of a rank, for a dense model.

    Each projection forward and its two gradients, row-wise operators both ways, attention, loss, optimizer; messages of
    FSDP or DDP, of tensor and of pipeline parallelism. The same arguments give the same bytes.

    Examples:

      collector shapes derive-training --model qwen3-8b --sequence 4096 --micro-batches 4 --dp 32 --out mine.toml

      collector shapes derive-training --models ours.toml --model ours --tp 8 --pp 4 --dp 16 --sharding ddp
    """
    from bench_suite.shapes.training import TrainingRecipe, derive_training
    from collector.cli.shapes import named_model, save

    recipe = TrainingRecipe(
        model=model,
        sequence=sequence,
        micro_batch=micro_batch,
        micro_batches=micro_batches,
        tensor_parallel=tp,
        pipeline_parallel=pp,
        data_parallel=dp,
        sharding=_sharding(sharding),
        chip=chip,
    )
    found = derive_training(recipe, named_model(model, models))
    save(found, out)
    say_list(found, most, as_json=as_json)


def _sharding(text: str) -> Sharding:
    from bench_suite.shapes.training_run import Sharding
    from collector.errors import UsageError

    try:
        return Sharding(text)
    except ValueError:
        raise UsageError(f"--sharding is {text!r}, must be one of {', '.join(Sharding)}") from None
