"""What can be asked of a run, and who is told what it is doing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bench_suite.suite import Suite
from collector.node.devices.base import DeviceIdentity
from store.bundle.schemas import RunKind


class RunError(RuntimeError):
    """A run that cannot be made as asked; one line: what, value, rule, way out. Exit code 2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What was asked for."""

    suite: str
    device: str = "auto"
    device_index: int = 0
    at_once: int = 1
    """Devices of this node that run at the same time, this one included."""
    replicates: int | None = None
    """None: as the suite says."""
    cases: tuple[str, ...] = ()
    """Only these case ids; empty: all of the suite."""
    case_limit_s: float = 120.0
    """A step of a case that takes longer is called hung."""
    revision: str | None = None
    kind: RunKind = RunKind.NIGHT
    confirms: str | None = None
    spool: Path
    """Folder that receives the bundle."""
    command: str = ""
    prepare_only: bool = False
    note: str | None = None
    destination: str = ""
    """The store that the run is for."""
    lock_clocks: str | None = None
    """base, max or MHz: hold an NVIDIA device's SM clock there (collector.node.clocks)."""
    audit: bool = False
    """Plant a slow-down of known size on one case, another in each run, to measure what the alarms see."""
    resume: bool = False
    """Go on with the newest run that was cut short here, where it is the same run."""
    budget_s: float | None = None
    """Seconds that the run may take; what does not fit is skipped with the figure, and has its turn another night."""
    sentinel: str | None = None
    """The interpreter of a frozen environment that runs beside the normal processes (collector.node.sentinel)."""
    sentinel_share: float = 0.25
    """Of the cases, so many are measured in the sentinel too."""
    keep_interrupted: bool = False
    """An interrupted run stays unfinished, to be resumed; else it is published as partial."""


class Reporter(Protocol):
    """Is told what the run is doing."""

    def started(self, suite: Suite, device: DeviceIdentity) -> None: ...
    def step(self, done: int, total: int, words: str) -> None: ...


class Silent:
    """Says nothing."""

    def started(self, suite: Suite, device: DeviceIdentity) -> None: ...
    def step(self, done: int, total: int, words: str) -> None: ...
