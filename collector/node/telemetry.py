"""The telemetry process: samples the device beside the run and joins it by monotonic time.

A process, not a thread of the worker: a thread adds tails to what it watches (docs/method.md, telemetry). It imports no
torch. Every metric may be missing; then its value is null and its reason says why, once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from importlib.metadata import entry_points
from pathlib import Path
from typing import IO

from collector.node.amd import DRIVER, AmdProbe
from collector.node.marks import CORE_WAIT
from collector.node.nvml import NvmlProbe
from collector.node.readings import PROBE_ENTRY_POINT_GROUP, Probe, Reading, TimedReading, one

PERIOD_S = 0.5


class HostProbe:
    """Load, steal and busy share, free memory, clock of the host, and how often our processes lost a core."""

    def __init__(self, proc: Path = Path("/proc"), parent: int | None = None) -> None:
        """`parent` is the process whose descendants are watched; by default the parent of this one."""
        self.proc = proc
        self.parent = os.getppid() if parent is None else parent
        self._before = self._ticks()
        self._switched: dict[int, int] = {}
        self._scheduled: dict[str, tuple[int, int]] = {}

    def read(self) -> list[Reading]:
        return [
            one("load_1m", "processes", self._load),
            *self._shares(),
            one("memory_available", "bytes", self._memory),
            one("clock", "Hz", self._clock),
            one("involuntary_switches", "count", self._switches),
            one(CORE_WAIT, "share", self._core_wait),
        ]

    def _load(self) -> float:
        return float((self.proc / "loadavg").read_text().split()[0])

    def _memory(self) -> float:
        lines = (self.proc / "meminfo").read_text().splitlines()
        return float(next(line for line in lines if line.startswith("MemAvailable")).split()[1]) * 1024

    def _clock(self) -> float:
        lines = (self.proc / "cpuinfo").read_text().splitlines()
        clocks = [float(line.partition(":")[2]) * 1e6 for line in lines if line.startswith("cpu MHz")]
        return sum(clocks) / len(clocks)

    def _switches(self) -> float:
        """How often the run's processes were taken off a core since the last reading (nonvoluntary_ctxt_switches)."""
        before, self._switched = self._switched, {}
        for pid in self._descendants():
            try:
                status = (self.proc / str(pid) / "status").read_text()
            except OSError:
                continue  # it has just ended
            self._switched[pid] = int(status.rpartition("nonvoluntary_ctxt_switches:")[2])
        return float(sum(count - before.get(pid, 0) for pid, count in self._switched.items()))

    def _core_wait(self) -> float:
        """Share of the time in which the run's threads wanted a core and had none, since the last reading.

        /proc/PID/task/TID/schedstat: nanoseconds on a core, nanoseconds on a run queue (Documentation/scheduler/
        sched-stats.rst). 0 where nothing of the run wanted one.
        """
        before, self._scheduled = self._scheduled, {}
        for pid in self._descendants():
            for path in (self.proc / str(pid) / "task").glob("*/schedstat"):
                try:
                    ran, waited = path.read_text().split()[:2]
                except OSError:
                    continue  # it has just ended
                self._scheduled[path.parent.name] = (int(ran), int(waited))
        grown = [(r - before[t][0], w - before[t][1]) for t, (r, w) in self._scheduled.items() if t in before]
        ran_ns, waited_ns = sum(r for r, _ in grown), sum(w for _, w in grown)
        return waited_ns / (ran_ns + waited_ns) if ran_ns + waited_ns > 0 else 0.0

    def _descendants(self) -> list[int]:
        found, waiting = [], [self.parent]
        while waiting:
            pid = waiting.pop()
            children = self.proc / str(pid) / "task" / str(pid) / "children"
            below = [int(child) for child in children.read_text().split()] if children.exists() else []
            found += below
            waiting += below
        return [pid for pid in found if pid != os.getpid()]

    def _ticks(self) -> list[int]:
        try:
            return [int(x) for x in (self.proc / "stat").read_text().split("\n", 1)[0].split()[1:9]]
        except (OSError, ValueError):
            return []

    def _shares(self) -> list[Reading]:
        """Shares of all cores' time since the last reading: user nice system idle iowait irq softirq steal."""
        now = self._ticks()
        spent = [b - a for a, b in zip(self._before, now, strict=False)]
        self._before = now
        total = sum(spent)
        if len(spent) < 8 or total <= 0:
            why = "/proc/stat does not tell" if len(spent) < 8 else "no time passed"
            return [Reading(metric=m, unit="share", value=None, reason=why) for m in ("steal", "busy")]
        busy = 1 - (spent[3] + spent[4]) / total
        return [
            Reading(metric="steal", unit="share", value=spent[7] / total),
            Reading(metric="busy", unit="share", value=busy),
        ]


def probes(kind: str, unit: str) -> list[Probe]:
    """What can be read for a device: always the host; what its kind has; a package's own probe before ours."""
    found: list[Probe] = [HostProbe()]
    entries = entry_points(group=PROBE_ENTRY_POINT_GROUP, name=kind)
    for entry in entries:
        try:
            found.append(entry.load()(unit))
        except Exception as error:  # a package of somebody else may raise anything; the run goes on without it
            found.append(NoProbe(f"{entry.value} failed: {error}"))
    if not entries and kind == "cuda":
        found.append(AmdProbe(unit) if DRIVER.exists() else NvmlProbe(unit))
    return found


class NoProbe:
    """Stands where a probe could not be opened, and says why."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def read(self) -> list[Reading]:
        return [Reading(metric="device", unit="", value=None, reason=self.reason)]


def sample_forever(out: IO[str], readers: list[Probe], period_s: float) -> None:
    """Write a JSON line a reading; a null is written once a metric, until it has a value again."""
    silent: set[str] = set()
    while True:
        at, monotonic = time.time(), time.monotonic()
        for reader in readers:
            for reading in _read(reader):
                if reading.value is None and reading.metric in silent:
                    continue
                (silent.add if reading.value is None else silent.discard)(reading.metric)
                row = [monotonic, at, reading.metric, reading.unit, reading.value, reading.reason]
                out.write(json.dumps(row) + "\n")
        out.flush()
        time.sleep(period_s)


def _read(probe: Probe) -> list[Reading]:
    try:
        return probe.read()
    except Exception as error:  # a package's probe may raise anything; the others go on
        return [Reading(metric="device", unit="", value=None, reason=f"{type(probe).__name__} failed: {error}")]


class TelemetryProcess:
    """Runs beside a run; `stop` gives what it saw. It dies with its parent."""

    def __init__(self, path: Path, *, kind: str, unit: str, period_s: float = PERIOD_S) -> None:
        self.path = path
        self._process = subprocess.Popen(
            [sys.executable, "-m", "collector.node.telemetry", str(path), kind, unit, str(period_s), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def stop(self) -> list[TimedReading]:
        """End it; everything that it wrote whole."""
        self._process.kill()
        self._process.wait()
        return read_telemetry(self.path)


def read_telemetry(path: Path) -> list[TimedReading]:
    """The readings in a file of a telemetry process."""
    rows = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            monotonic, at, metric, unit, value, reason = json.loads(line)
        except ValueError:
            continue  # the last line may be cut by the end of the process
        reading = Reading(metric=metric, unit=unit, value=value, reason=reason)
        rows.append(TimedReading(monotonic_s=monotonic, unix_s=at, reading=reading))
    return rows


def main() -> int:
    from collector.node.worker import die_with_parent

    path, kind, unit, period_s = Path(sys.argv[1]), sys.argv[2], sys.argv[3], float(sys.argv[4])
    die_with_parent(int(sys.argv[5]))
    if hasattr(os, "nice"):
        os.nice(5)
    with path.open("w") as out:
        sample_forever(out, probes(kind, unit), period_s)
    return 0


if __name__ == "__main__":
    sys.exit(main())
