"""From trials to figures: errors with their intervals, time to a given error, coverage with planted process effects."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student_t

from benchmarks.measurement_trials import Estimate, Trial

SEED = 20_261_130
RESAMPLES = 2_000
STATISTICS = ("median", "mean", "minimum")
POOLS = (2, 3, 5, 10)
"""Trials in a row that are averaged: what a method would say after so many times the time of one."""
PLANTED_SD = (0.0, 0.01, 0.02, 0.04)
DRAWS = 20
"""Sets of planted process effects for each trial."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A row of the tables: a method by one of its clocks and one of its statistics."""

    method: str
    clock: str
    statistic: str

    def whole(self, trial: Trial) -> Estimate:
        """What it says after all of its time."""
        return next(e for e in trial.estimates if e.share == 1 and e.clock == self.clock)

    def log_ratio(self, estimate: Estimate) -> float:
        return float(getattr(estimate, self.statistic))


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A figure with the 95 % interval of its bootstrap."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRow:
    """|log ratio| of one contender in one cell, where the truth is 0; `against` is p90 over the reference's p90."""

    p50: float
    p90: Spread
    against: Spread
    trials: int


def cell(trials: Sequence[Trial], method: str, operator: str, *, loaded: bool | None) -> list[Trial]:
    """The trials of a method on an operator with our load or without, or (None) both, in the order they were made."""
    found = [t for t in trials if (t.method, t.operator) == (method, operator) and loaded in (None, t.loaded)]
    return sorted(found, key=lambda t: (t.block, t.trial))


def best_statistic(trials: Sequence[Trial], method: str, clock: str) -> Contender:
    """A peer by the statistic that served it best: the least geometric mean, over all cells, of its p90 error."""
    cells = sorted({(t.operator, t.loaded) for t in trials})

    def badness(statistic: str) -> float:
        contender = Contender(method=method, clock=clock, statistic=statistic)
        p90 = [
            np.quantile(_errors(contender, cell(trials, method, operator, loaded=loaded)), 0.9)
            for operator, loaded in cells
        ]
        return float(np.mean(np.log(np.maximum(p90, 1e-9))))

    return Contender(method=method, clock=clock, statistic=min(STATISTICS, key=badness))


def _errors(contender: Contender, trials: Sequence[Trial]) -> Floats:
    return np.array([abs(contender.log_ratio(contender.whole(t))) for t in trials])


def error_row(
    trials: Sequence[Trial], contender: Contender, reference: Contender, operator: str, *, loaded: bool | None
) -> ErrorRow:
    """Quantiles and their intervals by a bootstrap over blocks: trials of one block share the machine's weather."""
    mine, theirs = (cell(trials, c.method, operator, loaded=loaded) for c in (contender, reference))
    by_block = _group(mine, _errors(contender, mine))
    reference_by_block = _group(theirs, _errors(reference, theirs))
    blocks = sorted(set(by_block) & set(reference_by_block))
    rng = np.random.default_rng(SEED)
    drawn = rng.choice(len(blocks), (RESAMPLES, len(blocks)))
    p90s, others = (_resampled_p90([group[b] for b in blocks], drawn) for group in (by_block, reference_by_block))
    errors, other_errors = (np.concatenate(list(group.values())) for group in (by_block, reference_by_block))
    p90 = float(np.quantile(errors, 0.9))
    return ErrorRow(
        p50=float(np.quantile(errors, 0.5)),
        p90=_spread(p90, p90s),
        against=_spread(p90 / float(np.quantile(other_errors, 0.9)), p90s / others),
        trials=len(errors),
    )


def _group(trials: Sequence[Trial], values: Floats) -> dict[int, Floats]:
    blocks = np.array([t.block for t in trials])
    return {int(block): values[blocks == block] for block in np.unique(blocks)}


def _resampled_p90(blocks: list[Floats], drawn: NDArray[np.int64]) -> Floats:
    """p90 over the blocks of each draw; blocks are of one size but for a stopped run's."""
    size = min(len(block) for block in blocks)
    table = np.stack([block[:size] for block in blocks])  # [blocks, trials]
    return np.asarray(np.quantile(table[drawn].reshape(len(drawn), -1), 0.9, axis=1))


def _spread(value: float, resampled: Floats) -> Spread:
    low, high = np.quantile(resampled, (0.025, 0.975))
    return Spread(value=value, low=float(low), high=float(high))


def seconds_to_error(
    trials: Sequence[Trial], contender: Contender, operator: str, *, loaded: bool, error: float
) -> tuple[float, bool]:
    """The least wall seconds after which 90 % of the ratios are within `error` of the truth; and whether they ever are.

    Shorter times than a trial's are its shares, longer ones the mean of trials in a row. For methods with one process
    that mean has the arms in alternating blocks, which is more than the method does: it favours them.
    """
    inside = cell(trials, contender.method, operator, loaded=loaded)
    seconds = float(np.mean([t.seconds for t in inside]))
    for share in sorted({e.share for t in inside for e in t.estimates}):
        found = [e for t in inside for e in t.estimates if e.share == share and e.clock == contender.clock]
        if len(found) < len(inside):
            continue  # too short for this method to say anything
        if np.quantile([abs(contender.log_ratio(e)) for e in found], 0.9) <= error:
            return share * seconds, True
    values = np.array([contender.log_ratio(contender.whole(t)) for t in inside])
    for pool in POOLS:
        groups = values[: len(values) // pool * pool].reshape(-1, pool).mean(axis=1)
        if groups.size and np.quantile(np.abs(groups), 0.9) <= error:
            return pool * seconds, True
    return POOLS[-1] * seconds, False


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Of 95 % intervals: the share that holds the truth, their median half-width, and the one that would have held it
    in 95 % of the trials (an efficiency that asks for no formula of an interval)."""

    covered: float
    half_width: float
    needed: float


def coverage(trials: Sequence[Trial], contender: Contender, planted_sd: float) -> Coverage:
    """With an effect N(0, planted_sd) added to the log time of every arm in every process, by which the truth stays.

    A process lays out its memory once, so that both arms of one process have two such effects and no more, however many
    samples they have. The noise is the recorded one.
    """
    estimates = [contender.whole(t) for t in trials if t.method == contender.method]
    draws = DRAWS if planted_sd else 1
    estimates = [e for e in estimates for _ in range(draws)]
    base, arm = (
        np.array([e.base for e in estimates]),
        np.array([e.arm for e in estimates]),
    )  # [trials x draws, processes]
    rng = np.random.default_rng(SEED)
    base_effect, arm_effect = (planted_sd * rng.standard_normal(x.shape) for x in (base, arm))
    said = np.array([contender.log_ratio(e) for e in estimates])
    errors = said + arm_effect.mean(axis=1) - base_effect.mean(axis=1)
    base, arm = base + base_effect, arm + arm_effect
    centre = arm.mean(axis=1) - base.mean(axis=1) if arm.shape[1] > 1 else errors
    half_width = _half_widths(estimates, base, arm)
    return Coverage(
        covered=float(np.mean(np.abs(centre) <= half_width)),
        half_width=float(np.median(half_width)),
        needed=float(np.quantile(np.abs(errors), 0.95)),
    )


def _half_widths(estimates: Sequence[Estimate], base: Floats, arm: Floats) -> Floats:
    """Over processes where there are several (paired, or Welch's), else over samples as if they were independent."""
    n = arm.shape[1]
    if estimates[0].paired:
        se, df = (arm - base).std(axis=1, ddof=1) / math.sqrt(n), np.full(len(arm), n - 1.0)
    elif n > 1:
        u, v = base.var(axis=1, ddof=1) / n, arm.var(axis=1, ddof=1) / n
        se, df = np.sqrt(u + v), (u + v) ** 2 / (u * u + v * v) * (n - 1)
    else:
        se = np.array([math.inf if e.within_se is None else e.within_se for e in estimates])
        df = np.array([1.0 if e.within_df is None else e.within_df for e in estimates])
    return np.asarray(student_t.ppf(0.975, df) * se, dtype=float)


def mean_of(trials: Sequence[Trial], method: str, value: Callable[[Trial], float]) -> float:
    return float(np.mean([value(t) for t in trials if t.method == method]))
