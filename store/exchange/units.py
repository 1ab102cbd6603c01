"""Units of other people's files to SI: known ones are converted, others refused; no bare numbers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Dimension(StrEnum):
    """What a unit measures; the value is its SI unit."""

    TIME = "s"
    MEMORY = "B"
    FLOP_RATE = "FLOP/s"
    BANDWIDTH = "B/s"
    FREQUENCY = "Hz"
    POWER = "W"
    ENERGY = "J"
    TEMPERATURE = "°C"
    RATIO = "1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A unit: one of it is `factor` of the SI unit of its dimension."""

    dimension: Dimension
    factor: float


_PREFIXES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_TIMES = {
    "s": 1.0, "sec": 1.0, "second": 1.0, "seconds": 1.0,
    "ms": 1e-3, "msec": 1e-3, "millisecond": 1e-3, "milliseconds": 1e-3,
    "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "usec": 1e-6, "microsecond": 1e-6, "microseconds": 1e-6,
    "ns": 1e-9, "nsec": 1e-9, "nanosecond": 1e-9, "nanoseconds": 1e-9,
    "min": 60.0, "minutes": 60.0, "h": 3600.0,
}  # fmt: skip
_RATIOS = {"1": 1.0, "ratio": 1.0, "x": 1.0, "fraction": 1.0, "%": 1e-2, "percent": 1e-2}


def _table() -> dict[str, Unit]:
    units = {name: Unit(dimension=Dimension.TIME, factor=factor) for name, factor in _TIMES.items()}
    units |= {name: Unit(dimension=Dimension.RATIO, factor=factor) for name, factor in _RATIOS.items()}
    for prefix, factor in {**_PREFIXES, **_BINARY}.items():
        for name in ("B", "bytes", "Bytes", "byte"):
            units[prefix + name] = Unit(dimension=Dimension.MEMORY, factor=factor)
        for name in ("B/s", "Bps", "bytes/s"):
            units[prefix + name] = Unit(dimension=Dimension.BANDWIDTH, factor=factor)
    for prefix, factor in _PREFIXES.items():
        for name in ("FLOP/s", "FLOPS", "FLOPs", "FLOPs/s", "flops", "flop/s"):
            units[prefix + name] = Unit(dimension=Dimension.FLOP_RATE, factor=factor)
        units[prefix + "Hz"] = Unit(dimension=Dimension.FREQUENCY, factor=factor)
        units[prefix + "W"] = Unit(dimension=Dimension.POWER, factor=factor)
        units[prefix + "J"] = Unit(dimension=Dimension.ENERGY, factor=factor)
    units |= {"mW": Unit(dimension=Dimension.POWER, factor=1e-3), "mJ": Unit(dimension=Dimension.ENERGY, factor=1e-3)}
    units |= {name: Unit(dimension=Dimension.TEMPERATURE, factor=1.0) for name in ("C", "°C", "degC")}
    return units


UNITS = _table()


def unit_of(text: str) -> Unit | None:
    """The unit written so, letter case as given (`ms` and `Ms` are not the same), or None."""
    return UNITS.get(text.strip())
