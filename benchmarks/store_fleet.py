"""Years of nights of a simulated fleet, as columns, fast: what `benchmarks/store.py` fills its stores with.

Forty devices with unequal shares of the series (Zipf, exponent 0.6), cases in six families of which GEMM has half,
weights by Zipf (1.1). A series has a latency level, log-normal over four decades, and a ratio level that jumps by 10 %
now and then; a night adds log-normal noise of 2 %. A row fills the columns that a row of `collector run` on a GPU
fills: numbers that are measured have noise of their own in their last digits, so that they cost their 8 bytes; what
is a property of the case or of the series (flops, errors of seeded inputs, memory, command) is the same every night.
0.5 % of the rows failed. `benchmarks/store.py bytes` holds a row against one of a real bundle.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from store.lake.tables import stored_schema

DEVICES = 40
START = datetime(2024, 3, 1, 2, tzinfo=UTC)
FAMILIES = ("GEMM", "GEMM", "GEMM", "Attention", "RMSNorm", "SwiGLU")
ARMS = ("naive", "optimized", "aa", "candidate")
NOISY = (
    "latency_p50_s", "latency_p90_s", "latency_p95_s", "latency_p99_s", "ratio_optimized", "ratio_optimized_low",
    "ratio_optimized_high", "ratio_naive", "ratio_naive_low", "ratio_naive_high", "flop_per_s",
    "bandwidth_bytes_per_s", "bandwidth_utilization", "roofline_fraction", "compile_s", "first_call_s", "energy_j",
)  # fmt: skip
"""Columns with a number of its own in each row; `LISTED` has one a replicate."""
LISTED, REPLICATES = ("time_processes_s", "log_ratio_optimized_processes", "log_ratio_naive_processes"), 3
AGAINST = ("naive", "optimized")
"""The arms without a ratio to themselves, as they are numbered in `ARMS`."""
CLOCKS_HZ = (1.98e9, 1.965e9, 1.95e9, 1.935e9)
JUMPS_A_NIGHT = 0.0005
SAMPLE_ROWS, SAMPLES_A_ROW = 4, 20
"""Rows of `samples` for a row of results, and values in each of its lists: as a quick run has them."""
TELEMETRY_ROWS = 20

Floats = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Nights `first` to `last`, the latter not included."""

    first: int
    last: int

    @property
    def nights(self) -> int:
        """How many."""
        return self.last - self.first


def night_at(number: int) -> datetime:
    """When a night began."""
    return START + timedelta(days=number)


def months(nights: int) -> list[Span]:
    """The calendar months of so many nights."""
    starts = [n for n in range(nights) if n == 0 or night_at(n).month != night_at(n - 1).month]
    return [Span(first=a, last=b) for a, b in zip(starts, [*starts[1:], nights], strict=True)]


class Fleet:
    """`series` subjects on forty devices. Series are numbered in the order of their subject ids."""

    def __init__(self, series: int, seed: int = 1, noise_seed: int | None = None) -> None:
        self.random = np.random.default_rng(seed)
        self.series = series
        self.subjects = np.sort(self.random.integers(0, 2**63, series))
        share = 1.0 / np.arange(1, DEVICES + 1) ** 0.6
        self.device = self.random.choice(DEVICES, series, p=share / share.sum())
        self.device[:DEVICES] = np.arange(DEVICES)
        self.case = self.random.integers(0, max(series // len(ARMS), 1), series)
        self.arm = np.arange(series) % len(ARMS)
        self.weight = 1.0 / (1.0 + self.random.permutation(series)) ** 1.1
        self.latency = 10 ** self.random.uniform(-5.5, -1.5, series)
        self.ratio = self.random.uniform(0.7, 2.5, series)
        size = self.random.lognormal(20.0, 2.0, series)
        self.kept: dict[str, np.ndarray[Any, Any]] = {
            "flops": np.round(size), "traffic_bytes": np.round(size / 50.0), "roofline_latency_s": size / 9.9e14,
            "error_max_abs": self.random.lognormal(-7, 1, series),
            "error_max_rel": self.random.lognormal(-5, 1, series),
            "error_max_ulp": np.round(self.random.uniform(1, 9, series)), "error_mismatch_share": np.zeros(series),
            "error_margin": self.random.uniform(0.0, 0.5, series),
            "peak_memory_bytes": self.random.integers(1, 2**16, series) * 2**20,
            "workspace_bytes": self.random.integers(0, 8, series) * 2**20,
            "reserved_bytes": self.random.integers(1, 2**15, series) * 2**21,
        }  # fmt: skip
        """Of a series, the same every night."""
        if noise_seed is not None:  # the same series, other nights
            self.random = np.random.default_rng(noise_seed)

    def subject(self, number: int) -> str:
        """The subject id of a series."""
        return f"{self.subjects[number]:016x}"

    def rows(self, low: int, high: int, span: Span, first_seq: int) -> pa.Table:
        """Results of series `low` to `high` in some nights, sorted by series and time, as the lake keeps them."""
        count, nights = high - low, span.nights
        jumps = np.where(self.random.random((count, nights)) < JUMPS_A_NIGHT, np.log(1.1), 0.0)
        level = np.log(self.ratio[low:high])[:, None] + np.cumsum(jumps, axis=1)
        self.ratio[low:high] = np.exp(level[:, -1])
        ratio = np.exp(level + self.random.normal(0.0, 0.02, (count, nights))).reshape(-1)
        latency = np.repeat(self.latency[low:high], nights) * ratio
        series = np.repeat(np.arange(low, high), nights)
        night = np.tile(np.arange(span.first, span.last), count)
        n = len(series)
        known = self._words(series) | {
            "run_id": _picked([run_id(k) for k in range(span.first * DEVICES, span.last * DEVICES)],
                              (night - span.first) * DEVICES + self.device[series]),
            "measured_at": _times(night),
            "weight": self.weight[series],
            "status": _picked(["measured", "failed"], (self.random.random(n) < 0.005).astype(int)),
            "replicates": np.full(n, REPLICATES, np.int32),
            "rounds": self.random.integers(60, 200, n),
            "latency_n": self.random.integers(280, 320, n),
            "sm_clock_hz": _picked(CLOCKS_HZ, self.random.integers(0, len(CLOCKS_HZ), n)),
            "ingest_seq": first_seq + (night - span.first) * DEVICES + self.device[series],
            "ingested_at": _times(night),
            "month": _constant(f"{night_at(span.first):%Y-%m}", n),
        }  # fmt: skip
        arm = self.arm[series]
        for name in NOISY:
            base = latency if name.endswith("_s") else ratio
            known[name] = _without(name, arm, base * self.random.uniform(1.0, 1.1, n))
        for name in LISTED:
            base = latency if name.endswith("_s") else np.log(ratio)
            noise = self.random.normal(0.0, 0.01, (n, REPLICATES))
            values = base[:, None] * np.exp(noise) if name.endswith("_s") else base[:, None] + noise
            known[name] = _lists(values, hidden=_of_itself(name, arm))
        return _table("results", known, n)

    def night(self, number: int, first_seq: int) -> pa.Table:
        """All results of one night, as an ingest of its forty runs writes them."""
        return self.rows(0, self.series, Span(first=number, last=number + 1), first_seq)

    def _words(self, series: np.ndarray[Any, Any]) -> dict[str, Any]:
        first, last = int(series[0]), int(series[-1]) + 1
        case, device, n = self.case[series], self.device[series], len(series)
        cases = sorted({int(k) for k in self.case[first:last]})
        texts = [f"gemm[bf16,M={16 + k % 97},N={k},K=4096]" for k in cases]
        place = np.searchsorted(np.array(cases), case)
        fixed = {
            "operator": "gemm", "dtype": "bf16", "phase": "decode", "device_kind": "cuda",
            "settings": '{"cache": "cold", "threads": 1, "timer": "device_event"}', "latency_basis": "single",
            "device_model": "NVIDIA H100 80GB HBM3", "ratio_timer": "device_event", "roofline_bound": "memory",
        }  # fmt: skip
        reasons = [json.dumps({"latency_p99_s.support": f"{280 + k} values single; 300 single calls would support it"})
                   for k in range(20)]  # fmt: skip
        repros = [f"collector run --suite nightly --case '{text}' --device cuda" for text in texts]
        codes = [hashlib.sha256(f"{k}".encode()).hexdigest() for k in range(len(FAMILIES))]
        return (
            {name: _constant(text, n) for name, text in fixed.items()}
            | {
                "subject_id": _picked([self.subject(k) for k in range(first, last)], series - first),
                "case_id": _picked(texts, place),
                "axes": _picked([f'{{"M": {16 + k % 97}, "N": {k}, "K": 4096}}' for k in cases], place),
                "family": _picked(list(FAMILIES), case % len(FAMILIES)),
                "arm": _picked(list(ARMS), self.arm[series]),
                "role": _picked(list(ARMS), self.arm[series]),
                "implementation": _picked(list(ARMS), self.arm[series]),
                "host": _picked([f"node-{k:02}" for k in range(DEVICES)], device),
                "device_unit": _picked(device_units(), device),
                "null_reasons": _picked(reasons, self.random.integers(0, len(reasons), n)),
                "repro": _picked(repros, place),
                "code_sha256": _picked([None, *codes], np.where(self.arm[series] == len(ARMS) - 1, 1 + case % 6, 0)),
            }
            | {name: values[series] for name, values in self.kept.items()}
        )

    def runs(self, span: Span, first_seq: int) -> pa.Table:
        """The runs of some nights, forty a night."""
        night = np.repeat(np.arange(span.first, span.last), DEVICES)
        device = np.tile(np.arange(DEVICES), span.nights)
        n = len(night)
        known = {
            "run_id": pa.array([run_id(k) for k in range(span.first * DEVICES, span.last * DEVICES)]),
            "kind": _constant("night", n),
            "status": _constant("complete", n),
            "started_at": _times(night),
            "host": _picked([f"node-{k:02}" for k in range(DEVICES)], device),
            "device_unit": _picked(device_units(), device),
            "catalog": _constant("{}", n),
            "ingest_seq": first_seq + np.arange(n),
            "ingested_at": _times(night),
        }
        return _table("runs", known, n)

    def summary(self, nights: int) -> pa.Table:
        """The series table that so many nights give, made at once: what folding costs is measured with the ingest."""
        series, n = np.arange(self.series), self.series
        spark = self.ratio[:, None] * np.exp(self.random.normal(0, 0.02, (n, 30)))
        at = np.tile(_micros(np.arange(nights - 30, nights)), n)
        known = self._words(series) | {
            "weight": self.weight, "n_runs": np.full(n, nights), "first_at": _times(np.zeros(n, np.int64)),
            "latest_at": _times(np.full(n, nights - 1)),
            "latest_run_id": _picked([run_id((nights - 1) * DEVICES + k) for k in range(DEVICES)], self.device),
            "status": _constant("measured", n), "latency_p50_s": self.latency, "ratio_optimized": self.ratio,
            "sparkline_ratio": _lists(spark), "sparkline_latency_s": _lists(spark * self.latency[:, None]),
            "sparkline_at": pa.ListArray.from_arrays(
                np.arange(0, 30 * n + 1, 30, dtype=np.int32), pa.array(at, pa.timestamp("us", "UTC"))),
        }  # fmt: skip
        return _table("series", {k: v for k, v in known.items() if k in stored_schema("series").names}, n)

    def samples(self, results: pa.Table) -> pa.Table:
        """Raw values of these results."""
        n = results.num_rows * SAMPLE_ROWS
        order = np.repeat(np.arange(results.num_rows), SAMPLE_ROWS)
        values = np.repeat(results["latency_p50_s"].to_numpy(), SAMPLE_ROWS)[:, None] * np.exp(
            self.random.normal(0, 0.03, (n, SAMPLES_A_ROW))
        )
        rounds = np.tile(np.arange(SAMPLES_A_ROW, dtype=np.int32), (n, 1))
        known: dict[str, Any] = {name: results[name].take(order) for name in ("run_id", "subject_id", "case_id", "arm")}
        known |= {
            "replicate": np.tile(np.arange(SAMPLE_ROWS, dtype=np.int32), results.num_rows),
            "pass": _constant("rounds", n), "calls_per_sample": np.full(n, 8, np.int32),
            "wall_s": _lists(values), "thread_s": _lists(values * 0.98), "device_s": None,
            "monotonic_s": _lists(np.cumsum(values, axis=1)),
            "round": _lists(rounds), "position": _lists(self.random.integers(0, 4, rounds.shape, dtype=np.int32)),
            "mark": pa.ListArray.from_arrays(
                np.arange(0, n * SAMPLES_A_ROW + 1, SAMPLES_A_ROW, dtype=np.int32), _constant("", n * SAMPLES_A_ROW)),
        }  # fmt: skip
        return _table("samples", {k: v for k, v in known.items() if v is not None}, n)

    def telemetry(self, run: str, rows: int) -> pa.Table:
        """What a run's probe read beside it."""
        names = ["power", "temperature", "sm_clock", "memory_clock", "load"]
        known = {
            "run_id": _constant(run, rows), "device_unit": _constant("GPU-0", rows),
            "monotonic_s": np.arange(rows) * 0.2 + self.random.random(rows) * 1e-3,
            "metric": _picked(names, np.arange(rows) % len(names)), "unit": _constant("1", rows),
            "value": self.random.normal(100.0, 5.0, rows),
        }  # fmt: skip
        return _table("telemetry", known, rows)


def run_id(number: int) -> str:
    """Run `number`, counted over nights and devices."""
    return f"night-{number // DEVICES:04}-{number % DEVICES:02}"


def device_units() -> list[str]:
    """The devices' own names."""
    return [f"GPU-{device:032x}" for device in range(DEVICES)]


def _micros(night: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return int(START.timestamp() * 1e6) + night.astype(np.int64) * 86_400_000_000


def _times(night: np.ndarray[Any, Any]) -> pa.Array:
    return pa.array(_micros(night), pa.timestamp("us", "UTC"))


def _picked(texts: Sequence[str | float | None], place: np.ndarray[Any, Any]) -> pa.Array:
    return pa.array(texts).take(pa.array(place))


def _constant(text: str, n: int) -> pa.Array:
    return pa.repeat(text, n)


def _lists(values: np.ndarray[Any, Any], hidden: np.ndarray[Any, Any] | None = None) -> pa.Array:
    """A list a row; none where it is `hidden`."""
    shown = values if hidden is None else values[~hidden]
    lengths = (
        np.full(len(values), values.shape[1], np.int32) if hidden is None else np.where(hidden, 0, values.shape[1])
    )
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    mask = None if hidden is None else pa.array(hidden)
    return pa.ListArray.from_arrays(offsets, shown.reshape(-1), mask=mask)


def _of_itself(name: str, arm: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Where a column would hold the ratio of an arm to itself, which is not written."""
    own = next((number for number, word in enumerate(AGAINST) if f"ratio_{word}" in name), -1)
    return np.equal(arm, own)


def _without(name: str, arm: np.ndarray[Any, Any], values: Floats) -> pa.Array:
    return pa.array(values, mask=_of_itself(name, arm))


def _table(name: str, known: dict[str, Any], n: int) -> pa.Table:
    schema = stored_schema(name)
    columns = [_column(known[f.name], f.type) if f.name in known else pa.nulls(n, f.type) for f in schema]
    return pa.table(columns, schema=schema)


def _column(values: Any, kind: pa.DataType) -> Any:
    array = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
    return array.cast(kind)
