"""One case of an imported run: its status, its numbers, its raw samples."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np

from store.bundle.schemas import RESULTS, SAMPLES, TELEMETRY, FailureKind, InvalidReason, RowStatus
from store.exchange.evidence import FIRST_CALL, has_first_call, held_back, held_back_whole, is_clock, is_reason
from store.exchange.long_csv import Reading
from store.exchange.units import Dimension

OTHER_FAMILY = "Other"
"""Imported cases have no contract; the heatmap gives them a row of their own."""
KNOWN_ROLES = ("naive", "optimized", "aa", "planted")
TAIL_SAMPLES = 3
"""A percentile is stated when so many samples lie beyond it; below that it is null with the reason."""
PERCENTILES = {"latency_p90_s": 0.90, "latency_p95_s": 0.95, "latency_p99_s": 0.99}

_LATENCY = {"latency", "time", "duration", "runtime", "elapsed", "latency_p50", "median", "mean"}
_MEMORY = {"peak_mem", "peak_memory", "peak_memory_bytes", "memory", "mem", "max_memory"}
_ERRORS = {"error_max_abs", "max_abs_error", "error_max_rel", "max_rel_error", "error_margin"}
_CASE_ID = re.compile(r"(?P<operator>[a-z][a-z0-9_]*)\[(?P<dtype>[a-z0-9_]+)[,\]]")
_MODEL_NOISE = re.compile(
    r"(nvidia|amd|intel|tesla|instinct|geforce|corporation|graphics|\d+(\.\d+)?(gb|gib|g)|hbm\w*|sxm\d*|pcie\d*|oam|mig)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedDevice:
    """What a file says of a device: its kind (cpu or imported), its model by alias, which one it is, and its host."""

    kind: str
    model: str
    unit: str
    host: str


@dataclass(frozen=True, kw_only=True)
class ImportedCase:
    """The readings of one case and arm in one run."""

    run_id: str
    started_at: datetime
    device: ImportedDevice
    case: str
    arm: str
    settings: str
    readings: tuple[Reading, ...]

    @property
    def subject_id(self) -> str:
        """Sixteen hex digits for case, arm, device family and unit, settings."""
        parts = [self.case, self.arm, device_family(self.device.model), self.device.unit, _settings_json(self.settings)]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]

    @property
    def is_judged(self) -> bool:
        """Whether any reading is of a metric that is judged."""
        return bool(self._judged())

    def result_row(self) -> dict[str, Any]:
        """The row of `results`; numbers only where there are valid ones, and a word on each that is missing."""
        match = _CASE_ID.match(self.case)
        row = dict.fromkeys(RESULTS.names) | {
            "run_id": self.run_id,
            "measured_at": self.started_at,
            "subject_id": self.subject_id,
            "case_id": self.case,
            "operator": match["operator"] if match else self.case,
            "family": OTHER_FAMILY,
            "dtype": match["dtype"] if match else None,
            "settings": _settings_json(self.settings),
            "arm": self.arm,
            "role": self.arm if self.arm in KNOWN_ROLES else "candidate",
            "host": self.device.host,
            "device_kind": self.device.kind,
            "device_model": self.device.model,
            "device_unit": self.device.unit,
            "replicates": 1,
        }
        return row | self._status() | self._numbers()

    def sample_rows(self) -> list[dict[str, Any]]:
        """One row with every raw latency, those that do not count marked with the reason.

        The place of a sample in the file stands for its time, here and in `telemetry_rows`, so that a clock read with a
        sample is found by it.
        """
        timed = [r for r in self._of(_LATENCY, Dimension.TIME) if r.value is not None]
        if not timed:
            return []
        return [
            dict.fromkeys(SAMPLES.names)
            | {
                "run_id": self.run_id,
                "subject_id": self.subject_id,
                "case_id": self.case,
                "arm": self.arm,
                "replicate": 0,
                "pass": "single",
                "calls_per_sample": 1,
                "wall_s": [r.value for r in timed],
                "monotonic_s": [float(place) for place in range(len(timed))],
                "round": list(range(len(timed))),
                "position": [0] * len(timed),
                "mark": [self._mark(r) for r in timed],
            }
        ]

    def telemetry_rows(self) -> list[dict[str, Any]]:
        """Every reading that is no time: rates, memory, errors, clocks, temperatures, whatever there is."""
        timed = {id(r) for r in self._of(_LATENCY, Dimension.TIME)}
        places: dict[str, int] = {}
        rows = []
        for r in self.readings:
            if id(r) in timed:
                continue
            place = places[r.metric] = places.get(r.metric, -1) + 1
            rows.append(
                dict.fromkeys(TELEMETRY.names)
                | {
                    "run_id": self.run_id,
                    "device_unit": self.device.unit,
                    "monotonic_s": float(place),
                    "at": self.started_at,
                    "metric": f"{self.case}/{r.metric}",
                    "unit": r.dimension.value,
                    "value": r.value,
                    "reason": None if r.value is not None else r.status.words or "no value",
                }
            )
        return rows

    def _of(self, metrics: set[str], dimension: Dimension) -> list[Reading]:
        return [r for r in self.readings if r.metric.lower() in metrics and r.dimension is dimension]

    def _rates(self, dimension: Dimension) -> list[Reading]:
        return [r for r in self.readings if r.dimension is dimension]

    def _judged(self) -> list[Reading]:
        return [
            *self._of(_LATENCY, Dimension.TIME),
            *self._of(_MEMORY, Dimension.MEMORY),
            *self._of(_ERRORS, Dimension.RATIO),
            *self._rates(Dimension.FLOP_RATE),
            *self._rates(Dimension.BANDWIDTH),
        ]

    def _timed(self) -> list[Reading]:
        """What a held back clock spoils: times, and work per time."""
        rates = [*self._rates(Dimension.FLOP_RATE), *self._rates(Dimension.BANDWIDTH)]
        return [r for r in [*self._of(_LATENCY, Dimension.TIME), *rates] if r.value is not None]

    @cached_property
    def _held(self) -> dict[str, str]:
        """Sample -> why it is no evidence, from the clocks and throttle reasons that were read with it."""
        known = [r for r in self.readings if r.value is not None]
        return held_back(
            {r.sample: r.value or 0.0 for r in known if is_clock(r.metric, r.dimension)},
            {r.sample: r.value or 0.0 for r in known if is_reason(r.metric, r.dimension)},
        )

    def _held_back_words(self) -> str:
        """Why the run is no evidence as a whole; empty where it is."""
        marks = {r.sample: self._held[r.sample] for r in self._timed() if r.sample in self._held}
        samples = {r.sample for r in self._timed()}
        if not held_back_whole(marks, len(samples)):
            return ""
        clocks = [r.value / 1e6 for r in self.readings if is_clock(r.metric, r.dimension) and r.value is not None]
        seen = f": the SM clock went from {max(clocks):.0f} to {min(clocks):.0f} MHz" if clocks else ""
        return f"{len(marks)} of {len(samples)} samples were throttled{seen}"

    @cached_property
    def _first_call(self) -> Reading | None:
        """A first time that holds compilation or a set-up; None where the first is like the others."""
        times = [r for r in self._of(_LATENCY, Dimension.TIME) if r.value is not None and not _mark(r)]
        return times[0] if times and has_first_call([r.value or 0.0 for r in times]) else None

    def _mark(self, reading: Reading) -> str:
        """Why a value is kept but not used; empty where it counts."""
        if own := _mark(reading):
            return own
        if reading is self._first_call:
            return FIRST_CALL
        spoiled = reading.dimension in (Dimension.TIME, Dimension.FLOP_RATE, Dimension.BANDWIDTH)
        return self._held.get(reading.sample, "") if spoiled else ""

    def _valid(self, readings: Sequence[Reading]) -> list[float]:
        return [r.value for r in readings if r.value is not None and not self._mark(r)]

    def _status(self) -> dict[str, Any]:
        """Measured where a valid value is left; else the status of the first line that says otherwise."""
        without_value = [r for r in self.readings if r.value is None and r.status.status is not RowStatus.MEASURED]
        valid = [r for r in self._judged() or self.readings if r.value is not None and not self._mark(r)]
        if whole := self._held_back_words():
            return {"status": RowStatus.INVALID, "status_kind": InvalidReason.THROTTLED, "status_reason": whole}
        if valid and not without_value:
            return {"status": RowStatus.MEASURED}
        for reading in [*without_value, *self.readings]:
            if reading.status.status is not RowStatus.MEASURED:
                words = reading.status.words
                return {"status": reading.status.status, "status_kind": reading.status.kind, "status_reason": words}
        if unsettled := next((mark for r in self._timed() if (mark := self._held.get(r.sample, ""))), ""):
            words = f"All of {len(self._timed())} samples were taken with the clock held back"
            return {"status": RowStatus.INVALID, "status_kind": unsettled, "status_reason": words}
        if impossible := next((r for r in self.readings if r.value is not None), None):
            reason = f"{impossible.metric} of {impossible.value} {impossible.dimension.value} cannot be"
            return {"status": RowStatus.FAILED, "status_kind": FailureKind.IMPOSSIBLE_VALUE, "status_reason": reason}
        return {"status": RowStatus.INVALID, "status_kind": "unknown", "status_reason": "the file has no value"}

    def _numbers(self) -> dict[str, Any]:
        numbers: dict[str, Any] = {}
        reasons: dict[str, str] = {}
        if (first := self._first_call) is not None:
            numbers["first_call_s"] = first.value
        if times := self._valid(self._of(_LATENCY, Dimension.TIME)):
            numbers |= {"latency_p50_s": float(np.median(times)), "latency_n": len(times), "latency_basis": "single"}
            numbers |= {"ratio_timer": "wall", "time_processes_s": [float(np.median(times))]}
            for name, share in PERCENTILES.items():
                if len(times) * (1.0 - share) >= TAIL_SAMPLES - 1e-9:
                    numbers[name] = float(np.quantile(times, share))
                else:
                    reasons[name] = f"{len(times)} samples are not enough for it"
        if sizes := self._valid(self._of(_MEMORY, Dimension.MEMORY)):
            numbers["peak_memory_bytes"] = round(max(sizes))
        if rates := self._valid(self._rates(Dimension.FLOP_RATE)):
            numbers["flop_per_s"] = float(np.median(rates))
        if rates := self._valid(self._rates(Dimension.BANDWIDTH)):
            numbers["bandwidth_bytes_per_s"] = float(np.median(rates))
        for reading in self._of(_ERRORS, Dimension.RATIO):
            words = reading.metric.lower()
            name = "error_margin" if words == "error_margin" else f"error_max_{'abs' if 'abs' in words else 'rel'}"
            numbers[name] = reading.value
        return numbers | {"null_reasons": json.dumps(reasons) if reasons else None}


def device_family(model: str) -> str:
    """The part of a device's name that all its spellings share: `NVIDIA H100 80GB HBM3`, `H100-SXM5-80GB` -> `H100`.

    Two names on one unit of a host are told apart by it; it is never used to look up a peak.
    """
    words = [word for word in re.split(r"[\s_/()-]+", model) if word and not _MODEL_NOISE.fullmatch(word)]
    return " ".join(words).upper() or model.upper()


def _mark(reading: Reading) -> str:
    """Why a value does not count by itself: its status, or that it cannot be."""
    if reading.status.status is not RowStatus.MEASURED:
        return reading.status.kind or reading.status.status.value
    value = reading.value
    if value is None or math.isnan(value) or math.isinf(value):
        return FailureKind.IMPOSSIBLE_VALUE.value
    positive = reading.dimension in (Dimension.TIME, Dimension.FLOP_RATE, Dimension.BANDWIDTH)
    if (positive and value <= 0.0) or (reading.dimension is Dimension.MEMORY and value < 0.0):
        return FailureKind.IMPOSSIBLE_VALUE.value
    return ""


def _settings_json(settings: str) -> str:
    """`number=10 threads=2` or JSON as a JSON object; any other text under the key `settings`."""
    try:
        parsed = json.loads(settings)
    except ValueError:
        parsed = None
    if isinstance(parsed, dict):
        return json.dumps(parsed, sort_keys=True)
    pairs = dict(part.split("=", 1) for part in re.split(r"[;,\s]+", settings) if "=" in part)
    if not pairs and settings:
        pairs = {"settings": settings}
    return json.dumps(pairs, sort_keys=True)
