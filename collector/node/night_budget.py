"""A run's budget of time: what is left out of the night beforehand, and what the clock leaves out while it runs.

Every case that is left out is a `skipped` row with the reason and the figure. Nights are counted for each suite and
device, so that the turns of `bench_suite.budget` go round however often runs are made; what a case took is kept: the
next plan then knows better than a roofline.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from bench_suite.budget import Cost, estimate, plan_night
from bench_suite.roofline import Ceilings
from bench_suite.suite import Suite
from collector.node.ledger import CaseRecord

SKIPPED = "budget"
"""The kind of a row that a budget left out."""
PLANNED_SHARE = 0.9
"""Of the budget that the plan fills; the rest is for probing, publishing, and what estimates got wrong."""


@dataclass(slots=True, kw_only=True)
class NightBudget:
    """The clock of one run with a budget."""

    budget_s: float
    begun_s: float
    """Monotonic."""
    replicates: int
    memory: NightMemory
    costs: dict[str, Cost] = field(default_factory=dict)
    """What each case is taken to need, by case_id."""
    spent: dict[str, list[float]] = field(default_factory=dict)
    """Seconds of each step so far: the preparation, then the replicates."""

    def allows(self, record: CaseRecord, replicate: int | None, *, now_s: float) -> bool:
        """Whether the next step of the case still fits; where not and it has no samples, its row says so."""
        cost = self.costs[record.planned.case.case_id]
        step_s = cost.prepare_s + cost.replicate_s if replicate is None else cost.replicate_s
        used_s = now_s - self.begun_s
        if used_s + step_s <= self.budget_s:
            return True
        if not any(arm.passes for arm in record.arms.values()) and record.skipped is None:
            words = f"{used_s:,.0f} s of the budget of {self.budget_s:,.0f} s were used up"
            record.skip(SKIPPED, f"{words}, and its next step needs about {step_s:,.0f} s")
        return False

    @property
    def ends_s(self) -> float:
        """Monotonic: no step goes on beyond this."""
        return self.begun_s + self.budget_s

    def leave_out(self, record: CaseRecord) -> None:
        """The budget ended while the case was at work: with samples of earlier replicates it keeps them."""
        if not any(arm.passes for arm in record.arms.values()) and record.skipped is None:
            record.skip(SKIPPED, f"the budget of {self.budget_s:,.0f} s ended while this was at work")

    def took(self, record: CaseRecord, seconds: float) -> None:
        """A step of the case ended."""
        self.spent.setdefault(record.planned.case.case_id, []).append(seconds)

    def remember(self) -> None:
        """Keep what cases took for the plan of the next night."""
        self.memory.learn(self.learnt())

    def learnt(self) -> dict[str, Cost]:
        """What the cases took that were measured in every replicate."""
        whole = {case_id: steps for case_id, steps in self.spent.items() if len(steps) == 1 + self.replicates}
        return {
            case_id: Cost(prepare_s=steps[0], replicate_s=sum(steps[1:]) / self.replicates)
            for case_id, steps in whole.items()
        }


def left_out(
    suite: Suite, ceilings: Ceilings | None, *, budget_s: float, night: int, known: Mapping[str, Cost]
) -> dict[str, str]:
    """The cases that night number `night` does not measure, by case_id, each with the reason and the figure."""
    planned = plan_night(suite, ceilings, budget_s=PLANNED_SHARE * budget_s, night=night, known=known)
    return {skip.planned.case.case_id: skip.reason for skip in planned.skipped}


def records_of(suite: Suite, without: Mapping[str, str]) -> list[CaseRecord]:
    """One record a case; those that are left out say so."""
    records = [CaseRecord(planned=planned) for planned in suite.cases]
    for record in records:
        reason = without.get(record.planned.case.case_id)
        if reason is not None:
            record.skip(SKIPPED, reason)
    return records


def open_budget(
    budget_s: float | None, suite: Suite, ceilings: Ceilings | None, state: Path, unit: str, *, resumed: bool
) -> tuple[NightBudget | None, dict[str, str]]:
    """The clock of a run that begins now, and what its night leaves out; a resumed run has that from its journal."""
    if budget_s is None:
        return None, {}
    memory = NightMemory(state, suite, unit)
    known = memory.known()
    costs = {
        entry.case.case_id: known.get(entry.case.case_id) or estimate(entry, suite.method, ceilings)
        for entry in suite.cases
    }
    budget = NightBudget(
        budget_s=budget_s,
        begun_s=time.monotonic(),
        replicates=suite.method.replicates,
        memory=memory,
        costs=costs,
    )
    if resumed:
        return budget, {}
    night = memory.next_night()
    return budget, left_out(suite, ceilings, budget_s=budget_s, night=night, known=known)


class NightMemory:
    """What is remembered between nights of a suite on a device: their number, and what cases took."""

    def __init__(self, state: Path, suite: Suite, unit: str) -> None:
        name = hashlib.sha256(f"{suite.name}\0{unit}".encode()).hexdigest()[:16]
        self._path = state / "nights" / f"{suite.name}-{name}.json"

    def next_night(self) -> int:
        """The number of this night; the next call gives one more."""
        night, known = self._read()
        self._write(night + 1, known)
        return night

    def known(self) -> dict[str, Cost]:
        return self._read()[1]

    def learn(self, costs: Mapping[str, Cost]) -> None:
        night, known = self._read()
        self._write(night, known | dict(costs))

    def _read(self) -> tuple[int, dict[str, Cost]]:
        """A file that is not there, or that cannot be read, is a first night."""
        try:
            document = json.loads(self._path.read_bytes())
            return int(document["night"]), msgspec.convert(document["costs"], dict[str, Cost])
        except (OSError, ValueError, LookupError, TypeError, msgspec.MsgspecError):
            return 0, {}

    def _write(self, night: int, known: Mapping[str, Cost]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        staged = self._path.with_suffix(f".{os.getpid()}")
        staged.write_bytes(msgspec.json.encode({"night": night, "costs": known}))
        staged.replace(self._path)
