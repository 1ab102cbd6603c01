"""Joules of one call, from a counter that ticks slower than calls are made."""

from __future__ import annotations

import time
from collections.abc import Callable

from collector.node.devices.base import Call, DeviceIdentity, EnergyUse
from collector.node.nvml import energy_j, open_nvml

LEAST_S = 1.0
"""Calls are made for at least this long between two ticks; NVML's counter ticks every 20 to 100 ms."""
STILL_S = 2.0
"""A counter that has not ticked for this long stands still."""
BATCH_S = 5e-3
"""Queued before the counter is looked at again."""


def joules_per_call(
    call: Call,
    synchronize: Callable[[], None],
    counter: Callable[[], float],
    *,
    now: Callable[[], float] = time.monotonic,
) -> EnergyUse:
    """What the counter grew by from one tick to another, divided by the calls between them.

    From tick to tick, so that the counter's coarseness does not enter: both ends are moments at which it was right.
    """
    call()
    synchronize()
    begun = now()
    call()
    synchronize()
    batch = max(1, int(BATCH_S / max(now() - begun, 1e-9)))

    def to_a_tick(least_s: float) -> tuple[int, float] | None:
        """Calls made until the counter changed after `least_s`, and its value then; None where it stands still."""
        done, started, seen = 0, now(), counter()
        while True:
            for _ in range(batch):
                call()
            synchronize()
            done += batch
            value = counter()
            if value != seen and now() - started >= least_s:
                return done, value
            if now() - started < least_s:
                seen = value
            elif now() - started > least_s + STILL_S:
                return None

    first = to_a_tick(0.0)
    second = to_a_tick(LEAST_S) if first else None
    if first is None or second is None:
        return EnergyUse(joules=None, reason="the device's energy counter stands still")
    return EnergyUse(joules=(second[1] - first[1]) / second[0])


def nvml_joules(call: Call, synchronize: Callable[[], None], identity: DeviceIdentity) -> EnergyUse:
    """By the counter of an NVIDIA card."""
    if identity.slice is not None:
        return EnergyUse(joules=None, reason="the card's energy counter counts all of its slices")
    try:
        device = open_nvml(identity.unit)
        energy_j(device)
    except Exception as error:  # NVML raises a class of its own for every code
        return EnergyUse(joules=None, reason=f"NVML: {error}")
    return joules_per_call(call, synchronize, lambda: energy_j(device))
