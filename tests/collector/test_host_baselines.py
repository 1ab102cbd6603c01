"""Baselines move by recorded acts, and back."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from collector.host.baselines import BaselineAct, move_baseline, read_moves, undo_baseline
from collector.host.demo import write_fleet
from collector.host.segments import read_baseline_moves
from collector.host.simulated_fleet import make_fleet
from detection.verdict import Metric
from store.lake.errors import StoreError
from store.lake.lake import Lake

AT = datetime(2026, 12, 1, 8, tzinfo=UTC)


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lake, str, str]:
    """A store with one run, the run's id, and the id of one of its cases."""
    fleet = make_fleet(2, nights=1)
    model = replace(fleet.models[0], units=fleet.models[0].units[:1])
    fleet = replace(fleet, models=(model,), cases=fleet.cases[:2], everywhere=2, events=())
    lake = Lake.create(tmp_path_factory.mktemp("baselines") / "store")
    write_fleet(fleet, lake.inbox)
    lake.ingest(check_clock=False)
    return lake, f"sim-000-{model.units[0]}", fleet.cases[0].case_id


def test_a_move_stands_until_it_is_undone(names: tuple[Lake, str, str]) -> None:
    """A move is what the judge reads; undone it is not, both acts stay in the table with who, why and when."""
    lake, run, case = names
    (move,) = move_baseline(
        lake, case_id=case, arm="candidate", from_run_id=run, metric=Metric.LATENCY_RATIO, reason="agreed", actor="Ada",
        now=AT,
    )  # fmt: skip
    assert read_baseline_moves(lake) == {(move.subject_id, "latency_ratio", run)}
    undo_baseline(lake, [move.act_id], reason="rolled back", actor="Bo", now=AT + timedelta(hours=1))
    assert read_baseline_moves(lake) == frozenset()
    acts = read_moves(lake)
    assert [(a.act, a.actor, a.reason, a.stands) for a in acts] == [
        (BaselineAct.MOVED, "Ada", "agreed", False),
        (BaselineAct.UNDONE, "Bo", "rolled back", False),
    ]
    assert (acts[0].case_id, acts[0].arm) == (case, "candidate")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"reason": " "}, "needs a reason"),
        ({"from_run_id": "r0"}, "run 'r0': is not in the store"),
        ({"case_id": "gemm[x]"}, "case 'gemm.x.'"),
    ],
)
def test_a_move_that_means_nothing_is_refused(
    names: tuple[Lake, str, str], changed: dict[str, str], words: str, tmp_path: Path
) -> None:
    """Without a reason, a run or a series of that name there is no act, and one line says why."""
    lake, run, case = names
    given = {"reason": "agreed", "from_run_id": run, "case_id": case} | changed
    with pytest.raises(StoreError, match=words):
        move_baseline(lake, metric=Metric.LATENCY_RATIO, actor="Ada", now=AT, **given)  # type: ignore[arg-type]


def test_an_act_is_undone_once(names: tuple[Lake, str, str]) -> None:
    """An act that is unknown, or was undone, cannot be undone."""
    lake, _, _ = names
    with pytest.raises(StoreError, match="act 'nothing': is unknown"):
        undo_baseline(lake, ["nothing"], reason="x", actor="Ada", now=AT)
    for act in read_moves(lake):
        with pytest.raises(StoreError, match="stands no longer"):
            undo_baseline(lake, [act.act_id], reason="x", actor="Ada", now=AT)
