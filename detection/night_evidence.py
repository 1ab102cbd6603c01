"""What a series' history says of tonight: change, its error, and what the last nights say together.

Everything works on logarithms. For a series with h earlier runs at the current baseline, tonight's change is

    d = x - centre(history)                     x: log of tonight's value; centre: mean of values held to 2.5 sd
    v = (a v0 + f vh) / (a + f)                 variance of one run's value
    v0 = c (b^2 + w^2 / n)                      the belief: between runs, and between the n processes of a run
    c                                           what the night's series say of it together: `detection.noise_pool`
    vh, f                                       the series' own scatter, and the degrees of freedom it is worth
    se^2 = v_tonight + L v / h                  L: long-run factor, neighbouring nights are alike
    t = d / (s se), df = a + f                  s: the night's own scatter, see `detection.night`

Where the siblings of the night's series are known, x and the earlier values first lose what goes with those, and v0 the
share of its b^2 that they lost; see `detection.common_mode`.

The scatter of a short history is shrunk towards a stated belief, so that one earlier run is enough to suspect and sixty
runs speak for themselves (moderated t, Smyth 2004, doi 10.2202/1544-6115.1027).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from detection.common_mode import CommonMode, Siblings, learnt_common_mode, nothing_common
from detection.discovery import long_run_factor, row_medians
from detection.night_data import Floats, Night
from detection.noise_pool import NoisePool, learnt_noise
from detection.policy import Policy
from detection.stats import MAD_TO_SD
from detection.verdict import UNPAIRED, Metric

MAD_EFFICIENCY = 0.37
"""Asymptotic efficiency of the MAD for a normal scale (Rousseeuw and Croux 1993): n values are worth 0.37 n."""
RECENT = (2, 3, 5)
"""How many nights are looked at together, tonight the last of them."""
HELD_TO = 2.5
"""Standard deviations beyond which one of them counts no more."""
KEPT = 0.75
"""More processes take away at most this share of the variance of a run."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evidence:
    """What the formulas of this module give, per series."""

    runs: NDArray[np.int64]
    centre: Floats
    change: Floats
    error: Floats
    df: Floats
    quantile: Floats
    recent: Floats
    """[S, len(RECENT)] mean change of the last nights, each held to `HELD_TO` sd; NaN where the history is short."""
    recent_error: Floats
    noise: NoisePool
    common: Floats
    """[S] what was taken from tonight's value because it goes with the siblings; 0 where nothing was."""


def evidence_of(night: Night, policy: Policy) -> Evidence:
    """The formulas at the head of this file, for every series of a night."""
    with np.errstate(divide="ignore", invalid="ignore"):
        tonight = np.where(night.value > 0, np.log(night.value), np.nan)
        history = np.where(night.history > 0, np.log(night.history), np.nan)[:, -policy.night.history_window :]
    mode = _common_mode(night, history, tonight, policy)
    history, tonight = history - mode.history, tonight - mode.tonight
    runs = np.isfinite(history).sum(axis=1)
    centre = row_medians(history)
    robust = (MAD_TO_SD * row_medians(np.abs(history - centre[:, None]))) ** 2
    centre = np.where(runs >= policy.night.robust_from, _held_mean(history, centre, np.sqrt(robust)), centre)
    deviation = history - centre[:, None]
    plain = np.nansum(deviation**2, axis=1) / np.maximum(runs - 1, 1)
    many = runs >= policy.night.robust_from
    own = np.where(many, robust, np.where(runs >= 2, plain, 0.0))
    own_df = np.where(many, MAD_EFFICIENCY * (runs - 1), np.maximum(runs - 1, 0)).astype(float)
    between = _between(night, policy, mode)
    within, tonight_within = _within(night, policy)
    processes = np.maximum(night.processes, 1)
    belief = between + within / processes
    pool = night.known_noise or learnt_noise(own / belief, own_df, policy.noise)
    weight = pool.weight
    belief = pool.factor * belief
    variance = (weight * belief + own_df * np.nan_to_num(own)) / (weight + own_df)
    # A run of more processes than usual has less of their noise, never less of its own. A run whose processes disagree
    # more than usual is worth less than the history says.
    usual = np.maximum(np.round(night.history_process_df / np.maximum(runs, 1)) + 1, 1)
    saved = np.clip(within / usual - within / processes, 0.0, KEPT * variance)
    tonight_variance = np.maximum(variance - saved, between + tonight_within / processes)
    factor = long_run_factor(history, policy.night.autocorrelation_from)
    error = np.sqrt(tonight_variance / night.looks + factor * variance / np.maximum(runs, 1) + mode.error**2)
    df = weight + own_df
    recent, nights = _recent(tonight - centre, deviation, np.sqrt(variance))
    return Evidence(
        runs=runs,
        centre=centre,
        change=tonight - centre,
        error=error,
        df=df,
        quantile=np.asarray(stdtrit(df, 0.975), dtype=float),
        recent=np.where(many[:, None], recent, np.nan),
        recent_error=np.sqrt(
            (factor * variance)[:, None] * (1 / np.maximum(nights, 1) + 1 / np.maximum(runs, 1)[:, None])
        ),
        noise=pool,
        common=mode.tonight,
    )


def _common_mode(night: Night, history: Floats, tonight: Floats, policy: Policy) -> CommonMode:
    if night.siblings is None or night.metric not in UNPAIRED:
        return nothing_common(len(night.subjects))
    window = night.siblings.history[:, -policy.night.history_window :]
    siblings = Siblings(history=window, tonight=night.siblings.tonight)
    return learnt_common_mode(history, tonight, siblings, policy.common_mode)


def _between(night: Night, policy: Policy, mode: CommonMode) -> Floats:
    """The believed variance between runs: of what the siblings take from the history its share, but never below that of
    a paired ratio, from which the host is gone altogether."""
    believed = policy.between_runs_sd(night.metric, night.device_kind) ** 2
    paired = policy.between_runs_sd(Metric.LATENCY_RATIO, night.device_kind) ** 2
    return np.where(mode.left < 1, np.maximum(mode.left * believed, min(believed, paired)), believed)


def recent_change(
    evidence: Evidence, change: Floats, usable: NDArray[np.bool_], scatter: float, floor: float, p: float
) -> tuple[Floats, NDArray[np.bool_]]:
    """The mean change of the last nights that says most, and where it is beyond the floor and unlikely."""
    recent = evidence.recent - (evidence.change - change)[:, None]
    statistic = np.abs(recent / evidence.recent_error) / scatter
    best = np.argmax(np.nan_to_num(statistic, nan=-1.0), axis=1)
    rows = np.arange(best.size)
    size = np.where(usable, recent[rows, best], np.nan)
    unlikely = 2 * stdtr(evidence.df, -statistic[rows, best]) <= p
    return size, np.asarray((np.abs(size) > floor) & unlikely & (size * change > 0), dtype=bool)


def _held_mean(history: Floats, centre: Floats, sd: Floats) -> Floats:
    """Mean of each row's values held to `HELD_TO` robust sd around its median: a median alone wastes a third of
    them."""
    reach = HELD_TO * sd[:, None]
    held = np.clip(history, centre[:, None] - reach, centre[:, None] + reach)
    n = np.isfinite(history).sum(axis=1)
    return np.asarray(np.nansum(held, axis=1) / np.maximum(n, 1), dtype=float)


def _recent(change: Floats, deviation: Floats, sd: Floats) -> tuple[Floats, Floats]:
    """Mean changes of the last `RECENT` nights, tonight included, and how many values each has.

    None counts beyond `HELD_TO` sd: one is no trend, and without tonight or a second one there is none.
    """
    nights = np.column_stack([deviation, change])
    reach = HELD_TO * sd[:, None]
    held = np.clip(nights, -reach, reach)
    means, counts = [], []
    for k in RECENT:
        part = held[:, -k:]
        n = np.isfinite(part).sum(axis=1)
        mean = np.nansum(part, axis=1) / np.maximum(n, 1)
        means.append(np.where((n >= 2) & np.isfinite(change), mean, np.nan))
        counts.append(n)
    return np.column_stack(means), np.column_stack(counts).astype(float)


def _within(night: Night, policy: Policy) -> tuple[Floats, Floats]:
    """Variance between processes: the series' usual one, and tonight's, each shrunk towards what is believed of it.

    Values without processes (an exact byte count, one number of an import) have none of it.
    """
    weight = policy.noise.prior_processes
    timed = night.metric in UNPAIRED or night.metric is Metric.LATENCY_RATIO
    prior = policy.between_processes_sd(night.device_kind) ** 2 if timed else 0.0
    known = np.isfinite(night.history_process_variance) & (night.history_process_df > 0)
    df = np.where(known, night.history_process_df, 0.0)
    usual = (weight * prior + df * np.where(known, night.history_process_variance, 0.0)) / (weight + df)
    fresh = np.isfinite(night.process_sd) & (night.processes >= 2)
    fresh_df = np.where(fresh, night.processes - 1, 0).astype(float)
    tonight = (weight * usual + fresh_df * np.where(fresh, night.process_sd, 0.0) ** 2) / (weight + fresh_df)
    return usual, tonight
