"""The looks at the oldest and at the first runs (detection.old_reference), over the watched series of one run."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from collector.host.history import Floats, Subject, UnitHistory, visible_columns
from collector.host.run_verdicts import RunVerdicts, SubjectVerdict
from collector.host.segments import Segments
from collector.host.shift import Shift, runs_words
from detection.night_words import figure
from detection.old_reference import ANCHOR, EARLY_FROM, RECENT, OldReference, drift, early_step
from detection.policy import Policy
from detection.verdict import Metric, ReasonCode, Tier, Verdict, VerdictStatus, in_words, percent


def old_reference_shifts(
    judged: RunVerdicts,
    watched: Sequence[tuple[int, Metric]],
    history: UnitHistory,
    segments: Segments,
    policy: Policy,
) -> list[Shift]:
    """Drifts against the oldest runs of the baseline, and steps among the first; open findings aside."""
    by_metric: dict[Metric, list[int]] = defaultdict(list)
    for row, metric in watched:
        segment = segments.get((row, metric))
        if segment is None or segment.finding_id is None:
            by_metric[metric].append(row)
    found = []
    for metric, rows in by_metric.items():
        floor = math.log1p(policy.floor(metric, judged.run.device_kind))
        values = _baseline_values(judged.column, rows, metric, history, segments)
        drifts, steps = drift(values, floor=floor), early_step(values, floor=floor)
        for i in np.flatnonzero((drifts.since >= 0) | (steps.since >= 0)).tolist():
            early = drifts.since[i] < 0
            seen = _seen(values[i], steps if early else drifts, i, metric, history, early=early)
            found.append(_shift(seen, history.subjects[rows[i]], metric, history, policy))
    return found


def _baseline_values(
    column: int,
    rows: Sequence[int],
    metric: Metric,
    history: UnitHistory,
    segments: Segments,
) -> Floats:
    """[rows, runs up to tonight] logarithms of what counts as baseline, NaN elsewhere."""
    usable = np.append(visible_columns(history, column)[:column], True)
    raw = history.metrics[metric].value[np.array(rows, dtype=np.int64), : column + 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        values: Floats = np.where(usable[None, :] & (raw > 0), np.log(raw), np.nan)
    for i, row in enumerate(rows):
        segment = segments.get((row, metric))
        if segment is not None:
            values[i, ~np.array([segment.covers(c) for c in range(column + 1)], dtype=bool)] = np.nan
    return values


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """One called change in terms of the unit's runs."""

    change: float
    """Of logarithms, as the error."""
    error: float
    column: int
    good: int | None
    before: tuple[float, ...]
    after: tuple[float, ...]
    early: bool


def _seen(
    row: NDArray[np.float64], called: OldReference, i: int, metric: Metric, history: UnitHistory, *, early: bool
) -> _Seen:
    places, since = np.flatnonzero(np.isfinite(row)), int(called.since[i])
    known = row[places].tolist()
    return _Seen(
        change=float(called.change[i]),
        error=float(called.error[i]),
        column=int(places[since]),
        good=int(places[since - 1]) if since else None,
        before=tuple(known[:since] if early else known[:ANCHOR]),
        after=tuple(known[since:] if early else known[-RECENT:]),
        early=early,
    )


def _shift(seen: _Seen, subject: Subject, metric: Metric, history: UnitHistory, policy: Policy) -> Shift:
    half = 1.96 * seen.error
    change, low, high = (math.expm1(d) for d in (seen.change, seen.change - half, seen.change + half))
    was, now = (figure(metric, math.exp(float(np.median(part)))) for part in (seen.before, seen.after))
    interval = f"95 % interval {percent(low, signed=True)} to {percent(high, signed=True)}"
    since = history.runs[seen.column].run_id
    words = (
        f"{now} since run {since} against {was} in the {runs_words(len(seen.before))} before, "
        f"seen from {EARLY_FROM} runs: a step too early to be judged that night"
        if seen.early
        else f"{now} in the last {RECENT} runs against {was} in the oldest {ANCHOR}: a drift"
    )
    verdict = Verdict(
        status=VerdictStatus.REGRESSED if change > 0 else VerdictStatus.IMPROVED,
        code=ReasonCode.SHIFTED,
        sentence=f"{words}, {in_words(metric, change)} ({interval}).",
        change=change,
        low=low,
        high=high,
        baseline=f"the {'first' if seen.early else 'oldest'} {runs_words(len(seen.before))}",
        baseline_n=len(seen.before),
        n=len(seen.after),
        p_value=float(2 * ndtr(-abs(seen.change) / seen.error)),
        policy=policy.name,
        policy_version=policy.version,
    )
    good = None if seen.good is None else history.runs[seen.good].run_id
    said = SubjectVerdict(subject=subject, metric=metric, verdict=verdict, tier=Tier.ONLINE, baseline_run_id=good)
    return Shift(said=said, column=seen.column)
