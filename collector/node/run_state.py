"""A run while it goes on: what was asked, what it is on, what it has seen so far; and what it leaves."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from bench_suite.roofline import Ceilings
from bench_suite.suite import Suite
from collector.node.clocks import ClockLock
from collector.node.crew import Outcome
from collector.node.devices.base import DeviceIdentity
from collector.node.journal import Journal, RunHeader
from collector.node.ledger import CaseRecord
from collector.node.night_budget import NightBudget
from collector.node.options import Reporter, RunOptions
from collector.node.protocol import Hello
from collector.node.sentinel import Sentinel


@dataclass(slots=True, kw_only=True)
class RunOutcome:
    """What a run left: its bundle, and its rows for the table."""

    run_id: str
    bundle: Path | None
    suite: Suite
    identity: DeviceIdentity
    ceilings: Ceilings | None
    rows: list[dict[str, Any]]
    wall_s: float
    prepare_s: float
    compile_s: float
    status: str = "complete"
    beside: str = ""
    """What the sentinel measured, or why it did not, in one sentence; empty where none is kept."""


@dataclass(slots=True, kw_only=True)
class Progress:
    """Counts steps for whoever is told."""

    reporter: Reporter
    total: int
    done: int = 0
    step_began_s: float = 0.0
    """Monotonic."""

    def expect(self, steps: int, *, share: float) -> None:
        """So many steps come next; `share` of the time has gone, so that the steps after them can be guessed."""
        self.total = max(self.done + steps, round(self.done / share) if share > 0 else 0)

    def step(self, words: str) -> None:
        self.step_began_s = time.monotonic()
        self.reporter.step(self.done, self.total, words)
        self.done += 1


@dataclass(slots=True, kw_only=True)
class Run:
    """One run of a suite on one device."""

    options: RunOptions
    header: RunHeader
    journal: Journal | None
    suite: Suite
    hello: Hello
    identity: DeviceIdentity
    ceilings: Ceilings | None
    records: list[CaseRecord]
    folder: Path
    environment: dict[str, str]
    progress: Progress
    begun_s: float = field(default_factory=time.monotonic)
    preparing_s: float = 0.0
    """Seconds for compiling and checking so far."""
    planted: dict[str, float] = field(default_factory=dict)
    """The case with a planted arm, and by what share that is slower."""
    lock: ClockLock | None = None
    interrupted: bool = False
    ended_at: datetime | None = None
    """Of a run that another process publishes; None: now."""
    done: set[tuple[str, int | None]] = field(default_factory=set)
    """Steps that an earlier process of this run has done."""
    budget: NightBudget | None = None

    @property
    def sentinel(self) -> Sentinel | None:
        """The frozen environment that runs beside; None where none is kept."""
        return self.header.sentinel

    @contextmanager
    def preparing(self) -> Iterator[None]:
        """What goes on inside is compiling and checking."""
        begun_s = time.monotonic()
        try:
            yield
        finally:
            self.preparing_s += time.monotonic() - begun_s

    def in_time(self, record: CaseRecord, replicate: int | None) -> bool:
        """Whether the run's budget has room for this step (replicate None: the preparation)."""
        return self.budget is None or self.budget.allows(record, replicate, now_s=time.monotonic())

    @property
    def ends_s(self) -> float:
        """Monotonic: when the budget of the run is used up; never, where it has none."""
        return self.budget.ends_s if self.budget is not None else math.inf

    def cut_short(self, record: CaseRecord, outcome: Outcome) -> bool:
        """Whether the budget ended the step, which then is nobody's failure."""
        return outcome.death is not None and time.monotonic() >= self.ends_s

    def finish_step(
        self, record: CaseRecord, replicate: int | None, outcomes: list[Outcome], sentinel: list[Outcome] | None = None
    ) -> None:
        """Keep it for a process that goes on, and what it took for the next night."""
        if self.budget is not None and outcomes:
            self.budget.took(record, replicate, time.monotonic() - self.progress.step_began_s)
        if self.journal is not None:
            self.journal.add(record.planned.case.case_id, replicate, outcomes, sentinel)

    @property
    def measured(self) -> bool:
        return any(arm.passes for record in self.records for arm in record.arms.values())
