"""A run while it goes on: what was asked, what it is on, what it has seen so far; and what it leaves."""

from __future__ import annotations

import math
import time
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


@dataclass(slots=True, kw_only=True)
class Progress:
    """Counts steps for whoever is told."""

    reporter: Reporter
    total: int
    done: int = 0
    step_began_s: float = 0.0
    """Monotonic."""

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
    prepared_s: float | None = None
    lock: ClockLock | None = None
    interrupted: bool = False
    ended_at: datetime | None = None
    """Of a run that another process publishes; None: now."""
    done: set[tuple[str, int | None]] = field(default_factory=set)
    """Steps that an earlier process of this run has done."""
    budget: NightBudget | None = None

    def in_time(self, record: CaseRecord, replicate: int | None) -> bool:
        """Whether the run's budget has room for this step (replicate None: the preparation)."""
        return self.budget is None or self.budget.allows(record, replicate, now_s=time.monotonic())

    @property
    def ends_s(self) -> float:
        """Monotonic: when the budget of the run is used up; never, where it has none."""
        return self.budget.ends_s if self.budget is not None else math.inf

    def cut_short(self, record: CaseRecord, outcome: Outcome) -> bool:
        """Whether the budget ended the step, which then is nobody's failure: a case without samples is left out."""
        if outcome.death is None or self.budget is None or time.monotonic() < self.budget.ends_s:
            return False
        self.budget.leave_out(record)
        return True

    def finish_step(self, record: CaseRecord, replicate: int | None, outcomes: list[Outcome]) -> None:
        """Keep it for a process that goes on, and what it took for the next night."""
        if self.budget is not None and outcomes:
            self.budget.took(record, time.monotonic() - self.progress.step_began_s)
        if self.journal is not None:
            self.journal.add(record.planned.case.case_id, replicate, outcomes)

    @property
    def measured(self) -> bool:
        return any(arm.passes for record in self.records for arm in record.arms.values())
