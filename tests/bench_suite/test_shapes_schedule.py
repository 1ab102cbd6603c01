"""The simulated scheduler: nothing is lost, nothing runs twice, and skipping ahead changes nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_suite.shapes.chips import CHIPS
from bench_suite.shapes.errors import ShapeError
from bench_suite.shapes.models import model_named, shard
from bench_suite.shapes.schedule import (
    Padding,
    PassClock,
    PassLog,
    Policy,
    cache_tokens,
    padded,
    simulate,
)
from bench_suite.shapes.traces import LengthTrace

SMALL = shard(replace(model_named("llama-3.1-8b"), layers=2), 1)
CHIP = CHIPS["h100"]

requests = st.lists(
    st.tuples(st.floats(0, 0.02), st.integers(1, 300), st.integers(1, 40), st.integers(0, 200)), min_size=1, max_size=25
)


def trace_of(rows: list[tuple[float, int, int, int]]) -> LengthTrace:
    """A trace of (arrival, input, output, cached) rows."""
    rows = sorted(rows)
    arrival, inputs, outputs, cached = (np.asarray(column) for column in zip(*rows, strict=True))
    return LengthTrace(
        name="made",
        arrival_s=arrival.astype(np.float64) - float(arrival[0]),
        input_tokens=inputs,
        output_tokens=outputs,
        cached_prefix_tokens=np.minimum(cached, inputs - 1),
        source="made",
        licence="own",
        sha256="",
    )


@given(requests, st.sampled_from([16, 64, 256]), st.sampled_from([1, 3, 8]))
@settings(deadline=None, max_examples=60)
def test_every_token_is_served_once(rows: list[tuple[float, int, int, int]], budget: int, seqs: int) -> None:
    """Prompt tokens that no cache holds are computed once; each request gets each of its output tokens once."""
    trace = trace_of(rows)

    log = simulate(trace, SMALL, CHIP, Policy(token_budget=budget, max_seqs=seqs))

    computed = int((trace.input_tokens - trace.cached_prefix_tokens).sum())
    assert int((log.repeat * log.prefill_tokens).sum()) == computed == int(log.chunk_q.sum())
    assert int((log.repeat * log.sampled).sum()) == int(trace.output_tokens.sum())
    assert int((log.repeat * log.decode_batch).sum()) == int((trace.output_tokens - 1).sum())
    assert int(log.tokens.max()) <= max(budget, seqs)
    assert int(log.decode_batch.max()) <= seqs
    assert bool((log.repeat[log.prefill_tokens > 0] == 1).all())
    assert bool((np.diff(log.start_s) >= 0).all())
    assert log.decode_kv.size == int(log.decode_batch.sum())


@given(requests, st.sampled_from([32, 128]), st.sampled_from([2, 8]))
@settings(deadline=None, max_examples=40)
def test_skipping_ahead_gives_the_passes_of_walking(
    rows: list[tuple[float, int, int, int]], budget: int, seqs: int
) -> None:
    """A transcription that walks pass by pass, with lists and no shortcuts, has the same passes, as often."""
    trace = trace_of(rows)
    policy = Policy(token_budget=budget, max_seqs=seqs)

    log = simulate(trace, SMALL, CHIP, policy)

    assert passes_of(log) == walk(trace, policy)


def passes_of(log: PassLog) -> Counter[tuple[int, int, int]]:
    counted: Counter[tuple[int, int, int]] = Counter()
    for repeat, tokens, sampled, prefill in zip(
        log.repeat.tolist(), log.tokens.tolist(), log.sampled.tolist(), log.prefill_tokens.tolist(), strict=True
    ):
        counted[(tokens, sampled, prefill)] += repeat
    return counted


def walk(trace: LengthTrace, policy: Policy) -> Counter[tuple[int, int, int]]:
    """(tokens, sampled, prefill tokens) of every pass, one at a time."""
    clock = PassClock(SMALL, CHIP, max(policy.token_budget, policy.max_seqs))
    columns = (trace.arrival_s, trace.input_tokens, trace.output_tokens, trace.cached_prefix_tokens)
    todo = [list(row) for row in zip(*columns, strict=True)]
    waiting: list[list[int]] = []
    prompts: list[list[int]] = []  # [input, output, done]
    decoding: list[list[int]] = []  # [left, kv]
    now, counted = 0.0, Counter[tuple[int, int, int]]()
    while todo or waiting or prompts or decoding:
        if not (waiting or prompts or decoding):
            now = max(now, todo[0][0])
        while todo and todo[0][0] <= now:
            _, inputs, outputs, cached = todo.pop(0)
            waiting.append([int(inputs), int(outputs), int(cached)])
        left, prefill, time, ended = policy.token_budget - len(decoding), 0, 0.0, []
        for position in range(policy.max_seqs - len(decoding)):
            if left <= 0 or (position == len(prompts) and not waiting):
                break
            if position == len(prompts):
                prompts.append(waiting.pop(0))
            prompt = prompts[position]
            q = min(left, prompt[0] - prompt[2])
            prompt[2] += q
            left, prefill = left - q, prefill + q
            time += clock.prefill_s(q, prompt[2])
            if prompt[2] == prompt[0]:
                ended.append(prompt)
        tokens, sampled = len(decoding) + prefill, len(decoding) + len(ended)
        counted[(tokens, sampled, prefill)] += 1
        now += time + clock.row_wise_s(tokens, sampled) + clock.decode_s(sum(kv for _, kv in decoding), 0)
        decoding = [[left - 1, kv + 1] for left, kv in decoding if left > 1]
        prompts = [prompt for prompt in prompts if prompt[2] < prompt[0]]
        decoding += [[outputs - 1, inputs + 1] for inputs, outputs, _ in ended if outputs > 1]
    return counted


def test_one_request_by_hand() -> None:
    """5,000 prompt tokens, 1,000 of them cached, under a budget of 2,048: two chunks, then one pass a token."""
    log = simulate(trace_of([(0.0, 5000, 4, 1000)]), SMALL, CHIP, Policy(token_budget=2048))

    assert log.chunk_q.tolist() == [2048, 1952]
    assert log.chunk_kv.tolist() == [3048, 5000]
    assert log.tokens.tolist() == [2048, 1952, 1]
    assert log.repeat.tolist() == [1, 1, 3]
    assert log.decode_kv.tolist() == [5002]  # the middle of 5001, 5002, 5003


def test_load_packs_requests_together() -> None:
    """Ten times the load gives larger batches and fewer passes."""
    rows = [(0.004 * i, 100, 30, 0) for i in range(200)]

    slow = simulate(trace_of(rows), SMALL, CHIP, Policy(load=0.1))
    fast = simulate(trace_of(rows), SMALL, CHIP, Policy(load=10))

    assert int(fast.decode_batch.max()) > int(slow.decode_batch.max())
    assert int(fast.repeat.sum()) < int(slow.repeat.sum())


@pytest.mark.parametrize(("batch", "rows"), [(1, 1), (2, 2), (3, 4), (5, 8), (8, 8), (9, 16), (512, 512), (600, 600)])
def test_padding_is_that_of_captured_graphs(batch: int, rows: int) -> None:
    """1, 2, 4 and multiples of 8 up to 512; nothing beyond, and nothing without padding."""
    assert padded(batch, Padding.CUDAGRAPH) == rows
    assert padded(batch, Padding.NONE) == batch


def test_what_cannot_be_scheduled_gets_one_line() -> None:
    """A request longer than the cache, a model larger than the memory, a policy out of range."""
    large = shard(model_named("llama-3.1-70b"), 2)
    with pytest.raises(ShapeError, match="raise tp"):
        cache_tokens(shard(model_named("llama-3.1-405b"), 1), CHIP)
    with pytest.raises(ShapeError, match=r"request 1 needs \d+ positions, the cache has \d+; raise tp"):
        simulate(trace_of([(0.0, 10**7, 5, 0)]), large, CHIP, Policy())
    for bad in ({"load": 0.0}, {"load": float("inf")}, {"token_budget": 0}, {"max_seqs": -1}):
        with pytest.raises(ShapeError, match=r"policy: \w+ is .*, must be"):
            Policy(**bad)  # type: ignore[arg-type]
    for tp in (0, 3):
        with pytest.raises(ShapeError, match=f"tp is {tp}"):
            shard(model_named("llama-3.1-8b"), tp)
