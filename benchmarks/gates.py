"""How often a gate fires, and is it right: `python -m benchmarks.gates [STORE ...]`, stores of `collector demo`.

First streams of one rule (a time, at most +5 % against history) in which nothing changed, by kind of noise: 60 cases,
120 runs, as one gate. Then the shipped inference gate over each store.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from collector.host.gates import dry_run_gate, load_gate
from detection.gate import Against, Answer, GateMetric, GatePolicy, GateRule
from detection.gate_dry_run import GateRun, fold_dry_run
from detection.gate_history import gate_outcomes
from store.lake.lake import Lake

Floats = NDArray[np.float64]

CASES, RUNS = 60, 120
START = datetime(2026, 1, 1, tzinfo=UTC)
RULE = GateRule(name="time", metric=GateMetric.LATENCY_P50, against=Against.HISTORY, at_most=0.05)
GATE = GatePolicy(name="null", version="1", rules=(RULE,))


def row(case: int, run: int, seconds: float) -> dict[str, object]:
    """A result with a median time and nothing else."""
    unknown = ("latency_p95_s", "latency_p99_s", "ratio_optimized", "ratio_optimized_low", "ratio_optimized_high")
    return dict.fromkeys((*unknown, "flop_per_s", "peak_memory_bytes", "error_margin")) | {
        "run_id": f"r{run:03d}",
        "started_at": START + timedelta(days=run),
        "subject_id": f"s{case}",
        "case_id": f"c{case}",
        "arm": "candidate",
        "phase": "decode",
        "status": "measured",
        "n": 300,
        "latency_basis": "single",
        "latency_p50_s": seconds,
        "ratio_processes": 0,
    }


def autocorrelated(rng: np.random.Generator, phi: float, sd: float) -> Floats:
    """[cases, runs] of a first-order autoregression."""
    x = rng.normal(0, sd, (CASES, RUNS))
    for run in range(1, RUNS):
        x[:, run] = phi * x[:, run - 1] + math.sqrt(1 - phi**2) * x[:, run]
    return x


def noises(rng: np.random.Generator) -> Iterator[tuple[str, Floats]]:
    """Name and logarithms [cases, runs]."""
    shape = (CASES, RUNS)
    yield "normal, 1 %", rng.normal(0, 0.01, shape)
    yield "normal, 2 %", rng.normal(0, 0.02, shape)
    yield "Student's t of 3 degrees, scale 1 %", 0.01 * rng.standard_t(3, shape)
    yield "autoregression .6, 1.5 %", autocorrelated(rng, 0.6, 0.015)
    yield "autoregression .9, 1.5 %", autocorrelated(rng, 0.9, 0.015)
    throttled = np.where(rng.random(shape) < 0.03, rng.uniform(0.05, 0.2, shape), 0.0)
    yield "normal, 1 %, and 3 % of values 5 to 20 % up", rng.normal(0, 0.01, shape) + throttled
    yield "normal, 1 %, and 5 % that a run's cases share", rng.normal(0, 0.01, shape) + rng.normal(0, 0.05, (1, RUNS))


def null_lines(seed: int = 11) -> Iterator[str]:
    """The first table."""
    yield "| noise, no change | cases fired per 1,000 | runs at which it fired, of 120 | cases undecided |"
    yield "|---|---|---|---|"
    for name, logs in noises(np.random.default_rng(seed)):
        rows: list[Mapping[str, object]] = [
            row(case, run, math.exp(logs[case, run])) for run in range(RUNS) for case in range(CASES)
        ]
        outcomes = gate_outcomes(GATE, rows)
        runs = [GateRun(run_id=o.run_id, started_at=START, device_unit="u") for o in outcomes]
        fired = fold_dry_run(GATE, outcomes, runs=runs, covered=()).fired
        lines = [line for outcome in outcomes[10:] for line in outcome.lines]
        undecided = sum(line.answer is Answer.UNDECIDED for line in lines) / len(lines)
        failed: set[str] = set()
        cases = 0
        for line in (line for outcome in outcomes for line in outcome.lines):
            if line.answer is Answer.PASSED:
                failed.discard(line.case_id)
            elif line.answer is Answer.FAILED and line.case_id not in failed:
                failed.add(line.case_id)
                cases += 1
        yield f"| {name} | {1000 * cases / (CASES * RUNS):.2f} | {fired} | {undecided:.1%} |"


def store_lines(uri: str) -> Iterator[str]:
    """The inference gate over a store: each rule, and the first failing run of each device by rule and operator."""
    gate = load_gate("inference")
    dry = dry_run_gate(Lake.open(uri), gate)
    yield f"{gate.name} {gate.version} over {uri}: {dry.sentence}\n"
    yield "| rule | fired | confirmed |\n|---|---|---|"
    yield from (f"| {count.rule} | {count.fired} | {count.confirmed} |" for count in dry.rules)
    first: dict[tuple[str, str], list[str]] = {}
    seen: set[tuple[str, str, str]] = set()
    for outcome in dry.outcomes:
        night, unit = outcome.run_id.split("-", 2)[1:]
        for line in outcome.lines:
            key = (line.rule, line.case_id.split("[")[0])
            if line.answer is Answer.FAILED and (*key, unit) not in seen:
                seen.add((*key, unit))
                first.setdefault(key, []).append(f"{unit} {int(night)}")
    yield "\n| rule | operator | first night that fails, by unit |\n|---|---|---|"
    yield from (f"| {rule} | {operator} | {', '.join(told)} |" for (rule, operator), told in sorted(first.items()))


def main() -> None:
    """Prints the tables."""
    print("\n".join(null_lines()))
    for uri in sys.argv[1:]:
        print()
        print("\n".join(store_lines(uri)))


if __name__ == "__main__":
    main()
