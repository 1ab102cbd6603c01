"""The passes over a suite: check and compile every arm once, then the replicates."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import msgspec

from bench_suite.budget import ranks_of
from bench_suite.contracts import contract
from collector.node.crew import Crew, Outcome
from collector.node.ledger import CaseRecord
from collector.node.memory import available_bytes, needed_bytes
from collector.node.planted import choose_planted
from collector.node.protocol import Measure, Prepare, WorkerSetup
from collector.node.replay import replays
from collector.node.run_state import Run
from collector.node.sentinel import in_sentinel, lost_where_it_fails, sentinel_crew, time_alike
from store.bundle.schemas import RunKind

MEMORY_SHARE = 0.8
"""Share of the free memory that a case may use; the rest is the system's and the parent's."""
RECHECK_LARGE_IN = 0
"""The replicate in which cases with large inputs are checked again on fresh ones."""
LARGE_INPUT_BYTES = 128 * 2**20
MOST_DEATHS = 8
"""Arms of one case that may kill their worker before the case is left."""


def _setup(run: Run, ranks: int) -> WorkerSetup:
    return WorkerSetup(
        device_kind=run.identity.kind,
        device_index=run.identity.index,
        threads=run.suite.method.threads,
        candidates=list(run.suite.candidates),
        memory_limit_bytes=int(available_bytes() * MEMORY_SHARE / ranks) if run.identity.kind == "cpu" else None,
        world_size=ranks,
        planted=run.planted,
    )


def waves(run: Run) -> Iterator[list[CaseRecord]]:
    """The cases in the groups in which they are prepared and measured: all at once, or as a budget of time lets them.

    What a budget has not let have its turn in the end says so.
    """
    if run.budget is None:
        run.planted = _planted(run, run.records)
        yield run.records
        return
    begun = [record for record in run.records if (record.planned.case.case_id, None) in run.done]
    wave = begun or run.budget.next_wave(run.records, now_s=time.monotonic())
    run.planted = _planted(run, wave)
    waiting = list(run.records)
    while wave:
        waiting = [record for record in waiting if not any(record is taken for taken in wave)]
        steps = (1 + run.suite.method.replicates) * len(wave)
        run.progress.expect(steps, share=run.budget.used_share(now_s=time.monotonic()))
        yield wave
        wave = run.budget.next_wave(waiting, now_s=time.monotonic())
    run.budget.leave_out(run.records)


def _planted(run: Run, records: Sequence[CaseRecord]) -> dict[str, float]:
    """The case with a planted arm: of those that one device can run, in runs of a whole suite."""
    if not run.options.audit or run.options.cases or run.options.kind is not RunKind.NIGHT:
        return {}
    alone = [
        r.planned.case.case_id
        for r in records
        if ranks_of(r.planned) == 1 and not r.empty and not replays(r.planned.case, run.hello, run.identity)
    ]
    return choose_planted(run.header.run_id, alone)


def _by_ranks(order: list[CaseRecord]) -> Iterator[tuple[int, list[CaseRecord]]]:
    """Cases grouped by how many processes they need, one device's cases first."""
    for ranks in sorted({ranks_of(record.planned) for record in order}):
        yield ranks, [record for record in order if ranks_of(record.planned) == ranks]


def _crew(run: Run, ranks: int) -> Crew:
    return Crew(_setup(run, ranks), folder=run.folder, environment=run.environment)


def _frozen(run: Run, ranks: int, records: Sequence[CaseRecord]) -> Crew | None:
    """A crew of the sentinel, not started yet; None where it takes no part in these cases."""
    if run.sentinel is None or run.sentinel.refused or not any(in_sentinel(record) for record in records):
        return None
    setup = msgspec.structs.replace(_setup(run, ranks), planted={}, frozen=True)
    return sentinel_crew(run.sentinel.python, setup, folder=run.folder, environment=run.environment)


@contextmanager
def _crews(run: Run, ranks: int, records: Sequence[CaseRecord]) -> Iterator[tuple[Crew, Crew | None]]:
    """Processes for some cases, and those of the sentinel beside them."""
    with ExitStack() as both:
        frozen = _frozen(run, ranks, records)
        yield both.enter_context(_crew(run, ranks)), both.enter_context(frozen) if frozen else None


def _ready(run: Run, crew: Crew, frozen: Crew | None) -> None:
    """Start the processes that are to carry out the first step: a budget counts that apart from the step."""
    if run.budget is not None and not crew.workers:
        begun_s = time.monotonic()
        crew.start()
        if frozen is not None and not frozen.workers:
            with lost_where_it_fails(run.records, frozen):
                frozen.start()
        run.progress.step_began_s = time.monotonic()
        run.budget.started(crew.setup.world_size, run.progress.step_began_s - begun_s)


def prepare(run: Run, wave: list[CaseRecord]) -> None:
    """Compile, check and weigh every arm; an arm that kills its worker is left out and the case is tried again."""
    for ranks, records in _by_ranks(wave):
        with _crews(run, ranks, records) as (crew, frozen):
            for record in records:
                run.progress.step(f"checking {record.planned.case.case_id}")
                if record.skipped is not None or (record.planned.case.case_id, None) in run.done:
                    continue
                if not (run.in_time(record, None) and _fits(run, record)):
                    continue
                _ready(run, crew, frozen)
                outcomes = _prepare_case(run, crew, record)
                run.finish_step(record, None, outcomes, _prepare_frozen(run, frozen, record))


def _prepare_case(run: Run, crew: Crew, record: CaseRecord, leave_out: Sequence[str] = ()) -> list[Outcome]:
    """Prepare the case, again without an arm that killed its worker; everything that was said."""
    outcomes: list[Outcome] = []
    for _ in range(MOST_DEATHS):
        task = Prepare(
            case_id=record.planned.case.case_id,
            phase=record.planned.case.phase,
            seed=run.suite.seed,
            exclude=[*record.excluded, *leave_out],
            replay=replays(record.planned.case, run.hello, run.identity),
        )
        outcome = crew.do(task, limit_s=run.options.case_limit_s, ends_s=run.ends_s)
        if run.cut_short(record, outcome):
            break
        record.take(outcome, None)
        outcomes.append(outcome)
        if outcome.death is None or not record.alive:
            break
    return outcomes


def _prepare_frozen(run: Run, crew: Crew | None, record: CaseRecord) -> list[Outcome]:
    """The same in the sentinel, of the arms that the normal environment can run."""
    if crew is None or record.sentinel is None or not (in_sentinel(record) and record.alive):
        return []
    with lost_where_it_fails(run.records, crew):
        return _prepare_case(run, crew, record.sentinel, record.excluded)
    return []


def _fits(run: Run, record: CaseRecord) -> bool:
    """Whether the case fits the memory that is free; else it is skipped with the figures."""
    needed, free = needed_bytes(record.planned.case, run.identity), available_bytes()
    if run.identity.memory_bytes and run.identity.kind != "cpu":
        free = min(free, run.identity.memory_bytes)
    if needed <= free * MEMORY_SHARE:
        return True
    words = f"needs {needed / 2**30:.1f} GiB; {free / 2**30:.1f} GiB are free and a case may take {MEMORY_SHARE:.0%}"
    record.skip("memory", words)
    return False


def measure(run: Run, wave: list[CaseRecord]) -> None:
    """The replicates: each a fresh process (or group of ranks) that walks the wave in an order of its own.

    Which arms there are to time is known now, and with them whether all of them can be replayed.
    """
    for record in wave:
        record.replayed = replays(record.planned.case, run.hello, run.identity) and not record.no_replay
        time_alike(record)
    for replicate in range(run.suite.method.replicates):
        order = [record for record in wave if not record.empty]
        random.Random(f"{run.suite.seed}:{replicate}").shuffle(order)
        for ranks, records in _by_ranks(order):
            with _crews(run, ranks, records) as (crew, frozen):
                for record in records:
                    words = f"replicate {replicate + 1} of {run.suite.method.replicates}: {record.planned.case.case_id}"
                    run.progress.step(words)
                    done = (record.planned.case.case_id, replicate) in run.done
                    if record.alive and not done and run.in_time(record, replicate):
                        _ready(run, crew, frozen)
                        _measure_both(run, crew, frozen, record, replicate)


def _measure_both(run: Run, crew: Crew, frozen: Crew | None, record: CaseRecord, replicate: int) -> None:
    """Measure the case, and beside it in the sentinel: first the one, in the next replicate first the other.

    A drift of the device through the night meets both alike: normal, sentinel, sentinel, normal.
    """
    other = record.sentinel
    if frozen is None or other is None or not fits_twice(run, record, other):
        run.finish_step(record, replicate, _measure_case(run, crew, record, replicate))
        return
    said: dict[bool, list[Outcome]] = {}
    for is_frozen in (False, True) if replicate % 2 == 0 else (True, False):
        if is_frozen:
            said[is_frozen] = _measure_frozen(run, frozen, record, other, replicate)
        else:
            said[is_frozen] = _measure_case(run, crew, record, replicate)
    run.finish_step(record, replicate, said[False], said[True])


def _measure_frozen(run: Run, crew: Crew, record: CaseRecord, other: CaseRecord, replicate: int) -> list[Outcome]:
    """Measure the case in the sentinel; where its processes do not start any more, its row says so."""
    with lost_where_it_fails(run.records, crew):
        return _measure_case(run, crew, other, replicate, record.excluded)
    return []


def fits_twice(run: Run, record: CaseRecord, other: CaseRecord) -> bool:
    """Whether there is memory for the processes of both: none gives back what it has had."""
    needed = 2 * needed_bytes(record.planned.case, run.identity)
    free = available_bytes()
    if run.identity.memory_bytes and run.identity.kind != "cpu":
        free = min(free, run.identity.memory_bytes)
    if needed > free * MEMORY_SHARE and not any(arm.passes for arm in other.arms.values()):
        words = f"both environments need {needed / 2**30:.1f} GiB; {free / 2**30:.1f} GiB are free"
        other.skip("memory", f"{words} and a case may take {MEMORY_SHARE:.0%}")
    return other.alive


def _measure_case(
    run: Run, crew: Crew, record: CaseRecord, replicate: int, leave_out: Sequence[str] = ()
) -> list[Outcome]:
    """Measure the case, again without an arm that failed; everything that was said."""
    outcomes: list[Outcome] = []
    large = contract(record.planned.case.operator).input_bytes(record.planned.case) > LARGE_INPUT_BYTES
    limit_s = max(run.options.case_limit_s, 6 * run.suite.method.case_budget_s)
    while record.alive:
        task = Measure(
            case_id=record.planned.case.case_id,
            phase=record.planned.case.phase,
            seed=run.suite.seed,
            replicate=replicate,
            exclude=[*record.excluded, *leave_out],
            method=run.suite.method,
            recheck=not large or replicate == RECHECK_LARGE_IN,
            replay=record.replayed,
        )
        before = len(record.excluded)
        outcome = crew.do(task, limit_s=limit_s, ends_s=run.ends_s)
        if run.cut_short(record, outcome):
            break
        record.take(outcome, replicate)
        outcomes.append(outcome)
        again = outcome.death is not None or any(getattr(m, "kind", "") == "arm_failed" for m in outcome.messages)
        if not again or len(record.excluded) == before:
            break
    return outcomes
