"""Which values of a file are no evidence: wide rules, and what they must leave alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.exchange.evidence import CLOCK_SHARE, has_first_call, held_back, held_back_whole


def clocks(*mhz: float) -> dict[str, float]:
    """Sample -> clock, in order."""
    return {str(i): 1e6 * value for i, value in enumerate(mhz)}


def test_a_clock_that_falls_is_throttled_and_one_that_rises_had_not_settled() -> None:
    """Below nine tenths of the upper clocks: before they were reached unsettled, after that throttled."""
    marks = held_back(clocks(210, 900, 1980, 1980, 1980, 1975, 1400, 1980), {})
    assert marks == {"0": "clock_unsettled", "1": "clock_unsettled", "6": "throttled"}


def test_a_throttle_reason_is_enough_and_a_power_cap_is_not() -> None:
    """Thermal and hardware slowdowns mark their sample; the software power cap (0x4) and idle (0x1) do not."""
    assert held_back({}, {"0": 0x0, "1": 0x4, "2": 0x1, "3": 0x40, "4": 0x8 | 0x4}) == {
        "3": "throttled",
        "4": "throttled",
    }


@given(st.lists(st.floats(1e8, 3e9), max_size=4))
def test_few_clocks_say_nothing(values: list[float]) -> None:
    """Fewer than five readings are no clock to hold samples against."""
    assert held_back({str(i): v for i, v in enumerate(values)}, {}) == {}


@given(st.floats(1e8, 3e9), st.lists(st.floats(CLOCK_SHARE + 0.01, 1.0), min_size=5, max_size=40))
def test_a_steady_clock_holds_nothing_back(clock_hz: float, shares: list[float]) -> None:
    """Clocks within a tenth of each other mark no sample, whatever the clock is."""
    assert held_back({str(i): share * clock_hz for i, share in enumerate([1.0, *shares])}, {}) == {}


def test_a_fifth_of_the_samples_makes_a_run_no_evidence() -> None:
    """Two throttled of ten do, one does not; unsettled ones do not count."""
    assert held_back_whole({"0": "throttled", "1": "throttled"}, 10)
    assert not held_back_whole({"0": "throttled"}, 10)
    assert not held_back_whole(dict.fromkeys("01234", "clock_unsettled"), 10)
    assert not held_back_whole({}, 0)


@pytest.mark.parametrize(
    ("times_s", "expected"),
    [
        ([0.2145, 14e-6, 5e-6, 3e-6], True),  # a first send and receive
        ([24.0, 2e-4, 2e-4, 2e-4, 2e-4], True),  # compilation
        ([11.2e-3, 8.8e-3, 8.8e-3, 8.8e-3], False),  # a short warm-up is no first call
        ([1.0, 1e-3, 1e-3], False),  # two others say too little
        ([5e-3, 1e-3, 1e-3, 1e-3, 2e-3], False),  # another is as odd
        ([], False),
    ],
)
def test_a_first_call_stands_out_from_all_others(times_s: list[float], expected: bool) -> None:
    """Five times every other time, three of them at least."""
    assert has_first_call(times_s) is expected
