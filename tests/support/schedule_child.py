"""Keeps a schedule whose jobs do nothing, until SIGTERM: `schedule_child.py CONFIG STATE`."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from collector.host.schedule import job
from collector.host.schedule.daemon import Daemon


def main() -> None:
    job.PROGRAM = (sys.executable, "-S", "-c", "pass")
    daemon = Daemon(Path(sys.argv[1]), Path(sys.argv[2]), tick_s=0.1)
    signal.signal(signal.SIGTERM, lambda *_: daemon.stop())
    daemon.run()


if __name__ == "__main__":
    main()
