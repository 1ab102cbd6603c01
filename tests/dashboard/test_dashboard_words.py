"""The formats in which numbers are shown."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard import words

THIN, HARD = "\u202f", "\u00a0"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (words.time(104.2e-6), f"104{THIN}µs"),
        (words.time(1.2438e-3), f"1.24{THIN}ms"),
        (words.time(9.996e-6), f"10.0{THIN}µs"),
        (words.time(2.37e-3, unit_of=1e-4), f"2,370{THIN}µs"),
        (words.time(None), "not known"),
        (words.time(math.nan), "not known"),
        (words.ratio(0.9621), "0.962×"),
        (words.ratio(1.005, 2), "1.00×"),
        (words.change(0.074, 0.065, 0.083), f"+7.4{HARD}±{HARD}0.9{THIN}%"),
        (words.change(-0.058, -0.065, -0.051), f"−5.8{HARD}±{HARD}0.7{THIN}%"),
        (words.change(-0.00001), f"0.0{THIN}%"),
        (words.change(0.02, -math.inf, math.inf), f"+2.0{THIN}%"),
        (words.change_size(-0.058, -0.065, -0.051), f"5.8{HARD}±{HARD}0.7{THIN}%"),
        (words.price(0.0155), f"+1.55{THIN}%"),
        (words.price(None), "no weight"),
        (words.bandwidth(3.1971e12), f"3,197{THIN}GB/s"),
        (words.bandwidth(23.71e9), f"23.7{THIN}GB/s"),
        (words.work_rate(6.48e14), f"648{THIN}TFLOP/s"),
        (words.work_rate(76.9e9), f"76.9{THIN}GFLOP/s"),
        (words.memory(164 * 1024), f"164{THIN}KiB"),
        (words.memory(12), f"12{THIN}B"),
        (words.roof(0.763), f"76{THIN}%"),
        (words.roof(0.012), f"1.2{THIN}%"),
        (words.count_of(1284, 1310, "series"), "1,284 of 1,310 series"),
        (words.plural(1, "kernel"), "one kernel"),
        (words.plural(13, "kernel"), "13 kernels"),
        (words.enumeration(["a", "b", "c"]), "a, b and c"),
        (words.duration(3 * 3600 + 250), f"3{THIN}h 4{THIN}min"),
        (words.shorten("abcdefghij", 5), "ab…ij"),
    ],
)
def test_number_has_its_format(said: str, expected: str) -> None:
    """Each quantity is written in the one format of the visual language."""
    assert said == expected


@given(st.floats(-0.00049, 0.00049))
def test_rounded_zero_has_no_sign(change: float) -> None:
    """A change that rounds to zero is 0.0 without a sign."""
    assert words.change(change) == f"0.0{THIN}%"


@given(st.floats(1e-9, 1e5), st.integers(2, 5))
def test_significant_digits_keep_the_value(value: float, digits: int) -> None:
    """What is written differs from the value by at most half a unit of its last significant digit."""
    written = float(words.significant(value, digits).replace(",", ""))
    assert abs(written - value) <= 0.500001 * 10 ** (math.floor(math.log10(value)) - digits + 1)


@given(st.text(max_size=60), st.integers(3, 40))
def test_shortened_text_fits(text: str, length: int) -> None:
    """A shortened text is never longer than asked, and a short one is unchanged."""
    shown = words.shorten(text, length)
    assert len(shown) <= length or shown == text
    assert len(text) > length or shown == text


def test_dates_are_of_the_chosen_zone() -> None:
    """The same instant has the date and the clock of the zone that the reader chose."""
    at = datetime(2026, 11, 29, 23, 10, tzinfo=UTC)
    assert words.moment(at, UTC) == "29 Nov 2026, 23:10 UTC"
    assert words.moment(at, ZoneInfo("Asia/Shanghai")) == "30 Nov 2026, 07:10 CST"


@pytest.mark.parametrize(
    ("passed", "said"),
    [
        (timedelta(seconds=20), "just now"),
        (timedelta(minutes=12), f"12{THIN}min ago"),
        (timedelta(hours=2), f"2{THIN}h ago"),
        (timedelta(days=2, hours=3), f"2{THIN}d ago"),
    ],
)
def test_age_is_said_in_one_unit(passed: timedelta, said: str) -> None:
    """An age has one unit, the one a person would use."""
    now = datetime(2026, 11, 30, tzinfo=UTC)
    assert words.ago(now - passed, now) == said
