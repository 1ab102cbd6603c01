"""The table of a run that measured a part: this harness against the arms one after the other, nothing else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measurement_analysis import Contender, error_row
from benchmarks.measurement_report import GOALS, OURS, PROCESSES, REFERENCE, TITLES, percent_words, ratio_words
from benchmarks.measurement_trials import Trial

WALL = Contender(method="sequential", clock="wall", statistic="median")
HEAD = """# How wrong is a ratio? A part, at another budget

`python -m benchmarks.measurement --trials {trials} {options}`, {date}, {cpu}, kernel {kernel}; harness method
{method_version}. {trials} trials of each operator and method, {budget_s} s of wall time each, in random order, one
thread on core 0 at {priority}; core 1 loaded by a process of ours that multiplies matrices and streams memory. Both
arms are the same code: the truth is 1. Brackets: 95 % intervals, bootstrap over blocks of ten trials.

| operator | this harness: p50 | p90 | one after the other, same clock: p90 | ÷ | aim | wall clock: p90 | ÷ |
|---|---|---|---|---|---|---|---|
"""


def is_part(trials: Sequence[Trial]) -> bool:
    """Whether methods of the whole comparison are missing."""
    return {t.method for t in trials} < set(PROCESSES)


def part_report(trials: Sequence[Trial], facts_path: Path) -> str:
    """One line an operator, with the other core loaded."""
    facts = json.loads(facts_path.read_text())
    names = [name for name in TITLES if any(t.operator == name for t in trials)]
    methods = [name for name in PROCESSES if any(t.method == name for t in trials)]
    options = f"--budget {facts['budget_s']} --loaded --methods {' '.join(methods)} --operators {' '.join(names)}"
    count = min(sum(t.operator == name and t.method == "ours" for t in trials) for name in names)
    known = {name: facts[name] for name in ("date", "cpu", "kernel", "method_version", "budget_s", "priority")}
    lines = []
    for name in names:
        ours = error_row(trials, OURS, REFERENCE, name, loaded=True)
        same = error_row(trials, REFERENCE, REFERENCE, name, loaded=True)
        by_wall, wall = (error_row(trials, c, WALL, name, loaded=True) for c in (OURS, WALL))
        lines.append(
            f"| {TITLES[name]} | {ours.p50:.2%} | {percent_words(ours.p90)} | {percent_words(same.p90)} | "
            f"**{ratio_words(ours.against)}** | ≤ {GOALS[name]:.2f} | {percent_words(wall.p90)} | "
            f"{ratio_words(by_wall.against)} |"
        )
    return HEAD.format(trials=count, options=options, **known) + "\n".join(lines) + "\n"
