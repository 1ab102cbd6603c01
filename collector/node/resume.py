"""What a killed run has left: published as partial by the next run of its store, or replayed by one that goes on."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from bench_suite.roofline import Ceilings
from bench_suite.suite import load_suite
from collector.node.closing import outcome_of, publish_run
from collector.node.devices.base import DeviceIdentity
from collector.node.journal import Journal
from collector.node.opening import case_records, choose, replay
from collector.node.options import RunError, RunOptions, Silent
from collector.node.run_state import Progress, Run, RunOutcome


def publish_unfinished(journal: Journal, spool: Path) -> RunOutcome | None:
    """Publish what a killed run had measured, as partial; None where that is nothing. The journal is gone after it.

    Raises RunError for a run that this installation cannot read; its journal stays.
    """
    try:
        header = journal.header()
        identity = msgspec.convert(header.hello.device, DeviceIdentity)
        options = RunOptions(
            suite=header.suite,
            replicates=header.replicates,
            cases=tuple(header.cases),
            revision=header.revision,
            spool=spool,
            command=header.command,
            note=header.note,
        )
        suite = choose(load_suite(header.suite, identity.kind), options)
        if suite.hash != header.suite_hash:
            raise RunError(f"suite {suite.name} has changed since")
        run = Run(
            options=options,
            header=header,
            journal=journal,
            suite=suite,
            hello=header.hello,
            identity=identity,
            ceilings=Ceilings.from_json(header.ceilings) if header.ceilings else None,
            records=case_records(suite, header),
            folder=journal.folder,
            environment={},
            progress=Progress(reporter=Silent(), total=0),
            begun_s=time.monotonic() - (journal.ended_at() - header.started_at).total_seconds(),
            interrupted=True,
            ended_at=journal.ended_at(),
        )
        replay(run, journal)
    except (OSError, ValueError, LookupError, RunError, msgspec.MsgspecError) as error:
        words = f"the unfinished run {journal.folder.name} cannot be published: {error}"
        raise RunError(f"{words}; delete {journal.folder} to be rid of it") from None
    outcome = None
    if run.measured and not (spool / header.run_id).exists():
        for record in run.records:
            record.interrupt()
        readings = journal.readings()
        outcome = outcome_of(run, readings)
        outcome.bundle = publish_run(run, outcome, readings)
    journal.remove()
    return outcome
