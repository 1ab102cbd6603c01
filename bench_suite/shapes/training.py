"""Training run -> every shape and message of one optimizer step of a rank, with calls and roofline time.

Analytic, since training has few shapes: each projection's GEMM forward, its gradients of the input and of the weight,
the row-wise operators both ways, attention, loss, optimizer; and the messages of FSDP or DDP, of tensor parallelism
with sequence parallelism, and of the pipeline. Activations are kept (no recomputation) but for attention's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from bench_suite.shapes import cost
from bench_suite.shapes.chips import Chip, chip_named
from bench_suite.shapes.cost import Cost
from bench_suite.shapes.errors import ShapeError
from bench_suite.shapes.models import ModelConfig, Shard, model_named, shard
from bench_suite.shapes.representatives import Representative, ShapeList
from bench_suite.shapes.training_run import Sharding, TrainingRun

PHASE = "training"
GRADIENT_BYTES = 4
"""Gradients are summed over data-parallel ranks in fp32; a message's elements are counted in bf16 all the same."""
BACKWARD_PRODUCTS = 2.5
"""Five products of attention's gradients for two of its forward pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRecipe:
    """Arguments of a shipped list."""

    model: str
    sequence: int
    micro_batch: int
    micro_batches: int
    tensor_parallel: int
    pipeline_parallel: int
    data_parallel: int
    sharding: Sharding
    chip: str = "h100"

    @property
    def name(self) -> str:
        """File name without its ending."""
        ranks = f"tp{self.tensor_parallel}_pp{self.pipeline_parallel}_{self.sharding}{self.data_parallel}"
        return f"{self.model}_training_{ranks}_seq{self.sequence}"

    def derive(self) -> ShapeList:
        return derive_training(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """One operator of a step."""

    operator: str
    family: str
    axes: tuple[tuple[str, int], ...]
    calls: int
    """A step."""
    cost: Cost


def derive_training(recipe: TrainingRecipe, own: ModelConfig | None = None) -> ShapeList:
    """All shapes of a step, heaviest first, of the model that the recipe names or of a model that is not shipped.

    Raises ShapeError for a model that cannot be cut so.
    """
    model, chip = own or model_named(recipe.model), chip_named(recipe.chip)
    part = shard(model, recipe.tensor_parallel)
    run = TrainingRun(
        model=model.name, model_source=model.source, dtype="bf16", step_s=0.0,
        **{name: getattr(recipe, name) for name in _SHARED},
    )  # fmt: skip
    if model.layers % recipe.pipeline_parallel:
        raise ShapeError(
            f"pipeline_parallel is {recipe.pipeline_parallel}: layers of {model.name} is {model.layers}, "
            "must be a multiple of it"
        )
    if model.is_mixture:
        raise ShapeError(
            f"model {model.name}: training shapes of mixtures of experts are not derived, only dense ones; "
            "`collector shapes import` takes those of a recorded step"
        )
    calls = list(_step(run, part, chip))
    step_s = sum(call.calls * float(call.cost.time_s) for call in calls)
    shapes = sorted(_weighted(calls, step_s), key=lambda shape: -shape.weight_time)
    return ShapeList(
        origin=replace(run, step_s=step_s), shapes=tuple(shapes), coverage_time=1.0, error_time=0.0, error_total=0.0
    )


_SHARED = (
    "sequence", "micro_batch", "micro_batches", "tensor_parallel", "pipeline_parallel", "data_parallel", "sharding",
    "chip",
)  # fmt: skip


def _weighted(calls: list[_Call], step_s: float) -> Iterator[Representative]:
    totals = [sum(call.calls * value(call) for call in calls) for value in (_one, _flops, _traffic)]
    for call in calls:
        size = dict(call.axes).get("M", call.axes[0][1])
        yield Representative(
            operator=call.operator,
            family=call.family,
            phase=PHASE,
            axes=call.axes,
            weight_time=call.calls * float(call.cost.time_s) / step_s,
            weight_calls=call.calls / totals[0],
            weight_flops=call.calls * _flops(call) / totals[1],
            weight_bytes=call.calls * _traffic(call) / totals[2],
            members=1,
            cover_low=size,
            cover_high=size,
        )


def _one(call: _Call) -> float:
    return 1.0


def _flops(call: _Call) -> float:
    return float(call.cost.flops)


def _traffic(call: _Call) -> float:
    return float(call.cost.traffic_bytes)


def _step(run: TrainingRun, part: Shard, chip: Chip) -> Iterator[_Call]:
    layers = part.model.layers // run.pipeline_parallel
    passes = layers * run.micro_batches
    yield from _projections(run, part, chip, passes)
    yield from _rowwise(run, part, chip, passes)
    yield from _attention(run, part, chip, passes)
    yield from _head(run, part, chip)
    yield from _optimizer(run, part, chip, layers)
    yield from _tensor_messages(run, part, chip, passes)
    yield from _pipeline_messages(run, part, chip)
    yield from _data_messages(run, part, chip, layers)


def _linear(family: str, calls: int, M: int, N: int, K: int, chip: Chip) -> Iterator[_Call]:
    """A projection forward, and its gradients: dx [M, K] sums over N, dweight [N, K] over M."""
    axes = (("M", M), ("N", N), ("K", K))
    for operator, needed in (
        ("gemm", cost.gemm(M, N, K, chip)),
        ("gemm_dgrad", cost.gemm(M, K, N, chip)),
        ("gemm_wgrad", cost.gemm(N, K, M, chip)),
    ):
        yield _Call(operator=operator, family=family, axes=axes, calls=calls, cost=needed)


def _projections(run: TrainingRun, part: Shard, chip: Chip, passes: int) -> Iterator[_Call]:
    model, M = part.model, run.tokens
    yield from _linear("qkv", passes, M, (part.heads + 2 * part.kv_heads) * model.head_dim, model.hidden, chip)
    yield from _linear("o", passes, M, model.hidden, part.heads * model.head_dim, chip)
    yield from _linear("gate_up", passes, M, 2 * part.ffn, model.hidden, chip)
    yield from _linear("down", passes, M, model.hidden, part.ffn, chip)


def _row(
    operator: str, axes: Mapping[str, int], calls: int, flops: int, tensors: int, chip: Chip, *, wide: str
) -> _Call:
    """A fused row-wise operator that moves `tensors` tensors of its rows."""
    elements = axes["rows"] * axes[wide] * axes.get("heads", 1)
    return _Call(
        operator=operator,
        family=operator,
        axes=tuple(axes.items()),
        calls=calls,
        cost=cost.elementwise(flops * elements, tensors * elements, chip),
    )


def _rowwise(run: TrainingRun, part: Shard, chip: Chip, passes: int) -> Iterator[_Call]:
    model, own = part.model, run.tokens // run.tensor_parallel
    norms = 2 * passes + run.micro_batches
    norm, glu = {"rows": own, "hidden": model.hidden}, {"rows": run.tokens, "ffn": part.ffn}
    yield _row("rms_norm", norm, norms, 4, 2, chip, wide="hidden")
    yield _row("rms_norm_backward", norm, norms, 11, 3, chip, wide="hidden")
    yield _row("swiglu", glu, passes, 5, 3, chip, wide="ffn")
    yield _row("swiglu_backward", glu, passes, 11, 5, chip, wide="ffn")
    turned = {"rows": run.tokens, "heads": part.heads + part.kv_heads, "head_dim": model.head_dim}
    yield _row("rope", turned, 2 * passes, 3, 2, chip, wide="head_dim")  # its gradient turns the other way


def _attention(run: TrainingRun, part: Shard, chip: Chip, passes: int) -> Iterator[_Call]:
    q, heads, kv_heads, head_dim = run.sequence, part.heads, part.kv_heads, part.model.head_dim
    forward = cost.attention_prefill(q, q, heads, kv_heads, head_dim, chip)
    sizes = (("heads", heads), ("kv_heads", kv_heads), ("head_dim", head_dim))
    calls = passes * run.micro_batch
    yield _Call(
        operator="attention_prefill", family="attention", axes=(("q", q), ("kv", q), *sizes), calls=calls, cost=forward
    )
    backward = Cost(
        flops=BACKWARD_PRODUCTS * forward.flops,
        traffic_bytes=2 * forward.traffic_bytes,
        time_s=BACKWARD_PRODUCTS * forward.time_s,
    )
    yield _Call(operator="attention_backward", family="attention", axes=(("q", q), *sizes), calls=calls, cost=backward)


def _head(run: TrainingRun, part: Shard, chip: Chip) -> Iterator[_Call]:
    """The last stage: output projection and loss over this rank's part of the vocabulary; the first: the embedding."""
    model, M = part.model, run.tokens
    yield from _linear("lm_head", run.micro_batches, M, part.vocab, model.hidden, chip)
    loss = {"rows": M, "columns": part.vocab}
    yield _row("cross_entropy", loss, run.micro_batches, 4, 1, chip, wide="columns")
    yield _row("cross_entropy_backward", loss, run.micro_batches, 6, 2, chip, wide="columns")
    if run.pipeline_parallel == 1:
        axes = (("rows", M), ("vocab", part.vocab), ("hidden", model.hidden))
        moved = cost.elementwise(0, 2 * M * model.hidden, chip)
        yield _Call(operator="embedding", family="embedding", axes=axes, calls=run.micro_batches, cost=moved)


def _layer_parameters(part: Shard) -> int:
    model = part.model
    attention = model.hidden * model.head_dim * (2 * part.heads + 2 * part.kv_heads)
    return attention + 3 * model.hidden * part.ffn


def _stage_parameters(run: TrainingRun, part: Shard, layers: int) -> int:
    """Of this rank: its layers, and the embedding and output head where it has them (the norms are left out)."""
    tables = 2 if run.pipeline_parallel == 1 else 1
    return layers * _layer_parameters(part) + tables * part.vocab * part.model.hidden


def _optimizer(run: TrainingRun, part: Shard, chip: Chip, layers: int) -> Iterator[_Call]:
    """Once a step, in fp32, over what this rank keeps: with FSDP its share."""
    held = _stage_parameters(run, part, layers)
    kept = -(-held // run.data_parallel) if run.sharding is Sharding.FSDP else held
    moved = 7 * GRADIENT_BYTES // cost.ELEMENT_BYTES
    yield _Call(
        operator="adamw",
        family="optimizer",
        axes=(("elements", kept),),
        calls=1,
        cost=cost.elementwise(14 * kept, moved * kept, chip),
    )


def _message(operator: str, family: str, ranks: int, elements: int, calls: int, chip: Chip) -> _Call:
    needed = {
        "all_gather": cost.all_gather,
        "reduce_scatter": cost.all_gather,  # the same bus traffic, the other way
        "all_reduce": cost.all_reduce,
    }.get(operator, _point_to_point)
    size = elements * cost.ELEMENT_BYTES
    axes = (("ranks", ranks), ("elements", elements))
    return _Call(operator=operator, family=family, axes=axes, calls=calls, cost=needed(size, ranks, chip))


def _point_to_point(size_bytes: int, ranks: int, chip: Chip) -> Cost:
    return cost.send_recv(size_bytes, chip)


def _tensor_messages(run: TrainingRun, part: Shard, chip: Chip, passes: int) -> Iterator[_Call]:
    """Sequence parallelism: a gather before and a scatter after each half of a layer, forward and backward."""
    if run.tensor_parallel > 1:
        elements = run.tokens * part.model.hidden
        for operator in ("all_gather", "reduce_scatter"):
            yield _message(operator, "tensor_parallel", run.tensor_parallel, elements, 4 * passes, chip)


def _pipeline_messages(run: TrainingRun, part: Shard, chip: Chip) -> Iterator[_Call]:
    """To and from the stage before: activations forward, gradients backward, each rank its share of the tokens."""
    if run.pipeline_parallel > 1:
        elements = run.tokens * part.model.hidden // run.tensor_parallel
        yield _message("send_recv", "pipeline_parallel", 2, elements, 2 * run.micro_batches, chip)


def _data_messages(run: TrainingRun, part: Shard, chip: Chip, layers: int) -> Iterator[_Call]:
    ranks = run.data_parallel
    if ranks == 1:
        return
    if run.sharding is Sharding.DDP:
        held = _stage_parameters(run, part, layers)
        elements = held * GRADIENT_BYTES // cost.ELEMENT_BYTES
        yield _message("all_reduce", "data_parallel", ranks, elements, 1, chip)
        return
    tables = 2 if run.pipeline_parallel == 1 else 1
    units = ((_layer_parameters(part), layers), (tables * part.vocab * part.model.hidden, 1))
    for parameters, count in units:
        whole = -(-parameters // ranks) * ranks  # shards are padded to one size
        yield _message("all_gather", "fsdp", ranks, whole, 2 * count * run.micro_batches, chip)
        yield _message("reduce_scatter", "fsdp", ranks, whole, count * run.micro_batches, chip)


TRAINING_RECIPES: Mapping[str, TrainingRecipe] = {
    recipe.name: recipe
    for recipe in (
        TrainingRecipe(
            model="llama-3.1-8b", sequence=8192, micro_batch=1, micro_batches=1,
            tensor_parallel=1, pipeline_parallel=1, data_parallel=64, sharding=Sharding.FSDP,
        ),
        TrainingRecipe(
            model="llama-3.1-70b", sequence=8192, micro_batch=1, micro_batches=16,
            tensor_parallel=8, pipeline_parallel=4, data_parallel=16, sharding=Sharding.DDP,
        ),
    )
}  # fmt: skip
