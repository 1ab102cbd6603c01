"""One run: resolve the suite for the device, check and compile, then replicates, then the bundle.

The parent of it all. It imports no torch; everything that needs a device happens in crews (collector.node.crew).
"""

from __future__ import annotations

from collector.node.clocks import locked_clocks
from collector.node.closing import outcome_of, publish_run
from collector.node.folders import state_folder, work_folder
from collector.node.interrupt import RunInterruptedError, interruptible
from collector.node.opening import open_run
from collector.node.options import Reporter, RunError, RunOptions, Silent
from collector.node.passes import measure, prepare, waves
from collector.node.readings import TimedReading
from collector.node.resume import publish_unfinished
from collector.node.run_state import Run, RunOutcome
from collector.node.telemetry import TelemetryProcess

__all__ = ["Reporter", "RunError", "RunOptions", "RunOutcome", "Silent", "publish_unfinished", "run_suite"]


def run_suite(options: RunOptions, reporter: Reporter | None = None) -> RunOutcome:
    """Measure the suite and publish its bundle; interrupted, publish what is there, or keep it to be resumed.

    Raises RunError, SuiteError, CrewError, ClockError, BundleError: one line each; RunInterruptedError.
    """
    with work_folder() as folder, interruptible():
        run = open_run(options, reporter or Silent(), folder)
        with locked_clocks(run.identity.kind, run.identity.unit, options.lock_clocks, state_folder()) as run.lock:
            readings = _carry_out(run)
    if run.interrupted:
        _set_aside(run)
    outcome = outcome_of(run, readings)
    if run.budget is not None:
        run.budget.remember(run.records)
    if not options.prepare_only:
        outcome.bundle = publish_run(run, outcome, readings)
        if run.journal is not None:
            run.journal.remove()
    return outcome


def _carry_out(run: Run) -> list[TimedReading]:
    """Prepare and measure beside telemetry; all that this run's processes have read."""
    path = run.journal.telemetry_path() if run.journal else run.folder / "telemetry.jsonl"
    telemetry = TelemetryProcess(path, kind=run.identity.kind, unit=run.identity.unit)
    try:
        for wave in waves(run):
            with run.preparing():
                prepare(run, wave)
            if not run.options.prepare_only:
                measure(run, wave)
    except KeyboardInterrupt:
        run.interrupted = True
    finally:
        readings = telemetry.stop()
    return run.journal.readings() if run.journal else readings


def _set_aside(run: Run) -> None:
    """Mark what an interrupted run did not reach; RunInterruptedError where nothing is to be published."""
    if run.options.keep_interrupted and run.journal is not None:
        raise RunInterruptedError(f"interrupted; `collector run --resume` goes on with {run.header.run_id}")
    if not run.measured:
        if run.journal is not None:
            run.journal.remove()
        raise RunInterruptedError("interrupted; nothing was published")
    for record in run.records:
        record.interrupt()
