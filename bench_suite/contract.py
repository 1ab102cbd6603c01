"""What an operator must do, what a case of it is, and who plays which role: no torch here.

A contract is the promise of an operator: its axes, its dtypes, how inputs are made, how far a result may be from the
reference, how much work and traffic one call is. A case is a contract at one shape and dtype. An implementation
(bench_suite.operators, torch side) is somebody's code that claims to keep the promise.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class ContractError(ValueError):
    """A case or suite that breaks a contract's rules; the message is one line: what, value, rule, way out."""


class Role(StrEnum):
    """What an implementation is to its case."""

    REFERENCE = "reference"
    """The truth, in higher precision; never timed against."""
    NAIVE = "naive"
    """Unfused textbook formula."""
    OPTIMIZED = "optimized"
    """The vendor's or framework's library call."""
    CANDIDATE = "candidate"
    """Different code under test."""
    AA = "aa"
    """The optimized implementation again, under another label: its ratio to optimized is pure noise."""
    PLANTED = "planted"
    """The optimized implementation with known extra work: its ratio is known, so power is known."""
    SENTINEL = "sentinel"
    """An arm of the case as a frozen environment runs it, on the same device in the same night."""


class DType(StrEnum):
    """Element types, by the names the field writes."""

    FP64 = "fp64"
    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"
    INT8 = "int8"
    FP8 = "fp8_e4m3"

    @property
    def size_bytes(self) -> int:
        return {"fp64": 8, "fp32": 4, "bf16": 2, "fp16": 2, "int8": 1, "fp8_e4m3": 1}[self.value]

    @property
    def unit_roundoff(self) -> float:
        """u = 2**-p: the largest relative error of rounding to nearest (Higham 2002, section 2.1)."""
        return {
            "fp64": 2.0**-53,
            "fp32": 2.0**-24,
            "bf16": 2.0**-8,
            "fp16": 2.0**-11,
            "int8": 0.5,
            "fp8_e4m3": 2.0**-4,
        }[self.value]


class Phase(StrEnum):
    """Where in a model's life the shape occurs; gates differ by it."""

    PREFILL = "prefill"
    DECODE = "decode"
    MIXED = "mixed"
    TRAINING = "training"
    POST_TRAINING = "post_training"


AxisValue = int | tuple[int, ...]
"""An axis is one size, or the ragged sizes of a batch (quantiles or the list itself, as its contract says)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A named axis of a contract."""

    name: str
    meaning: str
    minimum: int = 1
    dynamic: bool = False
    """Whether it changes from call to call in production (a batch), or is fixed by the model (a hidden size)."""
    ragged: bool = False
    """Whether its value is a tuple of sizes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A contract at one shape and dtype. Its weight and provenance belong to the suite, not to its identity."""

    operator: str
    dtype: DType
    axes: tuple[tuple[str, AxisValue], ...]
    phase: Phase
    cache: str = "cold"
    """cold: inputs rotate through more memory than the last-level cache holds. warm: one input set."""

    def __getitem__(self, axis: str) -> int:
        value = dict(self.axes)[axis]
        if isinstance(value, tuple):
            raise TypeError(f"axis {axis} of {self.case_id} is ragged; use ragged({axis!r})")
        return value

    def ragged(self, axis: str) -> tuple[int, ...]:
        value = dict(self.axes)[axis]
        return value if isinstance(value, tuple) else (value,)

    @property
    def case_id(self) -> str:
        """Stable readable text of exactly operator, dtype, shape and cache mode: `gemm[fp32,M=8,N=6144,K=4096]`.

        A ragged axis is written `kv=96/210/1020`; a warm case ends in `,cache=warm`.
        """
        parts = [self.dtype.value]
        for name, value in self.axes:
            text = "/".join(map(str, value)) if isinstance(value, tuple) else str(value)
            parts.append(f"{name}={text}")
        if self.cache != "cold":
            parts.append(f"cache={self.cache}")
        return f"{self.operator}[{','.join(parts)}]"


def _plain(value: AxisValue) -> AxisValue:
    """One length in a list is that length: a case has one way to be written."""
    return value[0] if isinstance(value, tuple) and len(value) == 1 else value


_CASE_ID = re.compile(r"^(?P<operator>[a-z][a-z0-9_]*)\[(?P<body>[^\[\]]+)\]$")


def parse_case_id(text: str, phase: Phase) -> Case:
    """The case whose `case_id` is `text`; raises ContractError where it is none."""
    match = _CASE_ID.match(text)
    if match is None:
        raise ContractError(f"case {text!r}: not of the form operator[dtype,AXIS=size,...]")
    dtype_text, *pairs = match["body"].split(",")
    dtype = parse_dtype(dtype_text, where=f"case {text!r}")
    cache = "cold"
    axes: list[tuple[str, AxisValue]] = []
    for pair in pairs:
        name, _, value = pair.partition("=")
        if name == "cache":
            if value != "warm":
                raise ContractError(f"case {text!r}: cache is {value!r}, must be warm or left out")
            cache = value
            continue
        try:
            sizes = tuple(int(part) for part in value.split("/"))
        except ValueError:
            raise ContractError(f"case {text!r}: axis {name} is {value!r}, must be whole numbers") from None
        axes.append((name, sizes if len(sizes) > 1 else sizes[0]))
    return Case(operator=match["operator"], dtype=dtype, axes=tuple(axes), phase=phase, cache=cache)


def parse_dtype(text: str, *, where: str) -> DType:
    try:
        return DType(text)
    except ValueError:
        known = ", ".join(d.value for d in DType)
        raise ContractError(f"{where}: dtype is {text!r}, must be one of {known}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """How far an element y may be from the reference r: |y - r| <= absolute + relative * |r|.

    `absolute` and `relative` are derived from the accumulation length, see docs/method.md.
    """

    absolute: float
    relative: float

    def __post_init__(self) -> None:
        if not (self.absolute >= 0 and self.relative >= 0 and math.isfinite(self.absolute + self.relative)):
            raise ContractError(f"tolerance is {self.absolute}, {self.relative}: both must be finite and >= 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Extreme:
    """A value an operator meets seldom and must survive: the first input scaled, or one element of it planted."""

    name: str
    meaning: str
    scale: float = 1.0
    """Factor on every element of the first input."""
    output_scale: float = 1.0
    """Factor this gives the result, and with it the absolute tolerance."""
    planted: float | None = None
    """Value of the first element of the first input: NaN or an infinity; None plants nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """The promise of an operator. Sizes are elements, work is floating-point operations, traffic is bytes."""

    operator: str
    family: str
    """The row of the heatmap it belongs to: GEMM, Attention, RMSNorm, SwiGLU, Softmax, Loss, Collective, ..."""
    title: str
    """In words: "GEMM", "Attention decode"."""
    formula: str
    axes: tuple[Axis, ...]
    dtypes: tuple[DType, ...]
    inputs: str
    """The input recipe in words; the distribution of values is part of the identity, since speed depends on it."""
    tensors: tuple[str, ...]
    """Names and shapes of the inputs in call order: "x [M, K]", "weight [N, K]"."""
    output: str
    """Shape of the result: "[M, N]"."""
    flops: Callable[[Case], float]
    traffic_bytes: Callable[[Case], float]
    """Least bytes between memory and chip: every input read once, every output written once."""
    input_bytes: Callable[[Case], float]
    """Bytes of one input set as allocated, for the arena and for the memory budget."""
    tolerance: Callable[[Case], Tolerance]
    """Of the result; of the first where there are several."""
    describe: Callable[[Case], str]
    """The shape in words: "M 16 · N 28,672 · K 4,096, bf16"."""
    sensitivity: str
    """Where rounding enters and what makes it worse."""
    collective: bool = False
    message_bytes: Callable[[Case], float] | None = None
    """Of a collective: bytes of the whole buffer, as nccl-tests counts them; algbw is this over the time."""
    bus_factor: Callable[[Case], float] | None = None
    """Of a collective: busbw / algbw, the share of the buffer that must cross each rank's link."""
    edge_cases: tuple[Mapping[str, AxisValue], ...] = field(default=())
    """Shapes where implementations break: size 1, odd sizes, sizes that no tile divides, long ones."""
    extremes: tuple[Extreme, ...] = field(default=())
    constraint: Callable[[Case], str] | None = None
    """A rule over several axes: the broken rule in words, or "" where it holds."""
    tolerances: Callable[[Case], tuple[Tolerance, ...]] | None = None
    """Of an operator with several results: one each. None: there is one result."""
    updates: tuple[str, ...] = ()
    """Names of the inputs that a call writes new values into, as an optimizer does; they are its results."""
    result_dtype: DType | None = None
    """Of the result, where it is not the case's."""

    def results_allow(self, case: Case) -> tuple[Tolerance, ...]:
        """The tolerance of each result, in order."""
        return self.tolerances(case) if self.tolerances is not None else (self.tolerance(case),)

    def case(self, axes: Mapping[str, AxisValue], dtype: DType, phase: Phase, *, cache: str = "cold") -> Case:
        """A checked case. Raises ContractError for an unknown or missing axis, a bad size, dtype or cache mode."""
        where = f"{self.operator}[{dtype.value}]"
        names = [axis.name for axis in self.axes]
        for name in axes:
            if name not in names:
                raise ContractError(f"{where}: unknown axis {name!r}, must be one of {', '.join(names)}")
        for axis in self.axes:
            if axis.name not in axes:
                raise ContractError(f"{where}: axis {axis.name} is missing ({axis.meaning})")
            value = axes[axis.name]
            sizes = value if isinstance(value, tuple) else (value,)
            if not sizes:
                raise ContractError(f"{where}: axis {axis.name} is empty, must have at least one size")
            if isinstance(value, tuple) and not axis.ragged:
                raise ContractError(f"{where}: axis {axis.name} is {value}, must be one whole number")
            for size in sizes:
                if type(size) is not int or size < axis.minimum:
                    raise ContractError(
                        f"{where}: axis {axis.name} is {size!r}, must be a whole number >= {axis.minimum}"
                    )
        if dtype not in self.dtypes:
            known = ", ".join(d.value for d in self.dtypes)
            raise ContractError(f"{where}: dtype {dtype.value} is not in the contract, must be one of {known}")
        if cache not in ("cold", "warm"):
            raise ContractError(f"{where}: cache is {cache!r}, must be cold or warm")
        ordered = tuple((axis.name, _plain(axes[axis.name])) for axis in self.axes)
        case = Case(operator=self.operator, dtype=dtype, axes=ordered, phase=phase, cache=cache)
        broken = self.constraint(case) if self.constraint is not None else ""
        if broken:
            raise ContractError(f"{case.case_id}: {broken}")
        return case
