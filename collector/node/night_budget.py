"""A run's budget of time: which cases it takes next while there is time, and what it leaves for another night.

The run takes the cases in waves: each is prepared and measured before the next is chosen, by what the waves before it
took. Every case that is left out is a `skipped` row with the figure and in how many nights its turn is. When a case was
measured and what it took is kept for each suite and device.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from bench_suite.budget import Cost, Forecast, Night, plan_night, ranks_of
from bench_suite.roofline import Ceilings
from bench_suite.suite import Suite
from collector.node.ledger import CaseRecord

SKIPPED = "budget"
"""The kind of a row that a budget left out."""
FIRST_SHARE = 1 / 6
"""Of the time left: the wave that tells what cases take, where no earlier night has."""
WAVE_SHARE = 1 / 2
"""Of the time left: a wave that others follow."""
LAST_WAVE = 0.3
"""Of the budget: with less time than this left, a wave takes all that fits."""
ADMITTED = 0.97
"""Of the budget: as far as cases are begun; the rest is for writing the bundle, and for replicates that took longer."""


@dataclass(slots=True, kw_only=True)
class NightBudget:
    """The clock of one run with a budget."""

    budget_s: float
    begun_s: float
    """Monotonic."""
    suite: Suite
    memory: NightMemory
    forecast: Forecast
    spent: dict[str, tuple[float | None, list[float]]] = field(default_factory=dict)
    """Seconds of each case so far: its preparation, and its replicates."""
    promised: dict[str, float] = field(default_factory=dict)
    """Seconds that are kept for the replicates of what this wave has prepared, by case_id; and for their processes."""

    @property
    def ends_s(self) -> float:
        """Monotonic: no step goes on beyond this."""
        return self.begun_s + self.budget_s

    def used_share(self, *, now_s: float) -> float:
        """Of the budget."""
        return (now_s - self.begun_s) / self.budget_s

    def next_wave(self, records: Sequence[CaseRecord], *, now_s: float) -> list[CaseRecord]:
        """Of `records`, which have had no turn yet, those that are next; none where none fits the time left."""
        left_s = self.begun_s + ADMITTED * self.budget_s - now_s
        last = left_s <= LAST_WAVE * self.budget_s
        share = 1.0 if last else FIRST_SHARE if self.forecast.blind else WAVE_SHARE
        by_id = {record.planned.case.case_id: record for record in records}
        wave: list[CaseRecord] = []
        used_s, ranks = 0.0, set[int]()
        for planned in self._night().order:
            record = by_id.get(planned.case.case_id)
            if record is None:
                continue
            more_s = self.forecast.total_s(planned.case.case_id)
            if ranks_of(planned) not in ranks:
                more_s += (1 + self.forecast.replicates) * self.forecast.start_s(ranks_of(planned))
            if used_s + more_s <= share * left_s or (not wave and more_s <= left_s):
                wave.append(record)
                used_s += more_s
                ranks.add(ranks_of(planned))
            elif wave and not last:  # what does not fit is the first of the next wave, and not passed over for ever
                break
        self.promised = {f"{n} ranks": self.forecast.replicates * self.forecast.start_s(n) for n in ranks}
        return wave

    def allows(self, record: CaseRecord, replicate: int | None, *, now_s: float) -> bool:
        """Whether the next step of the case still fits; a preparation with the replicates that follow from it."""
        case_id = record.planned.case.case_id
        cost, used_s = self.forecast.cost(case_id), now_s - self.begun_s
        if replicate is not None:
            return used_s + cost.replicate_s <= self.budget_s
        needed_s = cost.total_s(self.forecast.replicates) + sum(self.promised.values())
        return used_s + needed_s <= ADMITTED * self.budget_s

    def started(self, ranks: int, seconds: float) -> None:
        """Processes were started for the next steps."""
        self.forecast.started(ranks, seconds)

    def took(self, record: CaseRecord, replicate: int | None, seconds: float) -> None:
        """A step of the case ended."""
        case_id = record.planned.case.case_id
        prepared_s, replicates = self.spent.get(case_id, (None, []))
        if replicate is None:
            self.forecast.prepared(case_id, seconds)
            self.spent[case_id] = (seconds, replicates)
            if record.alive:
                self.promised[case_id] = self.forecast.replicates * self.forecast.cost(case_id).replicate_s
        else:
            self.forecast.measured(case_id, seconds)
            self.spent[case_id] = (prepared_s, [*replicates, seconds])

    def leave_out(self, records: Sequence[CaseRecord]) -> None:
        """Say of each case that had no turn what it needs and when its turn is."""
        last = self.memory.last() | {
            record.planned.case.case_id: self.memory.night() for record in records if had_turn(record)
        }
        night = self._night(last)
        for record in records:
            if not had_turn(record) and record.skipped is None:
                record.skip(SKIPPED, self._why(record.planned.case.case_id, night))

    def _why(self, case_id: str, night: Night) -> str:
        source = "took" if case_id in self.forecast.known else "needs about"
        words = f"{source} {self.forecast.total_s(case_id):,.0f} s"
        if case_id not in night.waits:
            left = f"more than the {night.left_s:,.0f} s of one night's turn"
            return f"{words}, {left} in a budget of {self.budget_s:,.0f} s"
        nights = 1 + night.waits[case_id]
        when = "1 night" if nights == 1 else f"{nights} nights"
        return f"{words}; its turn in a budget of {self.budget_s:,.0f} s is in {when}"

    def _night(self, last: Mapping[str, int] | None = None) -> Night:
        """What is expected of a night now; without `last`, of this one."""
        costs = {entry.case.case_id: self.forecast.total_s(entry.case.case_id) for entry in self.suite.cases}
        last = self.memory.last() if last is None else last
        return plan_night(self.suite, costs, last, budget_s=ADMITTED * self.budget_s)

    def remember(self, records: Sequence[CaseRecord]) -> None:
        """Keep for the next night what was measured in this one, and what it took."""
        self.memory.learn(self.learnt(), [r.planned.case.case_id for r in records if had_turn(r)])

    def learnt(self) -> dict[str, Cost]:
        """What the cases took that were prepared, and measured in every replicate."""
        count = self.forecast.replicates
        return {
            case_id: Cost(prepare_s=prepared_s, replicate_s=sum(replicates) / count)
            for case_id, (prepared_s, replicates) in self.spent.items()
            if prepared_s is not None and len(replicates) == count
        }


def had_turn(record: CaseRecord) -> bool:
    """Whether the night has got to the case: it has samples, or it was found that it can have none."""
    if record.skipped is not None:
        return record.skipped.kind not in (SKIPPED, "interrupted")
    measured = any(arm.passes for arm in record.arms.values())
    return measured or bool(record.arms and (record.empty or not record.alive))


def open_budget(
    budget_s: float | None,
    suite: Suite,
    ceilings: Ceilings | None,
    state: Path,
    unit: str,
    *,
    begun_s: float | None = None,
    resumed: bool = False,
) -> NightBudget | None:
    """The clock of a run that began at `begun_s` (monotonic; None: now); a resumed one goes on with its own night."""
    if budget_s is None:
        return None
    memory = NightMemory(state, suite, unit)
    if not resumed:
        memory.begin_night()
    return NightBudget(
        budget_s=budget_s,
        begun_s=time.monotonic() if begun_s is None else begun_s,
        suite=suite,
        memory=memory,
        forecast=Forecast(suite, ceilings, memory.known()),
    )


class _Kept(msgspec.Struct, kw_only=True):
    night: int = 0
    costs: dict[str, Cost] = {}
    last: dict[str, int] = {}


class NightMemory:
    """What is remembered between nights of a suite on a device: what cases took, and in which night."""

    def __init__(self, state: Path, suite: Suite, unit: str) -> None:
        name = hashlib.sha256(f"{suite.name}\0{unit}".encode()).hexdigest()[:16]
        self._path = state / "nights" / f"{suite.name}-{name}.json"

    def night(self) -> int:
        """The number of the night that goes on; 0 before the first."""
        return self._read().night

    def begin_night(self) -> None:
        """The next number."""
        kept = self._read()
        kept.night += 1
        self._write(kept)

    def known(self) -> dict[str, Cost]:
        """What cases took when they were measured last."""
        return self._read().costs

    def last(self) -> dict[str, int]:
        """The night in which a case had its last turn."""
        return self._read().last

    def learn(self, costs: Mapping[str, Cost], measured: Sequence[str]) -> None:
        """What cases took, and which had their turn, in the night that goes on."""
        kept = self._read()
        kept.costs |= costs
        kept.last |= dict.fromkeys(measured, kept.night)
        self._write(kept)

    def _read(self) -> _Kept:
        """A file that is not there, or that cannot be read, is a first night."""
        try:
            return msgspec.convert(json.loads(self._path.read_bytes()), _Kept)
        except (OSError, ValueError, msgspec.MsgspecError):
            return _Kept()

    def _write(self, kept: _Kept) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        staged = self._path.with_suffix(f".{os.getpid()}")
        staged.write_bytes(msgspec.json.encode(kept))
        staged.replace(self._path)
