"""What a series does because its whole run does: a coefficient learnt from its siblings, the other series of its runs.

A time of one arm alone has the host in it, and the host is in every series of the run. With y_r what a series deviated
by in its earlier run r, and m_r what its siblings did in that run (the median of their deviations), on logarithms:

    y_r = c m_r + e_r              c by Huber's M-estimate (k = 1.345; Huber 1964, doi 10.1214/aoms/1177703732)
    q^2 = B var(e) / sum w m^2     its error; B = 1 + 2 sum_l rho_l(e) rho_l(m): wandering series look related
                                   (Bartlett 1935)
    c'  = c (1 - z^2 q^2 / c^2)    and nothing below zero, nothing above one

c' is the coefficient shrunk to the prior that siblings are unrelated (the nonnegative garrote of Breiman 1995, doi
10.1080/00401706.1995.10484371, with the policy's z): c below z errors is zero, c far above them is itself. So a short
history, and siblings that have nothing to do with the series, take nothing away. Tonight loses c' m, the earlier runs
lose theirs, and what is left of the scatter is the scatter; q m is added to tonight's error.

No series explains itself: its siblings are the series of other cases. The median does not follow a part of them that
changed, up to half; and where tonight contradicts what was learnt in too many series, nothing is taken from any.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from detection.discovery import long_run_profile, row_medians
from detection.policy import CommonModeRules
from detection.stats import MAD_TO_SD

Floats = NDArray[np.float64]

HUBER_K: Final = 1.345
"""Standard deviations beyond which a run counts less; 95 % efficient for normal noise."""
ROUNDS: Final = 8
"""Of reweighting; the coefficients move by less than a hundredth in the last."""
LEAST_DEVIATIONS: Final = 3
"""Earlier runs of a sibling without which its deviation says nothing."""
LEAST_SCATTER: Final = 8
"""Runs from which on a scatter is robust enough to tell what is odd in them."""
OWN_WAY: Final = 2.5
"""Robust standard deviations from its siblings beyond which a series goes its own way in a run, and is nobody's."""
CONTRADICTS: Final = 2.5
"""Robust standard deviations within which a series stands still; and beyond which it is, once its share of the run's
move is taken away."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Siblings:
    """What the other series of each run did: medians of the logarithms of their deviations. NaN: too few of them."""

    history: Floats
    """[S, R] in the earlier runs, each beside the value that the series had in that run."""
    tonight: Floats
    """[S]"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CommonMode:
    """What goes with the siblings, per series: in logarithms, 0 where nothing does."""

    coefficient: Floats
    history: Floats
    """[S, R] to be taken from the earlier values"""
    tonight: Floats
    """[S] and from tonight's."""
    error: Floats
    """[S] standard error of the latter."""
    left: Floats
    """[S] share of the variance that is left of the earlier runs."""


def sibling_moves(
    values: Floats,
    cases: NDArray[np.int64],
    control: NDArray[np.bool_],
    counted: NDArray[np.bool_],
    *,
    least: int,
    least_controls: int,
) -> Floats:
    """[S, R + 1]: in each run, for each series, the median deviation of the series of other cases.

    `values` is [series, runs] in natural units, one column a run, tonight the last; NaN where there is none. A
    deviation is that of a logarithm from the series' median over the earlier runs. Series whose `counted` is False are
    nobody's siblings tonight; neither is one, in any run, that went its own way there. Series that nobody works on
    (`control`) speak alone where tonight has `least_controls` of them. NaN where a run has fewer than `least` siblings.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        x = np.where(values > 0, np.log(values), np.nan)
    known = np.isfinite(x[:, :-1]).sum(axis=1) >= LEAST_DEVIATIONS
    deviation = np.where(known[:, None], x - row_medians(x[:, :-1])[:, None], np.nan)
    deviation[~counted, -1] = np.nan
    alone = int((control & np.isfinite(deviation[:, -1])).sum()) >= least_controls
    if alone:
        deviation[~control] = np.nan

    moves = _medians_of_others(deviation, cases, least)
    own = deviation - moves
    many = np.isfinite(own[:, :-1]).sum(axis=1) >= LEAST_SCATTER
    usual = np.where(many, MAD_TO_SD * row_medians(np.abs(own[:, :-1])), np.inf)
    deviation[np.abs(own) > OWN_WAY * usual[:, None]] = np.nan
    return _medians_of_others(deviation, cases, least)


def _medians_of_others(x: Floats, groups: NDArray[np.int64], least: int) -> Floats:
    """For each row and column the median of the rows of other groups; NaN where fewer than `least` have a value.

    Each column is sorted once; the place of the median among the others is found by skipping the places of the own
    group.
    """
    rows = x.shape[0]
    order = np.argsort(x, axis=0, kind="stable")  # NaN goes to the end
    ordered = np.take_along_axis(x, order, axis=0)
    places = np.empty_like(order)
    np.put_along_axis(places, order, np.broadcast_to(np.arange(rows)[:, None], x.shape), axis=0)
    places[~np.isfinite(x)] = rows
    number = np.isfinite(x).sum(axis=0)
    median = np.full(x.shape, np.nan)
    by_group = np.argsort(groups, kind="stable")
    _, starts, sizes = np.unique(groups[by_group], return_index=True, return_counts=True)
    for size in np.unique(sizes).tolist():
        members = by_group[starts[sizes == size][:, None] + np.arange(size)]  # [groups of this size, size]
        skipped = np.sort(places[members], axis=1)
        others = number - (skipped < rows).sum(axis=1)
        both = np.zeros(others.shape)
        for place in (np.maximum(others - 1, 0) // 2, others // 2):
            at = place.copy()
            for k in range(size):
                at += skipped[:, k] <= at
            both += np.take_along_axis(ordered, np.minimum(at, rows - 1), axis=0)
        median[members.ravel()] = np.repeat(np.where(others >= least, both / 2, np.nan), size, axis=0)
    return median


def learnt_common_mode(history: Floats, tonight: Floats, siblings: Siblings, rules: CommonModeRules) -> CommonMode:
    """What of `history` [S, R] and `tonight` [S], both logarithms, goes with the siblings."""
    known = np.isfinite(history) & np.isfinite(siblings.history)
    y = _centred(history, known)
    m_centre = row_medians(np.where(known, siblings.history, np.nan))
    m = np.where(known, siblings.history - m_centre[:, None], 0.0)
    raw, weight, scale = _huber(y, m, known)
    spread = (weight * m * m).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        alike = 1 + 2 * (_profile(y - raw[:, None] * m, known) * _profile(m, known)).sum(axis=1)
        error = np.sqrt(alike * scale**2 / spread)
        shrunk = np.where(raw > 0, raw - (rules.proof * error) ** 2 / raw, 0.0)
    learns = (known.sum(axis=1) >= rules.learn_from) & (spread > 0) & np.isfinite(siblings.tonight)
    coefficient = np.clip(np.where(learns, np.nan_to_num(shrunk), 0.0), 0.0, 1.0)
    move = np.where(coefficient > 0, siblings.tonight - m_centre, 0.0)
    deviation = tonight - row_medians(np.where(known, history, np.nan))
    if _contradicted(deviation, coefficient * move, scale, coefficient > 0, rules):
        coefficient, move = np.zeros_like(coefficient), np.zeros_like(move)
    before = (weight * y * y).sum(axis=1)
    after = (weight * (y - coefficient[:, None] * m) ** 2).sum(axis=1)
    follows = coefficient > 0
    return CommonMode(
        coefficient=coefficient,
        history=np.where(follows[:, None], coefficient[:, None] * m, 0.0),
        tonight=coefficient * move,
        error=np.where(follows, np.nan_to_num(error) * np.abs(move), 0.0),
        left=np.where(follows & (before > 0), after / np.where(before > 0, before, 1.0), 1.0),
    )


def move_p(siblings: Siblings, asked: NDArray[np.bool_]) -> float:
    """How unlikely tonight's move of the run is among its earlier moves: two-sided p, 0 where they are not known.

    Student's t of one more value, t = (m - mean) / (s sqrt(1 + 1/n)), with the earlier ones held to `OWN_WAY` robust sd
    where there are enough; the median over the asked series, which have nearly the same siblings.
    """
    n = np.isfinite(siblings.history).sum(axis=1)
    rows = asked & (n >= LEAST_DEVIATIONS) & np.isfinite(siblings.tonight)
    if not rows.any():
        return 0.0
    history, n = siblings.history[rows], n[rows]
    centre = row_medians(history)[:, None]
    usual = MAD_TO_SD * row_medians(np.abs(history - centre))[:, None]
    reach = np.where((n >= LEAST_SCATTER)[:, None], OWN_WAY * usual, np.inf)
    held = np.clip(history, centre - reach, centre + reach)
    mean = np.nansum(held, axis=1) / n
    error = np.sqrt(np.nansum((held - mean[:, None]) ** 2, axis=1) / (n - 1) * (1 + 1 / n))
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.abs(siblings.tonight[rows] - mean) / error
    return float(np.median(2 * stdtr(n - 1.0, -np.where(np.isnan(t), 0.0, t))))


def nothing_common(series: int) -> CommonMode:
    """Where no siblings are known."""
    zero = np.zeros(series)
    return CommonMode(coefficient=zero, history=np.zeros((series, 1)), tonight=zero, error=zero, left=np.ones(series))


def _centred(x: Floats, known: NDArray[np.bool_]) -> Floats:
    """Each row less the median of its known values; 0 where it has none."""
    return np.where(known, x - row_medians(np.where(known, x, np.nan))[:, None], 0.0)


def _profile(x: Floats, known: NDArray[np.bool_]) -> Floats:
    return long_run_profile(np.where(known, x, np.nan), minimum=LEAST_SCATTER)


def _huber(y: Floats, m: Floats, known: NDArray[np.bool_]) -> tuple[Floats, Floats, Floats]:
    """Slopes of y on m through the origin, the weights of the runs, and the robust sd of what is left.

    The weights are of what is left, not of y: a run in which everything moved is what there is to learn from.
    """
    weight = known.astype(float)
    for _ in range(ROUNDS):
        spread = (weight * m * m).sum(axis=1)
        slope = (weight * m * y).sum(axis=1) / np.where(spread > 0, spread, 1.0)
        left = np.abs(y - slope[:, None] * m)
        scale = MAD_TO_SD * np.nan_to_num(row_medians(np.where(known, left, np.nan)))
        reach = HUBER_K * scale[:, None]
        weight = known * np.where(left > reach, reach / np.where(left > reach, left, 1.0), 1.0)
    return slope, weight, scale


def _contradicted(
    deviation: Floats, taken: Floats, scale: Floats, follows: NDArray[np.bool_], rules: CommonModeRules
) -> bool:
    """Whether too many series stood still in a run that is said to have moved, by more than their own noise.

    So it is with a change of most series but not of all: the median goes with them, and those that stood still say so.
    """
    asked = follows & np.isfinite(deviation)
    if not asked.any():
        return False
    reach = CONTRADICTS * scale
    against = asked & (np.abs(deviation) <= reach) & (np.abs(deviation - taken) > reach)
    return bool(against.sum() > (1 - rules.share) * asked.sum())
