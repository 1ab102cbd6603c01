"""What all rows of a run share, and what names a series: case, arm, device, settings."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bench_suite.contract import Case
from bench_suite.contracts import contract
from bench_suite.roofline import Ceilings
from bench_suite.suite import Suite
from collector.node.devices.base import DeviceIdentity
from collector.node.ledger import CaseRecord
from collector.node.marks import HeldBack
from collector.node.protocol import Arm, Hello
from collector.node.replay import replays

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What all rows of a run share."""

    run_id: str
    measured_at: datetime
    host: str
    identity: DeviceIdentity
    suite: Suite
    ceilings: Ceilings | None
    threads: int
    held_back: tuple[HeldBack, ...] = ()
    """When the device was throttled; the samples of those times are marked."""
    contended: tuple[HeldBack, ...] = ()
    """When others had its cores, or the device."""
    waits: tuple[tuple[float, float], ...] = ()
    """(monotonic seconds, share) of how much of its time the run waited for a core."""
    at_once: int = 1
    """Devices of the node that ran at the same time: they share power, links and the host's cores."""
    hello: Hello | None = None
    """What the worker told of its device and of the clocks that it times by."""
    clocks: tuple[tuple[float, float], ...] = ()
    """(monotonic seconds, Hz) of the SM clock, where the device tells it."""


def subject_id(case: Case, arm: str, settings: Row, identity: DeviceIdentity) -> str:
    """Sixteen hex digits that name what is measured: case, arm, device model, slice and unit, settings."""
    parts = [
        case.case_id,
        arm,
        identity.model,
        identity.slice or "",
        identity.unit,
        json.dumps(settings, sort_keys=True),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def timer_of(record: CaseRecord, facts: RunFacts) -> str:
    """How calls are timed: `graph` where they are replayed, else the clock of the ratios.

    Of a case that was never timed, how it would have been: the series of a case that fails goes on.
    """
    if record.replayed:
        return "graph"
    if record.ratio_timer or facts.hello is None:
        return record.ratio_timer or "none"
    case = record.planned.case
    if contract(case.operator).collective:
        return facts.hello.ranks_timer
    planned = replays(case, facts.hello, facts.identity) and not record.no_replay
    return "graph" if planned else facts.hello.timer


def settings_of(record: CaseRecord, arm: Arm, facts: RunFacts) -> Row:
    """What changes the reading of a kernel and is not its shape: part of the series key."""
    case = record.planned.case
    settings: Row = {"cache": case.cache, "threads": facts.threads, "timer": timer_of(record, facts)}
    if contract(case.operator).collective:
        settings["ranks"] = case["ranks"]
    if facts.at_once > 1:
        settings["at_once"] = facts.at_once
    if arm.planted is not None:
        settings["planted"] = arm.planted
    return settings
