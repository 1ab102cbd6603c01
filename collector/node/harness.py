"""Time the arms of one case against each other, in one process.

Rounds: in each round every arm is sampled once, in an order that is permuted anew and mirrored in the next round, so
that a drift of the machine's speed meets all arms alike. A sample is the mean of k calls, k such that it lasts long
enough for the clock. What is compared are the logarithms of the times of neighbouring rounds (docs/method.md, arms).

Single calls: a pass of its own, for the tail, which the mean of k calls averages away.

The harness knows no torch: it times callables through a Device and asks a Coordinator whether to go on, so that all of
it runs on a laptop with a simulated device (collector.node.devices.simulated).
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from bench_suite.contract import Role
from bench_suite.suite import Method
from collector.node.devices.base import Call, Device, Sample
from detection.stats import median_half_width

MINIMUM_SAMPLE_S = {"thread_time": 1e-3, "wall": 1e-3, "device_event": 2e-4}
"""Shortest sample by clock: 1 ms on CPU keeps the clock's own cost and jitter below 0.1 %. Not longer: the closer in
time two arms are compared, the more alike is what the rest of the machine does to them (benchmarks/measurement.py)."""
WARM_UP_CALLS = 3
WARM_UP_S = {"thread_time": 0.025, "wall": 0.025, "device_event": 0.025}
"""Shortest warm-up of a case, shared by its arms: what gets warm in seconds (clocks, pages of the heap) is the
process's; what an arm itself has to get ready is counted in calls. On CPU times were level after 20 ms."""
MAXIMUM_CALLS = 4096
SINGLE_SHARE = 0.35
"""Share of the case's budget for the pass of single calls."""
NAIVE_SHARE = 0.35
"""Most of the budget that the naive arm may take; it is then run in every k-th round."""
NAIVE_MINIMUM_ROUNDS = 5
CHECK_EVERY = 5
"""Rounds between two looks at the budget and the stopping rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedArm:
    """An arm as the harness sees it: a label, a role, and a call without arguments that takes the next input set."""

    label: str
    role: Role
    call: Call


@dataclass(slots=True, kw_only=True)
class Samples:
    """Raw samples of one arm in one pass, growing."""

    calls: int
    samples: list[Sample] = field(default_factory=list)
    round: list[int] = field(default_factory=list)
    position: list[int] = field(default_factory=list)
    rank_spread: list[float] = field(default_factory=list)
    straggler: list[int] = field(default_factory=list)

    def add(self, sample: Sample, *, round: int, position: int, spread: float, straggler: int) -> None:
        self.samples.append(sample)
        self.round.append(round)
        self.position.append(position)
        self.rank_spread.append(spread)
        self.straggler.append(straggler)

    def seconds(self, timer: str) -> list[float]:
        """Mean seconds of one call for each sample, by this clock."""
        return [clock_seconds(sample, timer) / self.calls for sample in self.samples]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseTimes:
    """All samples of a case in one replicate, and why it stopped."""

    rounds: dict[str, Samples]
    single: dict[str, Samples]
    ratio_timer: str
    stop_reason: str


class Coordinator(Protocol):
    """Lets several ranks do the same thing at the same time. Rank 0 decides, the others follow."""

    @property
    def world_size(self) -> int: ...

    def barrier(self) -> None: ...

    def agree(self, value: float) -> float:
        """Rank 0's value, on every rank."""

    def slowest(self, sample: Sample) -> tuple[Sample, float, int]:
        """The slowest rank's sample, slowest / fastest by wall time, and which rank it was."""

    def worst(self, value: float) -> float:
        """The largest value of all ranks, on every rank."""


class Solo:
    """One process: it agrees with itself."""

    world_size = 1

    def barrier(self) -> None:
        """Nobody to wait for."""

    def agree(self, value: float) -> float:
        return value

    def slowest(self, sample: Sample) -> tuple[Sample, float, int]:
        return sample, 1.0, 0

    def worst(self, value: float) -> float:
        return value


def clock_seconds(sample: Sample, timer: str) -> float:
    value = {"thread_time": sample.thread_s, "wall": sample.wall_s, "device_event": sample.device_s}[timer]
    if value is None:
        raise ValueError(f"this device has no clock {timer}")
    return value


def order_of_round(arms: Sequence[str], round: int, seed: int) -> list[str]:
    """The order of the arms in a round: a seeded permutation, mirrored in the round after it.

    Over each pair of rounds every arm has the same mean position, so a linear drift cancels.
    """
    rng = random.Random(f"{seed}:{round // 2}")
    order = list(arms)
    rng.shuffle(order)
    return order if round % 2 == 0 else order[::-1]


class CaseTimer:
    """Times the arms of one case: warm-up, rounds until the stopping rule, the cap or the budget, single calls."""

    def __init__(
        self,
        arms: Sequence[TimedArm],
        device: Device,
        method: Method,
        *,
        seed: int,
        coordinator: Coordinator | None = None,
        announce: Callable[[str, str], None] = lambda arm, step: None,
        touch: Callable[[str], None] = lambda arm: None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`announce(arm, step)` is called before each step, `touch(arm)` before each sample: so that somebody outside
        knows who was at work when the process hangs or dies. `now` is in seconds."""
        self.arms = {arm.label: arm for arm in arms}
        self.device = device
        self.method = method
        self.seed = seed
        self.ranks: Coordinator = coordinator or Solo()
        self.announce = announce
        self.touch = touch
        self.now = now
        self.timer = device.ratio_timer(method.threads, self.ranks.world_size)

    def run(self) -> CaseTimes:
        seconds = {label: self._warm_up(arm) for label, arm in self.arms.items()}
        calls = {label: calls_per_sample(s, self.timer) for label, s in seconds.items()}
        rounds = {label: Samples(calls=calls[label]) for label in self.arms}
        budget_s = self.method.case_budget_s * (1 - SINGLE_SHARE)
        every = self._naive_every({label: seconds[label] * calls[label] for label in self.arms}, budget_s)
        stop = self._run_rounds(rounds, every, budget_s)
        single = self._run_single(calls)
        return CaseTimes(rounds=rounds, single=single, ratio_timer=self.timer, stop_reason=stop)

    def _warm_up(self, arm: TimedArm) -> float:
        """Run the arm until it is warm; the median of its last three calls, seconds by the ratio's clock."""
        self.announce(arm.label, "warm-up")
        self.ranks.barrier()
        begun = self.now()
        last: list[float] = []
        done = 0
        while True:
            last = [*last[-2:], clock_seconds(self.device.sample(arm.call, 1), self.timer)]
            done += 1
            warm = done >= WARM_UP_CALLS and self.now() - begun >= WARM_UP_S[self.timer] / len(self.arms)
            if self.ranks.agree(float(warm)):
                break
        return self.ranks.agree(max(sorted(last)[len(last) // 2], 1e-9))

    def _naive_every(self, sample_s: dict[str, float], budget_s: float) -> int:
        """Every how many rounds the naive arm runs, so that it takes at most its share of the budget."""
        naive = sum(s for label, s in sample_s.items() if self.arms[label].role is Role.NAIVE)
        others = sum(s for label, s in sample_s.items() if self.arms[label].role is not Role.NAIVE)
        if naive <= 0 or others <= 0:
            return 1
        expected_rounds = min(self.method.max_rounds, max(self.method.min_rounds, budget_s / (naive + others)))
        affordable = max(NAIVE_MINIMUM_ROUNDS, budget_s * NAIVE_SHARE / naive)
        return max(1, round(expected_rounds / affordable))

    def _run_rounds(self, rounds: dict[str, Samples], naive_every: int, budget_s: float) -> str:
        self.announce("", "timing")
        begun = self.now()
        number = 0
        while True:
            skip_naive = number % naive_every != 0
            present = [a.label for a in self.arms.values() if not (skip_naive and a.role is Role.NAIVE)]
            self._sample_round(present, rounds, number, self.seed)
            number += 1
            reason = self._why_stop(rounds, number, self.now() - begun, budget_s)
            if self.ranks.agree(float(bool(reason))):
                return reason

    def _sample_round(self, labels: list[str], into: dict[str, Samples], number: int, seed: int) -> None:
        for position, label in enumerate(order_of_round(labels, number, seed)):
            self.touch(label)
            self.ranks.barrier()
            sample = self.device.sample(self.arms[label].call, into[label].calls)
            slowest, spread, straggler = self.ranks.slowest(sample)
            into[label].add(slowest, round=number, position=position, spread=spread, straggler=straggler)

    def _why_stop(self, rounds: dict[str, Samples], number: int, spent_s: float, budget_s: float) -> str:
        """The reason to stop after so many rounds; empty: go on."""
        method = self.method
        if number >= method.max_rounds:
            return f"cap of {method.max_rounds} rounds"
        if number >= method.min_rounds and number % CHECK_EVERY == 0:
            if spent_s > budget_s:
                return f"budget of {budget_s:.3g} s after {number} rounds"
            if self._settled(rounds):
                return f"half-width {method.target_half_width:.3g} reached after {number} rounds"
        if number >= 2 * NAIVE_MINIMUM_ROUNDS and spent_s > 2 * budget_s:
            return f"twice the budget of {budget_s:.3g} s after {number} of at least {method.min_rounds} rounds"
        return ""

    def _settled(self, rounds: dict[str, Samples]) -> bool:
        """Whether each arm's median log-ratio to optimized is known, in this process, to half the target half-width.

        Half, since what differs between processes needs room in the target too.
        """
        base = next((a.label for a in self.arms.values() if a.role is Role.OPTIMIZED), None)
        if base is None:
            return False
        compared = [a.label for a in self.arms.values() if a.role not in (Role.OPTIMIZED, Role.NAIVE, Role.PLANTED)]
        widths = [median_half_width(paired_log_ratios(rounds[label], rounds[base], self.timer)) for label in compared]
        return bool(widths) and max(widths) <= self.method.target_half_width / 2

    def _run_single(self, calls: dict[str, int]) -> dict[str, Samples]:
        """Single calls, interleaved, of the arms whose rounds were means of several.

        An arm whose samples are single calls already (k = 1) needs no more, and nobody reads the tail of an audit arm.
        """
        audits = (Role.AA, Role.PLANTED)
        wanted = [a.label for a in self.arms.values() if calls[a.label] > 1 and a.role not in audits]
        single = {label: Samples(calls=1) for label in wanted}
        if not wanted or self.method.single_calls <= 0:
            return single
        self.announce("", "single calls")
        budget_s = self.method.case_budget_s * SINGLE_SHARE
        begun = self.now()
        for number in range(self.method.single_calls):
            self._sample_round(wanted, single, number, self.seed + 1)
            if self.ranks.agree(float(self.now() - begun > budget_s)):
                break
        return single


def calls_per_sample(seconds: float, timer: str) -> int:
    """How many calls make one sample long enough for this clock."""
    return max(1, min(MAXIMUM_CALLS, math.ceil(MINIMUM_SAMPLE_S[timer] / seconds)))


def paired_log_ratios(arm: Samples, base: Samples, timer: str) -> list[float]:
    """log(arm / base) of each round that has both, with positive times."""
    base_seconds = dict(zip(base.round, base.seconds(timer), strict=True))
    pairs = zip(arm.round, arm.seconds(timer), strict=True)
    return [
        math.log(value / base_seconds[number])
        for number, value in pairs
        if number in base_seconds and value > 0 and base_seconds[number] > 0
    ]
