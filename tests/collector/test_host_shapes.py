"""What the judge says of shapes: the rule of a finding, cliffs, and shapes that were never measured before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from collector.host.demo import write_fleet
from collector.host.findings_store import read_events
from collector.host.judge import judge
from collector.host.judge_report import JudgeReport
from collector.host.simulated_fleet import Fleet, Happening, make_fleet
from detection.policy import Policy
from detection.verdict import ReasonCode
from store.lake.lake import Lake

NIGHTS = 7


def one_unit(lake: Lake, fleet: Fleet) -> JudgeReport:
    """All cases of a fleet on one unit, ingested and judged."""
    write_fleet(fleet, lake.inbox)
    lake.ingest(check_clock=False)
    return judge(lake, policy=Policy().unasked(), at_run_time=True)


def small_fleet() -> Fleet:
    """One unit that measures every case, and a step of attention with 64 requests or more in its fifth night."""
    fleet = make_fleet(5)
    step = next(e for e in fleet.events if e.happening is Happening.REVISION_STEP)
    model = replace(fleet.models[0], units=fleet.models[0].units[:1])
    return replace(
        fleet,
        nights=NIGHTS,
        models=(model,),
        everywhere=len(fleet.cases),
        events=(replace(step, night=4, log_time=0.2),),
    )


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lake, JudgeReport]:
    """The small fleet, judged once for all tests of this file."""
    lake = Lake.create(tmp_path_factory.mktemp("shapes") / "store")
    return lake, one_unit(lake, small_fleet())


def test_a_finding_says_where_in_shape_space_it_lies(judged: tuple[Lake, JudgeReport]) -> None:
    """A step that touches 64 requests and more is one finding whose rule is exactly that, with the counts."""
    lake, _ = judged
    (finding,) = {event.finding_id: event for event in read_events(lake)}.values()
    evidence = finding.facts.evidence
    assert evidence.shape_rule is not None
    assert evidence.shape_rule.words == "requests ≥ 64"
    assert (evidence.shape_rule.inside_moved, evidence.shape_rule.inside, evidence.shape_rule.outside) == (6, 6, 6)
    assert evidence.shape_words == evidence.shape_rule.sentence
    assert {case.moved for case in evidence.cases} == {True, False}


def test_a_standing_cliff_is_listed_and_is_no_news(judged: tuple[Lake, JudgeReport]) -> None:
    """The largest matrices waste 40 %: every jump from 2,048 to 4,096 rows is a row of `cliffs`, and none a notice."""
    lake, report = judged
    rows = lake.sql("SELECT arm, axis, small, large, change FROM cliffs WHERE operator = 'gemm'").to_pylist()
    assert {(r["axis"], r["small"], r["large"]) for r in rows} == {("M", 2048.0, 4096.0)}
    assert [r["change"] for r in rows if r["arm"] == "optimized"] == pytest.approx([0.4] * 4, abs=0.02)
    assert not [notice for notice in report.notices if "Cliff" in notice]


def test_a_new_shape_is_held_against_the_model(judged: tuple[Lake, JudgeReport], tmp_path: Path) -> None:
    """A case that appears in the last night is expected from the others; one that takes three times as long is far."""
    fleet = small_fleet()
    gemms = [i for i, case in enumerate(fleet.cases) if case.operator == "gemm"]
    late, slow = gemms[5], gemms[9]
    without = tuple(c for i, c in enumerate(fleet.cases) if i not in (late, slow))
    cases = tuple(replace(c, waste=3.0) if i == slow else c for i, c in enumerate(fleet.cases))
    lake = Lake.create(tmp_path / "store")
    one_unit(lake, replace(fleet, cases=without, everywhere=len(without), events=(), nights=2))
    report = one_unit(lake, replace(fleet, cases=cases, events=(), nights=3))
    said = {(v.subject.case_id, v.subject.arm): v.verdict.code for _, v in report.verdicts if v.against == "model"}
    assert said[fleet.cases[late].case_id, "candidate"] is ReasonCode.AS_MODELLED
    assert said[fleet.cases[slow].case_id, "optimized"] is ReasonCode.FAR_FROM_MODEL
    assert any("far from the model" in notice for notice in report.notices)
