"""What a verdict needs beyond the arrays: the raw samples of a suspicious series, and the old name of a new one."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from collector.host.history import Floats, UnitHistory, visible_columns
from collector.host.run_verdicts import RunVerdicts, SubjectVerdict
from collector.host.segments import WHOLE, Segments
from detection.modes import Modes, only_shares_moved
from detection.policy import Policy
from detection.verdict import Metric, ReasonCode, VerdictStatus
from store.lake.lake import Lake

SAMPLED_RUNS = 10
"""Earlier runs whose raw samples say where the levels of a series are."""

_SAMPLES = """
    SELECT run_id, subject_id, CASE WHEN len(device_s) > 0 THEN device_s ELSE wall_s END AS seconds
    FROM samples WHERE run_id IN (SELECT unnest($runs)) AND subject_id IN (SELECT unnest($subjects))
"""


_SAMPLED = "SELECT DISTINCT run_id, subject_id FROM samples WHERE run_id IN (SELECT unnest($runs))"


class Sampled:
    """Which series of the runs that are judged have raw samples, asked once for all of them."""

    def __init__(self, lake: Lake, run_ids: Sequence[str]) -> None:
        self._lake = lake
        self._run_ids = list(run_ids)
        self._found: frozenset[tuple[str, str]] | None = None

    def has(self, run_id: str, subject_id: str) -> bool:
        """Whether this run kept samples of the series."""
        if self._found is None:
            rows = self._lake.sql(_SAMPLED, {"runs": self._run_ids}).to_pylist()
            self._found = frozenset((row["run_id"], row["subject_id"]) for row in rows)
        return (run_id, subject_id) in self._found


def name_two_levels(
    lake: Lake,
    sampled: Sampled,
    judged: RunVerdicts,
    history: UnitHistory,
    segments: Segments,
    policy: Policy,
) -> RunVerdicts:
    """Unpaired series that moved, but whose samples lie on the two levels that they always had, are called bimodal.

    The levels are those of its baseline: a change that was told and went away has left no second level behind, and must
    be seen when it comes back.
    """
    asked = [v for v in judged.verdicts if v.moved and v.metric is Metric.LATENCY]
    asked = [v for v in asked if sampled.has(judged.run.run_id, v.subject.subject_id)]
    if not asked:
        return judged
    visible = np.flatnonzero(visible_columns(history, judged.column))
    earlier: dict[str, list[str]] = {}
    for said in asked:
        segment = segments.get((history.row(said.subject.subject_id) or 0, said.metric), WHOLE)
        covered = [int(c) for c in visible if segment.covers(int(c))][-SAMPLED_RUNS:]
        earlier[said.subject.subject_id] = [history.runs[c].run_id for c in covered]
    runs = sorted({run for chosen in earlier.values() for run in chosen})
    pools = read_log_samples(lake, [*runs, judged.run.run_id], list(earlier))
    floor = math.log1p(policy.floor(Metric.LATENCY, judged.run.device_kind))
    found: dict[str, Modes] = {}
    for said in asked:
        subject_id = said.subject.subject_id
        before = [pools[run, subject_id] for run in earlier[subject_id] if (run, subject_id) in pools]
        tonight = pools.get((judged.run.run_id, subject_id))
        if before and tonight is not None and tonight.size:
            modes = only_shares_moved(np.concatenate(before), tonight, floor)
            if modes is not None:
                found[subject_id] = modes
    verdicts = tuple(
        bimodal_verdict(v, found[v.subject.subject_id])
        if v.metric is Metric.LATENCY and v.moved and v.subject.subject_id in found
        else v
        for v in judged.verdicts
    )
    return replace(judged, verdicts=verdicts)


def read_log_samples(lake: Lake, runs: Sequence[str], subjects: Sequence[str]) -> dict[tuple[str, str], Floats]:
    """(run, subject) -> logarithms of its raw samples."""
    parts: dict[tuple[str, str], list[Floats]] = defaultdict(list)
    for row in lake.sql(_SAMPLES, {"runs": list(runs), "subjects": list(subjects)}).to_pylist():
        values = np.array([s for s in row["seconds"] or [] if s is not None and s > 0], dtype=float)
        parts[row["run_id"], row["subject_id"]].append(np.log(values))
    return {key: np.concatenate(values) for key, values in parts.items()}


def bimodal_verdict(said: SubjectVerdict, modes: Modes) -> SubjectVerdict:
    """The verdict of a series of which only the shares of its two levels moved."""
    low, high = (f"{1e6 * math.exp(level):,.4g} µs" for level in (modes.low, modes.high))
    sentence = (
        f"Two levels, {low} and {high}, as in the {SAMPLED_RUNS} runs before; only their shares moved, "
        f"so the median says nothing. {said.verdict.sentence}"
    )
    verdict = replace(said.verdict, status=VerdictStatus.INCONCLUSIVE, code=ReasonCode.BIMODAL, sentence=sentence)
    return replace(said, verdict=verdict)


def name_predecessors(judged: RunVerdicts, history: UnitHistory) -> RunVerdicts:
    """New series whose case and arm were measured before under other settings: linked in words, not compared."""
    new = [v for v in judged.verdicts if v.verdict.code is ReasonCode.FIRST_RUN]
    if not new:
        return judged
    visible = visible_columns(history, judged.column)
    older: dict[tuple[str, str], list[int]] = defaultdict(list)
    for row, subject in enumerate(history.subjects):
        if any(history.status[row, c] is not None for c in np.flatnonzero(visible)):
            older[subject.case_id, subject.arm].append(row)
    linked = {}
    for said in new:
        twins = [history.subjects[r] for r in older[said.subject.case_id, said.subject.arm]]
        twin = next((t for t in reversed(twins) if t.subject_id != said.subject.subject_id), None)
        if twin is not None:
            sentence = (
                f"A new series: its settings are {said.subject.settings or 'none'}, those of the series "
                f"{twin.subject_id} before were {twin.settings or 'none'}; across them nothing is compared."
            )
            linked[said.subject.subject_id, said.metric] = replace(
                said, verdict=replace(said.verdict, sentence=sentence)
            )
    return replace(
        judged,
        verdicts=tuple(linked.get((v.subject.subject_id, v.metric), v) for v in judged.verdicts),
    )
