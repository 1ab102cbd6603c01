"""How much memory a case needs, and how much is free: asked before it runs, not found out by it."""

from __future__ import annotations

from pathlib import Path

from bench_suite.contract import Case
from bench_suite.contracts import contract
from collector.node.arena import sets_needed
from collector.node.devices.base import DeviceIdentity

REFERENCE_SIZE_BYTES = 8
"""The reference computes in float64."""


def needed_bytes(case: Case, identity: DeviceIdentity) -> int:
    """An upper estimate: the arena of input sets, a fresh set, and the reference's copy in float64."""
    one = contract(case.operator).input_bytes(case)
    arena = one * sets_needed(int(one), identity.cache_bytes)
    reference = one * REFERENCE_SIZE_BYTES / case.dtype.size_bytes
    return int(arena + one + reference)


def available_bytes() -> int:
    """Memory that the system can give without swapping, from /proc/meminfo."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/meminfo has no MemAvailable; a kernel of 3.14 or later has it")
