"""The sentinel on the node: which cases it measures, whose Python it is, and what is said where it cannot run."""

from __future__ import annotations

import json
import math
import os
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from bench_suite.contract import Phase, Role, parse_case_id
from bench_suite.suite import Method, PlannedCase, Suite, load_suite
from collector.cli.run import check_share
from collector.errors import UsageError
from collector.node.crew import Crew, CrewError, Outcome
from collector.node.devices.base import DeviceIdentity
from collector.node.journal import Journal, RunHeader
from collector.node.ledger import ArmRecord, CaseRecord
from collector.node.opening import replay
from collector.node.protocol import Arm, ArmsListed, Hello, PassSamples, WorkerSetup
from collector.node.run_state import Run
from collector.node.sentinel import (
    Sentinel,
    choose_cases,
    frozen_record,
    linked_source,
    lost_where_it_fails,
    open_sentinel,
    sentinel_variables,
)
from collector.node.sentinel_rows import sentinel_result_rows, sentinel_sample_rows, words_of
from collector.node.series_key import RunFacts
from store.bundle.schemas import RESULTS, SAMPLES
from tests.support.sentinel_environment import make_environment

CASE = PlannedCase(case=parse_case_id("gemm[fp32,M=8,N=512,K=256]", Phase.DECODE), weight=0.5, label="", provenance="")
IDENTITY = DeviceIdentity(kind="cpu", model="Test", unit="cpu-1", cache_bytes=2**20)
HELLO = Hello(
    pid=1,
    device=msgspec.to_builtins(IDENTITY),
    versions={"version.torch": "2.8", "python": "3.11.1", "cpu.avx2": "True", "packages": "abc"},
    timer="thread_time",
)
KEPT = Sentinel(python="/opt/s/bin/python", hello=HELLO)
SUITE = Suite(name="s", hash="0", summary="", version=1, seed=1, source=(), method=Method(), cases=(), candidates=())
FACTS = RunFacts(
    run_id="r1",
    measured_at=datetime(2026, 11, 30, tzinfo=UTC),
    host="h",
    identity=IDENTITY,
    suite=SUITE,
    ceilings=None,
    threads=1,
    hello=HELLO,
)
LISTED = [
    Arm(label=role.value, role=role, implementation="x")
    for role in (Role.NAIVE, Role.OPTIMIZED, Role.AA, Role.CANDIDATE)
]


def samples(arm: str, seconds: float) -> PassSamples:
    n = 6
    return PassSamples(
        arm=arm, passed="rounds", calls_per_sample=1, wall_s=[seconds] * n, thread_s=[seconds] * n, device_s=[],
        monotonic_s=[0.0] * n, round=list(range(n)), position=[0] * n, mark=[""] * n, rank_spread=[1.0] * n,
        straggler=[0] * n,
    )  # fmt: skip


def both(*, normal_s: float = 2e-3, frozen_s: float = 1e-3) -> CaseRecord:
    """A case measured in both environments, in two replicates."""
    record = CaseRecord(planned=CASE, ratio_timer="thread_time", sentinel=frozen_record(CASE))
    assert record.sentinel is not None
    record.sentinel.ratio_timer = "thread_time"
    for found, seconds in ((record, normal_s), (record.sentinel, frozen_s)):
        for arm in LISTED:
            found.arms.setdefault(arm.label, ArmRecord(arm=arm))
        for label, arm_record in found.arms.items():
            if arm_record.fate is None:
                arm_record.passes = [(replicate, samples(label, seconds)) for replicate in (0, 1)]
    return record


def rows(record: CaseRecord, sentinel: Sentinel = KEPT) -> dict[str, dict[str, Any]]:
    found = sentinel_result_rows(record, sentinel, FACTS)
    assert all(list(row) == RESULTS.names for row in found)
    return {row["arm"]: row for row in found}


def test_a_share_of_the_cases_is_chosen_the_same_every_night_and_from_every_operator() -> None:
    """The heaviest case of each operator before the second of any; none that needs several devices."""
    cases = load_suite("quick").cases
    chosen = choose_cases(cases, 0.25)
    operators = {planned.case.operator for planned in cases}
    everything = choose_cases(cases, 1.0)

    assert chosen == choose_cases(reversed(cases), 0.25) and chosen <= everything
    assert len(chosen) == math.ceil(0.25 * len(everything))
    assert len({case_id.partition("[")[0] for case_id in chosen}) == min(len(chosen), len(operators))
    assert choose_cases(load_suite("collectives").cases, 1.0) == frozenset()


@pytest.mark.parametrize("share", [0.0, -1.0, 1.01, math.nan])
def test_a_share_that_is_none_is_refused_before_anything_is_measured(share: float) -> None:
    """One line with the value and the rule; a good one passes."""
    with pytest.raises(UsageError, match=r"--sentinel-share is .* must be above 0 and at most 1"):
        check_share(share)
    check_share(1.0)


def test_its_processes_see_our_sources_and_nothing_else_of_this_environment(tmp_path: Path) -> None:
    """What a user set for the normal environment does not reach the frozen one; caches and programs are its own."""
    source = linked_source(tmp_path / "source")
    given = {
        "PYTHONPATH": "/mine",
        "CXX": "g++-99",
        "PATH": "/usr/bin",
        "OMP_NUM_THREADS": "1",
        "TRITON_CACHE_DIR": "/t",
    }
    seen = sentinel_variables(given, "/opt/s/bin/python", source)

    assert sorted(path.name for path in source.iterdir()) == [
        "bench_suite",
        "collector",
        "configs",
        "detection",
        "store",
    ]
    assert (source / "collector" / "node" / "worker.py").is_file()
    assert linked_source(source) == source, "a second time is none"
    assert "CXX" not in seen and seen["PYTHONPATH"] == str(source)
    assert seen["PATH"] == "/opt/s/bin:/usr/bin" and seen["OMP_NUM_THREADS"] == "1"
    assert seen["TRITON_CACHE_DIR"] != "/t"


def test_what_cannot_run_the_worker_is_refused_with_its_reason(tmp_path: Path) -> None:
    """No file, a folder, the Python at work here, a program that is no Python, an environment without the packages."""
    without = make_environment(tmp_path / "bare", with_packages=False)
    reasons = {}
    for python in ("/no/such/python", str(tmp_path), sys.executable, "/bin/false", str(without)):
        found = open_sentinel(python, IDENTITY, threads=1, folder=tmp_path / "work", environment=os.environ)
        assert found is not None and found.hello is None
        assert "\n" not in found.refused
        assert found.fingerprint() == {"sentinel.python_path": found.python, "sentinel.refused": found.refused}
        reasons[python] = found.refused

    assert "no program that can be started" in reasons["/no/such/python"]
    assert "no program that can be started" in reasons[str(tmp_path)]
    assert "the Python that runs the normal processes" in reasons[sys.executable]
    assert "worker did not start" in reasons["/bin/false"]
    assert "No module named" in reasons[str(without)]
    assert open_sentinel(None, IDENTITY, threads=1, folder=tmp_path, environment={}) is None


def test_each_arm_that_it_runs_has_a_row_of_its_own() -> None:
    """Optimized and candidate, not the textbook and the copies; a ratio to the optimized arm of its own processes."""
    found = rows(both())

    assert list(found) == ["sentinel:optimized", "sentinel:candidate"]
    row = found["sentinel:candidate"]
    assert (row["role"], row["status"], row["time_processes_s"]) == ("sentinel", "measured", [1e-3, 1e-3])
    assert row["ratio_optimized"] == pytest.approx(1.0)
    assert row["repro"].endswith("--device cpu --sentinel /opt/s/bin/python")
    kept = sentinel_sample_rows(both(), KEPT, FACTS)
    assert {s["arm"] for s in kept} == set(found) and all(list(s) == SAMPLES.names for s in kept)
    assert {s["subject_id"] for s in kept} == {r["subject_id"] for r in found.values()}
    assert words_of(KEPT, found.values()) == (
        "The sentinel /opt/s/bin/python (Python 3.11.1, torch 2.8) measured 2 of its 2 rows."
    )


def test_what_did_not_run_there_is_a_row_with_its_reason() -> None:
    """A sentinel that takes no part, an arm that fails in the normal environment, one that nothing came back of."""
    refused = rows(both(), Sentinel(python="/no", refused="/no: there is none"))
    failed = both()
    failed.arms["candidate"].fail("crashed", "it fell over")
    silent = both()
    assert silent.sentinel is not None
    silent.sentinel.arms["candidate"].passes = []
    own = both()
    assert own.sentinel is not None
    own.sentinel.arms["candidate"].fail("wrong", "off by one")
    lost = both()
    with lost_where_it_fails([lost], Crew(SETUP, folder=Path(), environment={})):
        raise CrewError("worker did not start")

    assert {row["status_kind"] for row in refused.values()} == {"sentinel_unavailable"}
    assert "there is none" in refused["sentinel:optimized"]["status_reason"]
    assert rows(failed)["sentinel:candidate"]["status_kind"] == "no_counterpart"
    assert rows(silent)["sentinel:candidate"]["status"] == "skipped"
    assert rows(own)["sentinel:candidate"]["status"] == "wrong"
    assert rows(lost)["sentinel:optimized"]["status_reason"] == "worker did not start"
    assert rows(replace_sentinel(both())) == {}


SETUP = WorkerSetup(device_kind="cpu", device_index=0, threads=1, candidates=[], memory_limit_bytes=None)


def replace_sentinel(record: CaseRecord) -> CaseRecord:
    """The record of a case that the sentinel is not to measure."""
    record.sentinel = None
    return record


def test_what_a_killed_run_measured_in_it_is_read_again(tmp_path: Path) -> None:
    """A step of the journal holds what both environments said; a later process enters it into both records."""
    said = {
        label: Outcome(messages=[ArmsListed(arms=LISTED, unsupported={}), samples("candidate", seconds)])
        for label, seconds in (("normal", 2e-3), ("sentinel", 1e-3))
    }
    (tmp_path / "r").mkdir()
    journal = Journal(tmp_path / "r")
    journal.add(CASE.case.case_id, 0, [said["normal"]], [said["sentinel"]])
    record = CaseRecord(planned=CASE, sentinel=frozen_record(CASE))
    replay(cast(Run, SimpleNamespace(records=[record], done=set())), journal)

    assert record.sentinel is not None
    found = [r.arms["candidate"].passes[0][1].wall_s[0] for r in (record, record.sentinel)]
    assert found == [2e-3, 1e-3]
    assert "naive" in record.sentinel.excluded


def test_a_run_goes_on_only_with_the_same_sentinel() -> None:
    """Its fingerprint is part of what a resumed run must share; the facts of the host are not part of it."""
    header = RunHeader(
        run_id="r", started_at=datetime(2026, 11, 30, tzinfo=UTC), boot_id="b", suite="s", suite_hash="h", cases=[],
        replicates=1, revision=None, command="", note=None, hello=HELLO, ceilings=None, package="p", destination="d",
        sentinel=KEPT, sentinel_share=0.25,
    )  # fmt: skip
    back = msgspec.json.decode(msgspec.json.encode(header), type=RunHeader)
    other = msgspec.structs.replace(HELLO, versions=HELLO.versions | {"packages": "def"})

    assert back.sentinel == KEPT and back.differs_from(header) == ""
    assert KEPT.fingerprint() == {
        "sentinel.python_path": "/opt/s/bin/python", "sentinel.version.torch": "2.8", "sentinel.python": "3.11.1",
        "sentinel.packages": "abc",
    }  # fmt: skip
    changed = msgspec.structs.replace(header, sentinel=replace(KEPT, hello=other))
    assert header.differs_from(changed) == "sentinel"
    assert json.loads(msgspec.json.encode(changed))["sentinel"]["hello"]["versions"]["packages"] == "def"
