"""An independent count of what the audit of the alarms publishes, straight from raw samples.

A slow transcription of docs/method-judging.md, one series at a time, that shares no code with `detection` or
`collector.host`: process values from the samples, the change and its error of section 3, the discoveries of the night,
the suspicions, and the later nights that confirm or refute them (section 6). Numbers come from the policy file.
"""

from __future__ import annotations

import math
import statistics
import tomllib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from scipy import optimize, special, stats

Row = Mapping[str, Any]
CLOCK = {"thread_time": "thread_s", "wall": "wall_s", "device_event": "device_s"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """One arm of one case in one run: the times of each process by the clock of the ratios, with their rounds."""

    run: int
    case: str
    arm: str
    role: str
    planted: float | None
    processes: Mapping[int, tuple[tuple[int, float], ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What was counted of one kind: audited series-nights, suspicions, alarms."""

    nights: int = 0
    suspicions: int = 0
    alarms: int = 0


@dataclass(slots=True)
class _Series:
    """One A/A copy or other arm against optimized: log-ratio and variance between processes, by run."""

    role: str
    value: dict[int, float] = field(default_factory=dict)
    n: dict[int, int] = field(default_factory=dict)
    variance: dict[int, float] = field(default_factory=dict)
    since: int | None = None
    """Of an A/A copy whose change is watched: the run it was suspected in."""
    before: float = 0.0
    reported: float = 0.0
    confirmed: bool = False
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """Runs [from, to) of changes that are over."""
    starts: int = 0
    """First run of the present baseline: after a false alarm its level is accepted."""


class Count:
    """Counts runs in their order; `policy` is the file's own tables."""

    def __init__(self, policy: Mapping[str, Any], device: str, *, reach: int) -> None:
        self._policy, self._device, self._reach = policy, device, reach
        self._floor = math.log1p(policy["floors"][device])
        self._series: dict[tuple[str, str], _Series] = {}
        self.counted: dict[float | None, Counted] = defaultdict(Counted)
        self.changes: dict[tuple[int, str, str], float] = {}
        """(run, case, arm) -> relative change against history, of A/A copies and planted arms."""

    def add_run(self, run: int, sampled: Sequence[Sampled]) -> None:
        """One night: judged, then counted."""
        base = {s.case: s for s in sampled if s.role == "optimized"}
        fresh: dict[tuple[str, str], tuple[float, int, float]] = {}
        planted: list[tuple[Sampled, tuple[float, int, float]]] = []
        for one in sampled:
            if one.role == "optimized" or one.case not in base:
                continue
            values = log_ratios(one, base[one.case], self._reach)
            if not values:
                continue
            spread = statistics.variance(values) if len(values) > 1 else math.nan
            number = statistics.fmean(values), len(values), spread
            if one.role == "planted":
                planted.append((one, number))
            else:
                self._series.setdefault((one.case, one.arm), _Series(role=one.role))
                fresh[one.case, one.arm] = number
        self._judge(run, fresh, planted)
        for key, (value, n, spread) in fresh.items():
            series = self._series[key]
            series.value[run], series.n[run], series.variance[run] = value, n, spread

    def _judge(
        self,
        run: int,
        fresh: Mapping[tuple[str, str], tuple[float, int, float]],
        planted: Sequence[tuple[Sampled, tuple[float, int, float]]],
    ) -> None:
        night = self._policy["night"]
        alone = 1.0, self._policy["noise"]["prior_runs"]
        believed = {key: t for key, number in fresh.items() if (t := self._test(run, self._series[key], number, alone))}
        pool = _pool([(t.ratio, t.worth) for t in believed.values()], alone[1])
        tested = {key: t for key in believed if (t := self._test(run, self._series[key], fresh[key], pool))}
        scatter = self._scatter(tested)
        p = {key: 2 * stats.t.sf(abs(t.change / t.error) / scatter, t.df) for key, t in tested.items()}
        found = _discoveries(p, night["false_discovery_rate"])
        one_more = night["false_discovery_rate"] * (len(found) + 1) / (len(p) + 1)
        for key, test in tested.items():
            series = self._series[key]
            if series.role == "naive":
                continue  # a witness: its changes are nobody's finding
            suspected = self._suspected(test, p[key], key in found, scatter)
            opened, alarm = self._live(run, series, test, suspected)
            if series.role == "aa":
                self.changes[run, *key] = math.expm1(test.change)
                before = self.counted[None]
                self.counted[None] = Counted(
                    nights=before.nights + 1,
                    suspicions=before.suspicions + opened,
                    alarms=before.alarms + alarm,
                )
        for one, number in planted:
            copy = next((s for (case, _), s in self._series.items() if case == one.case and s.role == "aa"), None)
            against = self._test(run, copy, number, pool, whole=True) if copy else None
            if against is None:
                continue
            own = 2 * stats.t.sf(abs(against.change / against.error) / scatter, against.df)
            seen = self._suspected(against, own, own <= one_more, scatter) and against.change > 0
            self.changes[run, one.case, one.arm] = math.expm1(against.change)
            before = self.counted[one.planted]
            self.counted[one.planted] = Counted(
                nights=before.nights + 1, suspicions=before.suspicions + seen, alarms=before.alarms + seen
            )

    def _live(self, run: int, series: _Series, test: _Test, suspected: bool) -> tuple[bool, bool]:
        """One night of a series: whether a suspicion opened, and whether one became an alarm."""
        if series.since is None:
            if suspected:
                series.since, series.reported, series.before = run, test.change, test.centre
                series.confirmed = False
            return suspected, False
        sign = math.copysign(1.0, series.reported)
        nights = [v - series.before for r, v in sorted(series.value.items()) if r > series.since] + [test.change]
        back = [sign * d <= abs(series.reported) / 2 for d in nights]
        if back[-1]:
            if not series.confirmed:
                series.since = None  # refuted
            elif len(back) > 1 and back[-2]:
                series.gaps.append((series.since, run))  # resolved
                series.since = None
            return False, False
        seen = sum(sign * d > max(self._floor, abs(series.reported) / 2) for d in nights)
        if series.confirmed or seen < self._policy["confirm"]["nights"] or seen < 0.75 * len(nights):
            return False, False
        if series.role == "aa":  # counted, and its level accepted
            series.starts, series.since = series.since, None
        else:
            series.confirmed = True
        return False, True

    def _suspected(self, test: _Test, p: float, found: bool, scatter: float) -> bool:
        night = self._policy["night"]
        lucky = test.change < 0 and test.runs < night["short_history"]
        if abs(test.change) > self._floor and not lucky and (found or p <= night["suspicion_p"]):
            return True
        return any(
            abs(mean) > self._floor
            and mean * test.change > 0
            and 2 * stats.t.sf(abs(mean / error) / scatter, test.df) <= night["recent_p"]
            for mean, error in test.recent[:1]
        )

    def _scatter(self, tested: Mapping[tuple[str, str], _Test]) -> float:
        least = self._policy["night"]["scatter_from"]
        t = {key: test.change / test.error for key, test in tested.items()}
        controls = [abs(v) for key, v in t.items() if self._series[key].role in ("aa", "naive")]
        if len(controls) >= least:
            return max(1.0, 1.4826 * statistics.median(controls) / (1 + 2 / math.sqrt(0.74 * len(controls))))
        if len(t) < least:
            return 1.0
        middle = statistics.median(t.values())
        plain, centred = (statistics.median([abs(v - m) for v in t.values()]) for m in (0.0, middle))
        return max(1.0, 1.4826 * min(plain, centred) / (1 + 2 / math.sqrt(0.74 * len(t))))

    def _test(
        self,
        run: int,
        series: _Series,
        number: tuple[float, int, float],
        pool: tuple[float, float],
        *,
        whole: bool = False,
    ) -> _Test | None:
        """The change of tonight's number against the series' baseline; None without one. `pool`: see `_pool`."""
        noise, night = self._policy["noise"], self._policy["night"]
        end = run if series.since is None or whole else series.since
        past = [
            r
            for r in series.value
            if r < end and (whole or (r >= series.starts and not any(a <= r < b for a, b in series.gaps)))
        ]
        x = [series.value[r] for r in past]
        if not x:
            return None
        h = len(x)
        centre = statistics.median(x)
        mad = (1.4826 * statistics.median([abs(v - centre) for v in x])) ** 2
        plain = sum((v - centre) ** 2 for v in x) / max(h - 1, 1)
        many = h >= night["robust_from"]
        if many:
            reach = 2.5 * math.sqrt(mad)
            centre = statistics.fmean([min(max(v, centre - reach), centre + reach) for v in x])
        own, own_df = (mad, 0.37 * (h - 1)) if many else (plain if h >= 2 else 0.0, float(h - 1))
        weight, believed = noise["prior_processes"], noise[f"between_processes_{self._device}"] ** 2
        known = [(series.n[r] - 1, series.variance[r]) for r in past if series.n[r] > 1]
        df = sum(d for d, _ in known)
        within = (weight * believed + sum(d * v for d, v in known)) / (weight + df)
        value, n, spread = number
        fresh_df = n - 1
        within_now = (weight * within + (fresh_df * spread if fresh_df else 0.0)) / (weight + fresh_df)
        between = noise[f"between_runs_ratio_{self._device}"] ** 2
        belief = between + within / n
        factor, prior = pool
        variance = (prior * factor * belief + own_df * own) / (prior + own_df)
        usual = max(round(df / h) + 1, 1)
        saved = min(max(within / usual - within / n, 0.0), 0.75 * variance)
        now = max(variance - saved, between + within_now / n)
        if h >= night["autocorrelation_from"]:
            raise NotImplementedError("the long-run factor is not transcribed; count fewer runs")
        return _Test(
            runs=h,
            centre=centre,
            change=value - centre,
            error=math.sqrt(now + variance / h),
            df=prior + own_df,
            recent=_recent([v - centre for v in x], value - centre, math.sqrt(variance), h) if many else (),
            ratio=own / belief,
            worth=own_df,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Test:
    runs: int
    centre: float
    change: float
    error: float
    df: float
    recent: tuple[tuple[float, float], ...]
    """Mean change of the last 2, 3 or 5 nights with its error, that with the largest statistic first."""
    ratio: float
    """The series' own variance over the believed one ..."""
    worth: float
    """... and the degrees of freedom that it is worth."""


def _pool(own: Sequence[tuple[float, float]], prior: float) -> tuple[float, float]:
    """By how much the belief is off in the median series, and the weight that leaves it: (ratio, df) of each given."""
    known = [
        (math.log(ratio) - 3 * math.log(1 - 2 / (9 * df)) if ratio > 0 else -math.inf, df)
        for ratio, df in own
        if df >= 1
    ]
    if len(known) < 12:
        return 1.0, prior
    middle = statistics.median([e for e, _ in known])
    if middle <= 0:
        return 1.0, prior
    spread = 1.4826 * statistics.median([abs(e - middle) for e, _ in known])
    excess = spread**2 - statistics.fmean([float(special.polygamma(1, df / 2)) for _, df in known])
    factor = min(math.exp(middle), 25.0)
    if excess <= 0:
        return factor, prior
    alike = 2 * optimize.brentq(lambda x: float(special.polygamma(1, x)) - excess, 1e-3, 1e6)
    return factor, min(prior, max(4.0, alike))


def _recent(past: Sequence[float], tonight: float, sd: float, h: int) -> tuple[tuple[float, float], ...]:
    held = [min(max(v, -2.5 * sd), 2.5 * sd) for v in [*past, tonight]]
    means = [(statistics.fmean(held[-k:]), sd * math.sqrt(1 / len(held[-k:]) + 1 / h)) for k in (2, 3, 5)]
    return tuple(sorted(means, key=lambda m: -abs(m[0] / m[1])))


def _discoveries(p: Mapping[tuple[str, str], float], rate: float) -> set[tuple[str, str]]:
    order = sorted(p, key=lambda key: p[key])
    last = max((i + 1 for i, key in enumerate(order) if p[key] <= rate * (i + 1) / len(order)), default=0)
    return set(order[:last])


def log_ratios(arm: Sampled, base: Sampled, reach: int) -> list[float]:
    """A value a process: the median of log(arm / base) over all samples of the two at most `reach` rounds apart."""
    values = []
    for process, samples in sorted(arm.processes.items()):
        others = base.processes.get(process, ())
        logs = [math.log(t / b) for r, t in samples for other, b in others if abs(r - other) <= reach]
        if logs:
            values.append(statistics.median(logs))
    return values


def policy_tables(name: str = "default") -> Mapping[str, Any]:
    """A shipped policy file as it stands."""
    return tomllib.loads((resources.files("configs") / "policies" / f"{name}.toml").read_text(encoding="utf-8"))


def sampled(row: Row, passes: Sequence[Row], run: int, planted: float | None) -> Sampled:
    """An arm from its row and its raw samples: marked ones and times that are not positive left out."""
    column = CLOCK[row["ratio_timer"]]
    processes = {
        one["replicate"]: tuple(
            (number, time_s)
            for number, time_s, mark in zip(one["round"], one[column], one["mark"], strict=True)
            if not mark and time_s > 0
        )
        for one in passes
        if one["pass"] == "rounds"
    }
    return Sampled(run=run, case=row["case_id"], arm=row["arm"], role=row["role"], planted=planted, processes=processes)
