"""Tonight against history: one metric, all series of one run, judged at once.

Everything works on logarithms. For a series with h earlier runs at the current baseline, tonight's change is

    d = x - centre(history)                     x: log of tonight's value; centre: mean of values held to 2.5 sd
    v = (a v0 + f vh) / (a + f)                 variance of one run's value
    v0 = c (b^2 + w^2 / n)                      the belief: between runs, and between the n processes of a run
    c                                           what the night's series say of it together: `detection.noise_pool`
    vh, f                                       the series' own scatter, and the degrees of freedom it is worth
    se^2 = v_tonight + L v / h                  L: long-run factor, neighbouring nights are alike
    t = d / (s se), df = a + f                  s: the night's own scatter, see `_night_scatter`

The scatter of a short history is shrunk towards a stated belief, so that one earlier run is enough to suspect and sixty
runs speak for themselves (moderated t, Smyth 2004, doi 10.2202/1544-6115.1027). A change is called when the 95 %
interval lies wholly beyond the floor *and* its p-value stands among all series of the night at the stated false
discovery rate: both conditions, as Criterion.rs does. A value beyond the floor that is merely unlikely is a
suspicion: a confirm run decides. All numbers come from the policy; docs/method-judging.md explains each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from detection.discovery import benjamini_hochberg, long_run_factor, row_medians
from detection.noise_pool import NOTHING_LEARNT, NoisePool, learnt_noise
from detection.policy import Policy
from detection.stats import MAD_TO_SD
from detection.verdict import UNPAIRED, Metric, ReasonCode, Verdict, VerdictStatus, in_words, not_judged, percent

Floats = NDArray[np.float64]

MAD_EFFICIENCY = 0.37
"""Asymptotic efficiency of the MAD for a normal scale (Rousseeuw and Croux 1993): n values are worth 0.37 n."""
RECENT = (2, 3, 5)
"""How many nights are looked at together, tonight the last of them."""
HELD_TO = 2.5
"""Standard deviations beyond which one of them counts no more."""
KEPT = 0.75
"""More processes take away at most this share of the variance of a run."""
LEAST_TOLD = 2
"""Runs before an open finding that are enough to say whether it stands."""
POWER_QUANTILE = 0.8416
"""Phi^-1(0.8): seen in four of five nights."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Night:
    """One metric of one run, row i of every array is series i. Values are in natural units, not logarithms."""

    metric: Metric
    device_kind: str
    subjects: tuple[str, ...]
    value: Floats
    """[S] tonight; NaN where there is none."""
    processes: NDArray[np.int64]
    """[S] processes behind tonight's value."""
    process_sd: Floats
    """[S] standard deviation of the logarithms over those processes; NaN where it is not known."""
    history: Floats
    """[S, R] earlier runs of the current baseline, oldest first, NaN where there is none."""
    history_process_variance: Floats
    """[S] pooled variance of the logarithms between processes in the earlier runs; NaN where it is not known."""
    history_process_df: Floats
    """[S] its degrees of freedom."""
    control: NDArray[np.bool_]
    """[S] series that nobody works on (A/A, naive): they show how noisy this night is."""
    absent: tuple[tuple[ReasonCode, str] | None, ...]
    """[S] where tonight has no value: the code and the sentence that say why."""
    looks: float = 1.0
    """Runs that tonight's value stands for: confirm runs of one suspicion are judged together."""
    known_scatter: float = 1.0
    """The scatter of the night that raised a suspicion, for judging its confirm runs: they are too few to have one."""
    known_noise: NoisePool | None = None
    """What the whole night's series say of the belief, for judging a few of them; None: this night has all of them."""
    told: NDArray[np.bool_] | None = None
    """[S] series with an open finding: whether that still stands is asked however short the baseline before it."""
    known_discovery_p: float | None = None
    """The p-value below which one more series of the whole night would have been a discovery, for judging it alone."""

    def __post_init__(self) -> None:
        rows = len(self.subjects)
        for name in ("value", "processes", "process_sd", "history_process_variance", "history_process_df", "control"):
            if getattr(self, name).shape != (rows,):
                raise ValueError(f"night: {name} has shape {getattr(self, name).shape}, must be ({rows},)")
        if self.history.ndim != 2 or self.history.shape[0] != rows or len(self.absent) != rows:
            raise ValueError(f"night: history has shape {self.history.shape}, must be ({rows}, runs)")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonShift:
    """All of a run moved together."""

    metric: Metric
    change: float
    """Median over the series, relative."""
    share: float
    """Of the series, those that moved the same way by half a floor or more."""
    n: int
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NightJudgement:
    """One verdict per series, in the order of the night's subjects; and what all of them did together."""

    verdicts: tuple[Verdict, ...]
    shift: CommonShift | None
    scatter: float
    """How many times wider than expected this night scattered; 1 where it did not, or could not be told."""
    discovery_p: float
    """The p-value below which one more series would have been a discovery of this night."""
    noise: NoisePool = NOTHING_LEARNT
    """How far the series' own histories bear out what was believed of their noise."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Evidence:
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


def judge_night(night: Night, policy: Policy) -> NightJudgement:
    """Verdicts of all series of a night, one metric. Same input, same verdicts."""
    floor = math.log1p(policy.floor(night.metric, night.device_kind))
    evidence = _evidence(night, policy)
    needed = policy.minimum_history(night.metric, night.device_kind)
    enough = evidence.runs >= (needed if night.told is None else np.where(night.told, min(needed, LEAST_TOLD), needed))
    usable = np.isfinite(evidence.change) & enough
    shift = _common_shift(night.metric, evidence.change, usable, floor, policy)
    change = evidence.change - (math.log1p(shift.change) if shift else 0.0)
    statistic = np.where(usable, change / evidence.error, np.nan)
    scatter = max(night.known_scatter, _night_scatter(statistic, night.control, policy.night.scatter_from))
    p = 2 * stdtr(evidence.df, -np.abs(statistic) / scatter)
    discovered = (
        benjamini_hochberg(p, policy.night.false_discovery_rate)
        if night.known_discovery_p is None
        else p <= night.known_discovery_p
    )
    recent, together = _together(evidence, change, usable, scatter, floor, policy.night.recent_p)
    half = evidence.quantile * evidence.error * scatter
    zero = _mostly_zero(night.history)
    rows = _Rows(
        together=together,
        recent=recent,
        night=night,
        policy=policy,
        floor=floor,
        evidence=evidence,
        change=change,
        half=half,
        p=p,
        zero_before=zero,
    )
    verdicts = tuple(
        rows.verdict(i, discovered=bool(discovered[i]), usable=bool(usable[i]), shift=shift)
        for i in range(len(night.subjects))
    )
    one_more = policy.night.false_discovery_rate * (int(discovered.sum()) + 1) / (int(usable.sum()) + 1)
    return NightJudgement(verdicts=verdicts, shift=shift, scatter=scatter, discovery_p=one_more, noise=evidence.noise)


def noise_of(night: Night, policy: Policy) -> NoisePool:
    """What the series of a night say together of the noise that was believed of them."""
    return _evidence(night, policy).noise


def _evidence(night: Night, policy: Policy) -> _Evidence:
    with np.errstate(divide="ignore", invalid="ignore"):
        tonight = np.where(night.value > 0, np.log(night.value), np.nan)
        history = np.where(night.history > 0, np.log(night.history), np.nan)[:, -policy.night.history_window :]
    runs = np.isfinite(history).sum(axis=1)
    centre = row_medians(history)
    robust = (MAD_TO_SD * row_medians(np.abs(history - centre[:, None]))) ** 2
    centre = np.where(runs >= policy.night.robust_from, _held_mean(history, centre, np.sqrt(robust)), centre)
    deviation = history - centre[:, None]
    plain = np.nansum(deviation**2, axis=1) / np.maximum(runs - 1, 1)
    many = runs >= policy.night.robust_from
    own = np.where(many, robust, np.where(runs >= 2, plain, 0.0))
    own_df = np.where(many, MAD_EFFICIENCY * (runs - 1), np.maximum(runs - 1, 0)).astype(float)
    between = policy.between_runs_sd(night.metric, night.device_kind) ** 2
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
    error = np.sqrt(tonight_variance / night.looks + factor * variance / np.maximum(runs, 1))
    df = weight + own_df
    recent, nights = _recent(tonight - centre, deviation, np.sqrt(variance))
    return _Evidence(
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
    )


def _together(
    evidence: _Evidence, change: Floats, usable: NDArray[np.bool_], scatter: float, floor: float, p: float
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


def _common_shift(
    metric: Metric, change: Floats, usable: NDArray[np.bool_], floor: float, policy: Policy
) -> CommonShift | None:
    """The shift of a whole run. Not asked of paired ratios: the host is the same on both sides of them."""
    rules = policy.common_mode
    moved = change[usable]
    if metric not in UNPAIRED or moved.size < rules.minimum_cases:
        return None
    median = float(np.median(moved))
    share = float(np.mean(np.sign(median) * moved > floor / 2))
    if share < rules.share or abs(median) < rules.shift_floors * floor:
        return None
    relative = math.expm1(median)
    sentence = (
        f"{percent(share)} of {moved.size} series of this run moved the same way, "
        f"{in_words(metric, relative)} in the median: the host or its environment moved, not the kernels."
    )
    return CommonShift(metric=metric, change=relative, share=share, n=int(moved.size), sentence=sentence)


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Rows:
    """Numbers to words, one series at a time."""

    night: Night
    policy: Policy
    floor: float
    evidence: _Evidence
    change: Floats
    half: Floats
    p: Floats
    zero_before: NDArray[np.bool_]
    together: NDArray[np.bool_]
    recent: Floats

    def verdict(self, i: int, *, discovered: bool, usable: bool, shift: CommonShift | None) -> Verdict:
        reason = self.night.absent[i]
        if reason is not None:
            return self._not_judged(i, *reason)
        if self.night.value[i] == 0 or self.zero_before[i]:
            return self._from_zero(i)
        if not usable:
            return self._no_history(i)
        d, half = float(self.change[i]), float(self.half[i])
        status, code = self._decide(i, d, half, discovered=discovered)
        if code is ReasonCode.WITHIN_FLOOR and shift is not None:
            status, code = VerdictStatus.UNCHANGED, ReasonCode.COMMON_MODE
        visible = math.expm1(self.floor + half + POWER_QUANTILE * half / float(self.evidence.quantile[i]))
        return Verdict(
            status=status,
            code=code,
            sentence=self._sentence(i, code, d, half, shift),
            change=math.expm1(d),
            low=math.expm1(d - half),
            high=math.expm1(d + half),
            smallest_visible_change=visible,
            baseline=self._baseline(i),
            baseline_n=int(self.evidence.runs[i]),
            n=int(self.night.processes[i]),
            p_value=float(self.p[i]),
            policy=self.policy.name,
            policy_version=self.policy.version,
        )

    def _decide(self, i: int, d: float, half: float, *, discovered: bool) -> tuple[VerdictStatus, ReasonCode]:
        beyond = abs(d) - half > self.floor
        large = abs(d) > self.floor and self._worth_saying(i) and not self._lucky_baseline(i, d)
        if large and beyond and discovered:
            return (VerdictStatus.REGRESSED if d > 0 else VerdictStatus.IMPROVED), ReasonCode.BEYOND_FLOOR
        if large and (discovered or self.p[i] <= self.policy.night.suspicion_p):
            return VerdictStatus.INCONCLUSIVE, ReasonCode.SUSPICIOUS
        if self.together[i] and self._worth_saying(i):
            return VerdictStatus.INCONCLUSIVE, ReasonCode.RECENT_NIGHTS
        if abs(d) + half < self.floor or not self._worth_saying(i):
            return VerdictStatus.UNCHANGED, ReasonCode.WITHIN_FLOOR
        if half > self.floor and abs(d) <= half:
            return VerdictStatus.UNCHANGED, ReasonCode.WITHIN_NOISE
        return VerdictStatus.INCONCLUSIVE, ReasonCode.TOO_WIDE

    def _lucky_baseline(self, i: int, d: float) -> bool:
        """A gain over a few runs is no news yet: one of those may have been throttled, and nothing throttles
        upwards."""
        return d < 0 and bool(self.evidence.runs[i] < self.policy.night.short_history)

    def _worth_saying(self, i: int) -> bool:
        """Whether the change is large in its own unit too, where a ratio alone would mislead."""
        absolute = abs(float(self.night.value[i]) - math.exp(float(self.evidence.centre[i])))
        if self.night.metric is Metric.PEAK_MEMORY:
            return absolute >= self.policy.floors.peak_memory_bytes
        if self.night.metric is Metric.ERROR:
            return absolute >= self.policy.floors.error_margin
        return True

    def _from_zero(self, i: int) -> Verdict:
        value, history = float(self.night.value[i]), self.night.history[i]
        known = history[np.isfinite(history)]
        if known.size == 0:
            return self._no_history(i)
        before = float(np.median(known))
        n = int(known.size)
        if value == 0 and before == 0:
            sentence = f"Zero tonight and zero over {n} runs: no change."
            status, code = VerdictStatus.UNCHANGED, ReasonCode.STILL_ZERO
        elif before == 0:
            sentence = f"From zero over {n} runs to {figure(self.night.metric, value)}: more, and no ratio exists."
            status, code = VerdictStatus.REGRESSED, ReasonCode.FROM_ZERO
            if not self._worth_saying_from_zero(value):
                status = VerdictStatus.UNCHANGED
        else:
            sentence = f"From {figure(self.night.metric, before)} over {n} runs to zero: less, and no ratio exists."
            status, code = VerdictStatus.IMPROVED, ReasonCode.FROM_ZERO
            if not self._worth_saying_from_zero(before):
                status = VerdictStatus.UNCHANGED
        return Verdict(
            status=status,
            code=code,
            sentence=sentence,
            baseline=_runs(n),
            baseline_n=n,
            policy=self.policy.name,
            policy_version=self.policy.version,
        )

    def _worth_saying_from_zero(self, value: float) -> bool:
        if self.night.metric is Metric.PEAK_MEMORY:
            return value >= self.policy.floors.peak_memory_bytes
        return self.night.metric is not Metric.ERROR or value >= self.policy.floors.error_margin

    def _no_history(self, i: int) -> Verdict:
        runs = int(self.evidence.runs[i])
        needed = self.policy.minimum_history(self.night.metric, self.night.device_kind)
        if runs == 0:
            return self._not_judged(
                i, ReasonCode.FIRST_RUN, "The first run with this series: nothing to compare it with."
            )
        sentence = (
            f"{runs} earlier runs, {needed} are needed before {_NOUNS[self.night.metric]} is judged against history."
        )
        return self._not_judged(i, ReasonCode.NOT_ENOUGH_HISTORY, sentence)

    def _not_judged(self, i: int, code: ReasonCode, sentence: str) -> Verdict:
        n = int(self.night.processes[i])
        return not_judged(code, sentence, policy=self.policy.name, policy_version=self.policy.version, n=n)

    def _baseline(self, i: int) -> str:
        return _runs(int(self.evidence.runs[i]))

    def _sentence(self, i: int, code: ReasonCode, d: float, half: float, shift: CommonShift | None) -> str:
        metric = self.night.metric
        before = math.exp(float(self.evidence.centre[i]))
        now, low, high = figure(metric, float(self.night.value[i])), math.expm1(d - half), math.expm1(d + half)
        numbers = f"{now} against {figure(metric, before)} over {self._baseline(i)}"
        interval = f"95 % interval {percent(low, signed=True)} to {percent(high, signed=True)}"
        floor = percent(math.expm1(self.floor))
        after = f" after the run's common shift of {percent(shift.change, signed=True)}" if shift else ""
        change = f"{in_words(metric, math.expm1(d))}{after}"
        match code:
            case ReasonCode.BEYOND_FLOOR:
                return f"{numbers}: {change} ({interval}), beyond the floor of {floor}."
            case ReasonCode.SUSPICIOUS:
                return f"{numbers}: {change} ({interval}), unlikely to be noise but not yet clear of {floor}: confirm."
            case ReasonCode.RECENT_NIGHTS:
                last = in_words(metric, math.expm1(float(self.recent[i])))
                return f"{numbers}: {change} ({interval}); the last nights together {last}: confirm."
            case ReasonCode.WITHIN_NOISE:
                return f"{numbers}: {change} ({interval}), within the noise of this series."
            case ReasonCode.TOO_WIDE:
                return f"{numbers}: {change} ({interval}), neither inside nor clear of {floor}."
            case _:
                return f"{numbers}: {change} ({interval}), within {floor}."


_NOUNS = {
    Metric.LATENCY_RATIO: "the paired ratio",
    Metric.LATENCY: "unpaired latency",
    Metric.LATENCY_P99: "the latency tail",
    Metric.FLOP_RATE: "a rate alone",
    Metric.BANDWIDTH: "a rate alone",
    Metric.PEAK_MEMORY: "peak memory",
    Metric.ERROR: "the error",
}


def _runs(n: int) -> str:
    return "1 run" if n == 1 else f"{n} runs"


def figure(metric: Metric, value: float) -> str:
    """A value with its unit: 1.153×, 112.4 µs, 24.0 MiB, 3.1 % of the tolerance, 1,237 TFLOP/s."""
    match metric:
        case Metric.LATENCY_RATIO:
            return f"{value:.3f}×"
        case Metric.PEAK_MEMORY:
            for size, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
                if value >= size:
                    return f"{value / size:.1f} {unit}"
            return f"{value:.0f} B"
        case Metric.ERROR:
            return f"{percent(value)} of the tolerance"
        case Metric.FLOP_RATE | Metric.BANDWIDTH:
            unit = "FLOP/s" if metric is Metric.FLOP_RATE else "B/s"
            rate = 1 / value if value > 0 else math.inf
            scale, prefix = next(((s, p) for s, p in ((1e12, "T"), (1e9, "G"), (1e6, "M")) if rate >= s), (1.0, ""))
            return f"{rate / scale:,.4g} {prefix}{unit}"
        case _:
            for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
                if value >= scale:
                    return f"{value / scale:.4g} {unit}"
            return f"{value / 1e-9:.4g} ns"
