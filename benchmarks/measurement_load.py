"""The load on the other core: a process that multiplies matrices and streams memory, stopped and continued by signals.

python -m benchmarks.measurement_load CORE PARENT
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

ARRAY_BYTES = 64 * 2**20
SWITCH_S = 0.05
"""Until a stopped or continued load is felt: caches filled or left."""


class OtherCore:
    """The load, stopped until asked for. It dies with its parent, however that ends."""

    def __init__(self, core: int) -> None:
        command = [sys.executable, "-m", "benchmarks.measurement_load", str(core), str(os.getpid())]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
        assert self._process.stdout is not None
        self._process.stdout.readline()  # ready
        self._running = True
        self.switch(on=False)

    def switch(self, *, on: bool) -> None:
        if on != self._running:
            self._process.send_signal(signal.SIGCONT if on else signal.SIGSTOP)
            self._running = on
            time.sleep(SWITCH_S)

    def __enter__(self) -> OtherCore:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()


def core_ticks(core: int) -> tuple[int, int]:
    """Busy and all ticks of a core since boot, from /proc/stat."""
    line = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith(f"cpu{core} "))
    ticks = [int(field) for field in line.split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def main() -> None:
    from collector.node.worker import die_with_parent

    core, parent = int(sys.argv[1]), int(sys.argv[2])
    die_with_parent(parent)
    os.sched_setaffinity(0, {core})
    import torch

    torch.set_num_threads(1)
    a, b = torch.randn(2, 512, 512)
    source, target = torch.zeros(2, ARRAY_BYTES // 4)
    print("ready", flush=True)
    while True:
        for _ in range(4):
            torch.mm(a, b)
        target.copy_(source)


if __name__ == "__main__":
    main()
