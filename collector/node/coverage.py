"""Which code there is for each operator on a device: every implementation is run once, on the smallest shapes.

Nothing is timed. An implementation that runs and is right is told by who wrote it; one that this device has not, or
that raises, crashes, hangs or is wrong, by that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import msgspec

from bench_suite.contract import Case, Contract, DType, Phase, Role
from bench_suite.plan import PlannedCase
from collector.node.crew import Crew
from collector.node.devices.base import DeviceIdentity
from collector.node.ledger import ArmRecord, CaseRecord, Fate
from collector.node.protocol import Prepare, WorkerSetup
from store.bundle.schemas import FailureKind

ROLES = (Role.NAIVE, Role.OPTIMIZED, Role.CANDIDATE)
MOST_DEATHS = 8
"""Arms of one case that may kill their worker before the case is left."""
SEED = 1


class Coverage(StrEnum):
    """What an operator has for a role on a device."""

    VENDOR = "vendor"
    HANDWRITTEN = "handwritten"
    GENERIC = "generic"
    MISSING = "missing"
    """There is none, or it says that it does not run here."""
    FAILING = "failing"
    """It raises, crashes, hangs, or is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmCoverage:
    """One arm of an operator: what it is, and why where it is missing or failing."""

    label: str
    role: Role
    implementation: str
    state: Coverage
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCoverage:
    """One operator on one device in one element type."""

    operator: str
    family: str
    dtype: DType
    case_ids: tuple[str, ...]
    """What was run."""
    arms: tuple[ArmCoverage, ...]
    sensitivity: str
    """Where rounding enters and what makes it worse."""
    dynamic_axes: tuple[str, ...]
    """Those that change from call to call in production."""


def smallest_cases(contract: Contract, dtype: DType, number: int) -> tuple[Case, ...]:
    """The edge cases of a contract with the least input, fewest bytes first."""
    cases = [contract.case(axes, dtype, Phase.MIXED) for axes in contract.edge_cases]
    return tuple(sorted(cases, key=lambda case: (contract.input_bytes(case), case.case_id))[:number])


def usual_dtype(contract: Contract, wanted: DType) -> DType:
    """The element type that is wanted, or the contract's first where it has not that one."""
    return wanted if wanted in contract.dtypes else contract.dtypes[0]


class Inventory:
    """Runs contracts on one device; a context manager, since it keeps a worker (or ranks) between operators."""

    def __init__(
        self, kind: str, index: int, *, folder: Path, environment: Mapping[str, str], limit_s: float = 120.0
    ) -> None:
        self.limit_s = limit_s
        self._folder = folder
        self._environment = environment
        self._setup = WorkerSetup(
            device_kind=kind, device_index=index, threads=1, candidates=[], memory_limit_bytes=None
        )
        self._crew: Crew | None = None

    def __enter__(self) -> Inventory:
        return self

    def __exit__(self, *exception: object) -> None:
        self._close()

    def open(self) -> DeviceIdentity:
        """The device that it is. Raises CrewError."""
        hello = self._crew_of(1).start()
        return msgspec.convert(hello.device, DeviceIdentity)

    def examine(self, contracts: Sequence[Contract], dtype: DType, *, edges: int = 1) -> Iterator[OperatorCoverage]:
        """One operator after the other, those of one device before those of several ranks."""
        for contract in sorted(contracts, key=lambda c: c.collective):
            chosen = usual_dtype(contract, dtype)
            cases = smallest_cases(contract, chosen, edges)
            records = [self._run(case, contract) for case in cases]
            yield OperatorCoverage(
                operator=contract.operator,
                family=contract.family,
                dtype=chosen,
                case_ids=tuple(case.case_id for case in cases),
                arms=arms_of(records),
                sensitivity=contract.sensitivity,
                dynamic_axes=tuple(axis.name for axis in contract.axes if axis.dynamic),
            )

    def _run(self, case: Case, contract: Contract) -> CaseRecord:
        record = CaseRecord(planned=PlannedCase(case=case, weight=None, label="", provenance="coverage"))
        crew = self._crew_of(case["ranks"] if contract.collective else 1)
        for _ in range(MOST_DEATHS):
            task = Prepare(case_id=case.case_id, phase=case.phase, seed=SEED, exclude=record.excluded)
            outcome = crew.do(task, limit_s=self.limit_s)
            record.take(outcome, None)
            if outcome.death is None or not record.alive:
                break
        return record

    def _crew_of(self, ranks: int) -> Crew:
        if self._crew is None or self._crew.setup.world_size != ranks:
            self._close()
            setup = msgspec.structs.replace(self._setup, world_size=ranks)
            self._crew = Crew(setup, folder=self._folder, environment=self._environment)
        return self._crew

    def _close(self) -> None:
        if self._crew is not None:
            self._crew.close()
            self._crew = None


def arms_of(records: Sequence[CaseRecord]) -> tuple[ArmCoverage, ...]:
    """The arms of an operator over its cases, by role; the first that is not fine decides, and names its case.

    A role that no arm plays is missing.
    """
    by_label: dict[str, list[tuple[CaseRecord, ArmRecord]]] = {}
    for record in records:
        for label, arm in record.arms.items():
            if arm.arm.role in ROLES:
                by_label.setdefault(label, []).append((record, arm))
    found = [_arm(entries) for entries in by_label.values()]
    played = {arm.role for arm in found}
    found += [_missing(role) for role in ROLES if role not in played]
    return tuple(sorted(found, key=lambda arm: (ROLES.index(arm.role), arm.label != arm.role.value, arm.label)))


def _arm(entries: Sequence[tuple[CaseRecord, ArmRecord]]) -> ArmCoverage:
    arm = entries[0][1].arm
    bad = [(_state(seen.fate), seen.fate, record) for record, seen in entries if seen.fate is not None]
    if not bad:
        state = Coverage(arm.origin) if arm.origin else Coverage.FAILING
        return ArmCoverage(label=arm.label, role=arm.role, implementation=arm.implementation, state=state)
    state, fate, record = next((b for b in bad if b[0] is Coverage.FAILING), bad[0])
    reason = f"{fate.kind} in {record.planned.case.case_id}: {fate.reason}"
    if state is Coverage.MISSING:
        reason = fate.reason
    return ArmCoverage(label=arm.label, role=arm.role, implementation=arm.implementation, state=state, reason=reason)


def _state(fate: Fate) -> Coverage:
    return Coverage.MISSING if fate.kind == FailureKind.UNSUPPORTED.value else Coverage.FAILING


def _missing(role: Role) -> ArmCoverage:
    return ArmCoverage(
        label=role.value, role=role, implementation="", state=Coverage.MISSING, reason=f"no {role.value} on this device"
    )
