"""What judging costs: many whole histories at once, and one new night of a large fleet with its state in the lake.

python -m benchmarks.judging_scale [--histories 10000] [--series 100000] [--out FILE.md]

The night is what the host does with it after loading: the detectors' states are read from `detector_state`, every one
is fed one value, tonight is judged against sixty earlier runs of each series, and all states are written back. Wall
clock and CPU time of this process stand side by side: on a machine that others use only the second is of the code.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from detection.night import Night, judge_night
from detection.online import OnlineDetector, judge_many
from detection.policy import Policy
from detection.verdict import Metric
from store.lake.lake import Lake

POINTS, HISTORY, SIGMA, METRIC = 120, 60, 0.02, Metric.LATENCY_RATIO
DISTINCT = 2_000
"""Series that are simulated; a larger fleet repeats them, since making it must not take longer than judging it."""
_STATES = "SELECT subject_id, state FROM detector_state ORDER BY subject_id"


@dataclass(slots=True)
class Clock:
    """Wall-clock and CPU seconds by step."""

    steps: list[tuple[str, float, float]] = field(default_factory=list)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.steps.append((name, time.perf_counter() - wall, time.process_time() - cpu))

    def rows(self) -> list[str]:
        """Lines of a Markdown table, the sum last."""
        steps = [*self.steps, ("**all**", sum(s[1] for s in self.steps), sum(s[2] for s in self.steps))]
        head = ["| step | wall s | CPU s |", "|---|---|---|"]
        return head + [f"| {name} | {wall:.1f} | {cpu:.1f} |" for name, wall, cpu in steps]


def values_of(rng: np.random.Generator, series: int, points: int) -> NDArray[np.float64]:
    """[series, points] of 2 % noise around levels of their own; 1 % of the series step by 5 % half-way."""
    x = rng.normal(0.0, SIGMA, (series, points)) + rng.normal(0.0, 1.0, (series, 1))
    x[rng.random(series) < 0.01, points // 2 :] += np.log1p(0.05)
    return np.exp(x)


def whole_histories(series: int) -> Clock:
    """A fresh detector over every value of every series."""
    histories = values_of(np.random.default_rng(1), series, POINTS)
    judge_many(histories[:10])
    clock = Clock()
    with clock.step(f"{series:,} series x {POINTS} values"):
        judge_many(histories)
    return clock


def store_states(lake: Lake, values: NDArray[np.float64]) -> int:
    """States of detectors that have seen all but tonight's value; their size in bytes."""
    detectors = []
    for history in values[:DISTINCT]:
        detector = OnlineDetector()
        for value in history[:-1].tolist():
            detector.update(value)
        detectors.append(detector)
    rows = [_row(i, POINTS - 1, detectors[i % DISTINCT]) for i in range(len(values))]
    lake.overwrite("detector_state", rows)
    sizes = [len(detector.to_state()) for detector in detectors]
    return sum(sizes[i % DISTINCT] for i in range(len(values)))


def one_night(lake: Lake, values: NDArray[np.float64]) -> Clock:
    """Tonight's column of `values` for every series."""
    clock, tonight = Clock(), values[:, -1]
    with clock.step("read the detectors' states"):
        table = lake.sql(_STATES)
        states = table["state"].to_pylist()
    with clock.step("restore, feed one value, keep"):
        rows = []
        for i, (state, value) in enumerate(zip(states, tonight.tolist(), strict=True)):
            detector = OnlineDetector.from_state(state)
            detector.update(value)
            rows.append(_row(i, POINTS, detector))
    with clock.step(f"judge tonight against {HISTORY} earlier runs each"):
        judge_night(_night(values[:, -HISTORY - 1 :]), Policy())
    with clock.step("write the states"):
        lake.overwrite("detector_state", rows)
    return clock


def _row(i: int, n: int, detector: OnlineDetector) -> dict[str, object]:
    return {
        "subject_id": f"s{i:07d}",
        "metric": METRIC.value,
        "as_of_seq": n,
        "n": detector.fed,
        "state": detector.to_state(),
    }


def _night(values: NDArray[np.float64]) -> Night:
    series, earlier = values.shape[0], values.shape[1] - 1
    return Night(
        metric=METRIC,
        device_kind="cuda",
        subjects=tuple(f"s{i:07d}" for i in range(series)),
        value=values[:, -1],
        processes=np.full(series, 3),
        process_sd=np.full(series, SIGMA),
        history=values[:, :-1],
        history_process_variance=np.full(series, SIGMA**2),
        history_process_df=np.full(series, 2.0 * earlier),
        control=np.zeros(series, dtype=bool),
        absent=(None,) * series,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=10_000)
    parser.add_argument("--series", type=int, default=100_000)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    load = os.getloadavg()[0]
    whole = whole_histories(args.histories)
    distinct = values_of(np.random.default_rng(2), min(args.series, DISTINCT), POINTS)
    values = np.tile(distinct, (-(-args.series // len(distinct)), 1))[: args.series]
    with tempfile.TemporaryDirectory() as folder:
        lake = Lake.create(Path(folder) / "store")
        size = store_states(lake, values)
        night = one_night(lake, values)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    text = "\n".join(
        [
            "# What judging costs",
            "",
            f"`python -m benchmarks.judging_scale`, {datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores with a load "
            f"of {load:.0f} from others, Python {platform.python_version()}. One process; CPU time is of all its "
            "threads.",
            "",
            "## Whole histories",
            "",
            *whole.rows(),
            "",
            f"## One new night of {args.series:,} series",
            "",
            f"States of {size / args.series / 1e3:.1f} kB, {size / 1e6:.0f} MB in all ({DISTINCT:,} distinct series, "
            f"repeated). Largest memory {memory:.1f} GiB.",
            "",
            *night.rows(),
            "",
        ]
    )
    if args.out:
        args.out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
