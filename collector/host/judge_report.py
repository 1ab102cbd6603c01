"""What one judging said, for whoever asked for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from collector.host.history import RunFacts
from collector.host.run_verdicts import SubjectVerdict
from collector.host.verdict_rows import VerdictLine, verdict_line
from detection.findings import Finding, FindingEvent
from detection.verdict import Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeReport:
    """What one judging said."""

    runs: tuple[str, ...]
    verdicts: tuple[tuple[RunFacts, SubjectVerdict], ...]
    events: tuple[FindingEvent, ...]
    """Finding events that are new."""
    findings: Mapping[str, Finding]
    """Every finding that those events are of, as it is now."""
    notices: tuple[str, ...]
    """What concerns a whole run, in sentences."""
    requests: tuple[str, ...]
    """Ids of the confirm requests that were opened."""
    as_of_seq: int

    @property
    def lines(self) -> tuple[VerdictLine, ...]:
        """Every verdict as a table shows it."""
        return tuple(verdict_line(run, said) for run, said in self.verdicts)

    def history_line(self, run_id: str, case_id: str, arm: str, metric: str = "latency_ratio") -> VerdictLine | None:
        """The verdict of a series against its history, as a table wants it: the confirm run's word before the
        night's."""
        wanted = [
            line
            for line in self.lines
            if (line.run_id, line.case_id, line.arm, line.metric, line.against)
            == (run_id, case_id, arm, metric, "history")
        ]
        return max(wanted, key=lambda line: line.tier == Tier.CONFIRM, default=None)
