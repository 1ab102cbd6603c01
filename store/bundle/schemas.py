"""The explicit Arrow schemas of everything a run writes, and the words its rows use.

One row of `results` is one case x arm x run: always exactly one, whatever happened (DESIGN: a failure is a record).
One row of `samples` is one case x arm x replicate x pass, with every raw value in lists.
Units are SI and stand in the name; ratios and shares are fractions (1.0 is 100 %); times are UTC.
A null number has its reason in `null_reasons` (JSON, column -> words) unless the row's status already says why.
"""

from __future__ import annotations

from enum import StrEnum

import pyarrow as pa

SCHEMA_VERSION = 3
"""History: 1 the first; 2 and 3 more columns of results (`ADDED`)."""

TIMESTAMP = pa.timestamp("us", tz="UTC")
DOUBLES = pa.list_(pa.float64())
INTEGERS = pa.list_(pa.int32())


class RowStatus(StrEnum):
    """What became of one case x arm in one run."""

    MEASURED = "measured"
    WRONG = "wrong"
    FAILED = "failed"
    SKIPPED = "skipped"
    INVALID = "invalid"


class FailureKind(StrEnum):
    """Why a row is `failed`."""

    OUT_OF_MEMORY = "out_of_memory"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    COMPILE_ERROR = "compile_error"
    UNSUPPORTED = "unsupported"
    RANK_MISSING = "rank_missing"
    IMPOSSIBLE_VALUE = "impossible_value"


class InvalidReason(StrEnum):
    """Why a row is `invalid`: it was timed, and its times are kept, but they are not evidence."""

    THROTTLED = "throttled"
    CONTENDED = "contended"
    CLOCK_UNSETTLED = "clock_unsettled"


class RunKind(StrEnum):
    """What a run was made for."""

    NIGHT = "night"
    CONFIRM = "confirm"
    IMPORT = "import"


RUNS = pa.schema(
    [
        ("run_id", pa.string()),
        ("kind", pa.string()),  # RunKind
        ("confirms", pa.string()),  # of a confirm run: the request it answers
        ("status", pa.string()),  # complete | partial
        ("started_at", TIMESTAMP),
        ("finished_at", TIMESTAMP),
        ("suite", pa.string()),
        ("suite_hash", pa.string()),
        ("seed", pa.int64()),
        ("replicates", pa.int32()),
        ("revision", pa.string()),  # of the code under test; null where it is not known
        ("host", pa.string()),
        ("device_kind", pa.string()),  # cpu, cuda, xpu, npu ...
        ("device_model", pa.string()),
        ("device_slice", pa.string()),  # MIG profile and the like; null for a whole device
        ("device_unit", pa.string()),  # UUID or the like: this very device
        ("method_version", pa.string()),  # of the harness
        ("driver", pa.string()),
        ("torch", pa.string()),
        ("triton", pa.string()),
        ("clocks_policy", pa.string()),
        ("host_image", pa.string()),
        ("environment", pa.string()),  # JSON: the whole fingerprint, flat, field -> text
        ("ceilings", pa.string()),  # JSON: the roofs used, see bench_suite.roofline.Ceilings
        ("catalog", pa.string()),  # JSON: what the dashboard needs of the suite, case_id -> title, words, tolerance
        ("command", pa.string()),  # the command line that made it
        ("wall_s", pa.float64()),
        ("note", pa.string()),
    ]
)

RESULTS = pa.schema(
    [
        ("run_id", pa.string()),
        ("measured_at", TIMESTAMP),
        ("subject_id", pa.string()),  # case x arm x device x settings: with a metric it names a series
        ("case_id", pa.string()),
        ("operator", pa.string()),
        ("family", pa.string()),  # GEMM, Attention, RMSNorm, SwiGLU, Softmax, Collective: the rows of the heatmap
        ("dtype", pa.string()),
        ("phase", pa.string()),
        ("axes", pa.string()),  # JSON
        ("settings", pa.string()),  # JSON: timer, cache mode, threads, ranks
        ("weight", pa.float64()),  # share of production time within its suite, 0..1; null where the suite gives none
        ("arm", pa.string()),  # naive, optimized, aa, candidate, candidate:NAME; sentinel:ARM in a frozen environment
        ("role", pa.string()),  # bench_suite.contract.Role
        ("implementation", pa.string()),
        ("host", pa.string()),
        ("device_kind", pa.string()),
        ("device_model", pa.string()),
        ("device_slice", pa.string()),
        ("device_unit", pa.string()),
        ("status", pa.string()),  # RowStatus
        ("status_kind", pa.string()),  # FailureKind, InvalidReason or a skip's reason code
        ("status_reason", pa.string()),  # one sentence with the numbers
        # Time of one call, from single calls (latency_basis "single") or from means of k calls ("of_mean_k").
        ("latency_p50_s", pa.float64()),
        ("latency_p90_s", pa.float64()),
        ("latency_p95_s", pa.float64()),
        ("latency_p99_s", pa.float64()),
        ("latency_n", pa.int64()),
        ("latency_basis", pa.string()),
        ("ratio_timer", pa.string()),  # the clock of the ratios below: thread_time, wall, device_event
        ("time_processes_s", DOUBLES),  # per replicate: median time of one call by ratio_timer
        # Paired in one process: exp of the mean over replicates of the median log(arm / optimized); its 95 % interval.
        ("ratio_optimized", pa.float64()),
        ("ratio_optimized_low", pa.float64()),
        ("ratio_optimized_high", pa.float64()),
        ("log_ratio_optimized_processes", DOUBLES),
        ("ratio_naive", pa.float64()),
        ("ratio_naive_low", pa.float64()),
        ("ratio_naive_high", pa.float64()),
        ("log_ratio_naive_processes", DOUBLES),
        ("rounds", pa.int64()),  # over all replicates
        ("replicates", pa.int32()),
        ("flops", pa.float64()),
        ("traffic_bytes", pa.float64()),
        ("flop_per_s", pa.float64()),
        ("bandwidth_bytes_per_s", pa.float64()),
        ("bandwidth_utilization", pa.float64()),
        ("roofline_latency_s", pa.float64()),
        ("roofline_fraction", pa.float64()),
        ("roofline_bound", pa.string()),  # compute | memory | link | unknown
        ("peak_memory_bytes", pa.int64()),
        ("workspace_bytes", pa.int64()),
        ("reserved_bytes", pa.int64()),
        ("error_max_abs", pa.float64()),
        ("error_max_rel", pa.float64()),
        ("error_max_ulp", pa.float64()),  # largest error in steps of the result's dtype; 0.5 is rounding to nearest
        ("error_mismatch_share", pa.float64()),
        ("error_margin", pa.float64()),  # largest error as a fraction of what the tolerance allows; > 1 is wrong
        ("message_bytes", pa.int64()),
        ("world_size", pa.int32()),
        ("algbw_bytes_per_s", pa.float64()),
        ("busbw_bytes_per_s", pa.float64()),
        ("rank_spread", pa.float64()),  # slowest rank / fastest rank, median over rounds
        ("straggler_rank", pa.int32()),  # the one that was slowest most often
        ("exposed_s", pa.float64()),  # of communication beside computation: what the arm takes beyond the computation
        ("hidden_share", pa.float64()),  # 1 - exposed / communication alone; below 0 the two disturb each other
        ("code_sha256", pa.string()),  # of a candidate's sources: equal is equal code; null where it has no file
        ("configuration", pa.string()),  # what an autotuner chose for the case, or the code says of itself
        ("compile_s", pa.float64()),
        ("first_call_s", pa.float64()),
        ("energy_j", pa.float64()),  # of one call; flops / energy_j is FLOP/s per watt
        (
            "sm_clock_hz",
            pa.float64(),
        ),  # median while it was timed; latency x clock is cycles: slow kernel or slow chip?
        # Of a kernel compiled ahead of time for a chip (device_kind "static"): exact, free of noise.
        ("static_registers", pa.int64()),  # a thread
        ("static_spills", pa.int64()),  # instructions on thread-private memory (NVIDIA), registers spilled (AMD)
        ("static_shared_bytes", pa.int64()),  # of a block
        ("static_stack_bytes", pa.int64()),
        ("static_instructions", pa.int64()),
        ("static_matrix_instructions", pa.int64()),
        ("static_load_widths", pa.string()),  # JSON, bits -> loads of global memory; 0 bits is a bulk copy
        ("static_binary_bytes", pa.int64()),
        ("static_binary_sha256", pa.string()),  # equal hashes are equal machine code
        ("null_reasons", pa.string()),  # JSON
        ("repro", pa.string()),  # the command that measures this row alone
    ]
)

SAMPLES = pa.schema(
    [
        ("run_id", pa.string()),
        ("subject_id", pa.string()),
        ("case_id", pa.string()),
        ("arm", pa.string()),
        ("replicate", pa.int32()),
        ("pass", pa.string()),  # rounds | single
        ("calls_per_sample", pa.int32()),  # a value is the mean of so many calls
        ("wall_s", DOUBLES),
        ("thread_s", DOUBLES),  # CPU time of the calling thread; empty where the device has its own clock
        ("device_s", DOUBLES),  # device events; empty on CPU
        ("monotonic_s", DOUBLES),  # start of each sample, node's monotonic clock: joins telemetry
        ("round", INTEGERS),
        ("position", INTEGERS),  # of the arm in its round, 0 first
        ("mark", pa.list_(pa.string())),  # "" or the reason for which the sample is left out of verdicts
    ]
)

TELEMETRY = pa.schema(
    [
        ("run_id", pa.string()),
        ("device_unit", pa.string()),
        ("monotonic_s", pa.float64()),
        ("at", TIMESTAMP),
        ("metric", pa.string()),
        ("unit", pa.string()),
        ("value", pa.float64()),
        ("reason", pa.string()),  # why value is null
    ]
)

BUNDLE_TABLES: dict[str, pa.Schema] = {"runs": RUNS, "results": RESULTS, "samples": SAMPLES, "telemetry": TELEMETRY}

ADDED: dict[int, dict[str, tuple[str, ...]]] = {
    2: {
        "results": (
            "error_max_ulp", "exposed_s", "hidden_share", "code_sha256", "configuration", "static_registers",
            "static_spills", "static_shared_bytes", "static_stack_bytes", "static_instructions",
            "static_binary_bytes", "static_binary_sha256",
        )
    },
    3: {"results": ("static_matrix_instructions", "static_load_widths")},
}  # fmt: skip
"""Version -> the columns that came with it. A node may be older than its host: what its bundle lacks is null."""


def added_since(version: int, table_name: str) -> tuple[str, ...]:
    """Columns of a table that a bundle of this schema version cannot have."""
    return tuple(column for later, tables in ADDED.items() if later > version for column in tables.get(table_name, ()))
