"""From samples to rows: summaries against hand-made samples."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from scipy import stats as scipy_stats

from bench_suite.contract import Phase, Role, parse_case_id
from bench_suite.datasheets import datasheet
from bench_suite.roofline import Ceilings
from bench_suite.suite import Method, PlannedCase, Suite
from collector.node.devices.base import DeviceIdentity
from collector.node.ledger import ArmRecord, CaseRecord
from collector.node.protocol import Arm, ArmPrepared, Hello, PassSamples
from collector.node.rows import RunFacts, result_rows
from store.bundle.schemas import RESULTS

CASE = parse_case_id("gemm[fp32,M=8,N=512,K=256]", Phase.DECODE)
IDENTITY = DeviceIdentity(kind="cpu", model="Test", unit="cpu-1", cache_bytes=2**20, clock_max_hz=3e9)
CEILINGS = Ceilings(flop_per_s={"fp32": 1e11}, bandwidth_bytes_per_s=1e10, source="test", measured_at="2026-11-30")
FACTS = RunFacts(
    run_id="r1",
    measured_at=datetime(2026, 11, 30, tzinfo=UTC),
    host="h",
    identity=IDENTITY,
    suite=Suite(name="s", hash="0", summary="", version=1, seed=1, source=(), method=Method(), cases=(), candidates=()),
    ceilings=CEILINGS,
    threads=1,
)


IDENTITY_FACTS = replace(FACTS, identity=DeviceIdentity(kind="cuda", model="Test", unit="GPU-1", cache_bytes=2**20))


def samples(
    arm: str, values: list[float], *, passed: str = "rounds", calls: int = 4, mark: list[str] | None = None
) -> PassSamples:
    n = len(values)
    return PassSamples(
        arm=arm,
        passed=passed,
        calls_per_sample=calls,
        wall_s=values,
        thread_s=values,
        device_s=[],
        monotonic_s=[0.0] * n,
        round=list(range(n)),
        position=[0] * n,
        mark=mark or [""] * n,
        rank_spread=[1.0] * n,
        straggler=[0] * n,
    )


def record(**arms: list[PassSamples]) -> CaseRecord:
    made = CaseRecord(planned=PlannedCase(case=CASE, weight=0.5, label="", provenance=""), ratio_timer="thread_time")
    for label, passes in arms.items():
        arm = ArmRecord(arm=Arm(label=label, role=Role(label), implementation="x"))
        rounds = 0
        for one in passes:
            arm.passes.append((rounds, one))
            rounds += one.passed == "rounds"
        made.arms[label] = arm
    return made


def rows_of(made: CaseRecord) -> dict[str, dict[str, Any]]:
    rows = result_rows(made, FACTS)
    assert all(list(row) == RESULTS.names for row in rows)
    return {row["arm"]: row for row in rows}


def test_the_ratio_is_students_interval_over_the_processes() -> None:
    """Median log-ratio of each replicate, mean and t interval over three; oracle: scipy."""
    shifts = [1.10, 1.15, 1.12]
    made = record(
        optimized=[samples("optimized", [1e-3, 2e-3, 3e-3]) for _ in shifts],
        candidate=[samples("candidate", [1e-3 * s, 2e-3 * s, 3e-3 * s]) for s in shifts],
    )
    row = rows_of(made)["candidate"]
    logs = np.log(shifts)
    half = scipy_stats.t.ppf(0.975, 2) * logs.std(ddof=1) / math.sqrt(3)

    assert row["ratio_optimized"] == pytest.approx(math.exp(logs.mean()))
    assert row["ratio_optimized_low"] == pytest.approx(math.exp(logs.mean() - half))
    assert row["ratio_optimized_high"] == pytest.approx(math.exp(logs.mean() + half))
    assert row["log_ratio_optimized_processes"] == pytest.approx(list(logs))


def test_marked_samples_are_kept_out_of_numbers() -> None:
    """A marked sample changes no summary; without it the ratio is what the others say."""
    made = record(
        optimized=[samples("optimized", [1e-3] * 5) for _ in range(2)],
        candidate=[samples("candidate", [1e-3] * 4 + [9.0], mark=[""] * 4 + ["throttled"]) for _ in range(2)],
    )
    row = rows_of(made)["candidate"]

    assert row["ratio_optimized"] == pytest.approx(1.0)
    assert row["latency_p99_s"] == pytest.approx(1e-3)


def test_percentiles_say_what_they_stand_on() -> None:
    """Single calls where there are twenty, else means of k; a p99 with fewer than 300 says how many it has."""
    few = record(optimized=[samples("optimized", [1e-3] * 30)])
    many = record(
        optimized=[
            samples("optimized", [1e-3] * 30),
            samples("optimized", list(np.linspace(1e-3, 2e-3, 300)), passed="single", calls=1),
        ]
    )

    short, long = rows_of(few)["optimized"], rows_of(many)["optimized"]

    assert (short["latency_basis"], short["latency_n"]) == ("of_mean_4", 30)
    assert "latency_p99_s.support" in json.loads(short["null_reasons"])
    assert (long["latency_basis"], long["latency_n"]) == ("single", 300)
    assert "latency_p99_s.support" not in json.loads(long["null_reasons"])
    assert long["latency_p99_s"] == pytest.approx(np.quantile(np.linspace(1e-3, 2e-3, 300), 0.99))


def test_roofline_by_hand() -> None:
    """2 M N K / peak against bytes / bandwidth; the fraction is the larger one over p50, and is not clipped."""
    row = rows_of(record(optimized=[samples("optimized", [1e-4] * 30)]))["optimized"]
    compute = 2 * 8 * 512 * 256 / 1e11
    memory = 4 * (8 * 256 + 512 * 256 + 8 * 512) / 1e10

    assert row["roofline_latency_s"] == pytest.approx(max(compute, memory))
    assert row["roofline_fraction"] == pytest.approx(max(compute, memory) / 1e-4)
    assert row["roofline_bound"] == ("memory" if memory > compute else "compute")


def test_an_impossible_time_is_flagged_and_kept() -> None:
    """A call faster than the clock allows, or in no time, is `impossible_value`: its numbers stay, its verdict not."""
    fast = rows_of(record(optimized=[samples("optimized", [1e-7] * 30)]))["optimized"]
    nothing = rows_of(record(optimized=[samples("optimized", [1e-4] * 29 + [0.0])]))["optimized"]

    for row in (fast, nothing):
        assert (row["status"], row["status_kind"]) == ("failed", "impossible_value")
        assert row["latency_p50_s"] is not None
    assert "GFLOP/s" in fast["status_reason"]


def test_a_time_beyond_a_measured_ceiling_makes_it_stale_and_nothing_else() -> None:
    """Above a measured peak, or a measured bandwidth with room for a stream of reads, the row says so and stays."""
    peak_s = 2 * 8 * 512 * 256 / 1e11
    reads_s = 4 * (8 * 256 + 512 * 256) / 1e10
    assert reads_s * 3 / 4 > peak_s  # it is the memory that bounds

    near = rows_of(record(optimized=[samples("optimized", [reads_s * 0.76] * 30)]))["optimized"]
    beyond = rows_of(record(optimized=[samples("optimized", [reads_s * 0.7] * 30)]))["optimized"]

    assert "roofline_fraction.ceiling" not in json.loads(near["null_reasons"])
    words = json.loads(beyond["null_reasons"])["roofline_fraction.ceiling"]
    assert words == f"the ceiling is stale: {CASE.case_id} reads 14.29 GB/s, the measured bandwidth is 10"
    assert (beyond["status"], beyond["status_kind"]) == ("measured", None)
    assert beyond["roofline_fraction"] > 1  # shown as it is, never clipped


def test_a_warm_case_has_no_bound_of_memory() -> None:
    """Warm inputs come from the cache: a series of its own, no memory roof, no staleness and nothing impossible."""
    warm = parse_case_id(CASE.case_id.replace("]", ",cache=warm]"), Phase.DECODE)
    seconds = 1.1 * 2 * 8 * 512 * 256 / 1e11
    made = record(optimized=[samples("optimized", [seconds] * 30)])
    cold_row = rows_of(made)["optimized"]
    made.planned = PlannedCase(case=warm, weight=0.5, label="", provenance="")
    row = rows_of(made)["optimized"]

    assert (row["status"], row["roofline_bound"]) == ("measured", "compute")
    assert row["roofline_fraction"] == pytest.approx(1 / 1.1)
    assert "roofline_fraction.ceiling" not in json.loads(row["null_reasons"])
    assert "roofline_fraction.ceiling" in json.loads(cold_row["null_reasons"])
    assert row["subject_id"] != cold_row["subject_id"]
    assert json.loads(row["settings"])["cache"] == "warm"


@pytest.mark.parametrize(("share", "status"), [(0.95, "measured"), (0.85, "failed")])
def test_a_time_beyond_a_datasheet_is_impossible(share: float, status: str) -> None:
    """More than a tenth below what the datasheet's rates allow is `impossible_value`, with both figures."""
    h100 = DeviceIdentity(kind="cuda", model="NVIDIA H100 80GB HBM3", unit="GPU-0", cache_bytes=1)
    case = parse_case_id("gemm[bf16,M=8192,N=8192,K=8192]", Phase.PREFILL)
    sheet = datasheet(h100.model)
    assert sheet is not None
    least_s = 2 * 8192**3 / sheet.limits().flop_per_s["bf16"]
    one = samples("optimized", [share * least_s] * 30, calls=1)
    one.device_s[:] = one.wall_s
    made = record(optimized=[one])
    made.planned, made.ratio_timer = PlannedCase(case=case, weight=None, label="", provenance=""), "device_event"
    row = {r["arm"]: r for r in result_rows(made, replace(FACTS, identity=h100, ceilings=None))}["optimized"]

    assert row["status"] == status
    if status == "failed":
        assert row["status_kind"] == "impossible_value"
        assert "by the datasheet of" in row["status_reason"]


def test_how_a_case_would_have_been_timed_names_its_series() -> None:
    """A case of which nothing was timed has the settings, and so the series, of one that was."""
    hello = Hello(pid=1, device={}, versions={}, timer="thread_time", ranks_timer="wall")
    facts = replace(FACTS, hello=hello)
    timed = record(optimized=[samples("optimized", [1e-4] * 30)])
    never = CaseRecord(planned=timed.planned)
    never.skip("memory", "needs 9.0 GiB; 5.0 GiB are free")

    (first,) = [r for r in result_rows(timed, facts) if r["arm"] == "optimized"]
    (second,) = [r for r in result_rows(never, facts) if r["arm"] == "optimized"]
    assert json.loads(second["settings"])["timer"] == "thread_time"
    assert first["subject_id"] == second["subject_id"]


def test_replayed_calls_are_a_setting_and_what_prevents_them_a_reason() -> None:
    """`timer: graph` where calls are replayed; one arm that cannot be captured has all timed by events, and named."""
    gpu = replace(IDENTITY_FACTS, hello=Hello(pid=1, device={}, versions={}, timer="device_event", replays=True))
    one = samples("optimized", [1e-4] * 30)
    one.device_s[:] = one.wall_s
    made = record(optimized=[one])
    made.ratio_timer = "device_event"
    made.arms["optimized"].prepared = prepared("optimized", no_replay="RuntimeError: capturing")
    events = {r["arm"]: r for r in result_rows(made, gpu)}["optimized"]
    made.arms["optimized"].prepared, made.replayed = prepared("optimized"), True
    graph = {r["arm"]: r for r in result_rows(made, gpu)}["optimized"]

    assert json.loads(events["settings"])["timer"] == "device_event"
    words = "optimized cannot be captured: RuntimeError: capturing"
    assert json.loads(events["null_reasons"])["timer.graph"] == words
    assert (json.loads(graph["settings"])["timer"], graph["ratio_timer"]) == ("graph", "device_event")
    assert "timer.graph" not in json.loads(graph["null_reasons"])


def prepared(arm: str, *, no_replay: str = "") -> ArmPrepared:
    """An arm that was prepared and of which nothing is known."""
    values: dict[str, Any] = dict.fromkeys(ArmPrepared.__struct_fields__)
    told = {"arm": arm, "compile_s": 0.0, "first_call_s": 0.0, "ok": True, "no_replay": no_replay}
    return ArmPrepared(**(values | told | dict.fromkeys(("reason", "memory_reason", "energy_reason"), "")))


def test_exposed_communication_by_hand() -> None:
    """In each round the arm less the computation; hidden is the rest of the communication, below 0 where they clash."""
    case = parse_case_id("all_reduce_overlap[fp32,ranks=2,elements=8,M=1,N=1,K=1]", Phase.PREFILL)
    made = record(
        naive=[samples("naive", [9e-3, 10e-3, 12e-3])],
        optimized=[samples("optimized", [6e-3, 7e-3, 9e-3])],
        candidate=[samples("candidate", [11e-3, 12e-3, 14e-3])],
    )
    made.planned, made.ratio_timer = PlannedCase(case=case, weight=None, label="", provenance=""), "wall"
    for name, values in (("communication", [4e-3] * 3), ("computation", [5e-3, 6e-3, 8e-3])):
        label = f"part:{name}"
        made.parts[label] = ArmRecord(arm=Arm(label=label, role=Role.PLANTED, implementation=name))
        made.parts[label].passes.append((0, samples(label, values)))
    rows = rows_of(made)

    found = {arm: (rows[arm]["exposed_s"], rows[arm]["hidden_share"]) for arm in ("naive", "optimized", "candidate")}
    assert found["naive"] == (pytest.approx(4e-3), pytest.approx(0.0))
    assert found["optimized"] == (pytest.approx(1e-3), pytest.approx(0.75))
    assert found["candidate"] == (pytest.approx(6e-3), pytest.approx(-0.5))
    assert "part:computation" not in rows


def test_rows_of_devices_that_ran_at_once_are_a_series_of_their_own() -> None:
    """They shared power, links and cores: the row says how many there were, and its series is another."""
    made = record(optimized=[samples("optimized", [1e-4] * 30)])
    alone, beside = (
        next(row for row in result_rows(made, replace(FACTS, at_once=n)) if row["arm"] == "optimized") for n in (1, 4)
    )

    assert json.loads(beside["settings"])["at_once"] == 4
    assert "at_once" not in json.loads(alone["settings"])
    assert alone["subject_id"] != beside["subject_id"]


def test_no_candidate_is_said() -> None:
    """A case without a candidate has a row that says so."""
    row = rows_of(record(optimized=[samples("optimized", [1e-4] * 30)]))["candidate"]

    assert (row["status"], row["status_kind"]) == ("skipped", "no_candidate")


def test_a_skipped_case_has_a_row_for_each_usual_arm() -> None:
    """A case that does not fit is skipped with the figures on every arm, never absent."""
    made = record()
    made.skip("memory", "needs 9.0 GiB; 5.0 GiB are free")
    rows = rows_of(made)

    assert set(rows) == {"naive", "optimized", "aa", "candidate"}
    assert all(row["status"] == "skipped" and "9.0 GiB" in row["status_reason"] for row in rows.values())


def test_a_ratio_to_a_failed_arm_says_why_it_is_not_there() -> None:
    """Where optimized failed the ratio is null and its reason names that."""
    made = record(optimized=[samples("optimized", [1e-4] * 30)], candidate=[samples("candidate", [1e-4] * 30)])
    made.arms["optimized"].fail("crashed", "it raised")
    row = rows_of(made)["candidate"]

    assert row["ratio_optimized"] is None
    assert json.loads(row["null_reasons"])["ratio_optimized"] == "optimized is failed"
