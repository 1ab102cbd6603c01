"""How often a night cries wolf, and how soon it sees a step: the whole chain, night by night, on simulated noise.

300 series on 8 units, 120 nights, run sigma 2 % (of which the processes of a run have a part and the run itself the
rest), 3 % of the runs of a series throttled by 5 to 20 %, half of those unseen by telemetry; fresh noise in every
confirm run. The judges are those of `detection`: tonight, the online detector, confirm runs judged together, later
nights. Counted are confirmed findings.

Usage: python -m benchmarks.nights [--seeds 5] [--first-seed 1000] [--steps 0,0.03,0.05,0.1,0.2] [--out FILE.md]
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from detection.night import Night, NightJudgement, judge_night
from detection.online import OnlineDetector
from detection.policy import Policy
from detection.verdict import Metric, ReasonCode
from detection.witness import Witness, together, weigh

SERIES, NIGHTS, UNITS, PROCESSES = 300, 120, 8, 3
BETWEEN, WITHIN = 0.012, 0.0277
"""sqrt(0.012^2 + 0.0277^2 / 3) = 0.02."""
THROTTLED, UNSEEN = 0.03, 0.5
STEP_NIGHT, STEPPED = 60, 30
"""Night of the step, and how many of the series have it."""
POLICY = Policy()


@dataclass
class Tally:
    """What one simulation counted."""

    series_nights: int = 0
    false: int = 0
    reruns: int = 0
    suspicions: int = 0
    delays: list[float] = field(default_factory=list)


class Simulation:
    """One fleet of series, one size of step."""

    def __init__(self, seed: int, step: float) -> None:
        self.rng = np.random.default_rng(seed)
        self.step = math.log1p(step)
        self.stepped = np.zeros(SERIES, dtype=bool)
        if step:
            self.stepped[self.rng.choice(SERIES, STEPPED, replace=False)] = True

    def measure(self, night: int, rows: np.ndarray, processes: int, *, fresh: bool) -> np.ndarray:
        """[rows, processes] log-ratios; NaN rows were throttled and seen to be."""
        level = np.where(self.stepped[rows] & (night >= STEP_NIGHT), self.step, 0.0)
        x = (
            level[:, None]
            + self.rng.normal(0, BETWEEN, (rows.size, 1))
            + self.rng.normal(0, WITHIN, (rows.size, processes))
        )
        throttled = self.rng.random(rows.size) < THROTTLED
        x[throttled] += np.log1p(self.rng.uniform(0.05, 0.2, int(throttled.sum())))[:, None]
        seen = throttled & (self.rng.random(rows.size) >= UNSEEN)
        x[seen] = np.nan
        return x

    def run(self) -> Tally:
        tally = Tally(delays=[math.inf] * int(self.stepped.sum()))
        place = {int(row): i for i, row in enumerate(np.flatnonzero(self.stepped))}
        history = np.full((SERIES, NIGHTS), np.nan)
        within = np.full((SERIES, NIGHTS), np.nan)
        detectors = [OnlineDetector() for _ in range(SERIES)]
        confirmed = np.zeros(SERIES, dtype=bool)
        rows = np.arange(SERIES)
        for night in range(NIGHTS):
            x = self.measure(night, rows, PROCESSES, fresh=False)
            value = x.mean(axis=1)
            judged = judge_night(
                _night(value, x.std(axis=1, ddof=1), PROCESSES, history[:, :night], within[:, :night]), POLICY
            )
            verdicts = judged.verdicts
            alerts = [
                d.update(math.exp(v) if math.isfinite(v) else None) for d, v in zip(detectors, value, strict=True)
            ]
            history[:, night], within[:, night] = value, x.var(axis=1, ddof=1)
            asked = []
            for row in range(SERIES):
                if confirmed[row]:
                    continue
                floor = math.log1p(POLICY.floors.accelerator)
                moved = verdicts[row].code in (ReasonCode.BEYOND_FLOOR, ReasonCode.SUSPICIOUS, ReasonCode.RECENT_NIGHTS)
                change = verdicts[row].change if moved else None
                alert = alerts[row]
                since = night
                if not moved and alert is not None and abs(math.log1p(alert.effect)) > floor:
                    change, since = alert.effect, night - (alert.at - alert.change)
                if change is not None:
                    asked.append((row, math.log1p(change), since))
            tally.series_nights += int((~confirmed & ~(self.stepped & (night >= STEP_NIGHT))).sum())
            tally.suspicions += len(asked)
            for row, change, since in asked:
                said, reruns = self._confirm(night, row, change, history[row, :since], within[row, :since], judged)
                tally.reruns += reruns
                if not said:
                    continue
                confirmed[row] = True
                if self.stepped[row] and night >= STEP_NIGHT and change * self.step > 0:
                    tally.delays[place[row]] = night - STEP_NIGHT + 1
                else:
                    tally.false += 1
        return tally

    def _confirm(
        self, night: int, row: int, change: float, past: np.ndarray, within: np.ndarray, judged: NightJudgement
    ) -> tuple[bool, int]:
        looks: list[np.ndarray] = []
        processes = POLICY.confirm.replicates_accelerator
        for look in range(1, POLICY.confirm.tries + 1):
            x = self.measure(night, np.array([row]), processes, fresh=True)[0]
            if not np.isfinite(x).all():
                continue
            looks.append(x)
            middle, worth = together([float(v.mean()) for v in looks], 1 if change > 0 else -1)
            sd = np.array([math.sqrt(np.mean([v.var(ddof=1) for v in looks]))])
            value = np.array([middle])
            night_of = replace(
                _night(value, sd, processes, past[None, :], within[None, :]),
                looks=worth,
                known_scatter=judged.scatter,
                known_noise=judged.noise,
            )
            verdict = judge_night(night_of, POLICY).verdicts[0]
            if verdict.change is None:
                return False, look
            suspected = math.expm1(change)
            said = weigh(verdict, len(looks), suspected, floor=POLICY.floors.accelerator, policy=POLICY)
            if said is not Witness.UNDECIDED:
                return said is Witness.CONFIRMED, look
        return False, POLICY.confirm.tries


def _night(
    value: np.ndarray,
    sd: np.ndarray,
    processes: int,
    past: np.ndarray,
    within: np.ndarray,
) -> Night:
    rows = value.size
    known = np.isfinite(past)
    df = 2.0 * known.sum(axis=1)
    pooled = np.where(known, within, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    absent = tuple(None if math.isfinite(v) else (ReasonCode.THROTTLED, "Throttled.") for v in value)
    return Night(
        metric=Metric.LATENCY_RATIO,
        device_kind="cuda",
        subjects=tuple(str(i) for i in range(rows)),
        value=np.exp(value),
        processes=np.full(rows, processes),
        process_sd=sd,
        history=np.exp(past),
        history_process_variance=np.where(df > 0, pooled, np.nan),
        history_process_df=df,
        control=np.zeros(rows, dtype=bool),
        absent=absent,
    )


def row(step: float, tallies: list[Tally]) -> str:
    """One line of the table: all seeds of one size of step."""
    delays = np.array([d for t in tallies for d in t.delays])
    shares = [f"{float((delays <= n).mean()):.3f}" if delays.size else "-" for n in (1, 5, 14)]
    false = 1000 * sum(t.false for t in tallies) / sum(t.series_nights for t in tallies)
    a_night = [sum(getattr(t, name) for t in tallies) / (NIGHTS * len(tallies)) for name in ("suspicions", "reruns")]
    cells = [f"{step:.0%}" if step else "none", f"{false:.3f}", *(f"{n:.2f}" for n in a_night), *shares]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--steps", default="0,0.03,0.05,0.1,0.2", help="sizes of the step, relative; 0 is none")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    lines = [
        "# Whole nights: false alarms, and how soon a step is seen",
        "",
        f"`python -m benchmarks.nights --seeds {options.seeds} --first-seed {options.first_seed} "
        f"--steps {options.steps}`, {datetime.now(UTC):%Y-%m-%d}, policy {POLICY.name} {POLICY.version}, "
        f"{SERIES} series, {NIGHTS} nights. "
        "What is simulated stands at the head of benchmarks/nights.py; nothing here depends on the machine.",
        "",
        "| step | false per 1,000 series-nights | suspicions a night | re-runs a night | seen the first night | "
        "within 5 | within 14 |",
        "|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines), flush=True)
    for step in map(float, options.steps.split(",")):
        lines.append(row(step, [Simulation(options.first_seed + s, step).run() for s in range(options.seeds)]))
        print(lines[-1], flush=True)
    if options.out:
        options.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
