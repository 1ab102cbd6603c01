"""The telemetry of the device; it runs in a process without torch."""

from __future__ import annotations

import sys

from collector.node.readings import Reading


class ToyProbe:
    """Keeps collector.node.readings.Probe."""

    def __init__(self, unit: str) -> None:
        self.unit = unit

    def read(self) -> list[Reading]:
        return [
            Reading(metric="wobble", unit="share", value=float("torch" in sys.modules)),
            Reading(metric="sm_clock", unit="Hz", value=None, reason=f"{self.unit} has no such clock"),
        ]
