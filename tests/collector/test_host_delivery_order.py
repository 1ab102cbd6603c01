"""Runs delivered late or in another order: what was said stands, more is an event, and the past can be asked."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import pytest
from unit_nights import night_time, put, write_night

from collector.host.findings_store import fold_all, read_events, read_triage
from collector.host.judge import judge
from collector.host.policies import load_policy
from detection.findings import FindingState
from detection.verdict import Metric
from store.lake.lake import Lake

UNITS, CASES, NIGHTS, STEP_AT = ("gpu-0", "gpu-1"), ("gemm[0]", "norm[0]", "swiglu[0]"), 9, 5
TABLES = ("verdicts", "findings", "audits")


def stepped(unit: str, case: str, arm: str) -> float:
    """The candidate of the first case, 15 % slower."""
    return 1.15 if (case, arm) == (CASES[0], "candidate") else 1.0


def steady(unit: str, case: str, arm: str) -> float:
    """As before."""
    return 1.0


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Mapping[tuple[str, int], Path]:
    """All runs, published once."""
    folder = tmp_path_factory.mktemp("bundles")
    return {
        (unit, night): write_night(
            folder,
            unit,
            night + 0.01 * number,
            CASES,
            slow=stepped if night >= STEP_AT else steady,
            revision=f"rev-{night >= STEP_AT}",
        )
        for night in range(NIGHTS)
        for number, unit in enumerate(UNITS)
    }


def said(lake: Lake, as_of: int | None = None) -> dict[str, set[str]]:
    """Every row that was ever said, table by table."""
    return {table: {repr(row) for row in lake.sql(f"FROM {table}", as_of=as_of).to_pylist()} for table in TABLES}


def deliver(
    folder: Path, bundles: Mapping[tuple[str, int], Path], deliveries: list[list[tuple[str, int]]]
) -> tuple[Lake, dict[int, dict[str, set[str]]]]:
    """Delivers the runs in parts, judging after each; the store, and what had been said after each ingest sequence."""
    lake = Lake.create(folder / "store")
    seen: dict[int, dict[str, set[str]]] = {}
    for part in deliveries:
        for key in part:
            put(folder, bundles[key])
        lake.ingest(check_clock=False)
        judge(lake, policy=load_policy(), at_run_time=True)
        seen[lake.latest_seq()] = said(lake)
    return lake, seen


@pytest.mark.parametrize("seed", range(4))
def test_whatever_the_order_nothing_is_rewritten_and_the_past_can_be_asked(
    tmp_path: Path, bundles: Mapping[tuple[str, int], Path], seed: int
) -> None:
    """Runs shuffled and cut into parts: after each part all that was said before is still there, word for word; as of
    each earlier ingest the store says what it said then; and the step is one finding, which is confirmed."""
    chance = random.Random(seed)
    order = sorted(bundles)
    chance.shuffle(order)
    cuts = sorted(chance.sample(range(1, len(order)), 3))
    parts = [order[a:b] for a, b in zip([0, *cuts], [*cuts, len(order)], strict=True)]
    lake, seen = deliver(tmp_path, bundles, parts)
    before: dict[str, set[str]] = {table: set() for table in TABLES}
    for sequence, then in seen.items():
        assert all(before[table] <= then[table] for table in before)
        assert said(lake, sequence) == then
        before = then
    judged = lake.sql("SELECT count(DISTINCT run_id) AS n FROM verdicts WHERE tier = 'tonight'").to_pylist()
    assert judged == [{"n": len(order)}]
    findings = fold_all(read_events(lake), read_triage(lake), now=night_time(60)).values()
    silent = [f for f in findings if f.facts.metric is Metric.SILENCE]  # it was, when the nights between had not come
    assert {f.state for f in silent} <= {FindingState.RESOLVED}
    steps = [f for f in findings if f.state is not FindingState.REFUTED and f not in silent]
    assert {(f.facts.operator, f.facts.direction) for f in steps} <= {("gemm", 1)}


def test_the_same_runs_in_time_order_say_the_same_however_they_are_cut(
    tmp_path: Path, bundles: Mapping[tuple[str, int], Path]
) -> None:
    """One by one, a night at a time or all at once: the same events of the same findings, the same verdicts but for
    what they had seen; the step is one confirmed finding of both units."""
    order = sorted(bundles, key=lambda key: (key[1], key[0]))
    kept = []
    for name, size in (("one", 1), ("night", 2), ("all", len(order))):
        folder = tmp_path / name
        folder.mkdir()
        lake, _ = deliver(folder, bundles, [order[i : i + size] for i in range(0, len(order), size)])
        verdicts = "SELECT verdict_id, status, code, sentence, change FROM verdicts ORDER BY verdict_id"
        events = 'SELECT event_id, finding_id, event, run_id, "at" FROM findings ORDER BY event_id'
        kept.append((lake.sql(verdicts).to_pylist(), lake.sql(events).to_pylist()))
        findings = fold_all(read_events(lake), read_triage(lake), now=night_time(60)).values()
        assert [(f.facts.operator, f.state, len(f.facts.subject_ids)) for f in findings] == [
            ("gemm", FindingState.CONFIRMED, len(UNITS))
        ]
    assert kept[0] == kept[1] == kept[2]
