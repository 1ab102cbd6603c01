"""A continuous-batching scheduler, simulated: which tokens share a forward pass.

Orca's iteration-level scheduling (Yu et al., OSDI 2022) with chunked prefill under a token budget (Sarathi-Serve,
Agrawal et al., OSDI 2024): decoding sequences go first, what is left of the budget goes to prompts in order of arrival.
A request reserves the cache of its whole life when it is admitted, so that none is preempted. The clock advances by the
roofline time of each pass, and arrivals are read against it.

Passes in which nothing but the cache lengths changes are one record: between two arrivals, admissions or completions a
decode batch is the same, its time affine in the cache length. That makes the simulation linear in requests, not tokens.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from bench_suite.shapes import cost
from bench_suite.shapes.chips import Chip
from bench_suite.shapes.errors import ShapeError
from bench_suite.shapes.layers import Rows, row_operators
from bench_suite.shapes.models import Shard
from bench_suite.shapes.traces import LengthTrace

Ints = NDArray[np.int64]

LONGEST_STRETCH = 64
"""Passes of one record at most, so that its middle stands for the cache lengths of all."""
GRAPH_LIMIT = 512
"""Largest decode batch that is captured as a graph, hence padded."""
MEMORY_SHARE = 0.9
"""Of a chip's memory that weights and cache may fill."""


class Padding(StrEnum):
    """What the rows of a pure decode pass are rounded up to."""

    NONE = "none"
    CUDAGRAPH = "cudagraph"
    """1, 2, 4 and multiples of 8 up to GRAPH_LIMIT: the sizes for which serving engines capture graphs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The settings of the scheduler, all part of what a derived list is."""

    token_budget: int = 2048
    max_seqs: int = 256
    load: float = 1.0
    """Factor on the arrival rate of the trace."""
    padding: Padding = Padding.NONE

    def __post_init__(self) -> None:
        for name in ("token_budget", "max_seqs"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ShapeError(f"policy: {name} is {value!r}, must be a whole number >= 1")
        if not (self.load > 0 and math.isfinite(self.load)):
            raise ShapeError(f"policy: load is {self.load!r}, must be > 0")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PassLog:
    """Forward passes in order. A record is `repeat` like passes; its cache lengths are of the middle one."""

    repeat: Ints
    """[records]"""
    tokens: Ints
    """[records] rows of the token-wise operators, after padding."""
    sampled: Ints
    """[records] sequences that get a next token."""
    prefill_tokens: Ints
    """[records] 0 in a pure decode pass."""
    decode_batch: Ints
    """[records]"""
    start_s: NDArray[np.float64]
    time_s: NDArray[np.float64]
    """[records] of all passes of the record."""
    decode_kv: Ints
    """[sum of decode_batch] cache length of each decoding sequence, record after record, its new token included."""
    chunk_q: Ints
    """[chunks] tokens of each prompt chunk."""
    chunk_kv: Ints
    """[chunks] positions it attends to, itself included."""
    chunk_record: Ints
    """[chunks] index of its record."""


class PassClock:
    """Roofline time of a forward pass; the row-wise part is tabulated once."""

    def __init__(self, part: Shard, chip: Chip, most_rows: int) -> None:
        self._part, self._chip = part, chip
        rows = np.arange(most_rows + 1, dtype=np.float64)
        tables = {kind: np.zeros(most_rows + 1) for kind in Rows}
        for operator in row_operators(part, chip):
            tables[operator.rows] += operator.calls * operator.cost(rows).time_s
        for table in tables.values():
            table[0] = 0.0
        self._by_tokens: list[float] = tables[Rows.TOKENS].tolist()
        self._by_sampled: list[float] = tables[Rows.SAMPLED].tolist()
        model = part.model
        self._full_layers = model.layers - model.sliding_layers
        one = cost.attention_decode(0, 1, part.heads, part.kv_heads, model.head_dim, chip)
        self._decode_s_per_position = float(one.time_s)

    @property
    def slope_s(self) -> float:
        """Growth of a pass's time per cached position read."""
        return self._full_layers * self._decode_s_per_position

    def row_wise_s(self, tokens: int, sampled: int) -> float:
        return self._by_tokens[tokens] + self._by_sampled[sampled]

    def decode_s(self, kv_total: int, kv_windowed: int) -> float:
        """Attention of all layers over `kv_total` positions, `kv_windowed` of them inside the sliding window."""
        sliding = self._part.model.sliding_layers
        return self._decode_s_per_position * (self._full_layers * kv_total + sliding * kv_windowed)

    def prefill_s(self, q: int, kv: int) -> float:
        part, model = self._part, self._part.model
        sizes = (part.heads, part.kv_heads, model.head_dim, self._chip)
        time = self._full_layers * float(cost.attention_prefill(q, kv, *sizes).time_s)
        if model.sliding_layers:
            time += model.sliding_layers * float(cost.attention_prefill(q, kv, *sizes, model.sliding_window).time_s)
        return time


def cache_tokens(part: Shard, chip: Chip) -> int:
    """Positions that fit beside the weights into MEMORY_SHARE of each rank's memory."""
    model = part.model
    free = MEMORY_SHARE * chip.memory_bytes - cost.ELEMENT_BYTES * model.parameters / part.tensor_parallel
    per_token = 2 * model.layers * part.kv_heads * model.head_dim * cost.ELEMENT_BYTES
    if free < per_token:
        raise ShapeError(f"model {model.name}: weights do not fit {part.tensor_parallel} {chip.name}; raise tp")
    return int(free // per_token)


def padded(batch: int, padding: Padding) -> int:
    """Rows of a pure decode pass of `batch` sequences."""
    if padding is Padding.NONE or batch > GRAPH_LIMIT:
        return batch
    return batch if batch <= 2 else 4 if batch <= 4 else -(-batch // 8) * 8


def simulate(trace: LengthTrace, part: Shard, chip: Chip, policy: Policy) -> PassLog:
    """The forward passes that serve the whole trace, until the last request has its last token."""
    return _Scheduler(trace, part, chip, policy).run()


class _Scheduler:
    def __init__(self, trace: LengthTrace, part: Shard, chip: Chip, policy: Policy) -> None:
        self._policy = policy
        self._capacity = cache_tokens(part, chip)
        self._inputs: list[int] = trace.input_tokens.tolist()
        self._outputs: list[int] = trace.output_tokens.tolist()
        self._cached: list[int] = trace.cached_prefix_tokens.tolist()
        self._arrivals: list[float] = (trace.arrival_s / policy.load).tolist()
        self._check_sizes(trace.name)
        self._clock = PassClock(part, chip, max(policy.token_budget, padded(policy.max_seqs, policy.padding)))
        self._window = part.model.sliding_window if part.model.sliding_layers else 0
        self._next = 0
        self._now = 0.0
        self._waiting: deque[int] = deque()
        self._prompts: deque[list[int]] = deque()  # [request, positions done]
        self._batch = 0
        self._left = np.zeros(policy.max_seqs, dtype=np.int64)  # tokens still to come, of each decoding sequence
        self._kv = np.zeros(policy.max_seqs, dtype=np.int64)
        self._life = np.zeros(policy.max_seqs, dtype=np.int64)  # cache reserved
        self._reserved = 0
        self._records: list[tuple[int, int, int, int, int, float, float]] = []
        self._decode_kv: list[Ints] = []
        self._chunks: list[tuple[int, int, int]] = []

    def _check_sizes(self, name: str) -> None:
        for number, (tokens, out) in enumerate(zip(self._inputs, self._outputs, strict=True), start=1):
            if tokens + out > self._capacity:
                raise ShapeError(
                    f"trace {name}: request {number} needs {tokens + out} positions, "
                    f"the cache has {self._capacity}; raise tp"
                )

    def run(self) -> PassLog:
        while self._take_arrivals():
            chunks = self._plan_prefill()
            if chunks:
                self._mixed_pass(chunks)
            else:
                self._decode_stretch()
        return self._log()

    def _take_arrivals(self) -> bool:
        """Queues what has arrived, jumping over idle time; False when all is served."""
        busy = bool(self._batch or self._prompts or self._waiting)
        if not busy:
            if self._next == len(self._arrivals):
                return False
            self._now = max(self._now, self._arrivals[self._next])
        while self._next < len(self._arrivals) and self._arrivals[self._next] <= self._now:
            self._waiting.append(self._next)
            self._next += 1
        return True

    def _plan_prefill(self) -> list[tuple[int, int, int]]:
        """Chunks (request, tokens, positions attended to) that fill what decoding leaves of the budget."""
        left = self._policy.token_budget - self._batch
        chunks: list[tuple[int, int, int]] = []
        for prompt in self._prompts:
            if left <= 0:
                return chunks
            left -= self._take_chunk(prompt, left, chunks)
        while left > 0 and self._waiting and self._admissible(self._waiting[0]):
            request = self._waiting.popleft()
            self._reserved += self._inputs[request] + self._outputs[request]
            prompt = [request, self._cached[request]]
            self._prompts.append(prompt)
            left -= self._take_chunk(prompt, left, chunks)
        return chunks

    def _take_chunk(self, prompt: list[int], most: int, chunks: list[tuple[int, int, int]]) -> int:
        request, done = prompt
        q = min(most, self._inputs[request] - done)
        prompt[1] = done + q
        chunks.append((request, q, done + q))
        return q

    def _admissible(self, request: int) -> bool:
        size = self._inputs[request] + self._outputs[request]
        return self._batch + len(self._prompts) < self._policy.max_seqs and self._reserved + size <= self._capacity

    def _mixed_pass(self, chunks: list[tuple[int, int, int]]) -> None:
        prefill = sum(q for _, q, _ in chunks)
        finished = [request for request, _, kv in chunks if kv == self._inputs[request]]
        kv = self._kv[: self._batch]
        time = self._clock.row_wise_s(self._batch + prefill, self._batch + len(finished)) + self._decode_time(kv)
        for _, q, context in chunks:
            time += self._clock.prefill_s(q, context)
            self._chunks.append((q, context, len(self._records)))
        self._record(1, self._batch + prefill, self._batch + len(finished), prefill, kv.copy(), time)
        self._advance(1)
        for request in finished:
            self._start_decoding(request)
        while self._prompts and self._prompts[0][1] == self._inputs[self._prompts[0][0]]:
            self._prompts.popleft()

    def _start_decoding(self, request: int) -> None:
        """The pass that ended the prompt gave the first output token."""
        size = self._inputs[request] + self._outputs[request]
        if self._outputs[request] == 1:
            self._reserved -= size
            return
        self._left[self._batch] = self._outputs[request] - 1
        self._kv[self._batch] = self._inputs[request] + 1
        self._life[self._batch] = size
        self._batch += 1

    def _decode_stretch(self) -> None:
        """Passes until a sequence ends, a request arrives that could be admitted, or LONGEST_STRETCH."""
        kv, rows = self._kv[: self._batch], padded(self._batch, self._policy.padding)
        passes = min(LONGEST_STRETCH, int(self._left[: self._batch].min()))
        first_s = self._clock.row_wise_s(rows, self._batch) + self._decode_time(kv)
        growth_s = self._clock.slope_s * self._batch  # each pass reads one position more per sequence
        if self._next < len(self._arrivals) and not self._waiting:
            passes = min(passes, _passes_until(self._arrivals[self._next] - self._now, first_s, growth_s))
        time = passes * first_s + growth_s * passes * (passes - 1) / 2
        self._record(passes, rows, self._batch, 0, kv + (passes - 1) // 2, time)
        self._advance(passes)

    def _decode_time(self, kv: Ints) -> float:
        windowed = int(np.minimum(kv, self._window).sum()) if self._window else 0
        return self._clock.decode_s(int(kv.sum()), windowed)

    def _record(self, repeat: int, tokens: int, sampled: int, prefill: int, kv: Ints, time: float) -> None:
        self._records.append((repeat, tokens, sampled, prefill, kv.size, self._now, time))
        self._decode_kv.append(kv)
        self._now += time

    def _advance(self, passes: int) -> None:
        """Every decoding sequence gets `passes` tokens; the finished leave."""
        b = self._batch
        if not b:
            return
        self._kv[:b] += passes
        self._left[:b] -= passes
        going = self._left[:b] > 0
        stay = int(np.count_nonzero(going))
        if stay == b:
            return
        self._reserved -= int(self._life[:b][~going].sum())
        for array in (self._kv, self._left, self._life):
            array[:stay] = array[:b][going]
        self._batch = stay

    def _log(self) -> PassLog:
        columns = [np.asarray(column) for column in zip(*self._records, strict=True)]
        repeat, tokens, sampled, prefill, batch = (column.astype(np.int64) for column in columns[:5])
        chunks = np.asarray(self._chunks, dtype=np.int64).reshape(-1, 3)
        return PassLog(
            repeat=repeat,
            tokens=tokens,
            sampled=sampled,
            prefill_tokens=prefill,
            decode_batch=batch,
            start_s=columns[5].astype(np.float64),
            time_s=columns[6].astype(np.float64),
            decode_kv=np.concatenate(self._decode_kv),
            chunk_q=chunks[:, 0],
            chunk_kv=chunks[:, 1],
            chunk_record=chunks[:, 2],
        )


def _passes_until(gap_s: float, first_s: float, growth_s: float) -> int:
    """Fewest passes n >= 1 with n first + growth n (n-1) / 2 >= gap."""
    half = growth_s / 2
    linear = first_s - half
    if half <= 0:
        return max(1, math.ceil(gap_s / linear))
    return max(1, math.ceil((-linear + math.sqrt(linear * linear + 4 * half * gap_s)) / (2 * half)))
