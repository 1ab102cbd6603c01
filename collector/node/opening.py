"""Open a run: probe the device, resolve the suite for it, find its ceilings, begin or continue its journal."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from bench_suite.roofline import Ceilings
from bench_suite.suite import Suite, load_suite
from collector.node.ceilings import ceilings_for
from collector.node.crew import Crew
from collector.node.devices.base import DeviceIdentity
from collector.node.environment import METHOD_VERSION, host_facts, revision_under_test
from collector.node.folders import cache_folder, state_folder, work_folder
from collector.node.journal import Journal, RunHeader, boot_id, unfinished
from collector.node.ledger import CaseRecord
from collector.node.night_budget import open_budget
from collector.node.options import Reporter, RunError, RunOptions
from collector.node.protocol import Hello, WorkerSetup
from collector.node.run_state import Progress, Run
from collector.node.sentinel import Sentinel, choose_cases, frozen_record, open_sentinel
from collector.node.worker_variables import worker_environment
from store.bundle.schemas import RunKind


def open_run(options: RunOptions, reporter: Reporter, folder: Path) -> Run:
    """Probe the device, resolve the suite for it, find its ceilings, plan the cases."""
    begun_s = time.monotonic()
    threads = load_suite(options.suite).method.threads  # a mistake in the suite is said before a worker starts
    environment = worker_environment(1)
    probe = WorkerSetup(
        device_kind=options.device,
        device_index=options.device_index,
        threads=threads,
        candidates=[],
        memory_limit_bytes=None,
    )
    with Crew(probe, folder=folder, environment=environment) as crew:
        hello = crew.start()
        identity = msgspec.convert(hello.device, DeviceIdentity)
        suite = choose(load_suite(options.suite, identity.kind), options)
        reporter.started(suite, identity)
        dtypes = sorted({planned.case.dtype.value for planned in suite.cases})
        ceilings = ceilings_for(crew, identity, dtypes, suite.method.threads, cache_folder() / "ceilings")
    budget = open_budget(
        options.budget_s, suite, ceilings, state_folder(), identity.unit, begun_s=begun_s, resumed=options.resume
    )
    sentinel = None
    if options.kind is RunKind.NIGHT:
        sentinel = open_sentinel(options.sentinel, identity, threads=threads, folder=folder, environment=environment)
    header = _header(options, suite, hello, ceilings, sentinel)
    journal = _journal(options, header)
    if journal is not None and journal.folder.name != header.run_id:
        header = journal.header()
        ceilings = Ceilings.from_json(header.ceilings) if header.ceilings else None
    passes = 1 if options.prepare_only else 1 + suite.method.replicates
    run = Run(
        options=options,
        header=header,
        journal=journal,
        suite=suite,
        hello=hello,
        identity=identity,
        ceilings=ceilings,
        records=case_records(suite, header),
        folder=folder,
        environment=worker_environment(suite.method.threads),
        preparing_s=time.monotonic() - begun_s,
        progress=Progress(reporter=reporter, total=passes * len(suite.cases)),
        begun_s=begun_s,
        budget=budget,
    )
    if journal is not None:
        replay(run, journal)
    return run


def case_records(suite: Suite, header: RunHeader) -> list[CaseRecord]:
    """A record of each case; those that the sentinel measures too have a second one."""
    chosen = choose_cases(suite.cases, header.sentinel_share) if header.sentinel else frozenset[str]()
    return [
        CaseRecord(planned=planned, sentinel=frozen_record(planned) if planned.case.case_id in chosen else None)
        for planned in suite.cases
    ]


def _header(
    options: RunOptions, suite: Suite, hello: Hello, ceilings: Ceilings | None, sentinel: Sentinel | None
) -> RunHeader:
    started_at = datetime.now(UTC)
    path = Path(options.suite)
    return RunHeader(
        run_id=new_run_id(started_at),
        started_at=started_at,
        boot_id=boot_id(),
        suite=str(path.resolve()) if path.is_file() else options.suite,
        suite_hash=suite.hash,
        cases=list(options.cases),
        replicates=suite.method.replicates,
        revision=revision_under_test(options.revision, Path.cwd()),
        command=options.command,
        note=options.note,
        hello=msgspec.structs.replace(hello, pid=0),
        ceilings=ceilings.to_json() if ceilings else None,
        package=f"{host_facts().get('package', '')} method {METHOD_VERSION}",
        destination=options.destination,
        at_once=options.at_once,
        sentinel=sentinel,
        sentinel_share=options.sentinel_share if sentinel else 0.0,
    )


def _journal(options: RunOptions, header: RunHeader) -> Journal | None:
    """The journal to write: of the run to go on with, else a new one; None where nothing is to be resumed ever.

    Raises RunError where --resume finds no unfinished run, or one that this would not be.
    """
    if options.prepare_only or options.kind is not RunKind.NIGHT:
        return None
    if options.resume:
        found = [j for j in unfinished(state_folder(), options.destination) if j.destination() is not None]
        if not found:
            raise RunError(f"--resume: there is no unfinished run in {state_folder()}; leave --resume out")
        differs = found[-1].header().differs_from(header)
        if differs:
            words = f"--resume: {found[-1].folder.name} was another run: its {differs} differs"
            raise RunError(f"{words}; without --resume it is published as partial")
        return found[-1]
    return Journal.begin(state_folder(), header)


def probe_device(kind: str, index: int) -> DeviceIdentity:
    """Ask a worker which device this is. Raises CrewError."""
    setup = WorkerSetup(device_kind=kind, device_index=index, threads=1, candidates=[], memory_limit_bytes=None)
    with work_folder() as folder, Crew(setup, folder=folder, environment=worker_environment(1)) as crew:
        return msgspec.convert(crew.start().device, DeviceIdentity)


def choose(suite: Suite, options: RunOptions) -> Suite:
    """The suite with the cases and replicates that were asked for; RunError for a case that it does not have."""
    by_id = {planned.case.case_id: planned for planned in suite.cases}
    for case_id in options.cases:
        if case_id not in by_id:
            raise RunError(
                f"case {case_id!r} is not in suite {suite.name}; `collector suite show {suite.name}` lists them"
            )
    cases = tuple(by_id[case_id] for case_id in options.cases) if options.cases else suite.cases
    method = suite.method
    if options.replicates is not None:
        if options.replicates < 1:
            raise RunError(f"--replicates is {options.replicates}, must be at least 1")
        method = replace(method, replicates=options.replicates)
    return replace(suite, cases=cases, method=method)


def new_run_id(at: datetime) -> str:
    """Sorts by time, differs between machines and processes: 20261130T031000Z-9f3c1a2b."""
    return f"{at:%Y%m%dT%H%M%SZ}-{os.urandom(4).hex()}"


def replay(run: Run, journal: Journal) -> None:
    """Enter what earlier processes have done."""
    records = {record.planned.case.case_id: record for record in run.records}
    for step in journal.steps():
        for outcome in step.outcomes:
            records[step.case_id].take(outcome, step.replicate)
        frozen = records[step.case_id].sentinel
        if frozen is not None:
            for outcome in step.sentinel:
                frozen.take(outcome, step.replicate)
        run.done.add((step.case_id, step.replicate))
