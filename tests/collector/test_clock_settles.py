"""Before a case is timed its device's clock has settled, or the case says that it has not."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from collector.node.clock import LIMIT_S, SPREAD, WINDOW, settle
from collector.node.devices.simulated import SimulatedCall, SimulatedClock, SimulatedDevice


class Ramping:
    """A device whose clock takes these values, one a look, the last one for ever."""

    def __init__(self, values: Iterable[float | None]) -> None:
        self.values = iter(values)
        self.seen = 0
        self.last: float | None = None

    def clock_hz(self) -> float | None:
        self.seen += 1
        self.last = next(self.values, self.last)
        return self.last


def settled(device: Ramping) -> tuple[str, SimulatedCall]:
    clock = SimulatedClock()
    call = SimulatedCall(clock, 1e-3)
    return settle(device, call, SimulatedDevice(clock).sample, now=clock.now), call


def test_a_clock_that_ramps_up_is_waited_for() -> None:
    """From idle to boost: calls are made until five looks agree, and no longer."""
    device = Ramping([0.3e9, 0.9e9, 1.5e9, 1.95e9, 1.98e9])
    words, call = settled(device)

    assert words == ""
    assert device.seen == 3 + WINDOW
    assert call.calls > device.seen


def test_a_clock_that_never_settles_is_told_with_what_it_did() -> None:
    """A device that swings between two clocks is not waited for longer than the limit."""
    words, call = settled(Ramping(itertools.cycle([1.2e9, 1.9e9])))

    assert words == f"the clock was between 1200 and 1900 MHz after {LIMIT_S:g} s of work"
    assert call.clock.now() < LIMIT_S + 0.1


def test_a_clock_that_is_not_told_is_not_waited_for() -> None:
    """None at the first look ends the waiting: there is nothing to know."""
    device = Ramping([None])

    assert settled(device)[0] == ""
    assert device.seen == 1


@given(st.lists(st.floats(1e8, 3e9), max_size=40))
def test_settled_means_that_the_last_looks_agree(values: list[float]) -> None:
    """Whatever the clock did before: silence is given only where the last five looks lie within the spread."""
    device = Ramping([*values, 1.7e9])
    looked: list[float] = []
    read = device.clock_hz

    def look() -> float | None:
        value = read()
        if value is not None:
            looked.append(value)
        return value

    device.clock_hz = look  # type: ignore[method-assign]
    words, _ = settled(device)

    last = looked[-WINDOW:]
    assert (words == "") == (len(last) == WINDOW and max(last) - min(last) <= SPREAD * max(last))
