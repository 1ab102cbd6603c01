"""Joules a call from a coarse counter, on a clock that only the calls advance."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import nvml_stub
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.node.devices.simulated import SimulatedCall, SimulatedClock
from collector.node.energy import joules_per_call

IDENTITY = "DeviceIdentity(kind='cuda', model='Stub', unit='{unit}', slice={slice}, cache_bytes=1)"
PROGRAM = """
import json
from collector.node.devices.base import DeviceIdentity
from collector.node.energy import nvml_joules
use = nvml_joules(lambda: None, lambda: None, {identity})
print(json.dumps([use.joules, use.reason]))
"""


@settings(max_examples=30, deadline=None)
@given(call_s=st.floats(1e-4, 0.5), watts=st.floats(1, 1000), tick_s=st.floats(0.01, 0.2))
def test_joules_are_watts_times_seconds(call_s: float, watts: float, tick_s: float) -> None:
    """Whatever the counter's tick, a call's joules are power x time, to within what one batch and one tick add."""
    clock = SimulatedClock()
    call = SimulatedCall(clock, call_s)

    def counter() -> float:
        return watts * (clock.now() // tick_s) * tick_s

    use = joules_per_call(call, lambda: None, counter, now=clock.now)
    coarse = (max(5e-3, 2 * call_s) + (tick_s if call_s > tick_s else 0)) / 1.0

    assert use.joules == pytest.approx(watts * call_s, rel=max(0.02, 2 * coarse))


def test_a_counter_that_stands_still_gives_no_number() -> None:
    """Nothing is divided by calls that a counter did not see: null, and why."""
    clock = SimulatedClock()
    use = joules_per_call(SimulatedCall(clock, 1e-3), lambda: None, lambda: 7.0, now=clock.now)

    assert (use.joules, use.reason) == (None, "the device's energy counter stands still")


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed: the stub cannot be built")
def test_a_card_without_a_counter_and_a_slice_say_why(tmp_path: Path) -> None:
    """NVML's refusal is the reason; a slice is not charged with its neighbours."""
    stub = nvml_stub.build(tmp_path)
    stub.say(error__nvmlDeviceGetTotalEnergyConsumption=3)
    refused = json.loads(stub.python(PROGRAM.format(identity=IDENTITY.format(unit="GPU-1", slice="None"))))
    sliced = json.loads(stub.python(PROGRAM.format(identity=IDENTITY.format(unit="MIG-2", slice="'1g.10gb'"))))

    assert refused == [None, "NVML: Not Supported"]
    assert sliced == [None, "the card's energy counter counts all of its slices"]
