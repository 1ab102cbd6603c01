"""The methods under comparison, and the two that differ in the order of the arms alone.

All get the same wall time in a trial. Left out for all, and printed: start of processes and inputs. Processes are
forked from one that has torch imported: started anew each would import it for seconds, more than a trial could pay.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from bench_suite.contract import Role
from bench_suite.plan import Method as HarnessMethod
from benchmarks.measurement_estimates import SHARES, Rounds, from_blocks, from_rounds
from benchmarks.measurement_operators import Call, Opener
from benchmarks.measurement_trials import Estimate, in_fresh_process
from collector.node.devices.base import Sample
from collector.node.devices.cpu import Cpu
from collector.node.harness import (
    SINGLE_SHARE,
    WARM_UP_CALLS,
    WARM_UP_S,
    CaseTimer,
    TimedArm,
    calls_per_sample,
    clock_seconds,
)

CLOCKS = ("thread_time", "wall")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a method gives: its estimates, the wall time of its own work, and of what came before."""

    seconds: float
    start_up_s: float
    estimates: list[Estimate]


class Method(Protocol):
    """A way to compare two callables in `budget_s` seconds of wall time."""

    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str: ...

    def settings(self, budget_s: float) -> str:
        """What the table prints."""

    def measure(self, opener: Opener, budget_s: float, seed: int) -> Measured: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ours:
    """This product: CaseTimer in several processes, paired log-ratios, Student's t over the processes."""

    processes: int = 3
    name: str = "ours"
    title: str = "**this harness**"

    def settings(self, budget_s: float) -> str:
        return (
            f"`CaseTimer`, {self.processes} processes of {budget_s / self.processes:.2f} s, arms in mirrored random "
            "order, samples of 1 ms and more, log-ratio over neighbouring rounds in each process, thread time"
        )

    def measure(self, opener: Opener, budget_s: float, seed: int) -> Measured:
        piece_s = budget_s / self.processes
        parts = [
            in_fresh_process(lambda i=i: run_harness(opener, piece_s, seed * self.processes + i))  # type: ignore[misc]
            for i in range(self.processes)
        ]
        estimates = [
            made
            for clock in CLOCKS
            for share in SHARES
            if (made := from_rounds([p.until(clock, share, piece_s) for p in parts], share, clock)) is not None
        ]
        return Measured(
            seconds=sum(p.seconds for p in parts), start_up_s=sum(p.start_up_s for p in parts), estimates=estimates
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HarnessRun:
    """One process of ours: by clock the seconds of each round, with the seconds at which the round ended."""

    seconds: float
    start_up_s: float
    ends_s: list[float]
    rounds: dict[str, Rounds]

    def until(self, clock: str, share: float, piece_s: float) -> Rounds:
        """The rounds that had ended after a share of the time; all of them for the whole."""
        n = len(self.ends_s) if share == 1 else sum(end <= share * piece_s for end in self.ends_s)
        return Rounds(base=self.rounds[clock].base[:n], arm=self.rounds[clock].arm[:n])


def run_harness(opener: Opener, piece_s: float, seed: int) -> HarnessRun:
    """One replicate of one case, as a worker does it, without the pass of single calls."""
    start = time.perf_counter()
    call = opener()
    arms = [
        TimedArm(label="optimized", role=Role.OPTIMIZED, call=call),
        TimedArm(label="candidate", role=Role.CANDIDATE, call=call),
    ]
    budget_s = max(piece_s - WARM_UP_S["thread_time"], 0.01)
    method = HarnessMethod(
        case_budget_s=budget_s / (1 - SINGLE_SHARE),
        single_calls=0,
        min_rounds=8,
        max_rounds=100_000,
        target_half_width=0.0,
    )
    gc.disable()
    begun, begun_clock = time.perf_counter(), time.monotonic()
    times = CaseTimer(arms, Cpu(), method, seed=seed).run()
    done = time.perf_counter()
    base, arm = times.rounds["optimized"], times.rounds["candidate"]
    last = [max(a.start_s + a.wall_s, b.start_s + b.wall_s) for a, b in zip(base.samples, arm.samples, strict=True)]
    return HarnessRun(
        seconds=done - begun,
        start_up_s=begun - start,
        ends_s=[end - begun_clock for end in last],
        rounds={clock: Rounds(base=base.seconds(clock), arm=arm.seconds(clock)) for clock in CLOCKS},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One arm alone: seconds of each sample by clock, and what its time was."""

    seconds: float
    samples: dict[str, list[float]]


def two_blocks(opener: Opener, time_arm: Callable[[Call], Block]) -> Measured:
    """Arm A to its end, then arm B, in one process."""

    def work() -> tuple[float, Block, Block]:
        start = time.perf_counter()
        call = opener()
        opened = time.perf_counter()
        gc.disable()
        return opened - start, time_arm(call), time_arm(call)

    start_up_s, first, second = in_fresh_process(work)
    estimates = [
        from_blocks([first.samples[clock]], [second.samples[clock]], share, clock)
        for clock in first.samples
        for share in SHARES
    ]
    return Measured(seconds=first.seconds + second.seconds, start_up_s=start_up_s, estimates=estimates)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneAfterTheOther:
    """The arms one after the other, with everything else as ours has it: warm-up, samples, clocks, arena."""

    name: str = "sequential"
    title: str = "one after the other"

    def settings(self, budget_s: float) -> str:
        return f"one process, warm-up and samples as ours, {budget_s / 2:.2f} s an arm, ratio of medians"

    def measure(self, opener: Opener, budget_s: float, seed: int) -> Measured:
        return two_blocks(opener, lambda call: _time_block(call, budget_s / 2))


def _time_block(call: Call, budget_s: float) -> Block:
    device = Cpu()
    begun = time.perf_counter()
    last: list[float] = []
    while len(last) < WARM_UP_CALLS or time.perf_counter() - begun < WARM_UP_S["thread_time"] / 2:
        last.append(clock_seconds(device.sample(call, 1), "thread_time"))
    k = calls_per_sample(statistics.median(last[-3:]), "thread_time")
    samples: list[Sample] = []
    while time.perf_counter() - begun < budget_s or len(samples) < 2:
        samples.append(device.sample(call, k))
    return Block(
        seconds=time.perf_counter() - begun,
        samples={clock: [clock_seconds(s, clock) / k for s in samples] for clock in CLOCKS},
    )
