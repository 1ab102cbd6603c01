"""What an importer returns: distinct shapes with calls and, where the source has them, device times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Axes = tuple[tuple[str, int | tuple[int, ...]], ...]

ELEMENT_BYTES: Mapping[str, int] = {
    "fp64": 8, "fp32": 4, "bf16": 2, "fp16": 2, "fp8_e4m3": 1, "fp8_e5m2": 1, "int8": 1, "int32": 4, "int64": 8,
}  # fmt: skip
"""Element types by the suite's names, and those that only messages have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedShape:
    """One operator at one shape and type, as often as it was called."""

    operator: str
    dtype: str
    axes: Axes
    calls: int
    time_s: float | None = None
    """Device time of all calls; None where the source has none for any of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """All shapes of a source, most calls first, and what could not be used."""

    format: str
    sha256: str
    shapes: tuple[RecordedShape, ...]
    skipped: tuple[tuple[str, int], ...]
    """(reason, calls) of recorded operators that gave no shape."""

    @property
    def calls(self) -> int:
        return sum(shape.calls for shape in self.shapes)


class Tally:
    """Counts shapes while a source is read."""

    def __init__(self) -> None:
        self._calls: Counter[tuple[str, str, Axes]] = Counter()
        self._time_s: dict[tuple[str, str, Axes], float] = {}
        self._skipped: Counter[str] = Counter()

    def add(
        self, operator: str, dtype: str | None, axes: Axes | None, calls: int = 1, time_s: float | None = None
    ) -> None:
        """Counts a call; with an unknown type or shape it counts as skipped."""
        if dtype is None or dtype not in ELEMENT_BYTES:
            self.skip(f"{operator}: element type not known", calls)
        elif axes is None:
            self.skip(f"{operator}: no sizes recorded", calls)
        elif any(size == 0 for _, size in axes):
            self.skip(f"{operator}: empty", calls)
        else:
            key = (operator, dtype, axes)
            self._calls[key] += calls
            if time_s is not None:
                self._time_s[key] = self._time_s.get(key, 0.0) + time_s

    def skip(self, reason: str, calls: int = 1) -> None:
        self._skipped[reason] += calls

    def recording(self, format_name: str, sha256: str) -> Recording:
        shapes = [
            RecordedShape(
                operator=operator, dtype=dtype, axes=axes, calls=calls, time_s=self._time_s.get((operator, dtype, axes))
            )
            for (operator, dtype, axes), calls in self._calls.items()
        ]
        shapes.sort(key=lambda shape: (-shape.calls, shape.operator, shape.dtype, shape.axes))
        return Recording(
            format=format_name, sha256=sha256, shapes=tuple(shapes), skipped=tuple(sorted(self._skipped.items()))
        )


def gemm_axes(left: Sequence[int], right: Sequence[int]) -> Axes | None:
    """[M, K] @ [K, N]; None where the sizes do not fit."""
    if len(left) != 2 or len(right) != 2 or left[1] != right[0]:
        return None
    return (("M", left[0]), ("N", right[1]), ("K", left[1]))


def batched_gemm_axes(left: Sequence[int], right: Sequence[int]) -> Axes | None:
    """[batch, M, K] @ [batch, K, N]; None where the sizes do not fit."""
    if len(left) != 3 or len(right) != 3 or left[0] != right[0] or left[2] != right[1]:
        return None
    return (("batch", left[0]), ("M", left[1]), ("N", right[2]), ("K", left[2]))


def attention_shape(query: Sequence[int], key: Sequence[int], *, causal: bool) -> tuple[str, Axes | None]:
    """[batch, heads, q, d] with [batch, kv_heads, kv, d] -> the contract that it is a case of, and its sizes.

    One query a sequence is decode; a causal sequence alone is prefill; anything else has no contract and keeps its
    batch, as attention_batched (causal) or attention_full. Without sizes that fit: None.
    """
    if len(query) != 4 or len(key) != 4 or query[0] != key[0] or query[3] != key[3]:
        return "attention_full", None
    batch, heads, q, head_dim = query
    inner = (("heads", heads), ("kv_heads", key[1]), ("head_dim", head_dim))
    if q == 1:
        return "attention_decode", (("batch", batch), ("kv", key[2]), *inner)
    if causal and batch == 1:
        return "attention_prefill", (("q", q), ("kv", key[2]), *inner)
    return "attention_batched" if causal else "attention_full", (("batch", batch), ("q", q), ("kv", key[2]), *inner)


def row_axes(sizes: Sequence[int], last: str) -> Axes | None:
    """All leading sizes as rows, the last by its name."""
    if not sizes:
        return None
    rows = 1
    for size in sizes[:-1]:
        rows *= size
    return (("rows", rows), (last, sizes[-1]))


def message_axes(operator: str, sent: int, received: int, ranks: int) -> Axes:
    """The total buffer as nccl-tests counts it: what a gather receives, what the others send."""
    return (("ranks", ranks), ("elements", received if operator == "all_gather" else sent))
