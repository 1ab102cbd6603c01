"""What others do to watch a series, behind one method `feed`: rules and statistics at their usual settings.

Methods that look at a whole series are run anew after every value, as a service that is called each night would; a
change is said once, where it is at least 6 values from any said before.
"""

from __future__ import annotations

import json
import math
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from numba import njit

from benchmarks.detection_streams import Found, Stream, Values
from detection.online import OnlineDetector

FEWEST = 20


class Ours:
    """`detection.OnlineDetector` as shipped."""

    def __init__(self) -> None:
        self._detector = OnlineDetector()

    def feed(self, value: float) -> tuple[int, int] | None:
        alert = self._detector.update(value)
        return None if alert is None else (alert.change, alert.direction)


class Ratio:
    """An alert where a value differs from the mean of the last `back` by more than a share (a fixed threshold)."""

    def __init__(self, share: float, back: int) -> None:
        self._limit = math.log1p(share)
        self._back = back
        self._values: list[float] = []

    def feed(self, value: float) -> tuple[int, int] | None:
        self._values.append(math.log(value))
        if len(self._values) <= FEWEST:
            return None
        change = self._values[-1] - float(np.mean(self._values[-1 - self._back : -1]))
        if abs(change) <= self._limit:
            return None
        return len(self._values) - 1, 1 if change > 0 else -1


class TwoWindows:
    """Welch's t between the newest 12 values and the 24 before them (Perfherder's windows), alert beyond `limit`.

    At its local maximum only, as Perfherder does: said when t has begun to fall.
    """

    def __init__(self, limit: float, fore: int = 12, back: int = 24) -> None:
        self._limit = limit
        self._fore = fore
        self._back = back
        self._values: list[float] = []
        self._last = 0.0
        self._said = -math.inf

    def feed(self, value: float) -> tuple[int, int] | None:
        self._values.append(math.log(value))
        n = len(self._values)
        if n < self._fore + FEWEST:
            return None
        new = np.array(self._values[-self._fore :])
        old = np.array(self._values[max(0, n - self._fore - self._back) : n - self._fore])
        error = math.sqrt(new.var(ddof=1) / new.size + old.var(ddof=1) / old.size)
        t = float(new.mean() - old.mean()) / max(error, 1e-12)
        last, self._last = self._last, t
        change = n - 1 - self._fore
        if abs(last) > self._limit and abs(t) < abs(last) and change - self._said > 5:
            self._said = change
            return change, 1 if last > 0 else -1
        return None


class Cusum:
    """Page's CUSUM on deviations from the first 20 values since the last alert; slack and limit in sd."""

    def __init__(self, slack: float = 0.5, limit: float = 5.0) -> None:
        self._slack = slack
        self._limit = limit
        self._fed = 0
        self._restart()

    def _restart(self) -> None:
        self._base: list[float] = []
        self._sums = [0.0, 0.0]
        self._starts = [self._fed, self._fed]

    def feed(self, value: float) -> tuple[int, int] | None:
        x = math.log(value)
        self._fed += 1
        if len(self._base) < FEWEST:
            self._base.append(x)
            self._starts = [self._fed, self._fed]
            return None
        centre = float(np.median(self._base))
        sd = max(1.4826 * float(np.median(np.abs(np.array(self._base) - centre))), 1e-3)
        for i, sign in enumerate((1, -1)):
            self._sums[i] = max(0.0, self._sums[i] + sign * (x - centre) / sd - self._slack)
            if self._sums[i] == 0:
                self._starts[i] = self._fed
            if self._sums[i] > self._limit:
                change = self._starts[i]
                self._restart()
                return change, sign
        return None


class Pelt:
    """PELT (Killick, Fearnhead and Eckley 2012) with squared error and penalty 3 log n, anew after every value."""

    def __init__(self, penalty: float = 3.0) -> None:
        self._penalty = penalty
        self._values: list[float] = []
        self._said: list[int] = []

    def feed(self, value: float) -> tuple[int, int] | None:
        self._values.append(math.log(value))
        if len(self._values) < FEWEST:
            return None
        x = np.array(self._values)
        sd = max(1.4826 * float(np.median(np.abs(np.diff(x) - np.median(np.diff(x))))) / math.sqrt(2), 1e-6)
        found = pelt(x / sd, self._penalty * math.log(x.size))
        for change in found:
            if all(abs(change - said) > 5 for said in self._said):
                self._said.append(int(change))
                return int(change), 1 if x[change:].mean() > x[:change].mean() else -1
        return None


@njit(cache=True)
def pelt(x: Values, penalty: float) -> Values:
    """Change points of the segmentation with the least squared error plus penalty a segment, at least 2 values each."""
    n = len(x)
    sums = np.zeros(n + 1)
    squares = np.zeros(n + 1)
    for i in range(n):
        sums[i + 1] = sums[i] + x[i]
        squares[i + 1] = squares[i] + x[i] * x[i]
    best = np.full(n + 1, np.inf)
    best[0] = -penalty
    last = np.zeros(n + 1, dtype=np.int64)
    alive = np.zeros(n + 1, dtype=np.bool_)
    alive[0] = True
    for end in range(2, n + 1):
        for start in range(end - 1):
            if alive[start]:
                cost = squares[end] - squares[start] - (sums[end] - sums[start]) ** 2 / (end - start)
                if best[start] + cost + penalty < best[end]:
                    best[end] = best[start] + cost + penalty
                    last[end] = start
        for start in range(end - 1):
            if alive[start]:
                cost = squares[end] - squares[start] - (sums[end] - sums[start]) ** 2 / (end - start)
                alive[start] = best[start] + cost <= best[end]
        alive[end - 1] = end - 1 >= 2
    found = []
    at = n
    while at > 0:
        at = last[at]
        if at > 0:
            found.append(at)
    return np.array(found[::-1], dtype=np.int64)


OTAVA = """
import json, sys, time
from otava.analysis import compute_change_points
streams = json.load(open(sys.argv[1]))
window, p = int(sys.argv[3]), float(sys.argv[4])
out, start = [], time.process_time()
for x in streams:
    said, found, weak = [], [], None
    for end in range(20, len(x) + 1):
        points, weak = compute_change_points(
            x[:end], window_len=window, max_pvalue=p, new_data=None if weak is None else 1, old_weak_cp=weak
        )
        for point in points:
            if all(abs(point.index - one) > 5 for one in said):
                said.append(point.index)
                found.append((end - 1, int(point.index), 1 if point.stats.mean_2 > point.stats.mean_1 else -1))
                break
    out.append(found)
json.dump({"seconds": time.process_time() - start, "alerts": out}, open(sys.argv[2], "w"))
"""


def otava(python: Path, streams: list[Stream], p: float, window: int = 50) -> tuple[list[list[Found]], float]:
    """Apache Otava in an environment of its own (its numpy is older), in its appending mode: alerts, CPU seconds."""
    with tempfile.TemporaryDirectory() as folder:
        given, got = Path(folder) / "streams.json", Path(folder) / "alerts.json"
        given.write_text(json.dumps([stream.values.tolist() for stream in streams]))
        subprocess.run([str(python), "-c", OTAVA, str(given), str(got), str(window), str(p)], check=True)
        answer = json.loads(got.read_text())
    found = [[tuple(one) for one in said] for said in answer["alerts"]]
    return found, float(answer["seconds"])
