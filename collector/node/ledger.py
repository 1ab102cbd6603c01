"""What a run has seen of each case and arm, as the workers told it: grows during the run, is read once at its end."""

from __future__ import annotations

from dataclasses import dataclass, field

from bench_suite.contract import Role
from bench_suite.suite import PlannedCase
from collector.node.crew import Death, Outcome
from collector.node.protocol import PART, Arm, ArmFailed, ArmPrepared, ArmsListed, CaseDone, CaseFailed, PassSamples
from store.bundle.schemas import FailureKind, RowStatus

USUAL_ARMS = tuple(
    Arm(label=role.value, role=role, implementation="")
    for role in (Role.NAIVE, Role.OPTIMIZED, Role.AA, Role.CANDIDATE)
)
"""The rows of a case whose arms were never listed, since it could not even be set up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """Why an arm has no verdict: status, kind and one sentence."""

    status: RowStatus
    kind: str
    reason: str


@dataclass(slots=True, kw_only=True)
class ArmRecord:
    """One arm of one case over the whole run."""

    arm: Arm
    prepared: ArmPrepared | None = None
    fate: Fate | None = None
    passes: list[tuple[int, PassSamples]] = field(default_factory=list)
    """(replicate, samples)"""

    def fail(self, kind: str, reason: str) -> None:
        """Remember the first failure; what comes after it is its consequence."""
        if self.fate is None:
            status = RowStatus.WRONG if kind == "wrong" else RowStatus.FAILED
            self.fate = Fate(status=status, kind=kind, reason=reason)


def part_arm(label: str) -> Arm:
    """What names the samples of a piece of the work, as an arm's."""
    return Arm(label=label, role=Role.PLANTED, implementation=label.removeprefix(PART))


@dataclass(slots=True, kw_only=True)
class CaseRecord:
    """One case over the whole run."""

    planned: PlannedCase
    arms: dict[str, ArmRecord] = field(default_factory=dict)
    parts: dict[str, ArmRecord] = field(default_factory=dict)
    """Samples of the pieces of the operator's work; they have no rows."""
    skipped: Fate | None = None
    ratio_timer: str = ""
    replayed: bool = False
    """Whether its calls were captured in graphs and replayed."""
    unsettled: list[str] = field(default_factory=list)
    """Of each replicate that began with a clock that moved: what was seen of it."""
    arena_sets: int = 0
    stops: list[str] = field(default_factory=list)
    sentinel: CaseRecord | None = None
    """The same case in the sentinel's environment, where it is measured there too."""

    @property
    def excluded(self) -> list[str]:
        """Labels of the arms that take part in nothing more."""
        return [label for label, record in self.arms.items() if record.fate is not None]

    @property
    def alive(self) -> bool:
        """Whether anything is left to time against something."""
        return self.skipped is None and any(r.fate is None for r in self.arms.values())

    @property
    def empty(self) -> str:
        """That the case has nothing to do, in words; empty where it has. It is checked like any other, not timed."""
        zero = [name for name, size in self.planned.case.axes if size == 0]
        return f"{' and '.join(zero)} {'is' if len(zero) == 1 else 'are'} 0: there is nothing to time" if zero else ""

    @property
    def no_replay(self) -> str:
        """Why the arms that are left cannot all be captured; empty where they can."""
        for label, record in self.arms.items():
            if record.fate is None and record.prepared is not None and record.prepared.no_replay:
                return f"{label} cannot be captured: {record.prepared.no_replay}"
        return ""

    def skip(self, kind: str, reason: str) -> None:
        self.skipped = Fate(status=RowStatus.SKIPPED, kind=kind, reason=reason)

    def interrupt(self) -> None:
        """The run was stopped: what has neither samples nor a fate of its own was not reached."""
        reason = "the run was interrupted before this was measured"
        if not self.arms and self.skipped is None:
            self.skip("interrupted", reason)
        for record in self.arms.values():
            if record.fate is None and not record.passes:
                record.fate = Fate(status=RowStatus.SKIPPED, kind="interrupted", reason=reason)
        if self.sentinel is not None:
            self.sentinel.interrupt()

    def take(self, outcome: Outcome, replicate: int | None) -> None:
        """Enter everything that a task said."""
        for message in outcome.messages:
            match message:
                case ArmsListed():
                    for arm in message.arms:
                        self.arms.setdefault(arm.label, ArmRecord(arm=arm))
                case ArmPrepared():
                    self._prepared(message)
                case ArmFailed():
                    self._failed(message)
                case PassSamples() if replicate is not None and message.arm.startswith(PART):
                    part = self.parts.setdefault(message.arm, ArmRecord(arm=part_arm(message.arm)))
                    part.passes.append((replicate, message))
                case PassSamples() if replicate is not None:
                    self.arms[message.arm].passes.append((replicate, message))
                case CaseDone() if message.ratio_timer:
                    self.ratio_timer = message.ratio_timer
                    self.arena_sets = message.arena_sets
                    self.stops.append(message.stop_reason)
                    self.unsettled += [message.unsettled] if message.unsettled else []
                case CaseFailed() if message.kind != "arm_failed":
                    self.fail_all(message.kind, message.message)
                case _:
                    pass
        if outcome.death is not None:
            self._died(outcome.death)

    def fail_all(self, kind: str, reason: str) -> None:
        for arm in USUAL_ARMS if not self.arms else ():
            self.arms[arm.label] = ArmRecord(arm=arm)
        for record in self.arms.values():
            record.fail(kind, reason)

    def _prepared(self, message: ArmPrepared) -> None:
        record = self.arms[message.arm]
        record.prepared = message
        if not message.ok:
            record.fail("wrong", message.reason)
            if message.arm == Role.OPTIMIZED.value:
                self.arms[Role.AA.value].fail("wrong", message.reason)

    def _failed(self, message: ArmFailed) -> None:
        if message.arm in self.arms:
            self.arms[message.arm].fail(message.kind, message.message)
            if message.arm == Role.OPTIMIZED.value and Role.AA.value in self.arms:
                self.arms[Role.AA.value].fail(message.kind, message.message)
        else:
            self.fail_all(message.kind, message.message)

    def _died(self, death: Death) -> None:
        """The arm at work bears it; where none was, the case itself could not be set up."""
        if death.arm in self.arms:
            record = self.arms[death.arm]
            record.fate = None
            record.fail(death.kind, death.message)
            if death.arm in (Role.OPTIMIZED.value, Role.AA.value):
                for label in (Role.OPTIMIZED.value, Role.AA.value):
                    self.arms[label].fail(death.kind, death.message)
        else:
            self.fail_all(FailureKind(death.kind).value, death.message)
