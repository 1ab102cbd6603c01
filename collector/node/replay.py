"""Short calls: recorded once for every input set, then replayed, so that the device is timed and not the host.

Which cases are short is decided before anything is measured, from the least time that the case takes by the device's
datasheet: the way of timing is part of the series, and must not change from night to night.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bench_suite.contract import Case
from bench_suite.contracts import contract
from bench_suite.datasheets import datasheet
from bench_suite.roofline import CeilingKind, Ceilings, roofline
from collector.node.devices.base import Call, Device, DeviceIdentity, Replaying
from collector.node.protocol import Hello

SHORT_CALL_S = 50e-6
"""Below this the host's part of a call is as long as the device's (METHOD: 5 to 20 us a launch)."""
USUAL_ROOF_SHARE = 0.5
"""A good kernel of a short case takes about twice its roof: launch, ramp and tail."""
MOST_GRAPHS = 64
"""Of one arm. An arena of more sets is recorded in groups of consecutive sets."""
NOMINAL = Ceilings(
    flop_per_s={}, bandwidth_bytes_per_s=1e12, kind=CeilingKind.DATASHEET, source="nominal, of a device without one"
)
"""Only for the question whether a call is short, on a device without a datasheet."""
NOMINAL_FLOP_PER_S = 5e13


def can_replay(device: Device) -> bool:
    """Whether the device can record calls and launch them again."""
    return isinstance(device, Replaying) and device.can_replay()


def replays(case: Case, hello: Hello, identity: DeviceIdentity) -> bool:
    """Whether the calls of this case are to be replayed on the device that said hello: a plan, not a measurement."""
    return hello.replays and hello.timer == "device_event" and is_short(case, identity)


def is_short(case: Case, identity: DeviceIdentity) -> bool:
    """Whether a call is expected to take less than SHORT_CALL_S, and may be made again on the same inputs."""
    promise = contract(case.operator)
    if promise.collective or promise.updates:
        return False
    sheet = datasheet(identity.model)
    least_s = roofline(case, sheet.ceilings()).latency_s if sheet is not None else None
    if least_s is None:
        memory_s = promise.traffic_bytes(case) / NOMINAL.bandwidth_bytes_per_s
        least_s = max(promise.flops(case) / NOMINAL_FLOP_PER_S, memory_s)
    return least_s < SHORT_CALL_S * USUAL_ROOF_SHARE


class ReplaySets:
    """The sets of an arena in groups that are replayed as one, with a cursor that every arm advances alike."""

    def __init__(self, sets: Sequence[tuple[Any, ...]], most_graphs: int = MOST_GRAPHS) -> None:
        self.calls_each = -(-len(sets) // most_graphs)
        whole = len(sets) - len(sets) % self.calls_each
        self.groups = [sets[i : i + self.calls_each] for i in range(0, whole, self.calls_each)]
        self._cursor = 0

    def capture(self, function: Callable[..., object], device: Replaying) -> Call:
        """A call without arguments that makes `calls_each` calls of `function`, on the next group of sets."""
        launches = device.capture([_all(function, group) for group in self.groups])

        def replay() -> None:
            launch = launches[self._cursor]
            self._cursor = (self._cursor + 1) % len(self.groups)
            launch()

        return replay


def _all(function: Callable[..., object], group: Sequence[tuple[Any, ...]]) -> Call:
    """Every call of a group; their results are dropped as the caller of each would."""

    def calls() -> None:
        for inputs in group:
            function(*inputs)

    return calls
