"""The audit of the alarms: what it publishes is what was planted, counted without it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from collector.host.audit import published_audit
from collector.host.judge import judge
from collector.host.policies import load_policy
from collector.node.planted import SHARES, choose_planted
from detection.audit import AuditedNight, AuditKind, binomial_share, summarise
from store.bundle.inbox import Inbox
from store.bundle.schemas import RESULTS, RUNS
from store.bundle.writer import BundleWriter
from store.lake.lake import Lake

START = datetime(2026, 9, 1, 3, 0, tzinfo=UTC)
CASES = tuple(f"gemm[{i}]" for i in range(16))
NIGHTS = 30
BETWEEN, WITHIN, PROCESSES = 0.0015, 0.003, 3
"""A quiet device: 5 % cannot be missed on it, and 2 % cannot pass for the floor of 3 %."""
LASTING = ("gemm[3]", 12, 0.12)
"""A copy that is slower from a night on, as a bias of placement is."""
ODD_NIGHTS = {("gemm[5]", 9): 0.15, ("gemm[6]", 17): -0.1, ("gemm[0]", 21): 0.2, ("gemm[9]", 27): 0.15}
"""Copies that are off for one night each."""


def name_of(night: int) -> str:
    return f"r{night:03d}"


PLAN = {night: choose_planted(name_of(night), CASES) for night in range(NIGHTS)}
"""Case and size of the planted arm of each night, as a node chooses them."""


def off_by(case: str, night: int) -> float:
    """What a copy of a case is off by that night, of logarithms."""
    lasting = LASTING[2] if case == LASTING[0] and night >= LASTING[1] else 0.0
    return float(np.log1p(lasting) + np.log1p(ODD_NIGHTS.get((case, night), 0.0)))


def row(
    run_id: str, at: datetime, case: str, arm: str, log_ratios: np.ndarray, share: float | None
) -> dict[str, object]:
    settings = {"cache": "cold", "timer": "device_event"} | ({"planted": share} if share else {})
    times = 1e-3 * np.exp(log_ratios)
    return dict.fromkeys(RESULTS.names) | {
        "run_id": run_id, "measured_at": at, "subject_id": f"{case}|{arm}|{share}", "case_id": case, "operator": "gemm",
        "family": "GEMM", "dtype": "bf16", "arm": arm, "role": arm, "host": "box", "device_kind": "cuda",
        "device_model": "GPU", "device_unit": "gpu-0", "status": "measured",
        "settings": json.dumps(settings, sort_keys=True),
        "latency_p50_s": float(np.median(times)), "time_processes_s": times.tolist(),
        "ratio_optimized": float(np.exp(log_ratios.mean())), "log_ratio_optimized_processes": log_ratios.tolist(),
    }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Nights:
    """A store of the nights of one simulated device, and the folder it is in."""

    folder: Path
    lake: Lake

    def write(self, nights: range) -> None:
        """Publishes the nights as bundles and ingests them; each night's noise is its own, whoever asks."""
        for night in nights:
            rng = np.random.default_rng([11, night])
            at, name = START + timedelta(days=night), name_of(night)
            rows = []
            for case in CASES:
                for arm in ("optimized", "aa", "candidate"):
                    noise = rng.normal(0, BETWEEN) + rng.normal(0, WITHIN, PROCESSES)
                    level = {"optimized": 0.0, "aa": off_by(case, night), "candidate": -0.1}[arm]
                    rows.append(row(name, at, case, arm, np.zeros(3) if arm == "optimized" else level + noise, None))
                if share := PLAN[night].get(case):
                    noise = rng.normal(0, BETWEEN) + rng.normal(0, WITHIN, PROCESSES)
                    rows.append(row(name, at, case, "planted", np.log1p(share) + noise, share))
            writer = BundleWriter(self.folder / "bundles", name)
            facts = {
                "run_id": name, "kind": "night", "status": "complete", "started_at": at, "finished_at": at,
                "suite": "quick", "host": "box", "device_kind": "cuda", "device_model": "GPU", "device_unit": "gpu-0",
                "revision": "aaa", "environment": "{}", "catalog": "{}", "replicates": PROCESSES,
            }  # fmt: skip
            writer.add("runs", [dict.fromkeys(RUNS.names) | facts])
            writer.add("results", rows)
            Inbox(str(self.folder / "store")).put(writer.publish({}))
        self.lake.ingest(check_clock=False)
        judge(self.lake, policy=load_policy(), at_run_time=True)


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, tuple[int, ...]], Lake]:
    """Stores of the thirty nights, judged in one go or stopped and started again after some of them."""

    def made(name: str, stops: tuple[int, ...]) -> Lake:
        folder = tmp_path_factory.mktemp(name)
        nights = Nights(folder=folder, lake=Lake.create(folder / "store"))
        for first, end in zip((0, *stops), (*stops, NIGHTS), strict=True):
            nights.write(range(first, end))
        return nights.lake

    return made


def rows_of(lake: Lake) -> list[dict[str, object]]:
    query = "SELECT run_id, subject_id, suspected, alarmed, event, since_run_id, change FROM audits ORDER BY 1, 2"
    return lake.sql(query).to_pylist()


def test_the_published_audit_is_what_was_planted(build: Callable[[str, tuple[int, ...]], Lake]) -> None:
    """Thirty nights: the lasting bias of a copy is the one false alarm, the odd nights are suspicions, 5 % is seen
    every time and 1 and 2 % never; stopping the judge in the middle of a suspicion changes nothing."""
    lake = build("whole", ())
    lines = {(line.kind, line.planted): line for line in published_audit(lake)}

    copies = lines[AuditKind.AA, None]
    judged = len(CASES) * (NIGHTS - 1)  # the first night has nothing to compare with
    assert (copies.alarms.count, copies.alarms.n) == (1, judged)
    assert (copies.suspicions.count, copies.suspicions.n) == (1 + len(ODD_NIGHTS), judged)
    planted = Counter(share for night, plan in PLAN.items() if night > 0 for share in plan.values())
    assert set(planted) == set(SHARES)
    for share, nights in planted.items():
        power = lines[AuditKind.PLANTED, share].alarms
        assert (power.count, power.n) == (nights if share == 0.05 else 0, nights)

    told = [r for r in rows_of(lake) if r["alarmed"] and "|aa|" in str(r["subject_id"])]
    assert [(r["subject_id"], r["run_id"], r["since_run_id"]) for r in told] == [
        (f"{LASTING[0]}|aa|None", name_of(LASTING[1] + 2), name_of(LASTING[1]))
    ]
    assert lake.sql("SELECT count(*) AS n FROM findings").to_pylist() == [{"n": 0}]
    assert rows_of(build("stopped", (LASTING[1] + 1,))) == rows_of(lake)


def test_a_share_has_the_interval_of_wilson() -> None:
    """Figures of Brown, Cai and DasGupta (2001, doi 10.1214/ss/1009213286), and the ends: nothing is no certainty."""
    share = binomial_share(10, 100)
    assert (share.share, share.low, share.high) == (
        0.1,
        pytest.approx(0.0552, abs=1e-4),
        pytest.approx(0.1744, abs=1e-4),
    )
    assert binomial_share(0, 20).low == 0
    assert binomial_share(0, 20).high == pytest.approx(0.1611, abs=1e-4)
    assert binomial_share(20, 20).high == 1
    assert (binomial_share(0, 0).low, binomial_share(0, 0).high) == (0, 1)
    with pytest.raises(ValueError, match="count is 3, must be in 0 to 2"):
        binomial_share(3, 2)


def test_shares_cover_what_is_behind_them() -> None:
    """Of 2,000 draws at each of several probabilities at least nine in ten intervals hold it."""
    rng = np.random.default_rng(4)
    for p in (0.01, 0.1, 0.5, 0.9):
        held = [s.low <= p <= s.high for s in (binomial_share(int(k), 60) for k in rng.binomial(60, p, 2000))]
        assert np.mean(held) > 0.9


def test_lines_are_by_kind_and_size() -> None:
    """Copies first, then planted slow-downs by size; a night counts once in each column."""
    night = AuditedNight(kind=AuditKind.PLANTED, planted=0.05, suspected=True, alarmed=True)
    quiet = AuditedNight(kind=AuditKind.AA, planted=None, suspected=False, alarmed=False)
    small = AuditedNight(kind=AuditKind.PLANTED, planted=0.01, suspected=False, alarmed=False)
    lines = summarise([night, quiet, small, night])
    assert [(line.planted, line.alarms.count, line.suspicions.n) for line in lines] == [
        (None, 0, 1), (0.01, 0, 1), (0.05, 2, 2),
    ]  # fmt: skip
