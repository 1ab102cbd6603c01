"""Tonight against history: one metric, all series of one run, judged at once.

The formulas stand in `night_evidence`, the decision about one series in `night_rows`, its words in `night_words`. Here
is what only the night as a whole can say: whether its run moved as a whole, how widely it scatters, and which of many
unlikely values are discoveries.

A change is called when the 95 % interval lies wholly beyond the floor *and* its p-value stands among all series of the
night at the stated false discovery rate: both conditions, as Criterion.rs does. A value beyond the floor that is merely
unlikely is a suspicion: a confirm run decides. All numbers come from the policy; docs/method-judging.md explains each.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from detection.common_mode import move_p
from detection.discovery import benjamini_hochberg
from detection.night_data import CommonShift, Floats, Night, NightJudgement
from detection.night_evidence import MAD_EFFICIENCY, RECENT, evidence_of, recent_change
from detection.night_rows import Rows
from detection.noise_pool import NoisePool
from detection.policy import Policy
from detection.stats import MAD_TO_SD
from detection.verdict import UNPAIRED, in_words, percent

__all__ = ["RECENT", "CommonShift", "Night", "NightJudgement", "judge_night", "noise_of"]

LEAST_TOLD = 2
"""Runs before an open finding that are enough to say whether it stands."""


def judge_night(night: Night, policy: Policy) -> NightJudgement:
    """Verdicts of all series of a night, one metric. Same input, same verdicts."""
    floor = math.log1p(policy.floor(night.metric, night.device_kind))
    evidence = evidence_of(replace(night, siblings=None), policy)
    needed = policy.minimum_history(night.metric, night.device_kind)
    enough = evidence.runs >= (needed if night.told is None else np.where(night.told, min(needed, LEAST_TOLD), needed))
    usable = np.isfinite(evidence.change) & enough
    noise = evidence.noise
    shift = _common_shift(night, evidence.change, usable, floor, policy)
    if night.siblings is not None and (shift is None or shift.usual):
        learnt = evidence_of(night, policy)
        if learnt.common.any():
            evidence, shift = learnt, None
    change = evidence.change - (math.log1p(shift.change) if shift else 0.0)
    statistic = np.where(usable, change / evidence.error, np.nan)
    scatter = max(night.known_scatter, _night_scatter(statistic, night.control, policy.night.scatter_from))
    p = 2 * stdtr(evidence.df, -np.abs(statistic) / scatter)
    discovered = (
        benjamini_hochberg(p, policy.night.false_discovery_rate)
        if night.known_discovery_p is None
        else p <= night.known_discovery_p
    )
    recent, together = recent_change(evidence, change, usable, scatter, floor, policy.night.recent_p)
    half = evidence.quantile * evidence.error * scatter
    rows = Rows(
        together=together,
        recent=recent,
        night=night,
        policy=policy,
        floor=floor,
        evidence=evidence,
        change=change,
        half=half,
        p=p,
        zero_before=_mostly_zero(night.history),
    )
    verdicts = tuple(
        rows.verdict(i, discovered=bool(discovered[i]), usable=bool(usable[i]), shift=shift)
        for i in range(len(night.subjects))
    )
    one_more = policy.night.false_discovery_rate * (int(discovered.sum()) + 1) / (int(usable.sum()) + 1)
    return NightJudgement(verdicts=verdicts, shift=shift, scatter=scatter, discovery_p=one_more, noise=noise)


def noise_of(night: Night, policy: Policy) -> NoisePool:
    """What the series of a night say together of the noise that was believed of them."""
    return evidence_of(replace(night, siblings=None), policy).noise


def _common_shift(
    night: Night, change: Floats, usable: NDArray[np.bool_], floor: float, policy: Policy
) -> CommonShift | None:
    """The shift of a whole run. Not asked of paired ratios: the host is the same on both sides of them.

    A host that wanders from run to run is no news: how far its runs move as a rule is known from their siblings.
    """
    rules = policy.common_mode
    moved = change[usable]
    if night.metric not in UNPAIRED or moved.size < rules.minimum_cases:
        return None
    median = float(np.median(moved))
    share = float(np.mean(np.sign(median) * moved > floor / 2))
    if share < rules.share or abs(median) < rules.shift_floors * floor:
        return None
    usual = night.siblings is not None and move_p(night.siblings, usable) > rules.shift_p
    relative = math.expm1(median)
    sentence = (
        f"{percent(share)} of {moved.size} series of this run moved the same way, "
        f"{in_words(night.metric, relative)} in the median: the host or its environment moved, not the kernels."
    )
    return CommonShift(
        metric=night.metric, change=relative, share=share, n=int(moved.size), sentence=sentence, usual=usual
    )


def _night_scatter(statistic: Floats, control: NDArray[np.bool_], minimum: int) -> float:
    """How many times wider than expected the statistics of this night scatter, at least 1.

    The median of |t| over its value for a normal variable, from the series that nobody works on where there are
    enough of them, else from all, centred or not, whichever is narrower (the idea of genomic control, Devlin and
    Roeder 1999, doi 10.1111/j.0006-341X.1999.00997.x). A loaded machine widens every interval of its night instead of
    raising alarms. Two standard errors of that estimate are taken off: what so few series show by chance, or because
    some of them did change, is no property of the night.
    """
    controls = statistic[control & np.isfinite(statistic)]
    if controls.size >= minimum:
        return _beyond_chance(MAD_TO_SD * float(np.median(np.abs(controls))), controls.size)
    known = statistic[np.isfinite(statistic)]
    if known.size < minimum:
        return 1.0
    plain = float(np.median(np.abs(known)))
    centred = float(np.median(np.abs(known - np.median(known))))
    return _beyond_chance(MAD_TO_SD * min(plain, centred), known.size)


def _beyond_chance(scatter: float, n: int) -> float:
    """A scatter read from a MAD of n values, less two of its standard errors (sqrt(1 / (2 x 0.37 n)) of it)."""
    return max(1.0, scatter / (1 + 2 / math.sqrt(2 * MAD_EFFICIENCY * n)))


def _mostly_zero(history: Floats) -> NDArray[np.bool_]:
    """Rows whose median is zero: more than half of their known values, none of which is negative."""
    known = np.isfinite(history).sum(axis=1)
    return np.asarray((known > 0) & (2 * (history == 0).sum(axis=1) > known), dtype=bool)
