"""Datasheet peaks by device model, from configs/devices.toml. A device that is not there is unknown, never guessed."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import resources
from types import MappingProxyType
from typing import Any

from bench_suite.roofline import CeilingKind, Ceilings

WIDE_ACCUMULATORS = ("fp32", "fp64", "int32")
"""Accumulators that keep what the contracts promise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """One stated rate."""

    dtype: str
    flop_per_s: float
    accumulate: str
    sparse: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Datasheet:
    """What a vendor states about a device."""

    title: str
    models: tuple[str, ...]
    """Names by which the device reports itself."""
    variant: str
    bandwidth_bytes_per_s: float
    peaks: tuple[Peak, ...]
    source: str
    last_level_cache_bytes: int | None = None
    link_bytes_per_s: float | None = None
    note: str = ""

    def limits(self) -> Ceilings:
        """What no dense kernel exceeds: per dtype the fastest rate whatever the accumulator."""
        rates: dict[str, float] = {}
        for peak in self.peaks:
            if not peak.sparse:
                rates[peak.dtype] = max(peak.flop_per_s, rates.get(peak.dtype, 0.0))
        return replace(self.ceilings(), flop_per_s=rates)

    def ceilings(self) -> Ceilings:
        """The roofs: per dtype the fastest dense rate with a wide accumulator."""
        rates: dict[str, float] = {}
        for peak in self.peaks:
            if not peak.sparse and peak.accumulate in WIDE_ACCUMULATORS:
                rates[peak.dtype] = max(peak.flop_per_s, rates.get(peak.dtype, 0.0))
        return Ceilings(
            flop_per_s=rates,
            bandwidth_bytes_per_s=self.bandwidth_bytes_per_s,
            link_bytes_per_s=self.link_bytes_per_s,
            kind=CeilingKind.DATASHEET,
            source=f"{self.title} ({self.variant}): {self.source}",
        )


def datasheet(model: str) -> Datasheet | None:
    """The datasheet of a device by the name it reports; None where there is none."""
    return datasheets().get(model.strip())


@functools.cache
def datasheets() -> Mapping[str, Datasheet]:
    """All of them by reported name."""
    text = (resources.files("configs") / "devices.toml").read_text(encoding="utf-8")
    sheets = [_datasheet(entry) for entry in tomllib.loads(text)["device"]]
    return MappingProxyType({model: sheet for sheet in sheets for model in sheet.models})


def _datasheet(entry: dict[str, Any]) -> Datasheet:
    values = dict(entry)
    values["models"] = tuple(values["models"])
    values["peaks"] = tuple(Peak(**peak) for peak in values["peaks"])
    return Datasheet(**values)
