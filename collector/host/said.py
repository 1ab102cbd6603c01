"""Everything that one judging says, collected over its runs and written once.

Order of writing: findings, requests, audits, and `verdicts` last. A run counts as judged when it has verdicts; a judge
that died half-way is repeated and says nothing twice, since every event has an id made of what it says.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from collector.host.history import RunFacts
from collector.host.life import Moment
from collector.host.requests import append_requests
from collector.host.run_verdicts import SubjectVerdict
from collector.host.verdict_rows import verdict_table
from detection.finding_rows import event_row
from detection.findings import FindingEvent
from detection.policy import Policy
from store.lake.lake import Lake


@dataclass(slots=True, kw_only=True)
class Said:
    """What is to be written, and the notices, which are only told."""

    events: list[FindingEvent] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    audits: list[dict[str, Any]] = field(default_factory=list)
    verdicts: list[tuple[RunFacts, Moment, SubjectVerdict]] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    def keep(self, run: RunFacts, verdicts: Sequence[SubjectVerdict], moment: Moment) -> None:
        """Verdicts of a run."""
        self.verdicts += [(run, moment, verdict) for verdict in verdicts]

    def write(self, lake: Lake, run_ids: Sequence[str], policy: Policy) -> None:
        """Appends all of it; a second time of the same is none."""
        if self.events:
            events = _digest(*sorted(event.event_id for event in self.events))
            lake.append("findings", [event_row(e) for e in self.events], key=f"findings-{events}")
        append_requests(lake, self.requests)
        runs = _digest(*sorted(run_ids), policy.name, policy.version)
        if self.audits:
            lake.append("audits", self.audits, key=f"audits-{runs}")
        if self.verdicts:
            lake.append("verdicts", verdict_table(self.verdicts), key=f"verdicts-{runs}")


def _digest(*parts: str) -> str:
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:32]
