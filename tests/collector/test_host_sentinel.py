"""What the judge makes of a sentinel: a new toolchain told from a new driver, and a sentinel that is none any more."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from collector.host.judge import JudgeReport, judge
from detection.classify import FindingClass
from detection.findings import Finding
from detection.verdict import ReasonCode, VerdictStatus
from store.lake.lake import Lake
from tests.support.sentinel_nights import FROZEN, OLD, Slow, write_night

NIGHTS = 10
NEW = OLD | {"version.torch": "2.9.0", "torch": "2.9.0"}
HIT = "gemm[M=64]"


def steady(case: str, arm: str) -> float:
    return 1.0


def slower(*arms: str, times: float = 1.2, cases: tuple[str, ...] = (HIT,)) -> Slow:
    """These arms of these cases take so many times as long; no case: all of them."""
    return lambda case, arm: times if arm in arms and (case in cases or not cases) else 1.0


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with nights of one toolchain, judged."""
    folder = tmp_path_factory.mktemp("quiet")
    lake = Lake.create(str(folder / "store"))
    for night in range(NIGHTS):
        write_night(lake, folder, night, OLD | FROZEN)
    lake.ingest()
    judge(lake, at_run_time=True)
    return folder


@pytest.fixture
def store(quiet: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    shutil.copytree(quiet, tmp_path / "copy")
    return tmp_path / "copy"


def tonight(folder: Path, environment: Mapping[str, str], slow: Slow = steady, revision: str = "aaa") -> JudgeReport:
    lake = Lake.open(str(folder / "store"))
    write_night(lake, folder, NIGHTS, environment, slow=slow, revision=revision)
    lake.ingest()
    return judge(lake, at_run_time=True)


def only(report: JudgeReport) -> Finding:
    [finding] = report.findings.values()
    return finding


def test_what_only_the_normal_environment_did_is_the_toolchain_whatever_else_differs(store: Path) -> None:
    """A new torch and a new revision in one night: the sentinel ran that revision too, and did not move."""
    report = tonight(store, NEW | FROZEN, slower("candidate"), revision="bbb")
    facts = only(report).facts

    assert facts.finding_class is FindingClass.ENVIRONMENT
    assert facts.cause.startswith("The toolchain changed it (version.torch 2.8.0 → 2.9.0): beside the sentinel")
    tile = next(t for t in facts.evidence.tiles if t.label == "Beside the sentinel")
    assert tile.change == pytest.approx(0.2, abs=0.02)
    assert not any(cause.startswith("environment") for cause in facts.evidence.other_causes)
    planned = [v for v in report.lines if v.against == "sentinel" and v.code is ReasonCode.AT_PLANNED_CHANGE]
    assert [(v.case_id, v.arm) for v in planned if v.status is VerdictStatus.REGRESSED] == [(HIT, "candidate")]
    [notice] = [n for n in report.notices if "beside the sentinel" in n]
    assert "version.torch 2.8.0 → 2.9.0: 1 of 24 series moved" in notice


def test_what_both_did_is_not_the_toolchain_though_it_is_new(store: Path) -> None:
    """Without the pair the new torch would be to blame: the driver is, which both share."""
    report = tonight(store, NEW | FROZEN | {"driver": "580"}, slower("candidate", "sentinel:candidate"))
    facts = only(report).facts

    assert facts.finding_class is FindingClass.ENVIRONMENT
    assert facts.cause.startswith("Not the toolchain: ")
    assert facts.cause.endswith("What both share differs: driver 570 → 580.")
    assert not any("torch" in cause for cause in facts.evidence.other_causes)


def test_a_whole_run_that_a_toolchain_slowed_is_no_slow_host(store: Path) -> None:
    """Everything of the normal environment takes 10 % longer, and nothing of the sentinel."""
    arms = ("optimized", "aa", "candidate", "naive")
    facts = only(tonight(store, OLD | FROZEN, slower(*arms, times=1.1, cases=()))).facts
    assert facts.group.endswith("whole run")
    assert facts.finding_class is FindingClass.ENVIRONMENT
    assert "mean of 24 series" in facts.cause and "(no recorded version differs)" in facts.cause


def test_a_whole_run_that_slowed_both_is_the_host(store: Path) -> None:
    """The same with the sentinel slowed alike."""
    both = tuple(p + a for p in ("", "sentinel:") for a in ("optimized", "aa", "candidate", "naive"))
    facts = only(tonight(store, OLD | FROZEN, slower(*both, times=1.1, cases=()))).facts
    assert facts.finding_class is FindingClass.HOST
    assert "Not the toolchain" in facts.cause


def test_a_sentinel_that_changed_is_none_and_says_so(store: Path) -> None:
    """Its own packages are new: the pair of tonight has no past, and the cause stays what it was without it."""
    report = tonight(store, NEW | FROZEN | {"sentinel.packages": "def"}, slower("candidate"))
    facts = only(report).facts

    assert any("own environment changed (sentinel.packages abc → def)" in notice for notice in report.notices)
    assert "sentinel" not in facts.cause
    assert not any(d.field.startswith("sentinel") for d in facts.differing)
    assert all(t.label != "Beside the sentinel" for t in facts.evidence.tiles)


def test_a_sentinel_that_took_no_part_is_a_line_and_the_night_is_judged(store: Path) -> None:
    """Its reason is told; the run is judged like any other."""
    refused = {"sentinel.python_path": "/opt/s/bin/python", "sentinel.refused": "worker did not start"}
    report = tonight(store, OLD | refused, slower("candidate"))

    assert any("the sentinel took no part: worker did not start" in notice for notice in report.notices)
    assert only(report).facts.arm == "candidate"


def test_its_rows_are_judged_as_pairs_only(store: Path) -> None:
    """A sentinel that alone gets slower is no finding: its series audit the toolchain and are nobody's kernel."""
    report = tonight(store, OLD | FROZEN, slower("sentinel:candidate", "sentinel:optimized", times=1.5, cases=()))

    assert report.findings == {}
    assert not any(v.arm.startswith("sentinel") for v in report.lines)
    pairs = [v for v in report.lines if v.against == "sentinel"]
    assert len(pairs) == 24 and {v.code for v in pairs} == {ReasonCode.FASTER}
