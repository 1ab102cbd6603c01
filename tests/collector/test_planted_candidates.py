"""One suite with every way to break, run whole on real workers: candidates, a case without work, missing ranks."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from collector.node.crew import living_members
from collector.node.run import RunOptions, RunOutcome, run_suite
from store.bundle.reader import read_bundle
from store.bundle.schemas import RESULTS

pytestmark = [pytest.mark.usefixtures("own_cores"), pytest.mark.timeout(2400)]
"""Two runs, some twenty worker processes one after the other."""

SUITE = Path(__file__).parent / "planted" / "suite.toml"
LIMIT_S = 60.0
"""Of a step: what a busy machine may need for one. The rank that never comes is waited for so long, once."""
NORM = "rms_norm[fp32,rows=16,hidden=512]"
EMPTY = "layer_norm[fp32,rows=0,hidden=512]"
SOFTMAX = "softmax[fp32,rows=8,columns=512]"
REDUCE = "all_reduce[fp32,ranks=2,elements=1024]"
OVERLAP = "all_reduce_overlap[fp32,ranks=2,elements=65536,M=64,N=64,K=256]"
HONEST = [
    *((NORM, a) for a in ("naive", "optimized", "aa", "candidate", "candidate:honest", "candidate:slow_warm_up")),
    *((SOFTMAX, a) for a in ("naive", "optimized", "aa", "candidate")),
    *((case, a) for case in (REDUCE, OVERLAP) for a in ("naive", "optimized", "aa", "candidate")),
]
GLOO_BYTES = 64 * 1024
"""How far two readings of a collective's memory may be apart."""
ROWS = 21 + 5 + 5 + 8 + 4

Row = dict[str, Any]


@dataclass(slots=True)
class Watch:
    """Remembers the process groups of all workers that this process starts, by looking into /proc."""

    groups: set[int] = field(default_factory=set)
    over: threading.Event = field(default_factory=threading.Event)

    def look(self) -> None:
        while not self.over.wait(0.05):
            self.groups |= set(workers())


def workers() -> Iterator[int]:
    """Living workers whose parent is this process; each leads a group of its own."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
            mine = int(fields[1]) == os.getpid() and fields[0] != "Z"
            if mine and b"collector.node.worker" in (stat.parent / "cmdline").read_bytes():
                yield int(stat.parent.name)
        except OSError:
            continue


@pytest.fixture(scope="module")
def watch() -> Iterator[Watch]:
    found = Watch()
    thread = threading.Thread(target=found.look)
    thread.start()
    yield found
    found.over.set()
    thread.join()


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory, watch: Watch) -> RunOutcome:
    return run_suite(
        RunOptions(suite=str(SUITE), spool=tmp_path_factory.mktemp("spool"), case_limit_s=LIMIT_S, device="cpu")
    )


@pytest.fixture(scope="module")
def rows(outcome: RunOutcome) -> dict[tuple[str, str], Row]:
    return {(row["case_id"], row["arm"]): row for row in outcome.rows}


@pytest.mark.parametrize(
    ("name", "status", "kind", "words"),
    [
        ("wrong", "wrong", "wrong", "1 of 8,192 elements beyond tolerance"),
        (
            "not_a_number",
            "wrong",
            "wrong",
            "1 of 8,192 elements beyond tolerance; worst at [3, 5]: nan",
        ),
        ("unwritten", "wrong", "wrong", "512 of 8,192"),
        ("mutating", "wrong", "wrong", "it changes its inputs"),
        ("returns_input", "wrong", "wrong", "it changes its inputs"),
        ("returns_view", "wrong", "wrong", "it returns one of its inputs"),
        ("cached", "wrong", "wrong", "beyond tolerance"),
        ("side_stream", "wrong", "wrong", "in other threads, which its clock does not see"),
        ("late", "wrong", "wrong", "beyond tolerance"),
        ("zero_size", "wrong", "wrong", "shape is [0, 512], must be [16, 512]"),
        ("raising", "failed", "crashed", "ValueError: this kernel has no configuration for such a shape"),
        ("segfault", "failed", "crashed", "SIGSEGV in step compile"),
        ("stopped", "failed", "timed_out", "its process was stopped"),
        ("late_crash", "failed", "crashed", "SIGSEGV"),
        ("hungry", "failed", "out_of_memory", "allocate"),
    ],
)
def test_a_broken_candidate_is_a_typed_row(
    rows: dict[tuple[str, str], Row], name: str, status: str, kind: str, words: str
) -> None:
    """Each way to break the promise gives its own status, kind and reason, and no speed where the result is wrong."""
    row = rows[NORM, f"candidate:{name}"]

    assert (row["status"], row["status_kind"]) == (status, kind), row["status_reason"]
    assert words in row["status_reason"]
    assert "\n" not in row["status_reason"]
    if status == "wrong":
        assert row["latency_p50_s"] is None
        assert row["ratio_optimized"] is None


@pytest.mark.parametrize("name", ["killed", "stopped", "absent"])
def test_the_missing_rank_is_named(rows: dict[tuple[str, str], Row], name: str) -> None:
    """A rank that dies, stops or never comes is `rank_missing` with its number; nobody waits for ever."""
    row = rows[REDUCE, f"candidate:{name}"]

    assert (row["status"], row["status_kind"]) == ("failed", "rank_missing"), row["status_reason"]
    assert "rank 1 of 2" in row["status_reason"]


def test_a_result_that_is_wrong_on_one_rank_is_wrong(rows: dict[tuple[str, str], Row]) -> None:
    """Every rank checks its own result; one bad rank is enough, and the ranks that went missing before it are not."""
    assert rows[REDUCE, "candidate:wrong_on_one"]["status"] == "wrong"


def test_a_case_without_work_is_checked_and_not_timed(rows: dict[tuple[str, str], Row]) -> None:
    """Zero rows: what is right is skipped with that reason, what fails on it fails; nobody has a time."""
    right = [rows[EMPTY, arm] for arm in ("naive", "optimized", "aa", "candidate")]

    assert {(r["status"], r["status_kind"], r["status_reason"]) for r in right} == {
        ("skipped", "empty", "rows is 0: there is nothing to time")
    }
    failed = rows[EMPTY, "candidate:fails_on_empty"]
    assert (failed["status"], failed["status_kind"]) == ("failed", "crashed")
    assert "a grid of 0 blocks" in failed["status_reason"]
    assert all(row["latency_p50_s"] is None for (case, _), row in rows.items() if case == EMPTY)


def test_everybody_else_is_as_without_them(
    rows: dict[tuple[str, str], Row], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Beside a run without what is broken: the same series, statuses, errors and bytes, and times of all."""
    folder = tmp_path_factory.mktemp("clean")
    kept = [part for part in SUITE.read_text().split("[[candidate]]") if _is_kept(part)]
    (folder / "suite.toml").write_text(
        "[[candidate]]".join(kept).replace('"candidates.py"', f'"{SUITE.parent}/candidates.py"')
    )
    options = RunOptions(suite=str(folder / "suite.toml"), spool=folder, case_limit_s=LIMIT_S, device="cpu")
    clean = {(row["case_id"], row["arm"]): row for row in run_suite(options).rows}
    same = ("status", "subject_id", "implementation", "settings", "replicates", "traffic_bytes", "flops")
    same += ("ratio_timer",)
    memory = ("peak_memory_bytes", "workspace_bytes")
    errors = ("error_max_abs", "error_max_rel", "error_margin")

    for key in HONEST:
        assert rows[key]["status"] == "measured", (key, rows[key]["status_reason"])
        assert {name: rows[key][name] for name in same} == {name: clean[key][name] for name in same}, key
        for name in memory:  # of ranks, what the backend's threads hold at that moment is in it: some 8 KiB
            within = GLOO_BYTES if key[0] in (REDUCE, OVERLAP) else 0
            found, expected = rows[key][name], clean[key][name]
            assert (found is None) == (expected is None), (key, name)
            assert abs((found or 0) - (expected or 0)) <= within, (key, name)
        if key[0] != OVERLAP:  # a library's GEMM rounds by how its buffers happen to be aligned
            assert {name: rows[key][name] for name in errors} == {name: clean[key][name] for name in errors}, key
        assert rows[key]["latency_p50_s"] > 0
        assert key[1] == "optimized" or rows[key]["ratio_optimized"] > 0


def _is_kept(part: str) -> bool:
    return part.lstrip().startswith("#") or 'name = "honest"' in part or 'name = "slow_warm_up"' in part


def test_warm_up_is_not_in_the_percentiles(rows: dict[tuple[str, str], Row]) -> None:
    """Fifty milliseconds in each of the first three calls leave no trace in the tail."""
    assert rows[NORM, "candidate:slow_warm_up"]["latency_p99_s"] < 0.05


def test_collectives_have_bus_bandwidth_and_spread(rows: dict[tuple[str, str], Row]) -> None:
    """busbw of two ranks is algbw, S is the total buffer; how far the ranks were apart is kept."""
    for arm in ("naive", "optimized", "aa", "candidate"):
        row = rows[REDUCE, arm]
        assert row["message_bytes"] == 4096
        assert row["algbw_bytes_per_s"] == pytest.approx(4096 / row["latency_p50_s"])
        assert row["busbw_bytes_per_s"] == pytest.approx(row["algbw_bytes_per_s"])
        assert row["rank_spread"] >= 1.0
        assert row["ratio_timer"] == "wall"


def test_communication_beside_computation_tells_what_is_exposed(
    rows: dict[tuple[str, str], Row], outcome: RunOutcome
) -> None:
    """What an arm takes beyond the computation, against the communication alone; both pieces' samples are kept."""
    for arm in ("naive", "optimized", "aa", "candidate"):
        row = rows[OVERLAP, arm]
        assert row["hidden_share"] < 1 or row["exposed_s"] <= 0
        assert row["exposed_s"] < row["latency_p99_s"]
    assert outcome.bundle is not None
    samples = read_bundle(outcome.bundle).tables["samples"].to_pylist()
    assert {"part:communication", "part:computation"} <= {s["arm"] for s in samples if s["case_id"] == OVERLAP}
    assert rows[REDUCE, "optimized"]["hidden_share"] is None


def test_the_series_of_a_failed_case_is_named_as_if_it_had_been_timed(rows: dict[tuple[str, str], Row]) -> None:
    """The settings, and with them the series, come from the plan: no arm and no case says `timer: none`."""
    timers = {case: {row["settings"] for (c, _), row in rows.items() if c == case} for case, _ in rows}

    assert all(len(settings) == 1 for settings in timers.values())
    assert '"timer": "thread_time"' in next(iter(timers[EMPTY]))
    assert '"timer": "wall"' in next(iter(timers[REDUCE]))


def test_the_bundle_holds_one_row_an_arm_and_every_sample(outcome: RunOutcome) -> None:
    """What was published reads back whole: one row for each case x arm, samples of all arms that are not wrong."""
    assert outcome.bundle is not None
    bundle = read_bundle(outcome.bundle)
    results = bundle.tables["results"]
    keys = list(zip(results["case_id"].to_pylist(), results["arm"].to_pylist(), strict=True))

    assert results.schema.names == RESULTS.names
    assert len(keys) == len(set(keys)) == ROWS
    sampled = set(zip(*(bundle.tables["samples"][c].to_pylist() for c in ("case_id", "arm")), strict=True))
    assert (NORM, "candidate:honest") in sampled
    assert (NORM, "candidate:wrong") not in sampled
    assert bundle.tables["telemetry"].num_rows > 0
    for row in bundle.tables["samples"].to_pylist():
        assert len(row["wall_s"]) == len(row["round"]) == len(row["position"]) == len(row["mark"])
        assert min(row["wall_s"]) > 0


def test_no_process_of_any_group_is_left(outcome: RunOutcome, watch: Watch) -> None:
    """Every worker's group that was seen during the run is gone from /proc: crashed, stopped, absent or healthy."""
    del outcome

    assert len(watch.groups) >= 10
    assert list(workers()) == []
    assert [group for group in watch.groups if living_members(group)] == []
