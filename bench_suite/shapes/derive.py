"""Trace, model and policy -> every distinct shape that ran, with calls, work, traffic and roofline time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench_suite.shapes import cost
from bench_suite.shapes.chips import Chip, chip_named
from bench_suite.shapes.errors import ShapeError
from bench_suite.shapes.layers import RowOperator, Rows, row_operators
from bench_suite.shapes.models import ModelConfig, Shard, model_named, shard
from bench_suite.shapes.schedule import Padding, PassLog, Policy, simulate
from bench_suite.shapes.traces import LengthTrace, trace_named

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SAMPLER_VERSION = 1
"""Raised when the same arguments give another list; a list names the version that made it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Derivation:
    """Everything the shapes follow from. "A production distribution" is this tuple, not a property of the model."""

    trace: str
    trace_source: str
    trace_licence: str
    trace_sha256: str
    requests: int
    model: str
    model_source: str
    tensor_parallel: int
    dtype: str
    token_budget: int
    max_seqs: int
    load: float
    padding: str
    chip: str
    passes: int
    """Forward passes simulated."""
    busy_s: float
    """Their roofline time."""
    sampler_version: int = SAMPLER_VERSION

    @property
    def summary(self) -> str:
        """The provenance of each shape, in one line."""
        return (
            f"{self.trace}, {self.model} tp{self.tensor_parallel}, budget {self.token_budget}, "
            f"load {self.load:g}, padding {self.padding}"
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ShapeGroup:
    """Shapes of one operator that differ in what traffic decides only; one element of each array a distinct shape."""

    operator: str
    family: str
    fixed: tuple[tuple[str, int], ...]
    """Sizes that the model decides."""
    varying: tuple[tuple[str, Ints], ...]
    """Sizes that traffic decides, each [shapes]."""
    kv: Ints | None
    """[sum of batches] cache lengths of every decode batch, one after the other; a mean would hide the longest."""
    order: tuple[str, ...]
    """Axis names in the order of the contract."""
    size: Floats
    """[shapes] the axis that stands for alignment and tile effects: M, rows, q or batch."""
    calls: Floats
    flops: Floats
    """Of one call."""
    traffic_bytes: Floats
    time_s: Floats
    decode_calls: Floats
    """[shapes] calls in passes that only decode."""

    @property
    def total_time_s(self) -> float:
        return float((self.calls * self.time_s).sum())

    def axes(self, index: int) -> tuple[tuple[str, int | tuple[int, ...]], ...]:
        """Named sizes of shape `index`."""
        sizes: dict[str, int | tuple[int, ...]] = dict(self.fixed)
        sizes.update({name: int(values[index]) for name, values in self.varying})
        if self.kv is not None:
            start = int(self.size[:index].sum())
            lengths = tuple(self.kv[start : start + int(self.size[index])].tolist())
            sizes["kv"] = lengths if len(set(lengths)) > 1 else lengths[0]
        return tuple((name, sizes[name]) for name in self.order)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ShapeTable:
    """All distinct shapes of a derivation."""

    derivation: Derivation
    groups: tuple[ShapeGroup, ...]

    @property
    def total_time_s(self) -> float:
        return sum(group.total_time_s for group in self.groups)

    def only(self, *operators: str) -> ShapeTable:
        """The part of these operators."""
        groups = tuple(group for group in self.groups if group.operator in operators)
        if not groups:
            known = ", ".join(sorted({group.operator for group in self.groups}))
            raise ShapeError(f"operators {', '.join(operators)}: none in the table, must be among {known}")
        return ShapeTable(derivation=self.derivation, groups=groups)


def derive(
    trace: LengthTrace | str,
    model: ModelConfig | str,
    *,
    tensor_parallel: int = 1,
    token_budget: int = 2048,
    max_seqs: int = 256,
    load: float = 1.0,
    padding: Padding | str = Padding.NONE,
    chip: str = "h100",
) -> ShapeTable:
    """The weighted shapes of serving `trace` with `model`; names stand for what is shipped, or for a file.

    Raises ShapeError for anything unknown or out of range.
    """
    lengths = trace_named(trace) if isinstance(trace, str) else trace
    config = model_named(model) if isinstance(model, str) else model
    known = [member.value for member in Padding]
    if padding not in known:
        raise ShapeError(f"padding {padding!r}: must be one of {', '.join(known)}")
    policy = Policy(token_budget=token_budget, max_seqs=max_seqs, load=load, padding=Padding(padding))
    part, hardware = shard(config, tensor_parallel), chip_named(chip)
    log = simulate(lengths, part, hardware, policy)
    return ShapeTable(
        derivation=_derivation(lengths, part, policy, hardware, log),
        groups=shapes_of(log, part, hardware),
    )


def _derivation(trace: LengthTrace, part: Shard, policy: Policy, chip: Chip, log: PassLog) -> Derivation:
    return Derivation(
        trace=trace.name,
        trace_source=trace.source,
        trace_licence=trace.licence,
        trace_sha256=trace.sha256,
        requests=len(trace),
        model=part.model.name,
        model_source=part.model.source,
        tensor_parallel=part.tensor_parallel,
        dtype="bf16",
        token_budget=policy.token_budget,
        max_seqs=policy.max_seqs,
        load=float(policy.load),
        padding=policy.padding.value,
        chip=chip.name,
        passes=int(log.repeat.sum()),
        busy_s=float(log.time_s.sum()),
    )


def shapes_of(log: PassLog, part: Shard, chip: Chip) -> tuple[ShapeGroup, ...]:
    """The passes of a log as groups of weighted shapes."""
    groups = [_row_group(operator, log, chip) for operator in row_operators(part, chip)]
    full = part.model.layers - part.model.sliding_layers
    for layers, window in ((full, 0), (part.model.sliding_layers, part.model.sliding_window)):
        if layers:
            groups += _attention_groups(log, part, chip, layers, window)
    return tuple(groups)


def _row_group(operator: RowOperator, log: PassLog, chip: Chip) -> ShapeGroup:
    rows = log.tokens if operator.rows is Rows.TOKENS else log.sampled
    counts = np.bincount(rows, weights=log.repeat.astype(np.float64))
    decode = np.bincount(rows, weights=np.where(log.prefill_tokens == 0, log.repeat, 0), minlength=counts.size)
    distinct = np.flatnonzero(counts)
    distinct = distinct[distinct > 0]
    one = operator.cost(distinct.astype(np.float64))
    named = [dict(operator.axes(int(m))) for m in distinct]
    order = tuple(named[0])
    columns = {name: np.asarray([sizes[name] for sizes in named], dtype=np.int64) for name in order}
    varies = {name: bool(values.size > 1 and np.any(values != values[0])) for name, values in columns.items()}
    varies[_traffic_axis(operator)] = True
    return ShapeGroup(
        operator=operator.operator,
        family=operator.family,
        fixed=tuple((name, int(columns[name][0])) for name in order if not varies[name]),
        varying=tuple((name, columns[name]) for name in order if varies[name]),
        kv=None,
        order=order,
        size=distinct.astype(np.float64),
        calls=np.asarray(operator.calls * counts[distinct], dtype=np.float64),
        flops=one.flops,
        traffic_bytes=one.traffic_bytes,
        time_s=one.time_s,
        decode_calls=np.asarray(operator.calls * decode[distinct], dtype=np.float64),
    )


def _traffic_axis(operator: RowOperator) -> str:
    names = [name for name, _ in operator.axes(1)]
    return next(name for name in ("M", "rows", "elements") if name in names)


def _attention_groups(log: PassLog, part: Shard, chip: Chip, layers: int, window: int) -> list[ShapeGroup]:
    suffix = f"_window{window}" if window else ""
    groups = []
    if log.chunk_q.size:
        groups.append(_prefill_group(log, part, chip, layers, window, f"prefill{suffix}"))
    if log.decode_kv.size:
        groups.append(_decode_group(log, part, chip, layers, window, f"decode{suffix}"))
    return groups


def _fixed(part: Shard) -> tuple[tuple[str, int], ...]:
    return (("heads", part.heads), ("kv_heads", part.kv_heads), ("head_dim", part.model.head_dim))


def _prefill_group(log: PassLog, part: Shard, chip: Chip, layers: int, window: int, family: str) -> ShapeGroup:
    shapes, count = np.unique(np.stack([log.chunk_q, log.chunk_kv], axis=1), axis=0, return_counts=True)
    q, kv = shapes[:, 0], shapes[:, 1]
    one = cost.attention_prefill(q, kv, part.heads, part.kv_heads, part.model.head_dim, chip, window)
    fixed = (*_fixed(part), ("window", window)) if window else _fixed(part)
    return ShapeGroup(
        operator="attention_prefill_window" if window else "attention_prefill",
        family=family,
        fixed=fixed,
        varying=(("q", q), ("kv", kv)),
        kv=None,
        order=("q", "kv", *(name for name, _ in fixed)),
        size=q.astype(np.float64),
        calls=layers * count.astype(np.float64),
        flops=one.flops,
        traffic_bytes=one.traffic_bytes,
        time_s=one.time_s,
        decode_calls=np.zeros(q.size),
    )


def _decode_group(log: PassLog, part: Shard, chip: Chip, layers: int, window: int, family: str) -> ShapeGroup:
    busy = log.decode_batch > 0
    batch, calls = log.decode_batch[busy], log.repeat[busy] * layers
    kv = np.minimum(log.decode_kv, window) if window else log.decode_kv
    total = np.add.reduceat(kv, np.concatenate([[0], np.cumsum(batch)[:-1]]))
    one = cost.attention_decode(batch, total, part.heads, part.kv_heads, part.model.head_dim, chip)
    fixed = _fixed(part)  # a window shows in kv alone
    return ShapeGroup(
        operator="attention_decode",
        family=family,
        fixed=fixed,
        varying=(("batch", batch),),
        kv=kv,
        order=("batch", "kv", *(name for name, _ in fixed)),
        size=batch.astype(np.float64),
        calls=calls.astype(np.float64),
        flops=one.flops,
        traffic_bytes=one.traffic_bytes,
        time_s=one.time_s,
        decode_calls=calls.astype(np.float64),
    )
