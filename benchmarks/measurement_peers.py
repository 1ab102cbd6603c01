"""The peers, each by its own code and its own process model, with the settings that its documentation has for this.

pyperf's collection of metadata is left out of its time, as are the imports of all.
"""

from __future__ import annotations

import contextlib
import io
import time
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from benchmarks.measurement_estimates import SHARES, from_blocks
from benchmarks.measurement_methods import Block, Measured, Method, OneAfterTheOther, Ours, two_blocks
from benchmarks.measurement_operators import Call, Opener
from benchmarks.measurement_trials import in_fresh_process
from collector.node.harness import WARM_UP_S


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchBenchmark:
    """torch.utils.benchmark: Timer.blocked_autorange, one arm after the other as its documentation compares."""

    clock: str = "thread_time"
    name: str = "torch"
    title: str = "torch.utils.benchmark"

    def settings(self, budget_s: float) -> str:
        clock = "timeit.default_timer" if self.clock == "wall" else "time.thread_time"
        return (
            f"`Timer(num_threads=1, timer={clock}).blocked_autorange(min_run_time={budget_s / 2:.3f} less calibration)`"
            " an arm, both in one process"
        )

    def measure(self, opener: Opener, budget_s: float, seed: int) -> Measured:
        return two_blocks(opener, lambda call: self._time_block(call, budget_s / 2))

    def _time_block(self, call: Call, budget_s: float) -> Block:
        from torch.utils.benchmark import Timer

        begun = time.perf_counter()
        clock = time.perf_counter if self.clock == "wall" else time.thread_time
        timer = Timer("call()", globals={"call": call}, num_threads=1, timer=clock)
        # Its estimate of the block size is its warm-up, and counts.
        number = timer._estimate_block_size(budget_s)
        left_s = max(budget_s - (time.perf_counter() - begun), 0.01)
        measured = _blocked(timer, number, left_s)
        return Block(seconds=time.perf_counter() - begun, samples={self.clock: measured})


def _blocked(timer: Any, number: int, min_run_time: float) -> list[float]:
    """blocked_autorange with the block size that was found before, so that both together take the time of an arm."""
    times = timer._threaded_measurement_loop(
        number, lambda: timer._timeit(number), lambda times: True, min_run_time=min_run_time, callback=None
    )
    return [t / number for t in times]


@dataclass(frozen=True, slots=True, kw_only=True)
class PytestBenchmark:
    """pytest-benchmark: the `benchmark` fixture, calibrated, one test an arm in one process."""

    clock: str = "thread_time"
    name: str = "pytest_benchmark"
    title: str = "pytest-benchmark"

    def settings(self, budget_s: float) -> str:
        clock = "time.perf_counter" if self.clock == "wall" else "time.thread_time"
        return (
            "`benchmark(call)`, calibrated, --benchmark-min-rounds=5 "
            f"--benchmark-max-time={budget_s / 2:.3f} s less calibration --benchmark-warmup=on --benchmark-disable-gc "
            f"--benchmark-timer={clock}, a test an arm, both in one process"
        )

    def measure(self, opener: Opener, budget_s: float, seed: int) -> Measured:
        return two_blocks(opener, lambda call: self._time_block(call, budget_s / 2))

    def _time_block(self, call: Call, budget_s: float) -> Block:
        from pytest_benchmark.fixture import BenchmarkFixture  # type: ignore[import-not-found]
        from pytest_benchmark.utils import NameWrapper  # type: ignore[import-not-found]

        begun = time.perf_counter()
        quiet = SimpleNamespace(debug=lambda *a, **k: None, info=lambda *a, **k: None)
        warm_up_s = WARM_UP_S["thread_time"] / 2
        single = time.perf_counter()
        call()
        warm_up_calls = max(1, int(warm_up_s / (time.perf_counter() - single)))
        fixture = BenchmarkFixture(
            SimpleNamespace(name=self.name, nodeid=self.name),
            disable_gc=True,
            timer=NameWrapper(time.perf_counter if self.clock == "wall" else time.thread_time),
            min_rounds=5,
            min_time=0.000_005,
            max_time=budget_s - 2 * warm_up_s,  # it warms up before its calibration and before its rounds
            precision=None,
            confidence=None,
            warmup=True,
            warmup_iterations=warm_up_calls,
            calibration_precision=10,
            add_stats=lambda stats: None,
            logger=quiet,
            warner=None,
            disabled=False,
            cprofile=False,
            cprofile_loops=None,
            cprofile_dump=None,
        )
        fixture(call)
        assert fixture.stats is not None
        k = fixture.stats.iterations
        return Block(
            seconds=time.perf_counter() - begun,
            samples={self.clock: [t / k for t in fixture.stats.stats.data]},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pyperf:
    """pyperf: Runner.bench_func in worker processes, arm after arm, one warm-up and three values a process."""

    processes: int = 3
    values: int = 3
    name: str = "pyperf"
    title: str = "pyperf"

    def settings(self, budget_s: float) -> str:
        return (
            f"`Runner.bench_func`, --processes={self.processes} an arm (default 20) --values={self.values} --warmups=1 "
            f"--min-time={self._min_time_s(budget_s):.3f} (default 0.1), loops calibrated once an arm, wall time (it "
            "has no other clock)"
        )

    def _min_time_s(self, budget_s: float) -> float:
        """Loops are doubled until they last this long, so that a value takes 1.4 times as much on average."""
        return budget_s / 2 / ((self.processes + 0.5) * (self.values + 1)) / 1.4

    def measure(self, opener: Opener, budget_s: float, seed: int) -> Measured:
        target_s = self._min_time_s(budget_s)
        seconds = start_up_s = 0.0
        arms: list[list[list[float]]] = []
        for _ in range(2):
            loops, spent_s, before_s = in_fresh_process(lambda: _pyperf_calibrate(opener, target_s))
            seconds, start_up_s = seconds + spent_s, start_up_s + before_s
            arm = []
            for _ in range(self.processes):
                values, spent_s, before_s = in_fresh_process(lambda: _pyperf_values(opener, loops, self.values))  # noqa: B023
                arm.append(values)
                seconds, start_up_s = seconds + spent_s, start_up_s + before_s
            arms.append(arm)
        return Measured(
            seconds=seconds,
            start_up_s=start_up_s,
            estimates=[from_blocks(arms[0], arms[1], share, "wall") for share in SHARES],
        )


def _pyperf_run(opener: Opener, arguments: list[str]) -> tuple[Any, float]:
    """What one of pyperf's workers finds, run in this process, and the seconds before it."""
    import pyperf  # type: ignore[import-not-found]

    start = time.perf_counter()
    call = opener()
    opened = time.perf_counter()
    runner = pyperf.Runner(program_args=("measurement",))
    runner.parse_args(["--worker", "--warmups=1", *arguments])
    with contextlib.redirect_stdout(io.StringIO()):
        bench = runner.bench_func("arm", call)
    (run,) = bench.get_runs()
    return run, opened - start


def _timed_s(run: Any, loops: int) -> float:
    """Seconds inside pyperf's clock, warm-ups with theirs."""
    return float(sum(n * value for n, value in run.warmups) + loops * sum(run.values))


def _pyperf_calibrate(opener: Opener, min_time_s: float) -> tuple[int, float, float]:
    run, start_up_s = _pyperf_run(opener, ["--calibrate-loops", f"--min-time={min_time_s}", "--values=1"])
    return int(run.get_metadata()["calibrate_loops"]), _timed_s(run, 0), start_up_s


def _pyperf_values(opener: Opener, loops: int, values: int) -> tuple[list[float], float, float]:
    run, start_up_s = _pyperf_run(opener, [f"--loops={loops}", f"--values={values}"])
    return list(run.values), _timed_s(run, loops), start_up_s


def all_methods() -> tuple[Method, ...]:
    """In the order of the table."""
    return (
        Ours(),
        OneAfterTheOther(),
        TorchBenchmark(),
        Pyperf(),
        PytestBenchmark(),
    )
