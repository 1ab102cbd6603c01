"""What the siblings of a series take out of its noise, and what that does to the judging of a night.

Simulated: one night after 60 runs on a host whose own level wanders from run to run; each series goes with it by a
share of its own. Some series step tonight. The same night is judged with and without its siblings. Recorded: every run
of the histories of a file (columns source, series, t, value, unit; one row a series and run) against the up to 60 runs
before it, likewise twice: how far off it is, and how often the run is said to have moved as a whole.

Usage: python -m benchmarks.common_mode [--nights 40] [--histories FILE.parquet]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from detection.common_mode import Siblings, sibling_moves
from detection.discovery import row_medians
from detection.night import Night, judge_night
from detection.night_evidence import evidence_of
from detection.policy import Policy
from detection.stats import MAD_TO_SD
from detection.verdict import Metric, ReasonCode

Floats = NDArray[np.float64]
POLICY = Policy()
WINDOW, FIRST = POLICY.night.history_window, 20
"""Runs before the one that is judged: at most, at least."""
SERIES, ARMS, RUNS = 200, 4, 60
OWN, STEP = 0.02, 0.10
CALLED = frozenset({ReasonCode.BEYOND_FLOOR})
ASKED = CALLED | {ReasonCode.SUSPICIOUS, ReasonCode.RECENT_NIGHTS}


def make_night(values: Floats, cases: NDArray[np.int64], control: NDArray[np.bool_]) -> Night:
    """The last column of [S, R + 1] against the others, times of an accelerator."""
    rows, runs = values.shape[0], values.shape[1] - 1
    everyone = np.ones(rows, dtype=bool)
    least, least_controls = POLICY.common_mode.minimum_cases, POLICY.night.scatter_from
    moves = sibling_moves(values, cases, control, everyone, least=least, least_controls=least_controls)
    return Night(
        metric=Metric.LATENCY,
        device_kind="cuda",
        subjects=tuple(map(str, range(rows))),
        value=values[:, -1],
        processes=np.ones(rows, dtype=np.int64),
        process_sd=np.full(rows, np.nan),
        history=values[:, :-1],
        history_process_variance=np.full(rows, np.nan),
        history_process_df=np.full(rows, float(runs)),
        control=control,
        absent=(None,) * rows,
        siblings=Siblings(history=moves[:, :-1], tonight=moves[:, -1]),
    )


@dataclass
class Count:
    """Series of many nights, judged one way."""

    stepped: int = 0
    called: int = 0
    asked: int = 0
    quiet: int = 0
    false: int = 0
    false_asked: int = 0
    shifts: int = 0
    visible: list[float] = field(default_factory=list)

    def add(self, night: Night, stepped: NDArray[np.bool_]) -> None:
        judged = judge_night(night, POLICY)
        codes = [v.code for v in judged.verdicts]
        up = np.array([(v.change or 0.0) > 0 for v in judged.verdicts])
        called, asked = (np.array([c in wanted for c in codes]) for wanted in (CALLED, ASKED))
        self.stepped += int(stepped.sum())
        self.quiet += int((~stepped).sum())
        self.called += int((called & up & stepped).sum())
        self.asked += int((asked & up & stepped).sum())
        self.false += int((called & ~stepped).sum())
        self.false_asked += int((asked & ~stepped).sum())
        self.shifts += judged.shift is not None and not judged.shift.usual
        self.visible.append(float(np.median([v.smallest_visible_change or np.nan for v in judged.verdicts])))

    def cells(self) -> str:
        hit = "- / -" if not self.stepped else f"{self.called / self.stepped:.2f} / {self.asked / self.stepped:.2f}"
        false = f"{1000 * self.false / self.quiet:.1f} / {1000 * self.false_asked / self.quiet:.0f}"
        return f"{hit} | {false} | {np.median(self.visible):.1%}"


def simulated_night(
    rng: np.random.Generator, *, host: float, share: float, controls: bool, goes_along: float | None = None
) -> tuple[Night, NDArray[np.bool_]]:
    """A night, and which of its series stepped. Half of the arms are controls, which never step, or none is."""
    level = rng.normal(0, host, RUNS + 1)
    along = rng.uniform(0, 1, SERIES) if goes_along is None else np.full(SERIES, goes_along)
    x = rng.normal(0, OWN, (SERIES, RUNS + 1)) + along[:, None] * level + rng.normal(0, 2, (SERIES, 1))
    cases, control = np.arange(SERIES) // ARMS, (np.arange(SERIES) % ARMS < ARMS // 2) & controls
    stepped = np.zeros(SERIES, dtype=bool)
    stepped[rng.choice(np.flatnonzero(~control), int(share * SERIES), replace=False)] = True
    x[stepped, -1] += np.log1p(STEP)
    return make_night(np.exp(x), cases, control), stepped


def simulated(nights: int) -> Iterator[str]:
    """Lines of the table of simulated nights."""
    yield (
        "| host sd | series that step by 10 % | siblings | called / suspected, of those that stepped "
        "| of 1,000 others | smallest visible change | runs said to have moved as a whole |"
    )
    yield "|" + "---|" * 7
    settings = [(0.0, 0.0, True), (0.03, 0.0, True), (0.03, 0.01, True), (0.03, 0.1, True), (0.03, 0.3, True)]
    settings += [(0.03, 0.3, False), (0.03, 0.45, True), (0.03, 0.45, False), (0.1, 0.0, True), (0.1, 0.1, True)]
    for host, share, controls in settings:
        counts = {"unused": Count(), "used": Count()}
        for seed in range(nights):
            night, stepped = simulated_night(np.random.default_rng(seed), host=host, share=share, controls=controls)
            counts["unused"].add(replace(night, siblings=None), stepped)
            counts["used"].add(night, stepped)
        for name, count in counts.items():
            who = f"{share:.0%}{'' if controls else ', no controls'}"
            yield f"| {host:.0%} | {who} | {name} | {count.cells()} | {count.shifts} of {nights} |"


def recorded(path: Path) -> Iterator[str]:
    """Lines of the table of recorded histories, one a source."""
    table = pq.read_table(path).to_pandas()
    yield (
        "| source | series x runs | noise of a run before | after ÷ before: median, p90 | series less noisy "
        "| coefficient above 0 | runs said to have moved as a whole, before | after |"
    )
    yield "|" + "---|" * 8
    for source, part in table.groupby("source"):
        wide = part.pivot_table(index="series", columns="t", values="value", aggfunc="last").to_numpy()
        rate = "/" in str(part["unit"].iloc[0])
        yield f"| {source} | {_source(1 / wide if rate else wide)} |"


def _source(values: Floats) -> str:
    rows, runs = values.shape
    before, after, follows = (np.full((rows, runs), np.nan) for _ in range(3))
    shifts = np.zeros(2)
    for column in range(FIRST, runs):
        window = values[:, max(0, column - WINDOW) : column + 1]
        night = make_night(window, np.arange(rows), np.zeros(rows, dtype=bool))
        with_siblings, plain = (evidence_of(n, POLICY) for n in (night, replace(night, siblings=None)))
        known = np.isfinite(plain.change) & (plain.runs >= FIRST)
        before[known, column], after[known, column] = plain.change[known], with_siblings.change[known]
        follows[known, column] = with_siblings.common[known] != 0
        said = [judge_night(n, POLICY).shift for n in (replace(night, siblings=None), night)]
        shifts += [shift is not None and not shift.usual for shift in said]
    was, now = (MAD_TO_SD * row_medians(np.abs(x)) for x in (before, after))
    asked = np.flatnonzero((was > 1e-4) & (np.isfinite(before).sum(axis=1) >= FIRST))
    ratio, share = now[asked] / was[asked], shifts / (runs - FIRST)
    return (
        f"{asked.size} x {runs - FIRST} | {np.median(was[asked]):.1%} "
        f"| {np.median(ratio):.2f}, {np.quantile(ratio, 0.9):.2f} "
        f"| {np.mean(ratio < 1):.0%} | {np.nanmean(follows):.0%} | {share[0]:.0%} | {share[1]:.0%}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nights", type=int, default=40)
    parser.add_argument("--histories", type=Path)
    args = parser.parse_args()
    for line in simulated(args.nights):
        print(line, flush=True)
    if args.histories is not None:
        print()
        for line in recorded(args.histories):
            print(line, flush=True)


if __name__ == "__main__":
    main()
