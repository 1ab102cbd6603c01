"""Numbers as a person reads them in a terminal: three significant digits, one unit, the division said."""

from __future__ import annotations

import math

MINUS = "−"
NOTHING = "–"


def significant(value: float, digits: int = 3) -> str:
    """`value` with so many significant digits and no exponent: 0.104, 1.24, 104, 1,182."""
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    rounded = round(value, decimals)
    if rounded and math.floor(math.log10(abs(rounded))) > math.floor(math.log10(abs(value))):
        decimals = max(0, decimals - 1)
    return f"{rounded:,.{decimals}f}"


def counted(number: int, noun: str) -> str:
    """1 run, 2 runs, 1,204 runs: for nouns that take an s."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def seconds(text: str, where: str) -> float:
    """`90s`, `20m`, `1.5h` as seconds. Raises UsageError for anything else."""
    from collector.errors import UsageError

    number, unit = text[:-1], text[-1:]
    factor = {"s": 1.0, "m": 60.0, "h": 3600.0}.get(unit)
    try:
        value = float(number) * factor if factor is not None else -1.0
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise UsageError(f"{where} is {text!r}, must be a time above 0 with its unit, as 90s, 20m or 1.5h")
    return value


def duration(seconds: float | None) -> str:
    """104 µs below a millisecond, 1.24 ms below a second, else 3.1 s; a dash where there is none."""
    if seconds is None:
        return NOTHING
    if seconds < 1e-3:
        return f"{significant(seconds * 1e6)} µs"
    if seconds < 1:
        return f"{significant(seconds * 1e3)} ms"
    return f"{significant(seconds)} s"


def span(seconds: float) -> str:
    """A stretch of time: 41 s, 2 min 5 s, 1 h 4 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def ratio(value: float | None, low: float | None = None, high: float | None = None) -> str:
    """0.962× ± 0.9 %: a ratio and the half-width of its interval, relative."""
    if value is None:
        return NOTHING
    text = f"{value:.3f}×"
    if low is None or high is None or low <= 0:
        return text
    return f"{text} ± {half_width(low, high)}"


def half_width(low: float, high: float) -> str:
    """Half the log-width of an interval of a ratio, in percent."""
    if low <= 0 or not math.isfinite(high):
        return "any"
    return f"{100 * math.expm1(math.log(high / low) / 2):.1f} %"


def change(value: float) -> str:
    """+7.4 %, −5.8 %, 0.0 %: signed, never a signed zero."""
    text = f"{abs(100 * value):.1f} %"
    if text == "0.0 %":
        return text
    return ("+" if value > 0 else MINUS) + text


def percent(share: float | None) -> str:
    return NOTHING if share is None else f"{100 * share:.0f} %"


def memory(size: float | None) -> str:
    """KiB, MiB or GiB with three significant digits."""
    if size is None:
        return NOTHING
    if size == 0:
        return "0"
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= scale:
            return f"{significant(size / scale)} {unit}"
    return f"{size:.0f} B"
