"""The planted slow-down is as large as it says, on one case of a run, and its row tells the size."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bench_suite.contract import Role
from bench_suite.suite import Method
from collector.node.devices.base import Call
from collector.node.devices.simulated import SimulatedCall, SimulatedClock, SimulatedDevice
from collector.node.harness import CaseTimer, TimedArm, clock_seconds, paired_log_ratios
from collector.node.planted import MOST_ELEMENTS, SHARES, TOLERATED, choose_planted, plan_extra_work, slowed
from collector.node.run import RunOptions, run_suite
from store.bundle.reader import read_bundle

pytestmark = pytest.mark.usefixtures("own_cores")

SUITE = Path(__file__).with_name("resume.toml")


@given(
    share=st.sampled_from(SHARES),
    call_s=st.floats(1e-6, 1.0),
    fixed_s=st.floats(2e-7, 2e-5),
    element_s=st.floats(1e-12, 1e-8),
)
def test_the_plan_takes_the_share_it_says(share: float, call_s: float, fixed_s: float, element_s: float) -> None:
    """Extra seconds over calls are the share, to within what one element more or less takes."""
    work = plan_extra_work(share, call_s=call_s, fixed_s=fixed_s, element_s=element_s)
    assume(work.elements > 1)
    extra_s = work.repeats * (fixed_s + work.elements * element_s) / work.every

    assert extra_s == pytest.approx(share * call_s, abs=work.repeats * element_s, rel=1e-9)
    assert 1 <= work.elements <= MOST_ELEMENTS and work.every >= 1 and work.repeats >= 1


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("call_s", [3e-6, 1e-4, 2e-2])
def test_the_harness_sees_the_planted_size(share: float, call_s: float) -> None:
    """On a simulated device, where only calls take time, the median ratio of the arm is 1 + share."""
    clock = SimulatedClock()
    device = SimulatedDevice(clock)
    call = SimulatedCall(clock, call_s)

    def filler(elements: int) -> Call:
        return SimulatedCall(clock, 1e-6 + 2e-10 * elements)

    planted = slowed(call, call, device, "thread_time", share, filler)
    arms = [
        TimedArm(label="optimized", role=Role.OPTIMIZED, call=call),
        TimedArm(label="planted", role=Role.PLANTED, call=planted),
    ]
    method = Method(max_rounds=30, case_budget_s=1e9, single_calls=0)
    times = CaseTimer(arms, device, method, seed=1, now=clock.now).run()
    ratios = sorted(paired_log_ratios(times.rounds["planted"], times.rounds["optimized"], "thread_time"))

    assert ratios[len(ratios) // 2] == pytest.approx(share, abs=0.1 * share)


@pytest.mark.parametrize("share", SHARES)
def test_extra_work_that_costs_more_in_its_place_is_made_rarer(share: float) -> None:
    """Behind a call the operation takes four microseconds more than alone: the arm is still as slow as it says."""
    clock = SimulatedClock()
    device = SimulatedDevice(clock)
    call_s, behind = 1e-4, {"call": False}

    def call() -> None:
        behind["call"] = True
        SimulatedCall(clock, call_s)()

    def filler(elements: int) -> Call:
        def operation() -> None:
            cold_s = 4e-6 if behind["call"] else 0.0
            behind["call"] = False
            SimulatedCall(clock, 1e-6 + 2e-10 * elements + cold_s)()

        return operation

    planted = slowed(call, call, device, "thread_time", share, filler)
    plain, slow = (device.sample(c, 1200) for c in (call, planted))

    assert clock_seconds(slow, "thread_time") / clock_seconds(plain, "thread_time") - 1 == pytest.approx(
        share, rel=TOLERATED - 1 + 0.05
    )


def test_the_case_rotates_and_a_resumed_run_keeps_it() -> None:
    """Over many runs every case and every size has its turn; the same run id gives the same."""
    cases = ["a", "b", "c"]
    chosen = Counter(next(iter(choose_planted(f"run-{i}", cases).items())) for i in range(900))

    assert set(chosen) == {(case, share) for case in cases for share in SHARES}
    assert min(chosen.values()) > 60
    assert choose_planted("run-1", cases) == choose_planted("run-1", cases[::-1])
    assert choose_planted("run-1", []) == {}


def test_a_run_has_one_planted_arm_with_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked to audit, exactly one case has the arm; its settings hold the size, its series is its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    outcome = run_suite(RunOptions(suite=str(SUITE), device="cpu", spool=tmp_path / "spool", replicates=1, audit=True))
    planted = [row for row in outcome.rows if row["role"] == "planted"]

    assert len(planted) == 1
    (row,) = planted
    assert (row["arm"], row["status"]) == ("planted", "measured")
    assert json.loads(row["settings"])["planted"] in SHARES
    assert row["ratio_optimized"] > 0
    assert row["subject_id"] not in {r["subject_id"] for r in outcome.rows if r is not row}
    assert outcome.bundle is not None
    samples = read_bundle(outcome.bundle).tables["samples"].to_pylist()
    assert {s["subject_id"] for s in samples if s["arm"] == "planted"} == {row["subject_id"]}
