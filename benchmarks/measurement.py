"""How wrong is a ratio? The error of candidate / optimized where both are the same code, by this harness and its peers.

    python -m benchmarks.measurement --trials 200 --out benchmarks/results/measurement-2026-11-30
    python -m benchmarks.measurement --out benchmarks/results/measurement-2026-11-30 --table

A trial gives each method the same wall time, in random order, once with the other core loaded by a process of ours and
once without. Trials are appended to a journal as they come: the same command goes on where it was stopped. Blocks of
trials run in processes of their own, so that memory is laid out anew. pyperf and pytest-benchmark have to be importable
(extra `peers`; --target FOLDER and PYTHONPATH=FOLDER keep them out of the environment of the tests).
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import random
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from benchmarks.measurement_load import OtherCore, core_ticks
from benchmarks.measurement_trials import Journal, Trial, read_parquet, write_facts, write_parquet

ROOT = Path(__file__).resolve().parents[1]
TRIALS_A_BLOCK = 10
MEASURED_CORE, LOADED_CORE = 0, 1
PRIORITY = -10
"""Of the measuring processes, where the kernel lets us: so that what disturbs them is the load, and little else."""
STEERING = 0.3
"""How much of what a method took too long, or too short, its next budget makes good."""


def main() -> int:
    arguments = _parser().parse_args()
    out: Path = arguments.out
    if arguments.block is not None:
        return run_block(out, arguments.block, arguments.budget, _chosen(arguments))
    if not arguments.table:
        run_blocks(out, arguments.trials, arguments.budget, _chosen(arguments))
    return render(out)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of the results; OUT.md is the table")
    parser.add_argument("--trials", type=int, default=200, help="of each operator, load and method (default 200)")
    parser.add_argument("--budget", type=float, default=0.45, help="wall seconds of a method in a trial (default 0.45)")
    parser.add_argument("--methods", nargs="+", metavar="NAME", help="only these, for example ours sequential")
    parser.add_argument("--operators", nargs="+", metavar="NAME", help="only these, for example gemm rms_norm")
    parser.add_argument("--loaded", action="store_true", help="only with the other core loaded")
    parser.add_argument("--table", action="store_true", help="write the table from what is there, measure nothing")
    parser.add_argument("--block", type=int, help=argparse.SUPPRESS)
    return parser


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What of the comparison is measured; empty is all."""

    methods: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    loaded_only: bool = False

    def words(self) -> list[str]:
        """As options of the command line."""
        return [
            *(["--methods", *self.methods] if self.methods else []),
            *(["--operators", *self.operators] if self.operators else []),
            *(["--loaded"] if self.loaded_only else []),
        ]


def _chosen(arguments: argparse.Namespace) -> Chosen:
    return Chosen(
        methods=tuple(arguments.methods or ()),
        operators=tuple(arguments.operators or ()),
        loaded_only=arguments.loaded,
    )


def run_blocks(out: Path, trials: int, budget_s: float, chosen: Chosen) -> None:
    """Every block that is not in the journal yet, one after the other, each in a process as a worker of ours has it."""
    from collector.node.worker_variables import worker_environment

    out.mkdir(parents=True, exist_ok=True)
    done = Journal(out / "trials.jsonl").blocks()
    environment = worker_environment(1)
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), environment.get("PYTHONPATH", "")])
    for block in range(-(-trials // TRIALS_A_BLOCK)):
        if block in done:
            continue
        begun = time.monotonic()
        command = [sys.executable, "-m", "benchmarks.measurement", "--out", str(out), "--block", str(block)]
        subprocess.run(
            [*command, "--budget", str(budget_s), *chosen.words()],
            env=environment,
            cwd=ROOT,
            check=True,
            start_new_session=True,
        )
        print(f"block {block}: {time.monotonic() - begun:.0f} s, load {os.getloadavg()[0]:.1f}", flush=True)
    journal = Journal(out / "trials.jsonl")
    write_parquet(journal.read(), out / "trials.parquet")
    write_facts(out / "facts.json", facts(budget_s))


def run_block(out: Path, block: int, budget_s: float, chosen: Chosen) -> int:
    """Ten trials of every operator, with load and without, by every method in random order."""
    import torch

    from benchmarks.measurement_operators import SUBJECTS, Opener
    from benchmarks.measurement_peers import all_methods
    from collector.node.worker import die_with_parent

    die_with_parent(os.getppid())
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    journal, rng, methods = Journal(out / "trials.jsonl"), random.Random(block), all_methods()
    budgets = _budgets(journal.read())
    methods = [method for method in methods if not chosen.methods or method.name in chosen.methods]
    openers = {s.name: Opener(s) for s in SUBJECTS if not chosen.operators or s.name in chosen.operators}
    loads = (True,) if chosen.loaded_only else (False, True)
    cells = [(subject, loaded) for subject in openers for loaded in loads]
    rows: list[Trial] = []
    with OtherCore(LOADED_CORE) as load:
        priority = raise_priority()
        os.sched_setaffinity(0, {MEASURED_CORE})
        gc.collect()
        gc.freeze()  # what is here is shared with every child: a collection in a child would copy it
        for trial in range(TRIALS_A_BLOCK):
            for subject, loaded in rng.sample(cells, len(cells)):
                load.switch(on=loaded)
                for order, method in enumerate(rng.sample(methods, len(methods))):
                    asked_s = budgets.get((subject, loaded, method.name), budget_s)
                    busy, ticks = core_ticks(LOADED_CORE)
                    measured = method.measure(openers[subject], asked_s, rng.randrange(2**31))
                    busy_after, ticks_after = core_ticks(LOADED_CORE)
                    rows.append(
                        Trial(
                            block=block,
                            trial=trial,
                            operator=subject,
                            loaded=loaded,
                            method=method.name,
                            order=order,
                            other_core_busy=(busy_after - busy) / max(1, ticks_after - ticks),
                            asked_s=asked_s,
                            seconds=measured.seconds,
                            start_up_s=measured.start_up_s,
                            estimates=measured.estimates,
                        )
                    )
                    steered = asked_s * (budget_s / measured.seconds) ** STEERING
                    budgets[subject, loaded, method.name] = min(max(steered, budget_s / 4), 2 * budget_s)
    journal.append(rows)
    print(f"measured at {priority}")
    return 0


def _budgets(trials: list[Trial]) -> dict[tuple[str, bool, str], float]:
    """Where the steering of earlier blocks had got to."""
    return {(t.operator, t.loaded, t.method): t.asked_s for t in trials}


def raise_priority() -> str:
    """Give this session, which is an autogroup of the scheduler's, priority over the others; what came of it."""
    autogroup = Path("/proc/self/autogroup")
    with contextlib.suppress(OSError):
        if autogroup.exists():
            autogroup.write_text(str(PRIORITY))
            return f"nice {PRIORITY} (of the session's autogroup)"
        os.nice(PRIORITY)
        return f"nice {PRIORITY}"
    return "nice 0: no permission for more"


def facts(budget_s: float) -> dict[str, object]:
    """What was measured on, with what, and how the methods were set."""
    from benchmarks.measurement_peers import all_methods
    from collector.node.devices.cpu import cpu_model
    from collector.node.environment import METHOD_VERSION

    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cpu": cpu_model(),
        "kernel": os.uname().release,
        "method_version": METHOD_VERSION,
        "priority": f"nice {PRIORITY}",
        "budget_s": budget_s,
        "import_torch_s": statistics.median(_import_torch_s() for _ in range(3)),
        "versions": {name: version(name) for name in ("torch", "numpy", "pyperf", "pytest-benchmark")},
        "settings": {method.name: method.settings(budget_s) for method in all_methods()},
    }


def _import_torch_s() -> float:
    """CPU seconds: by the wall it says more about who else is at work."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def render(out: Path) -> int:
    """OUT.md from the trials in OUT."""
    from benchmarks.measurement_part import is_part, part_report
    from benchmarks.measurement_report import report

    journal = Journal(out / "trials.jsonl")
    trials = journal.read() if journal.path.exists() else read_parquet(out / "trials.parquet")
    table = out.with_suffix(".md") if out.suffix else out.parent / f"{out.name}.md"
    written = part_report if is_part(trials) else report
    table.write_text(written(trials, out / "facts.json"))
    print(f"{table}: {len(trials)} trials")
    return 0


if __name__ == "__main__":
    sys.exit(main())
