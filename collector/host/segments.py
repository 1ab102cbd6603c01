"""Which runs a series is judged against: moved baselines, open findings, and what was there and is gone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from collector.host.history import UnitHistory
from detection.findings import Finding, FindingState
from detection.verdict import Metric
from store.lake.lake import Lake

WHOLE_RUN = " · whole run"
"""How the group of a moved host ends."""
SLOW_UNIT = " · slow unit"
"""How the group of a unit that is slower than its fellows ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Which runs are the baseline of a series: columns from `start` up to, not including, `end`, less the gaps."""

    start: int = 0
    end: int | None = None
    gaps: tuple[tuple[int, int], ...] = ()
    """Columns [from, to) of findings that were there and are resolved: not the level that the series has now."""
    finding_id: str | None = None
    """Where a finding is open, since column `end` ..."""
    change: float | None = None
    """... the relative change that it reported; None where no ratio exists."""
    whole_run: bool = False
    """... and whether it is of the host: then the run's common shift is part of the change."""

    def covers(self, column: int) -> bool:
        """Whether the run at `column` is baseline."""
        return (
            column >= self.start
            and (self.end is None or column < self.end)
            and not any(low <= column < high for low, high in self.gaps)
        )

    def mask(self, columns: int) -> NDArray[np.bool_]:
        """`covers` of each of the first so many columns."""
        at = np.arange(columns)
        inside = (at >= self.start) & (at < (columns if self.end is None else self.end))
        for low, high in self.gaps:
            inside &= (at < low) | (at >= high)
        return inside


WHOLE = Segment()

Segments = Mapping[tuple[int, Metric], Segment]
"""By row of a unit's history and metric; what is not there is baseline as a whole."""


def read_baseline_moves(lake: Lake) -> frozenset[tuple[str, str, str]]:
    """Recorded acts that stand: (subject_id, metric, run id with which the baseline starts)."""
    moves: dict[tuple[str, str, str], str] = {}
    for row in lake.sql('SELECT * FROM baselines ORDER BY "at", event_id').to_pylist():
        moves[row["subject_id"], row["metric"], row["from_run_id"]] = row["event"]
    return frozenset(act for act, event in moves.items() if event == "moved")


def segments_at(
    history: UnitHistory, column: int, findings: Iterable[Finding], moves: Iterable[tuple[str, str, str]]
) -> dict[tuple[int, Metric], Segment]:
    """The baseline runs of every series of which anything was said, for judging the run at `column`.

    An expected change moves the baseline to its first bad run, as a recorded act does. An open finding ends the
    baseline before its first bad run, the newest one where there are several: the level between two findings is the
    baseline of the second. A resolved one leaves a gap.
    """
    places = {run.run_id: i for i, run in enumerate(history.runs[:column])}
    rows = {subject.subject_id: i for i, subject in enumerate(history.subjects)}
    starts: dict[tuple[int, Metric], int] = defaultdict(int)
    opened: dict[tuple[int, Metric], list[tuple[int, Finding, float | None]]] = defaultdict(list)
    gaps: dict[tuple[int, Metric], list[tuple[int, int]]] = defaultdict(list)
    for subject_id, metric, run_id in moves:
        if subject_id in rows and run_id in places and metric in set(Metric):
            key = rows[subject_id], Metric(metric)
            starts[key] = max(starts[key], places[run_id])
    for finding in findings:
        if finding.state is FindingState.REFUTED:
            continue
        for member in finding.facts.evidence.members:
            since = places.get(member.since_run_id)
            row = rows.get(member.subject_id)
            if since is None or row is None:
                continue
            key = row, finding.facts.metric
            if finding.state is FindingState.EXPECTED:
                starts[key] = max(starts[key], since)
            elif finding.state is FindingState.RESOLVED:
                gaps[key].append((since, places.get(finding.settled_run_id, since + 1)))
            else:
                opened[key].append((since, finding, member.change))
    return {key: _segment(starts[key], opened[key], gaps[key]) for key in sorted({*starts, *opened, *gaps})}


def _segment(start: int, opened: list[tuple[int, Finding, float | None]], gaps: list[tuple[int, int]]) -> Segment:
    standing = sorted((o for o in opened if o[0] >= start), key=lambda o: (o[0], o[1].finding_id))
    segment = Segment(start=start, gaps=tuple(gaps))
    if not standing:
        return segment
    since, finding, change = standing[-1]
    earlier = [s for s, _, _ in standing if s < since]
    whole = finding.facts.group.endswith(WHOLE_RUN)
    return replace(
        segment,
        start=max([start, *earlier]),
        end=since,
        finding_id=finding.finding_id,
        change=finding.facts.change if whole else change,
        whole_run=whole,
    )


def findings_by_unit(findings: Iterable[Finding], history: UnitHistory) -> list[Finding]:
    """The findings with a member on this unit."""
    known = {subject.subject_id for subject in history.subjects}
    return [f for f in findings if not known.isdisjoint(f.facts.subject_ids)]
