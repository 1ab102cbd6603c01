"""The judge over a real lake: what is said, once, and what is never said."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from collector.host.gates import check_run, dry_run_gate, load_gate
from collector.host.judge import judge
from collector.host.judge_report import JudgeReport
from collector.host.policies import load_policy
from collector.host.requests import ConfirmRequest, RequestEvent, open_requests, read_requests
from detection.findings import EventKind, FindingState
from detection.gate import Answer
from detection.verdict import ReasonCode, VerdictStatus
from store.bundle.inbox import Inbox
from store.bundle.schemas import RESULTS, RUNS
from store.bundle.writer import BundleWriter
from store.lake.lake import Lake

START = datetime(2026, 9, 1, 3, 0, tzinfo=UTC)
POLICY = load_policy()
OPERATORS = ("gemm", "rms_norm", "swiglu", "softmax", "attention_decode")
CASES = tuple(f"{operator}[{i}]" for operator in OPERATORS for i in range(3))
ARMS = ("naive", "optimized", "aa", "candidate")
LEVEL = {"naive": 3.0, "optimized": 1.0, "aa": 1.0, "candidate": 0.9}


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A simulated two-core machine: three processes a run, process and run effects on every ratio, loud wall time."""

    folder: Path
    lake: Lake
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(5))
    between: float = 0.012
    within: float = 0.025
    unit: str = "cpu-0"
    arms: tuple[str, ...] = ARMS

    def run(
        self,
        night: float,
        *,
        slow: Callable[[str, str], float] = lambda case, arm: 1.0,
        kind: str = "night",
        confirms: str | None = None,
        cases: tuple[str, ...] = CASES,
        processes: int = 3,
        failing: tuple[str, ...] = (),
        memory: float = 1.0,
        revision: str = "aaa",
        run_id: str | None = None,
        ingest: bool = True,
    ) -> str:
        """Publishes a run into the inbox of the lake; returns its id."""
        name = run_id or f"r{round(night * 100):05d}{kind[0]}"
        at = START + timedelta(days=night)
        rows = []
        for case in cases:
            naive: np.ndarray | None = None
            for arm in self.arms:
                noise = self.rng.normal(0, self.between) + self.rng.normal(0, self.within, processes)
                ratio = np.log(LEVEL[role_of(arm)] * slow(case, arm) / slow(case, "optimized")) + noise
                ratio = np.zeros(processes) if arm == "optimized" else ratio
                naive = ratio if arm == "naive" else naive
                wall = 1e-3 * np.exp(ratio + self.rng.normal(0, 0.3))
                rows.append(self._row(name, at, case, arm, ratio, wall, arm in failing, memory))
        writer = BundleWriter(self.folder / "bundles", name)
        catalog = {case: {"title": case.split("[")[0], "shape": case} for case in cases}
        writer.add(
            "runs",
            [
                dict.fromkeys(RUNS.names)
                | {
                    "run_id": name, "kind": kind, "confirms": confirms, "status": "complete", "started_at": at,
                    "finished_at": at, "suite": "quick", "host": "box", "device_kind": "cpu", "device_model": "CPU",
                    "device_unit": self.unit, "revision": revision, "catalog": json.dumps(catalog),
                    "environment": json.dumps({"cpu": "x"}), "replicates": processes,
                }
            ],
        )  # fmt: skip
        writer.add("results", rows)
        Inbox(str(self.folder / "store")).put(writer.publish({}))
        if ingest:
            self.lake.ingest(check_clock=False)
        return name

    def _row(
        self,
        run_id: str,
        at: datetime,
        case: str,
        arm: str,
        ratio: np.ndarray,
        wall: np.ndarray,
        fails: bool,
        memory: float,
    ) -> dict[str, object]:
        row: dict[str, object] = dict.fromkeys(RESULTS.names) | {
            "run_id": run_id, "measured_at": at, "subject_id": f"{case}|{arm}|{self.unit}", "case_id": case,
            "operator": case.split("[")[0], "family": case.split("[")[0], "dtype": "fp32", "weight": 1 / len(CASES),
            "arm": arm, "role": role_of(arm), "host": "box", "device_kind": "cpu", "device_model": "CPU",
            "device_unit": self.unit, "status": "failed" if fails else "measured",
            "status_kind": "crashed" if fails else None, "status_reason": "The worker died." if fails else None,
        }  # fmt: skip
        if not fails:
            row |= {
                "latency_p50_s": float(np.median(wall)), "time_processes_s": wall.tolist(),
                "ratio_optimized": float(np.exp(ratio.mean())), "log_ratio_optimized_processes": ratio.tolist(),
                "peak_memory_bytes": round(50e6 * memory), "error_margin": 0.02,
            }  # fmt: skip
        return row


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine with an empty lake."""
    return Machine(folder=tmp_path, lake=Lake.create(tmp_path / "store"))


def role_of(arm: str) -> str:
    """`candidate:ours` is a candidate."""
    return arm.split(":")[0]


def at(night: float) -> datetime:
    return START + timedelta(days=night)


def planted(case: str, arm: str) -> float:
    """The candidate of one operator, 15 % slower."""
    return 1.15 if arm == "candidate" and case.startswith("rms_norm") else 1.0


def nights(machine: Machine, first: int, last: int, **options: object) -> JudgeReport:
    for night in range(first, last):
        machine.run(night, ingest=False, **options)  # type: ignore[arg-type]
    machine.lake.ingest(check_clock=False)
    return judge(machine.lake, policy=POLICY, now=at(last - 1), at_run_time=True)


def settle(
    machine: Machine, night: float, *, slow: Callable[[str, str], float] = lambda case, arm: 1.0
) -> tuple[JudgeReport, list[ConfirmRequest]]:
    """Answers every request that is open, as a node does, until none is; the last report and all requests."""
    answered: list[ConfirmRequest] = []
    report: JudgeReport | None = None
    while waiting := open_requests(machine.lake, device_unit="cpu-0", now=at(night), policy=POLICY):
        request = waiting[0]
        answered.append(request)
        machine.run(
            night + 0.001 * len(answered),
            slow=slow,
            kind="confirm",
            confirms=request.request_id,
            cases=(request.case_id,),
            processes=request.replicates,
            run_id=f"c-{request.request_id}",
        )
        report = judge(machine.lake, policy=POLICY, now=at(night))
    assert report is not None
    return report, answered


def test_no_change_over_five_runs_confirms_nothing(machine: Machine) -> None:
    """A/A: five runs of the same code give no confirmed finding, and what was suspected is refuted when looked at."""
    nights(machine, 0, 5)
    if open_requests(machine.lake, device_unit="cpu-0", now=at(5), policy=POLICY):
        settle(machine, 5)
    states = machine.lake.sql("SELECT state FROM findings_state").to_pylist()
    assert [s for s in states if s["state"] == "confirmed"] == []


def test_a_slowdown_between_two_runs_is_found_and_confirmed(machine: Machine) -> None:
    """15 % between the first and the second run: one finding for the operator, confirmed by a confirm run, one
    request."""
    nights(machine, 0, 1)
    machine.run(1, slow=planted, revision="bbb")
    report = judge(machine.lake, policy=POLICY, now=at(1))
    suspected = [e for e in report.events if e.facts.operator == "rms_norm"]
    assert [e.event for e in suspected] == [EventKind.SUSPECTED]
    assert suspected[0].facts.arm == "candidate"
    assert suspected[0].facts.revision_good == "aaa"
    assert suspected[0].facts.revision_bad == "bbb"
    report, requests = settle(machine, 1, slow=planted)
    assert [e.event for e in report.events if e.facts.operator == "rms_norm"] == [EventKind.CONFIRMED]
    state = machine.lake.sql("SELECT * FROM findings_state WHERE operator = 'rms_norm'").to_pylist()
    assert [s["state"] for s in state] == ["confirmed"]
    assert state[0]["change"] == pytest.approx(0.15, abs=0.08)
    request = next(r for r in requests if r.finding_id == suspected[0].finding_id)
    assert len([r for r in read_requests(machine.lake) if r.finding_id == request.finding_id]) >= 2
    assert {r.request_id: r.state for r in read_requests(machine.lake)}[request.request_id] is RequestEvent.DONE
    line = report.history_line(report.runs[0], request.case_id, "candidate")
    assert line is not None
    assert (line.status, line.code) == (VerdictStatus.REGRESSED, ReasonCode.CONFIRMED)


def test_one_step_is_one_finding_however_long_it_stays(machine: Machine) -> None:
    """Twelve nights at the new level say `suspected` once and `confirmed` once; the baseline does not slide."""
    nights(machine, 0, 8)
    nights(machine, 8, 20, slow=planted)
    events = machine.lake.sql("SELECT event, payload FROM findings ORDER BY run_id").to_pylist()
    of_step = [e["event"] for e in events if json.loads(e["payload"])["operator"] == "rms_norm"]
    assert of_step == ["suspected", "confirmed"]
    last = machine.lake.sql(
        "SELECT code, status FROM verdicts WHERE case_id = 'rms_norm[0]' AND arm = 'candidate' AND tier = 'tonight'"
        " AND metric = 'latency_ratio' ORDER BY run_id DESC LIMIT 1"
    ).to_pylist()
    assert last == [{"code": "open_finding", "status": "regressed"}]


def test_a_repair_resolves_the_finding(machine: Machine) -> None:
    """Back at the old level for two nights: resolved, and the bad nights are no baseline."""
    nights(machine, 0, 8)
    nights(machine, 8, 12, slow=planted)
    nights(machine, 12, 15)
    states = machine.lake.sql("SELECT state FROM findings_state WHERE operator = 'rms_norm'").to_pylist()
    assert [s["state"] for s in states] == ["resolved"]


def test_the_denominator_moved_is_said_as_such(machine: Machine) -> None:
    """A library 25 % faster makes candidate and naive slower against it: class baseline, arm optimized, faster."""
    nights(machine, 0, 8)
    report = nights(machine, 8, 9, slow=lambda case, arm: 0.75 if arm == "optimized" and "gemm" in case else 1.0)
    facts = [e.facts for e in report.events]
    assert [(f.operator, f.arm, f.finding_class, f.direction) for f in facts] == [("gemm", "optimized", "baseline", -1)]
    assert facts[0].change == pytest.approx(-0.25, abs=0.06)
    assert facts[0].price == 0


def test_a_moved_denominator_explains_only_who_moved_as_much(tmp_path: Path) -> None:
    """A library 8 % faster, and one of two candidates twice as slow besides: that one is slower, not its baseline."""
    two = Machine(folder=tmp_path, lake=Lake.create(tmp_path / "store"), arms=(*ARMS, "candidate:ours"))

    def slow(case: str, arm: str) -> float:
        moved = {"optimized": 0.92, "candidate:ours": 2.0} if "gemm" in case else {}
        return moved.get(arm, 1.0)

    nights(two, 0, 8)
    report = nights(two, 8, 9, slow=slow)
    slower = [e.facts for e in report.events if e.facts.arm == "candidate:ours"]
    assert [(f.operator, f.direction, f.finding_class != "baseline") for f in slower] == [("gemm", 1, True)]
    assert slower[0].change == pytest.approx(2.0 / 0.92 - 1, abs=0.15)


def test_a_case_that_stops_running_is_a_finding(machine: Machine) -> None:
    """Measured before, crashed now: one finding for the operator, no number, and a confirm request."""
    nights(machine, 0, 2)
    machine.run(2, failing=("candidate",), cases=CASES[:3])
    report = judge(machine.lake, policy=POLICY, now=at(2))
    facts = [e.facts for e in report.events]
    assert [(f.metric, f.operator, f.change, len(f.subject_ids)) for f in facts] == [("status", "gemm", None, 3)]
    assert len(report.requests) == 1


def test_memory_is_judged_too(machine: Machine) -> None:
    """A tenth more memory in every arm is said after one run, as its own findings."""
    nights(machine, 0, 2)
    report = nights(machine, 2, 3, memory=1.1)
    memory = [e.facts for e in report.events if e.facts.metric == "peak_memory"]
    assert {f.operator for f in memory} == set(OPERATORS)
    assert all(f.change == pytest.approx(0.1, abs=0.001) for f in memory)


def test_judging_twice_says_nothing_twice(machine: Machine) -> None:
    """A second judge finds nothing to do; tables do not grow."""
    nights(machine, 0, 3)
    before = machine.lake.sql("SELECT count(*) AS n FROM verdicts").to_pylist()
    report = judge(machine.lake, policy=POLICY, now=at(9))
    assert report.runs == ()
    assert machine.lake.sql("SELECT count(*) AS n FROM verdicts").to_pylist() == before


def test_a_late_run_rewrites_nothing(machine: Machine) -> None:
    """A run that arrives after younger ones gets its own verdicts; what was said of the others stays as it was said."""
    nights(machine, 0, 3)
    nights(machine, 4, 6)
    said = "SELECT * FROM verdicts WHERE run_id != $late ORDER BY verdict_id"
    late = "r00300n"
    before = machine.lake.sql(said, {"late": late}).to_pylist()
    machine.run(3, run_id=late)
    report = judge(machine.lake, policy=POLICY, now=at(6))
    assert report.runs == (late,)
    assert machine.lake.sql(said, {"late": late}).to_pylist() == before
    baseline = next(line for line in report.lines if line.metric == "latency_ratio" and line.against == "history")
    assert "over 3 runs" in baseline.sentence


def test_expected_moves_the_baseline(machine: Machine) -> None:
    """After `expected` the new level is the level: the next night is unchanged against it."""
    nights(machine, 0, 6)
    report = nights(machine, 6, 9, slow=planted)
    name = next(f.finding_id for f in report.findings.values() if f.facts.operator == "rms_norm")
    machine.lake.append(
        "triage",
        [{"event_id": "t1", "finding_id": name, "event": "expected", "at": at(9), "actor": "ada", "payload": "{}"}],
    )
    report = nights(machine, 10, 11, slow=planted)
    line = report.history_line(report.runs[0], "rms_norm[0]", "candidate")
    assert line is not None
    assert line.status is not VerdictStatus.REGRESSED
    state = machine.lake.sql("SELECT state FROM findings_state WHERE finding_id = ?", [name]).to_pylist()
    assert state == [{"state": FindingState.EXPECTED.value}]


def test_the_summary_of_the_series_carries_the_verdict(machine: Machine) -> None:
    """`series` has the latest word and the smallest visible change, without a scan of history."""
    nights(machine, 0, 3)
    row = machine.lake.sql(
        "SELECT verdict, verdict_sentence, smallest_visible_change AS visible FROM series"
        " WHERE case_id = 'gemm[0]' AND arm = 'candidate'"
    ).to_pylist()[0]
    assert row["verdict"] in ("unchanged", "inconclusive")
    assert "over 2 runs" in row["verdict_sentence"]
    assert 0.05 < row["visible"] < 0.3


def test_the_alarms_are_audited(machine: Machine) -> None:
    """Every A/A copy of a judged run is a row of `audits`; what moved there is a false alarm and counted."""
    nights(machine, 0, 4)
    rows = machine.lake.sql("SELECT kind, count(*) AS n, sum(CAST(alarmed AS INT)) AS alarms FROM audits GROUP BY kind")
    assert rows.to_pylist() == [{"kind": "aa", "n": 3 * len(CASES), "alarms": 0}]


def test_a_gate_answers_of_the_latest_run_and_of_the_past(machine: Machine) -> None:
    """A run with one operator 30 % slower fails the gate there; a dry run counts it once, and knows it was
    confirmed."""
    nights(machine, 0, 8)
    nights(machine, 8, 12, slow=lambda case, arm: 1.3 if arm == "candidate" and "softmax" in case else 1.0)
    gate = load_gate("inference")
    outcome = check_run(machine.lake, gate)
    assert outcome is not None
    failed = {line.case_id for line in outcome.lines if line.answer is Answer.FAILED}
    assert failed == {case for case in CASES if case.startswith("softmax")}
    assert outcome.answer is Answer.FAILED
    dry = dry_run_gate(machine.lake, gate)
    assert dry.confirmed >= 1
    assert dry.fired >= dry.confirmed
    assert dry.days == 12
    assert f"{dry.confirmed} confirmed" in dry.sentence
