"""What a rule of a gate says of the cases of a run.

A change is judged with its interval, on logarithms. With x tonight's value and h the n newest runs of the baseline:

    d    = x - the lower of median(h) and median(first 10 runs of the baseline)
    half = max(t s sqrt(1 + 1/n), half-width of tonight's own ratio over its processes)

The first runs are there for drifts, whose every part is within the limit. For a drift's sake too s, below 8 runs their
standard deviation, is from 8 runs on the larger of 1.4826 MAD of the differences of neighbours, over sqrt(2), and
1.4826 MAD around the line through the medians of the first and the last third. t is the 97.5 % quantile of Student's
distribution with n - 1 degrees of freedom, of a MAD 0.37 (n - 1): it uses 37 % of the information of normal values. A
rule

- fails a case whose whole interval is beyond the limit, if its p (one-sided, of a change no larger than the limit) is a
  discovery among the rule's cases of the run (Benjamini and Hochberg 1995), and if this is nothing that the series
  does now and then: not on one of two levels that it had, nor as far away as more than 5 % of its runs were. p is never
  below the share of all the cases' earlier values that were as many standard deviations out, for the k-th run in a row
  the k-th power of it: where now and then a run is throttled, one night proves nothing, and two do;
- passes one within the limit, unless the interval is wider than the limit and reaches beyond it;
- is undecided else.

A paired ratio beyond its limit has a witness: the ratio of the case to the naive arm. Where that is within the limit
the optimized arm moved, and not the case's own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from detection.discovery import benjamini_hochberg
from detection.gate import LEAST_SAMPLES, Against, Answer, GateCase, GateLine, GateMetric, GateRule
from detection.modes import only_shares_moved
from detection.old_reference import ANCHOR
from detection.stats import MAD_TO_SD
from detection.verdict import percent

Floats = NDArray[np.float64]

ROBUST_FROM = 8
"""Runs from which on the spread is a MAD."""
MAD_EFFICIENCY = 0.37
"""Share of the information of normal values that a MAD uses (Rousseeuw and Croux 1993)."""
SEEN_BEFORE = 0.05
"""Share of earlier runs, tonight counted among them, from which on a far value is nothing new."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of logarithms, worse when larger, with its 95 % interval."""

    size: float
    half_width: float
    limit: float
    p: float = 0.0
    """One-sided, of a change no larger than the limit."""
    as_far: int = 0
    """Earlier runs that were beyond the limit."""
    of: int = 0
    """Earlier runs."""
    words: str = ""
    """What it is held against."""
    sd: float = 0.0
    """Of one run."""
    deviations: tuple[float, ...] = ()
    """Of the earlier runs from their median."""

    def scores(self) -> Floats:
        """The deviations, in standard deviations; without any spread infinite where there is one."""
        far = np.array(self.deviations, dtype=float)
        return far / self.sd if self.sd > 0 else np.where(far > 0, np.inf, 0.0)


def check_rule(rule: GateRule, cases: Sequence[GateCase], *, false_discovery_rate: float = 0.05) -> list[GateLine]:
    """The rule's answer for every case that it concerns."""
    asked = [case for case in cases if not rule.phases or case.phase in rule.phases]
    changes = [_measured(rule, case) for case in asked]
    found = benjamini_hochberg(_p_values(asked, changes), false_discovery_rate)
    return [
        change if isinstance(change, GateLine) else _judged(rule, case, change, bool(discovery))
        for case, change, discovery in zip(asked, changes, found, strict=True)
    ]


def _p_values(cases: Sequence[GateCase], changes: Sequence[Change | GateLine]) -> Floats:
    """Of each change, where earlier values of the cases were as far out never below their share; else NaN.

    A value that is beyond the limit for the k-th run in a row has the k-th power of that share.
    """
    p = np.array([change.p if isinstance(change, Change) else math.nan for change in changes])
    held = [change for change in changes if isinstance(change, Change) and change.deviations]
    beyond = [i for i, c in enumerate(changes) if isinstance(c, Change) and c.deviations and c.size > c.limit]
    if beyond:
        scores = np.sort(np.concatenate([change.scores() for change in held]))
        for i in beyond:
            change = changes[i]
            assert isinstance(change, Change)
            score = change.size / change.sd if change.sd > 0 else math.inf
            as_far = scores.size - int(np.searchsorted(scores, score, side="left"))
            if as_far:
                p[i] = max(p[i], ((as_far + 1) / (scores.size + 1)) ** (cases[i].held + 1))
    return p


def _line(rule: GateRule, case: GateCase, answer: Answer, sentence: str, *, beyond: bool = False) -> GateLine:
    return GateLine(
        rule=rule.name,
        case_id=case.case_id,
        answer=answer,
        sentence=f"{case.case_id}: {sentence}",
        subject_id=case.subject_id,
        beyond=beyond,
    )


def _measured(rule: GateRule, case: GateCase) -> Change | GateLine:
    """The case's change, or the line that needs none."""

    def undecided(sentence: str) -> GateLine:
        return _line(rule, case, Answer.UNDECIDED, sentence)

    metric = rule.metric.value
    needed = max(rule.minimum_samples, LEAST_SAMPLES.get(rule.metric, 0))
    if not math.isfinite(case.value) and not 0 < case.samples < needed:
        return undecided(f"has no {metric} in this run{f' ({case.missing})' if case.missing else ''}.")
    if case.samples < needed:
        return undecided(f"not enough samples, {metric} of {case.samples}; {needed} are needed.")
    paired = rule.metric is GateMetric.LATENCY_RATIO
    if paired and case.processes < rule.minimum_processes:
        return undecided(
            f"not enough processes, the ratio is of {case.processes}; {rule.minimum_processes} are needed."
        )
    if rule.against is Against.LIMIT and not paired:
        answer = Answer.PASSED if case.value <= rule.at_most else Answer.FAILED
        return _line(rule, case, answer, f"{metric} is {case.value:.4g}, at most {rule.at_most:g}.")
    if case.value == 0 and rule.metric in (GateMetric.ERROR, GateMetric.PEAK_MEMORY):
        return _line(rule, case, Answer.PASSED, f"{metric} is 0.")
    if case.value <= 0:
        return undecided(f"no change can be said of a {metric} of {case.value:g}.")
    if rule.against is not Against.HISTORY:
        before = 1.0 if rule.against is Against.LIMIT else case.optimized
        return (
            _within_run(rule, case, before) if before > 0 else undecided(f"no ratio of {case.value:g} to {before:g}.")
        )
    known = [v for v in case.history if math.isfinite(v)]
    past = [v for v in known if v > 0]
    needed = max(rule.minimum_runs, 2)
    if len(past) < needed <= len(known):
        return undecided(f"{metric} was 0 in {len(known) - len(past)} of {len(known)} earlier runs: no ratio to that.")
    if len(past) < needed:
        return undecided(f"not enough history, {len(past)} runs; {needed} are needed.")
    own = _own_half_width(case) if paired else 0.0
    return change_against(rule, case.value, past, own, case.first)


def _within_run(rule: GateRule, case: GateCase, before: float) -> Change:
    """Against a value of the same run: of a paired ratio with the interval over its processes, else without one."""
    half = _own_half_width(case) if rule.metric is GateMetric.LATENCY_RATIO else 0.0
    size, limit = _sign(rule) * math.log(case.value / before), limit_of(rule)
    freedom = max(case.processes - 1.0, 1.0)
    p = _p_value(size - limit, half / _t(freedom), freedom)
    return Change(size=size, half_width=half, limit=limit, p=p, words="the optimized arm")


def change_against(
    rule: GateRule, value: float, past: Sequence[float], own_half_width: float = 0.0, first: Sequence[float] = ()
) -> Change:
    """The change of a positive value against at least two positive earlier ones, oldest first.

    `first` are the oldest runs of the baseline, where they are not among them.
    """
    sign = _sign(rule)
    logs = [sign * math.log(v) for v in past]  # larger is worse
    n, newest = len(logs), _median(logs)
    oldest = _oldest(rule, logs, first)
    if n >= ROBUST_FROM:
        sd, freedom = _robust_sd(logs), MAD_EFFICIENCY * (n - 1)
    else:
        mean = sum(logs) / n
        sd, freedom = math.sqrt(sum((x - mean) ** 2 for x in logs) / (n - 1)), n - 1.0
    before = min(newest, oldest)
    error, size = sd * math.sqrt(1 + 1 / n), sign * math.log(value) - before
    limit = limit_of(rule, math.exp(sign * before))
    return Change(
        size=size,
        half_width=max(_t(freedom) * error, own_half_width),
        limit=limit,
        p=_p_value(size - limit, error, freedom),
        as_far=sum(x - newest > limit for x in logs) if size > limit else 0,
        of=n,
        words=f"the first {ANCHOR} runs of its baseline" if oldest < newest else f"{n} runs",
        sd=sd,
        deviations=tuple(x - newest for x in logs),
    )


def is_within(rule: GateRule, case: GateCase) -> bool:
    """Whether a value held against history is itself within the limit, or there is nothing to hold it against."""
    past = [v for v in case.history if v > 0]
    if not case.value > 0 or len(past) < max(rule.minimum_runs, 2):
        return True
    logs = [_sign(rule) * math.log(v) for v in past]
    before = min(_median(logs), _oldest(rule, logs, case.first))
    return _sign(rule) * math.log(case.value) - before <= limit_of(rule, math.exp(_sign(rule) * before))


def _oldest(rule: GateRule, logs: Sequence[float], first: Sequence[float]) -> float:
    """The level of the first runs; infinite where there are too few later ones to tell them from."""
    oldest = [_sign(rule) * math.log(v) for v in first if v > 0] or (logs[:ANCHOR] if len(logs) >= 2 * ANCHOR else [])
    return _median(oldest) if oldest else math.inf


def _robust_sd(logs: Sequence[float]) -> float:
    """Of one run, in which neither a drift nor a step weighs much."""
    n, third = len(logs), len(logs) // 3
    steps = [b - a for a, b in pairwise(logs)]
    middle = _median(steps)
    of_steps = _median([abs(step - middle) for step in steps]) / math.sqrt(2)
    start, end = _median(logs[:third]), _median(logs[-third:])
    slope = (end - start) / (n - third)
    rest = [x - slope * i for i, x in enumerate(logs)]
    centre = _median(rest)
    return MAD_TO_SD * max(of_steps, _median([abs(x - centre) for x in rest]))


def _p_value(beyond: float, error: float, freedom: float) -> float:
    """Of a true value no larger than the limit, where the seen one lies `beyond` it."""
    if error > 0:
        return float(stdtr(freedom, -beyond / error))
    return 0.0 if beyond > 0 else 1.0


def _judged(rule: GateRule, case: GateCase, change: Change, discovery: bool) -> GateLine:
    limit, words = change.limit, _words(rule, change)

    def said(answer: Answer, more: str = "") -> GateLine:
        sentence = f"{words}; {more}." if more else f"{words}."
        return _line(rule, case, answer, sentence, beyond=change.size > limit)

    if change.size <= limit:
        if change.half_width <= limit or change.size + change.half_width <= limit:
            return said(Answer.PASSED)
        return said(Answer.UNDECIDED, "the interval is wider than the limit")
    if change.size - change.half_width <= limit:
        return said(Answer.UNDECIDED, "the interval holds the limit")
    if change.as_far and (change.as_far + 1) / (change.of + 1) > SEEN_BEFORE:
        return said(Answer.UNDECIDED, f"{change.as_far} of the earlier runs were as far away")
    earlier = [math.log(v) for v in (*case.first, *case.history) if v > 0]
    if rule.against is Against.HISTORY and only_shares_moved(earlier, [math.log(case.value)], limit) is not None:
        return said(Answer.UNDECIDED, "it has two levels, and this is one of them")
    if not discovery:
        return said(Answer.UNDECIDED, "such values come among its cases now and then, the next runs decide")
    witness = _witness(rule, case)
    if witness is not None and witness.size <= limit:
        moved = f"but {percent(math.expm1(witness.size), signed=True)} against the naive arm"
        if witness.half_width <= limit or witness.size + witness.half_width <= limit:
            return said(Answer.PASSED, f"{moved}: the optimized arm moved")
        return said(Answer.UNDECIDED, f"{moved}: perhaps the optimized arm moved")
    return said(Answer.FAILED, f"first beyond it {case.held} runs before" if case.held else "")


def _witness(rule: GateRule, case: GateCase) -> Change | None:
    """The change of the case over the naive arm, both paired with the optimized one; None where there is none."""
    if rule.metric is not GateMetric.LATENCY_RATIO or rule.against is not Against.HISTORY or not case.witness > 0:
        return None
    past = _over(case.history, case.witness_history)
    if len(past) < max(rule.minimum_runs, 2):
        return None
    first = _over(case.first, case.witness_first)
    return change_against(rule, case.value / case.witness, past, _own_half_width(case), first)


def _over(values: Sequence[float], witnesses: Sequence[float]) -> list[float]:
    return [v / w for v, w in zip(values, witnesses, strict=True) if v > 0 and w > 0]


def limit_of(rule: GateRule, before: float = math.inf) -> float:
    """The limit of a change from `before`, of logarithms; a paired ratio is allowed a value: a change from 1."""
    if rule.metric is GateMetric.THROUGHPUT:
        return -math.log1p(-rule.at_most) if rule.at_most < 1 else math.inf
    if rule.against is not Against.LIMIT:
        return math.log1p(max(rule.at_most, rule.at_least / before))
    return math.log(rule.at_most) if rule.at_most > 0 else -math.inf


def _words(rule: GateRule, change: Change) -> str:
    ends = (change.size - change.half_width, change.size + change.half_width)
    if rule.against is Against.LIMIT:
        interval = f" (95 % interval {math.exp(ends[0]):.4g} to {math.exp(ends[1]):.4g})" if change.half_width else ""
        return f"{rule.metric.value} is {math.exp(change.size):.4g}{interval}, at most {rule.at_most:g}"
    sign = _sign(rule)
    low, high = sorted(math.expm1(sign * end) for end in ends)
    interval = f" (95 % interval {percent(low, signed=True)} to {percent(high, signed=True)})"
    said = percent(math.expm1(sign * change.size), signed=True)
    most = f"at most {percent(rule.at_most)} less" if sign < 0 else f"at most {percent(rule.at_most, signed=True)}"
    if rule.at_least:
        most += f" or {rule.at_least:,.0f}"
    return f"{rule.metric.value} {said}{interval if change.half_width else ''} against {change.words}, {most}"


def _sign(rule: GateRule) -> int:
    """-1 where less is worse."""
    return -1 if rule.metric is GateMetric.THROUGHPUT else 1


def _own_half_width(case: GateCase) -> float:
    """Of logarithms; 0 where the run has no interval of its own."""
    return math.log(case.high / case.low) / 2 if case.high >= case.low > 0 else 0.0


def _median(values: Sequence[float]) -> float:
    n, ordered = len(values), sorted(values)
    return (ordered[(n - 1) // 2] + ordered[n // 2]) / 2


@lru_cache(maxsize=256)
def _t(freedom: float) -> float:
    return float(stdtrit(freedom, 0.975))
