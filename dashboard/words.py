"""Numbers as a person reads them: pure, one function a quantity, the same format on every page.

U+202F stands before a unit, U+00A0 around the plus-minus sign, U+2212 is the minus. A value that is not there is said
in words (`NOTHING`), never as a dash or a zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo

THIN = "\u202f"
HARD = "\u00a0"
MINUS = "\u2212"
TIMES = "×"
NOTHING = "not known"

MILLISECOND_FROM_S = 1e-3
"""Below it a time is in microseconds."""


def known(value: float | None) -> bool:
    """Whether `value` is a finite number."""
    return value is not None and math.isfinite(value)


def significant(value: float, digits: int = 3) -> str:
    """`value` rounded to `digits` significant digits, thousands with commas: 104, 1.24, 3,197."""
    if value == 0:
        return "0"
    exponent = math.floor(math.log10(abs(value)))
    decimals = digits - 1 - exponent
    rounded = round(value, decimals)
    if rounded != 0:  # 9.996 becomes 10.0, which has one digit more before the point
        exponent = math.floor(math.log10(abs(rounded)))
    return signless_zero(f"{rounded:,.{max(0, digits - 1 - exponent)}f}").replace("-", MINUS)


def signless_zero(text: str) -> str:
    """A rounded -0.00 is 0.00: zero has no sign."""
    return text.lstrip("+-" + MINUS) if not any(c in text for c in "123456789") else text


def fixed(value: float, decimals: int) -> str:
    return signless_zero(f"{value:,.{decimals}f}").replace("-", MINUS)


def signed(value: float, decimals: int) -> str:
    """With its sign, except zero: +7.4, −5.8, 0.0."""
    return signless_zero(f"{value:+,.{decimals}f}").replace("-", MINUS)


def time_unit(seconds: float) -> tuple[float, str]:
    """The factor and the unit a time is shown in; one of a figure's axis is chosen by its largest value."""
    return (1e6, "µs") if abs(seconds) < MILLISECOND_FROM_S else (1e3, "ms")


def time(seconds: float | None, *, unit_of: float | None = None) -> str:
    """A time with 3 significant digits: 104 µs, 1.24 ms; in the unit of `unit_of` where that is given."""
    if seconds is None or not known(seconds):
        return NOTHING
    factor, unit = time_unit(seconds if unit_of is None else unit_of)
    return f"{significant(seconds * factor)}{THIN}{unit}"


def duration(seconds: float | None) -> str:
    """How long something took: 48 s, 3 min 20 s, 2 h 5 min."""
    if seconds is None or not known(seconds):
        return NOTHING
    whole = round(seconds)
    if whole < 60:
        return f"{whole}{THIN}s" if whole >= 10 else f"{seconds:.1f}{THIN}s"
    if whole < 3600:
        return f"{whole // 60}{THIN}min {whole % 60}{THIN}s"
    return f"{whole // 3600}{THIN}h {whole % 3600 // 60}{THIN}min"


def ratio(value: float | None, decimals: int = 3) -> str:
    """A ratio: 0.962×. The division must be named beside it."""
    return NOTHING if value is None or not known(value) else f"{fixed(value, decimals)}{TIMES}"


def percent(fraction: float | None, decimals: int = 1) -> str:
    """A share without sign: 1.8 %."""
    return NOTHING if fraction is None or not known(fraction) else f"{fixed(fraction * 100, decimals)}{THIN}%"


def roof(fraction: float | None) -> str:
    """A fraction of a roof: 76 %, below 10 % with one decimal."""
    if fraction is None or not known(fraction):
        return NOTHING
    return percent(fraction, 0 if fraction >= 0.0995 else 1)


def half_width(low: float | None, high: float | None) -> float | None:
    """Half of an interval, or None where it is not known or not finite."""
    if low is None or high is None or not (known(low) and known(high)):
        return None
    return (high - low) / 2


def change(value: float | None, low: float | None = None, high: float | None = None) -> str:
    """A relative change in a column, with its 95 % interval where there is one: +7.4 ± 0.9 %."""
    if value is None or not known(value):
        return NOTHING
    half = half_width(low, high)
    if half is None:
        return f"{signed(value * 100, 1)}{THIN}%"
    return f"{signed(value * 100, 1)}{HARD}±{HARD}{fixed(half * 100, 1)}{THIN}%"


def change_size(value: float | None, low: float | None = None, high: float | None = None) -> str:
    """A change in a sentence, where the word carries the sign: 7.4 ± 0.9 %."""
    return change(value, low, high).lstrip("+" + MINUS)


def slower_or_faster(direction: float, metric: str = "latency") -> str:
    """The word that carries the sign of a change in `metric`."""
    if metric.startswith("latency"):
        return "slower" if direction > 0 else "faster"
    if metric in ("peak_memory", "workspace"):
        return "hungrier" if direction > 0 else "leaner"
    if metric.startswith("error"):
        return "less exact" if direction > 0 else "more exact"
    return "higher" if direction > 0 else "lower"


def price(share: float | None) -> str:
    """What a change costs, as a share of production time: +1.55 %."""
    return "no weight" if share is None or not known(share) else f"{signed(share * 100, 2)}{THIN}%"


def bandwidth(bytes_per_s: float | None) -> str:
    """GB/s, 1e9 bytes a second: 3,197 GB/s, below 100 with 3 significant digits."""
    if bytes_per_s is None or not known(bytes_per_s):
        return NOTHING
    value = bytes_per_s / 1e9
    return f"{fixed(value, 0) if abs(value) >= 100 else significant(value)}{THIN}GB/s"


def work_rate(flop_per_s: float | None) -> str:
    """TFLOP/s with 3 significant digits, GFLOP/s where it is below 1 TFLOP/s."""
    if flop_per_s is None or not known(flop_per_s):
        return NOTHING
    if abs(flop_per_s) >= 1e12:
        return f"{significant(flop_per_s / 1e12)}{THIN}TFLOP/s"
    return f"{significant(flop_per_s / 1e9)}{THIN}GFLOP/s"


def memory(size_bytes: float | None) -> str:
    """KiB, MiB or GiB with 3 significant digits."""
    if size_bytes is None or not known(size_bytes):
        return NOTHING
    for factor, unit in ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB")):
        if abs(size_bytes) >= factor:
            return f"{significant(size_bytes / factor)}{THIN}{unit}"
    return f"{round(size_bytes)}{THIN}B"


def count(value: int) -> str:
    return f"{value:,}"


def count_of(part: int, whole: int, noun: str) -> str:
    """1,284 of 1,310 series."""
    return f"{part:,} of {whole:,} {noun}"


SMALL_NUMBERS = (
    "no",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)


def number_word(value: int) -> str:
    """Up to twelve in letters, as in a sentence; above in digits."""
    return SMALL_NUMBERS[value] if 0 <= value < len(SMALL_NUMBERS) else f"{value:,}"


def plural(value: int, noun: str, plural_noun: str | None = None) -> str:
    """The number in letters and its noun: one kernel, three kernels."""
    return f"{number_word(value)} {noun if value == 1 else (plural_noun or noun + 's')}"


def counted(value: int, noun: str, plural_noun: str | None = None) -> str:
    """The number in digits and its noun: 1 run, 1,284 runs."""
    return f"{value:,} {noun if value == 1 else (plural_noun or noun + 's')}"


def enumeration(parts: Sequence[str]) -> str:
    """a; a and b; a, b and c."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def zone_name(zone: tzinfo, at: datetime) -> str:
    return at.astimezone(zone).tzname() or "UTC"


def date(at: datetime, zone: tzinfo) -> str:
    """29 Nov."""
    local = at.astimezone(zone)
    return f"{local.day} {local:%b}"


def date_year(at: datetime, zone: tzinfo) -> str:
    """29 Nov 2026: once a page."""
    return f"{date(at, zone)} {at.astimezone(zone):%Y}"


def clock(at: datetime, zone: tzinfo) -> str:
    """03:10 UTC."""
    return f"{at.astimezone(zone):%H:%M} {zone_name(zone, at)}"


def moment(at: datetime | None, zone: tzinfo) -> str:
    """29 Nov 2026, 03:10 UTC."""
    return NOTHING if at is None else f"{date_year(at, zone)}, {clock(at, zone)}"


def ago(at: datetime, now: datetime) -> str:
    """2 h ago; just now; 3 d ago."""
    passed: timedelta = now - at
    seconds = passed.total_seconds()
    if seconds < 90:
        return "just now"
    if seconds < 5400:
        return f"{round(seconds / 60)}{THIN}min ago"
    if seconds < 36 * 3600:
        return f"{round(seconds / 3600)}{THIN}h ago"
    return f"{round(seconds / 86400)}{THIN}d ago"


def clip(text: str, length: int) -> str:
    """At most `length` characters, the end left out."""
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def shorten(text: str, length: int) -> str:
    """At most `length` characters, the middle left out."""
    if len(text) <= length:
        return text
    head = length // 2
    return f"{text[:head]}…{text[len(text) - (length - 1 - head) :]}"
