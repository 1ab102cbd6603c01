"""The run loop, on a simulated device: order, pairing, stopping, tails."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_suite.contract import Role
from bench_suite.suite import Method
from collector.node.arena import ARENA_CACHES, MAXIMUM_SETS, Arena, sets_needed
from collector.node.devices.simulated import SimulatedCall, SimulatedClock, SimulatedDevice
from collector.node.harness import (
    MAXIMUM_CALLS,
    MINIMUM_SAMPLE_S,
    CaseTimer,
    CaseTimes,
    TimedArm,
    calls_per_sample,
    order_of_round,
    paired_log_ratios,
)

ROLES = {"naive": Role.NAIVE, "optimized": Role.OPTIMIZED, "aa": Role.AA, "candidate": Role.CANDIDATE}


def time_arms(
    seconds: dict[str, float], *, noise: float = 0.0, drift_per_s: float = 0.0, method: Method | None = None
) -> tuple[CaseTimes, list[tuple[str, str]]]:
    """Time simulated arms; also everything that was announced."""
    clock = SimulatedClock()
    announced: list[tuple[str, str]] = []
    arms = [
        TimedArm(label=name, role=ROLES[name], call=SimulatedCall(clock, s, noise=noise, seed=i))
        for i, (name, s) in enumerate(seconds.items())
    ]
    timer = CaseTimer(
        arms,
        SimulatedDevice(clock, drift_per_s=drift_per_s),
        method or Method(),
        seed=3,
        announce=lambda arm, step: announced.append((arm, step)),
        now=clock.now,
    )
    return timer.run(), announced


@given(arms=st.lists(st.text(min_size=1), unique=True, min_size=1, max_size=6), round=st.integers(0, 1000))
def test_order_is_a_permutation_mirrored_in_the_next_round(arms: list[str], round: int) -> None:
    """Each round has every arm once, and two paired rounds give every arm the same mean position."""
    even = round - round % 2
    first, second = order_of_round(arms, even, 7), order_of_round(arms, even + 1, 7)

    assert sorted(first) == sorted(arms)
    assert second == first[::-1]


def test_orders_change_from_pair_to_pair() -> None:
    """Over many rounds each arm is first about equally often."""
    arms = ["a", "b", "c", "d"]

    firsts = Counter(order_of_round(arms, n, 1)[0] for n in range(2000))

    assert all(abs(firsts[a] - 500) < 100 for a in arms)


def test_exact_times_come_back_exactly() -> None:
    """A call that takes 3 ms reads 3 ms, and one of 1.15 times that a ratio of 1.15."""
    times, _ = time_arms({"optimized": 3e-3, "candidate": 3e-3 * 1.15})

    ratios = paired_log_ratios(times.rounds["candidate"], times.rounds["optimized"], times.ratio_timer)

    assert times.rounds["optimized"].seconds("thread_time") == pytest.approx([3e-3] * len(ratios))
    assert np.exp(np.median(ratios)) == pytest.approx(1.15)


def test_a_drifting_machine_leaves_the_ratio_alone() -> None:
    """A machine that gets 4 % slower every second, linearly, does not make one arm look slower than its equal."""
    times, _ = time_arms({"optimized": 3e-3, "aa": 3e-3, "candidate": 3e-3}, drift_per_s=0.04)

    for arm in ("aa", "candidate"):
        ratios = paired_log_ratios(times.rounds[arm], times.rounds["optimized"], "thread_time")
        even = len(ratios) // 2 * 2
        assert abs(np.mean(ratios[:even])) < 1e-3


def test_noise_stops_at_the_target_or_at_the_cap() -> None:
    """A quiet case stops at its half-width, a noisy one at its cap or budget; the reason says which."""
    method = Method(min_rounds=10, max_rounds=80, target_half_width=0.02, case_budget_s=60.0)

    quiet, _ = time_arms({"optimized": 3e-3, "candidate": 3e-3}, noise=0.002, method=method)
    noisy, _ = time_arms({"optimized": 3e-3, "candidate": 3e-3}, noise=0.5, method=method)

    assert "half-width 0.02 reached" in quiet.stop_reason
    assert noisy.stop_reason == "cap of 80 rounds"
    assert len(noisy.rounds["optimized"].round) == 80


def test_the_budget_ends_a_slow_case() -> None:
    """A case of half a second a call stops soon after its budget, with fewer rounds than asked for, and says so."""
    method = Method(min_rounds=50, case_budget_s=4.0)

    times, _ = time_arms({"optimized": 0.5, "candidate": 0.5}, noise=0.2, method=method)

    assert "twice the budget" in times.stop_reason
    assert len(times.rounds["optimized"].round) < 50


def test_an_expensive_naive_arm_runs_in_every_kth_round_only() -> None:
    """The naive arm takes no more than about its share of the budget, and still has rounds."""
    method = Method(min_rounds=20, max_rounds=100, case_budget_s=4.0, target_half_width=1e-9)

    times, _ = time_arms({"naive": 0.05, "optimized": 3e-3, "candidate": 3e-3}, noise=0.05, method=method)

    naive, optimized = times.rounds["naive"], times.rounds["optimized"]
    assert 5 <= len(naive.round) < len(optimized.round)
    assert sum(s.wall_s for s in naive.samples) < 0.5 * method.case_budget_s


def test_short_calls_are_looped_and_their_tail_is_single() -> None:
    """Calls of 20 us are sampled in bunches of at least 1 ms; the single pass has one call a sample; A/A has none."""
    times, announced = time_arms({"optimized": 20e-6, "aa": 20e-6, "candidate": 20e-6}, method=Method(single_calls=40))

    assert times.rounds["optimized"].calls in (50, 51)
    assert set(times.single) == {"optimized", "candidate"}
    assert len(times.single["candidate"].samples) == 40
    assert times.single["candidate"].calls == 1
    assert ("", "single calls") in announced


@given(seconds=st.floats(1e-9, 10.0))
def test_a_sample_is_long_enough_or_at_the_cap(seconds: float) -> None:
    """k calls last at least the clock's minimum, and k is the least such number."""
    k = calls_per_sample(seconds, "thread_time")

    assert k == MAXIMUM_CALLS or k * seconds >= MINIMUM_SAMPLE_S["thread_time"] * (1 - 1e-9)
    assert k == 1 or (k - 1) * seconds < MINIMUM_SAMPLE_S["thread_time"] * (1 + 1e-9)


@given(
    st.lists(st.tuples(st.floats(1e-6, 1.0), st.floats(1e-6, 1.0)), min_size=1, max_size=20),
    st.floats(0.01, 100.0),
)
def test_paired_ratios_do_not_depend_on_the_unit(pairs: list[tuple[float, float]], scale: float) -> None:
    """Multiplying all times by a constant changes no log-ratio; oracle: the logarithm of each quotient."""
    from collector.node.devices.base import Sample
    from collector.node.harness import Samples

    def samples(values: list[float]) -> Samples:
        s = Samples(calls=1)
        for n, v in enumerate(values):
            s.add(
                Sample(start_s=0.0, wall_s=v, thread_s=v, device_s=None), round=n, position=0, spread=1.0, straggler=0
            )
        return s

    a, b = samples([p[0] * scale for p in pairs]), samples([p[1] * scale for p in pairs])

    assert paired_log_ratios(a, b, "wall") == pytest.approx([math.log(x / y) for x, y in pairs], abs=1e-9)


@given(set_bytes=st.integers(0, 2**32), cache_bytes=st.integers(1, 2**28))
def test_the_arena_outgrows_the_cache(set_bytes: int, cache_bytes: int) -> None:
    """All sets together span the cache ARENA_CACHES times, unless that takes more sets than the cap."""
    sets = sets_needed(set_bytes, cache_bytes)

    assert 1 <= sets <= MAXIMUM_SETS
    if set_bytes > 0 and sets < MAXIMUM_SETS:
        assert sets * set_bytes >= ARENA_CACHES * cache_bytes


def test_every_arm_meets_every_set_equally_often() -> None:
    """The cursor moves on every call: no arm gets a set more often than its share, none inherits a warm one."""
    import torch

    arena = Arena([torch.zeros(64)], cache_bytes=64 * 4 * 8)
    met: dict[str, Counter[int]] = {a: Counter() for a in ("x", "y", "z")}
    last: dict[int, int] = {}
    gaps: list[int] = []
    for n in range(17 * 120):
        for label in order_of_round(list(met), n, 5):
            where = arena.next()[0].data_ptr()
            met[label][where] += 1
            now = sum(sum(c.values()) for c in met.values())
            gaps.append(now - last.get(where, now - len(arena.sets)))
            last[where] = now

    assert len(arena.sets) == 17
    assert set(gaps) == {17}
    assert all(max(c.values()) < 1.6 * min(c.values()) for c in met.values())
