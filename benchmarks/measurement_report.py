"""The table of benchmarks/measurement.py, from its trials."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measurement_analysis import (
    PLANTED_SD,
    POOLS,
    Contender,
    Coverage,
    Spread,
    best_statistic,
    coverage,
    error_row,
    mean_of,
    seconds_to_error,
)
from benchmarks.measurement_trials import Trial

TITLES = {"gemm": "GEMM 384³", "rms_norm": "RMSNorm 443 × 4,096", "triad": "triad x + 3 y, 8 MiB arrays"}
GOALS = {"gemm": 1 / 2, "rms_norm": 1 / 3, "triad": 1 / 3}
"""Of the p90 error of the arms one after the other, by the same clock, with the other core loaded."""
PROCESSES = {"ours": 3, "sequential": 1, "torch": 1, "pyperf": 8, "pytest_benchmark": 1}
TRUE_ERROR = 0.03
COVERED = 0.93
OURS = Contender(method="ours", clock="thread_time", statistic="median")
REFERENCE = Contender(method="sequential", clock="thread_time", statistic="median")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A contender with the name that the tables give it."""

    title: str
    contender: Contender


def report(trials: Sequence[Trial], facts_path: Path) -> str:
    facts = json.loads(facts_path.read_text())
    lines = contenders(trials)
    parts = [
        "# How wrong is a ratio?",
        _introduction(trials, facts),
        "## Error of candidate / optimized, both the same code",
        _errors_note(lines),
        *(_error_table(trials, lines, operator) for operator in TITLES),
        "## Held against the aims",
        _aims(trials, lines),
        "## Wall time until the true error is at most 3 %",
        _seconds_table(trials, lines),
        "## Coverage of 95 % intervals, process effects planted",
        _coverage_table(trials, lines),
        "## Settings",
        _settings(trials, facts),
    ]
    return "\n\n".join(parts) + "\n"


def contenders(trials: Sequence[Trial]) -> list[Line]:
    """Ours and the reference as they are; each peer by the statistic that served it best."""
    peers = (
        ("torch.utils.benchmark", "torch", "thread_time"),
        ("pyperf", "pyperf", "wall"),
        ("pytest-benchmark", "pytest_benchmark", "thread_time"),
    )
    return [
        Line(title="**this harness**", contender=OURS),
        Line(title="this harness, wall clock", contender=Contender(method="ours", clock="wall", statistic="median")),
        Line(title="one after the other, same clock", contender=REFERENCE),
        Line(
            title="one after the other, wall clock",
            contender=Contender(method="sequential", clock="wall", statistic="median"),
        ),
        *(Line(title=title, contender=best_statistic(trials, method, clock)) for title, method, clock in peers),
    ]


INTRODUCTION = """
`python -m benchmarks.measurement --trials {each}`, {date}, {cpu}, kernel {kernel}; {versions}; harness method
{method_version}.

{each} trials of each method, operator and load. In each trial every method, in random order, has the same wall time
({budget_s} s; taken on average: {taken}). Left out for all: start of processes and inputs (see Settings). One thread,
measured on core 0 at {priority}. *Loaded*: a process of ours multiplies matrices and streams memory on core 1; *not
loaded*: it is stopped. The machine was shared: without our load core 1 was busy {median:.0%} of the time with the work
of others (10th to 90th percentile of the trials: {low:.0%} to {high:.0%}), with it {loaded:.0%}.

All methods time the same callables on the product's arena (inputs that are not in the cache) in processes with the
product's memory settings (huge pages): peers have no such thing of their own on a CPU, it is lent to them. Brackets:
95 % intervals, bootstrap over blocks of ten trials.
"""


def _introduction(trials: Sequence[Trial], facts: dict[str, Any]) -> str:
    busy = {on: [t.other_core_busy for t in trials if t.loaded is on] for on in (False, True)}
    low, median, high = np.quantile(busy[False], (0.1, 0.5, 0.9))
    return INTRODUCTION.strip().format(
        **{name: facts[name] for name in ("date", "cpu", "kernel", "method_version", "budget_s", "priority")},
        each=min(_count(trials, operator, loaded) for operator in TITLES for loaded in (False, True)),
        versions=", ".join(f"{name} {number}" for name, number in sorted(facts["versions"].items())),
        taken=", ".join(f"{m} {mean_of(trials, m, lambda t: t.seconds):.2f} s" for m in PROCESSES),
        low=low,
        median=median,
        high=high,
        loaded=float(np.median(busy[True])),
    )


def _count(trials: Sequence[Trial], operator: str, loaded: bool) -> int:
    return sum(t.operator == operator and t.loaded is loaded and t.method == "ours" for t in trials)


ERRORS = """
|log ratio|, where the truth is 0. Each peer is shown by the statistic that served it best over all cells: {chosen}.
*One after the other* has everything as this harness has it but the order, once by the same clock (thread CPU time) and
once by the wall clock that most scripts use; ÷ is against the former. This harness judges by thread time on one thread;
its row by the wall clock tells what the clock does and what the order does.
"""


def _errors_note(lines: Sequence[Line]) -> str:
    chosen = ", ".join(
        f"{line.title} by its {line.contender.statistic}"
        for line in lines
        if line.contender.method not in ("ours", "sequential")
    )
    return ERRORS.strip().format(chosen=chosen)


def _error_table(trials: Sequence[Trial], lines: Sequence[Line], operator: str) -> str:
    head = (
        f"**{TITLES[operator]}**\n\n"
        "| method | loaded: p50 | p90 | ÷ one after the other | not loaded: p50 | p90 | ÷ one after the other |\n"
        "|---|---|---|---|---|---|---|"
    )
    body = []
    for line in lines:
        found = [error_row(trials, line.contender, REFERENCE, operator, loaded=loaded) for loaded in (True, False)]
        cells = " | ".join(f"{row.p50:.2%} | {percent_words(row.p90)} | {ratio_words(row.against)}" for row in found)
        body.append(f"| {line.title} | {cells} |")
    body.append("| triton.testing.do_bench | not measured: it needs a GPU | | | not measured | | |")
    return "\n".join([head, *body])


def percent_words(spread: Spread) -> str:
    return f"{spread.value:.2%} [{spread.low * 100:.2f}, {spread.high * 100:.2f}]"


def ratio_words(spread: Spread) -> str:
    return f"{spread.value:.2f} [{spread.low:.2f}, {spread.high:.2f}]"


AIMS = """
The aim is the row *loaded*. The row of both together was added when two thirds of the trials had been seen, because
core 1 was busy in either case; it is no second chance for the aim. *Best peer that covers*: only pyperf has several
processes, and it measures by the wall clock; this harness by the wall clock is in the table of coverage below.
"""


def _aims(trials: Sequence[Trial], lines: Sequence[Line]) -> str:
    table = ["| aim, against the arms one after the other by the same clock | found | holds |", "|---|---|---|"]
    for operator, goal in GOALS.items():
        for loaded, words in ((True, "loaded"), (None, "loaded and not together")):
            found = error_row(trials, OURS, REFERENCE, operator, loaded=loaded).against
            table.append(
                f"| {TITLES[operator]}: p90 ≤ {goal:.2f}, {words} | {ratio_words(found)} | {_holds(found, goal)} |"
            )
    for planted in PLANTED_SD:
        ours = coverage(trials, OURS, planted)
        peer, covers = best_covering(trials, lines, planted)
        holds = ours.covered >= COVERED and ours.half_width <= peer.half_width
        table.append(
            f"| coverage ≥ {COVERED}, half-width ≤ the best peer's; planted {planted:.0%} | {ours.covered:.3f}, "
            f"±{ours.half_width:.2%}; {covers} {peer.covered:.3f}, ±{peer.half_width:.2%} | "
            f"{'yes' if holds else 'no'} |"
        )
    return "\n".join([*table, AIMS])


def _holds(found: Spread, goal: float) -> str:
    if found.value > goal:
        return "no" if found.low > goal else "no; its interval holds the aim"
    return "yes" if found.high <= goal else "yes; its interval reaches beyond the aim"


def best_covering(trials: Sequence[Trial], lines: Sequence[Line], planted_sd: float) -> tuple[Coverage, str]:
    """The narrowest intervals of those peers that cover; where none does, those of the peer that comes nearest."""
    peers = [line for line in lines if line.contender.method not in ("ours", "sequential")]
    found = [(coverage(trials, line.contender, planted_sd), line.title) for line in peers]
    valid = [(each, title) for each, title in found if each.covered >= COVERED]
    if valid:
        best, title = min(valid, key=lambda pair: pair[0].half_width)
        return best, f"best peer that covers: {title}"
    nearest, title = max(found, key=lambda pair: pair[0].covered)
    return nearest, f"no peer covers, nearest: {title}"


SECONDS = f"""
Seconds after which 90 % of the ratios are within {TRUE_ERROR:.0%} of the truth. Below the time of a trial: what the
method had said after a quarter or a half of it. Above: the mean of {", ".join(map(str, POOLS))} trials in a row, which
gives the methods of one process more alternation than they have, in their favour.
"""


def _seconds_table(trials: Sequence[Trial], lines: Sequence[Line]) -> str:
    cells = [(operator, loaded) for operator in TITLES for loaded in (True, False)]
    names = [f"{TITLES[operator].split(' ')[0]}, {'loaded' if loaded else 'not'}" for operator, loaded in cells]
    body = []
    for line in lines:
        found = [seconds_to_error(trials, line.contender, o, loaded=x, error=TRUE_ERROR) for o, x in cells]
        body.append(f"| {line.title} | " + " | ".join(f"{s:.2f}" if ok else f"> {s:.1f}" for s, ok in found) + " |")
    return "\n".join([SECONDS, "| method | " + " | ".join(names) + " |", "|---|" + "---|" * len(cells), *body]).strip()


COVERAGE = """
All operators and loads together. To the log time of each arm in each process an effect N(0, s) is added, on top of the
recorded noise. Intervals: this harness, Student's t over its 3 processes; pyperf, Welch's t over its 3 + 3; the others
have one process, and their samples are taken as independent, which is all that they tell (no peer prints an interval of
a ratio). *Needed*: the half-width that would have held the truth in 95 % of the trials, whatever the formula, which is
how much a method knows.
"""


def _coverage_table(trials: Sequence[Trial], lines: Sequence[Line]) -> str:
    head = "| method | " + " | ".join(f"s = {sd:.0%}: covered | half-width | needed" for sd in PLANTED_SD) + " |"
    body = []
    for line in lines:
        found = [coverage(trials, line.contender, sd) for sd in PLANTED_SD]
        cells = " | ".join(f"{c.covered:.3f} | ±{c.half_width:.2%} | ±{c.needed:.2%}" for c in found)
        body.append(f"| {line.title} | {cells} |")
    return "\n".join([COVERAGE, head, "|---|" + "---|---|---|" * len(PLANTED_SD), *body]).strip()


SETTINGS = """
Processes are forked from one that has imported torch, pyperf and pytest-benchmark, the same for all: start-up is then
the arena. Started anew, each would take {import_torch_s:.1f} s of CPU time more (import of torch, median of three).
pyperf runs its own worker (`Runner` with `--worker`), in one calibrating and 3 measuring processes an arm, as its
manager would start them. What a method is given is steered until all take the same wall time. That time is short for
pyperf: its defaults, 20 processes of 0.4 s an arm, would take 16 s, and it has no CPU clock: its rows tell of this
budget on this machine. The clock of torch.utils.benchmark and of pytest-benchmark is not their default but the better
one here.
"""


def _settings(trials: Sequence[Trial], facts: dict[str, Any]) -> str:
    table = ["| method | settings | processes a trial | start-up left out, s |", "|---|---|---|---|"]
    for method, processes in PROCESSES.items():
        start = mean_of(trials, method, lambda t: t.start_up_s)
        table.append(f"| {method} | {facts['settings'][method]} | {processes} | {start:.2f} |")
    table.append("| triton.testing.do_bench | not measured: it needs a GPU | | |")
    return "\n".join([*table, SETTINGS.format(**facts)]).strip()
