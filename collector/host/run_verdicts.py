"""What is said of the series of one run, before any of it is a row or a finding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from collector.host.history import RunFacts, Subject
from detection.night import CommonShift
from detection.noise_pool import NoisePool
from detection.verdict import Metric, ReasonCode, Tier, Verdict, VerdictStatus

SILENT_ROLES = frozenset({"aa", "planted", "reference"})
"""Arms whose changes audit the judge and never are findings."""

_SAID_FIRST = (
    ReasonCode.BEYOND_FLOOR,
    ReasonCode.SUSPICIOUS,
    ReasonCode.RECENT_NIGHTS,
    ReasonCode.FROM_ZERO,
    ReasonCode.NEWLY_FAILING,
    ReasonCode.SHIFTED,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectVerdict:
    """A verdict with what it is about."""

    subject: Subject
    metric: Metric
    verdict: Verdict
    tier: Tier = Tier.TONIGHT
    against: str = "history"
    baseline_run_id: str | None = None
    finding_id: str | None = None
    """The open finding at whose level the series still is, or from which it came back."""
    total_change: float | None = None
    """Of a further step on top of an open finding: the change against the level from before that finding."""

    @property
    def moved(self) -> bool:
        """Whether tonight is the first time that this is said."""
        return self.verdict.code in _SAID_FIRST and self.verdict.status is not VerdictStatus.UNCHANGED


@dataclass(frozen=True, slots=True, kw_only=True)
class RunVerdicts:
    """All that one run's own numbers say."""

    run: RunFacts
    column: int
    verdicts: tuple[SubjectVerdict, ...]
    shift: CommonShift | None
    """How much the whole run moved; None where it did not."""
    scatter: Mapping[Metric, float] = field(default_factory=dict)
    """By metric: how much more than usual its series scatter tonight."""
    discovery_p: Mapping[Metric, float] = field(default_factory=dict)
    """By metric: the p-value below which one more series would have been a discovery of this run."""
    noise: Mapping[Metric, NoisePool] = field(default_factory=dict)
    """By metric: the noise of all its series together."""
