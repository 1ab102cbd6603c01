"""The simulated fleet: planted events are found and rightly classed, and nothing else is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from collector.host.demo import DemoReport, build_demo, score, write_fleet
from collector.host.findings_store import fold_all, read_events, read_triage
from collector.host.judge import judge
from collector.host.simulated_fleet import Happening, make_fleet, night_time
from detection.policy import Policy
from store.lake.errors import StoreError
from store.lake.lake import Lake


def test_a_seed_is_a_fleet() -> None:
    """The same seed gives the same fleet; it has three models of four units, sixty cases, ten kinds of events."""
    fleet = make_fleet(3)
    assert fleet == make_fleet(3)
    assert fleet != make_fleet(4)
    assert [len(model.units) for model in fleet.models] == [4, 4, 4]
    assert len(fleet.cases) >= 60
    assert len({case.case_id for case in fleet.cases}) == len(fleet.cases)
    assert sum(case.weight for case in fleet.cases) == pytest.approx(1)
    assert {event.happening for event in fleet.events} == set(Happening)


def small(tmp_path: Path, prefix: str) -> DemoReport:
    """Thirty nights of one model with two units and the cases that run everywhere."""
    fleet = make_fleet(5, nights=30, prefix=prefix)
    step = next(e for e in fleet.events if e.happening is Happening.DRIVER_STEP)
    model = next(m for m in fleet.models if m.name == step.model)
    fleet = replace(
        fleet,
        models=(replace(model, units=model.units[:2]),),
        cases=fleet.cases[: fleet.everywhere + 2],
        events=(step,),
    )
    lake = Lake.create(tmp_path / f"store-{prefix}")
    runs = write_fleet(fleet, lake.inbox)
    lake.ingest(check_clock=False)
    judge(lake, policy=Policy().unasked(), at_run_time=True)
    findings = fold_all(read_events(lake), read_triage(lake), now=night_time(30, 0))
    labels = lake.sql("SELECT run_id, note, environment FROM runs").to_pylist()
    assert not [row for row in labels for e in Happening if e.value in str(row)]
    return score(fleet, list(findings.values()), runs)


def test_names_change_nothing_but_names(tmp_path: Path) -> None:
    """A planted driver step is found and classed, whatever cases and devices are called; no label is in the store."""
    for prefix in ("", "zz_"):
        report = small(tmp_path, prefix)
        assert [(p.found, p.classed) for p in report.planted] == [(True, True)]
        assert report.unplanted == ()


def test_a_store_with_runs_is_not_a_demo(tmp_path: Path) -> None:
    """Simulated runs never join measured ones: a store that holds runs is refused."""
    lake = Lake.create(tmp_path / "store")
    fleet = make_fleet(1, nights=1)
    write_fleet(replace(fleet, models=fleet.models[:1]), lake.inbox)
    with pytest.raises(StoreError, match="a store of its own"):
        build_demo(tmp_path / "store")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(101, 121))
def test_twenty_fleets(tmp_path: Path, seed: int) -> None:
    """Seeds not used in development: every planted event found and classed, at most one finding unexplained a fleet."""
    report = build_demo(tmp_path / "store", seed=seed)
    missed = [p.event.happening.value for p in report.planted if not (p.found and p.classed)]
    assert len(missed) <= 1
    assert len(report.unplanted) <= 1
