"""A recording -> a weighted list that a suite can take, as derived lists are."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from bench_suite.shapes import cost
from bench_suite.shapes.chips import Chip, chip_named
from bench_suite.shapes.cost import Cost
from bench_suite.shapes.errors import ShapeError
from bench_suite.shapes.importers.recording import RecordedShape, Recording
from bench_suite.shapes.representatives import Recorded, Representative, ShapeList

Sizes = Mapping[str, int]

_COSTS: Mapping[str, Callable[[Sizes, Chip], Cost]] = {
    "gemm": lambda s, chip: cost.gemm(s["M"], s["N"], s["K"], chip),
    "batched_gemm": lambda s, chip: _times(s["batch"], cost.gemm(s["M"], s["N"], s["K"], chip)),
    "softmax": lambda s, chip: cost.elementwise(5 * _product(s), 2 * _product(s), chip),
    "rms_norm": lambda s, chip: cost.elementwise(4 * _product(s), 2 * _product(s), chip),
    "layer_norm": lambda s, chip: cost.elementwise(7 * _product(s), 2 * _product(s), chip),
    "attention_decode": lambda s, chip: cost.attention_decode(
        s["batch"], s["batch"] * s["kv"], s["heads"], s["kv_heads"], s["head_dim"], chip
    ),
    "attention_prefill": lambda s, chip: _attention(s, chip),
    "attention_batched": lambda s, chip: _times(s["batch"], _attention(s, chip)),
    "attention_full": lambda s, chip: _times(2 * s["batch"], _attention(s, chip)),
    "all_reduce": lambda s, chip: cost.all_reduce(cost.ELEMENT_BYTES * s["elements"], s["ranks"], chip),
}
"""Work and roofline time of one call in bf16; another collective costs as a gather of its buffer."""


def weigh(recording: Recording, most: int, *, dtype: str | None = None, chip: str = "h100") -> ShapeList:
    """The `most` heaviest shapes of a recording, of one element type (the one with most time, unless named).

    Weights are shares of device time where every shape has it, else of roofline time. What is left out counts as
    missed: 1 - coverage is the error. Raises ShapeError for a type that is not in the recording.
    """
    if most < 1:
        raise ShapeError(f"recording: {most} shapes asked, must be >= 1")
    hardware = chip_named(chip)
    measured = all(shape.time_s is not None for shape in recording.shapes)
    weights = {shape: _time_s(shape, hardware, measured) for shape in recording.shapes}
    chosen_dtype = dtype or _heaviest_dtype(weights)
    shapes = [shape for shape in recording.shapes if shape.dtype == chosen_dtype]
    if not shapes:
        known = ", ".join(sorted({shape.dtype for shape in recording.shapes}))
        raise ShapeError(f"recording: no shape of dtype {chosen_dtype!r} in it, must be one of {known}")
    shapes.sort(key=lambda shape: (-weights[shape], shape.operator, shape.axes))
    totals = _Totals(shapes, weights, hardware)
    kept = tuple(_representative(shape, weights[shape], totals, hardware) for shape in shapes[:most])
    coverage = sum(shape.weight_time for shape in kept)
    return ShapeList(
        origin=Recorded(
            format=recording.format,
            sha256=recording.sha256,
            calls=sum(shape.calls for shape in shapes),
            dtype=chosen_dtype,
            weighted_by="measured device time" if measured else "roofline time",
            chip=chip,
        ),
        shapes=kept,
        coverage_time=coverage,
        error_time=1 - coverage,
        error_total=coverage - 1,
    )


class _Totals:
    """Of all shapes: what shares are of."""

    def __init__(self, shapes: list[RecordedShape], weights: Mapping[RecordedShape, float], chip: Chip) -> None:
        self.time_s = sum(weights[shape] for shape in shapes)
        self.calls = sum(shape.calls for shape in shapes)
        self.flops = sum(shape.calls * float(_cost(shape, chip).flops) for shape in shapes)
        self.traffic_bytes = sum(shape.calls * float(_cost(shape, chip).traffic_bytes) for shape in shapes)


def _representative(shape: RecordedShape, time_s: float, totals: _Totals, chip: Chip) -> Representative:
    one = _cost(shape, chip)
    sizes = dict(shape.axes)
    size = sizes.get("M") or sizes.get("rows") or sizes.get("q") or sizes.get("batch") or sizes.get("elements") or 1
    assert isinstance(size, int)
    return Representative(
        operator=shape.operator,
        family=shape.operator,
        phase="decode" if shape.operator == "attention_decode" else "mixed",
        axes=shape.axes,
        weight_time=time_s / totals.time_s,
        weight_calls=shape.calls / totals.calls,
        weight_flops=shape.calls * float(one.flops) / totals.flops if totals.flops else 0.0,
        weight_bytes=shape.calls * float(one.traffic_bytes) / totals.traffic_bytes,
        members=1,
        cover_low=size,
        cover_high=size,
    )


def _heaviest_dtype(weights: Mapping[RecordedShape, float]) -> str:
    totals: dict[str, float] = {}
    for shape, time_s in weights.items():
        totals[shape.dtype] = totals.get(shape.dtype, 0.0) + time_s
    return max(totals, key=lambda dtype: (totals[dtype], dtype))


def _time_s(shape: RecordedShape, chip: Chip, measured: bool) -> float:
    if measured and shape.time_s is not None:
        return shape.time_s
    return shape.calls * float(_cost(shape, chip).time_s)


def _cost(shape: RecordedShape, chip: Chip) -> Cost:
    sizes = {name: size for name, size in shape.axes if isinstance(size, int)}
    if shape.operator in _COSTS:
        return _COSTS[shape.operator](sizes, chip)
    return cost.all_gather(cost.ELEMENT_BYTES * sizes["elements"], sizes["ranks"], chip)


def _attention(sizes: Sizes, chip: Chip) -> Cost:
    return cost.attention_prefill(
        sizes["q"], max(sizes["q"], sizes["kv"]), sizes["heads"], sizes["kv_heads"], sizes["head_dim"], chip
    )


def _times(count: int, one: Cost) -> Cost:
    return Cost(
        flops=np.asarray(count * one.flops),
        traffic_bytes=np.asarray(count * one.traffic_bytes),
        time_s=np.asarray(count * one.time_s),
    )


def _product(sizes: Sizes) -> int:
    product = 1
    for size in sizes.values():
        product *= size
    return product
