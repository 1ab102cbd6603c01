"""The frame that most contracts share: named tensors over named axes, from which sizes, traffic and words follow."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bench_suite.contract import Axis, AxisValue, Case, Contract, DType, Extreme, Tolerance
from bench_suite.contracts.wording import axis_words

FLOATS = (DType.FP32, DType.BF16, DType.FP16)
"""The element types that nearly every operator is run in."""

INT64_BYTES, INT32_BYTES, FP32_BYTES, INT8_BYTES = 8, 4, 4, 1


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of an operator: its name and the axes that span it."""

    name: str
    axes: tuple[str, ...]
    element_bytes: int | None = None
    """None: an element of the case's dtype."""

    @property
    def words(self) -> str:
        """`weight [N, K]`."""
        return f"{self.name} [{', '.join(self.axes)}]".strip()

    def shape(self, case: Case) -> tuple[int, ...]:
        return tuple(case[axis] for axis in self.axes)

    def size_bytes(self, case: Case) -> float:
        return float(math.prod(self.shape(case)) * (self.element_bytes or case.dtype.size_bytes))


def tensor(name: str, *axes: str, element_bytes: int | None = None) -> Tensor:
    return Tensor(name, axes, element_bytes)


ROWS = Axis(name="rows", meaning="tokens of the step", minimum=0, dynamic=True)
HIDDEN = Axis(name="hidden", meaning="hidden size, fixed by the model")
FFN = Axis(name="ffn", meaning="intermediate size, fixed by the model")
COLUMNS = Axis(name="columns", meaning="vocabulary, fixed by the model")


def plain_contract(
    *,
    operator: str,
    family: str,
    title: str,
    formula: str,
    axes: tuple[Axis, ...],
    inputs: str,
    reads: tuple[Tensor, ...],
    writes: tuple[Tensor, ...],
    flops: Callable[[Case], float],
    tolerance: Callable[[Case], Tolerance | tuple[Tolerance, ...]],
    sensitivity: str,
    edge_cases: tuple[Mapping[str, AxisValue], ...],
    extremes: tuple[Extreme, ...] = (),
    dtypes: tuple[DType, ...] = FLOATS,
    updates: tuple[str, ...] = (),
    result_dtype: DType | None = None,
    traffic_bytes: Callable[[Case], float] | None = None,
    constraint: Callable[[Case], str] | None = None,
) -> Contract:
    """A contract over dense tensors: every tensor of `reads` and `writes` moves once, unless `traffic_bytes` differs.

    `tolerance` gives one for each tensor of `writes`, or one for all.
    """
    names = [axis.name for axis in axes]
    return Contract(
        operator=operator,
        family=family,
        title=title,
        formula=formula,
        axes=axes,
        dtypes=dtypes,
        inputs=inputs,
        tensors=tuple(entry.words for entry in reads),
        output=", ".join(entry.words for entry in writes),
        flops=flops,
        traffic_bytes=traffic_bytes or (lambda case: sum(entry.size_bytes(case) for entry in (*reads, *writes))),
        input_bytes=lambda case: sum(entry.size_bytes(case) for entry in reads),
        tolerance=lambda case: _each(tolerance(case), len(writes))[0],
        tolerances=lambda case: _each(tolerance(case), len(writes)),
        describe=lambda case: axis_words(case, names),
        sensitivity=sensitivity,
        edge_cases=edge_cases,
        extremes=extremes,
        updates=updates,
        result_dtype=result_dtype,
        constraint=constraint,
    )


def _each(tolerance: Tolerance | tuple[Tolerance, ...], results: int) -> tuple[Tolerance, ...]:
    return tolerance if isinstance(tolerance, tuple) else (tolerance,) * results


def elements(*axes: str) -> Callable[[Case], float]:
    """Case -> the product of these sizes."""
    return lambda case: float(math.prod(case[axis] for axis in axes))


def work(per_element: float, *axes: str) -> Callable[[Case], float]:
    """Case -> so many operations for each element that these axes span."""
    return lambda case: per_element * math.prod(case[axis] for axis in axes)
