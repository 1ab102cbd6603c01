"""Several units of one model: where a confirmed change reaches, and a slow one that is fenced."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from unit_nights import Slow, night_time, put, write_night

from collector.host.findings_store import fold_all, read_events, read_triage
from collector.host.judge import judge
from collector.host.life import is_fenced
from collector.host.policies import load_policy
from collector.host.requests import ConfirmRequest, open_requests
from detection.classify import FindingClass
from detection.findings import EventKind, Finding, FindingState
from store.lake.lake import Lake

POLICY = load_policy()
CASES = tuple(f"{operator}[{i}]" for operator in ("gemm", "norm", "swiglu") for i in range(2))
STEP = CASES[0]


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """A store and the units that report to it."""

    folder: Path
    lake: Lake
    units: tuple[str, ...]

    def nights(self, first: int, last: int, slow: Slow, revision: str = "aaa") -> None:
        """All units, night by night, judged each night."""
        for night in range(first, last):
            for number, unit in enumerate(self.units):
                at = night + 0.01 * number
                put(self.folder, write_night(self.folder / "b", unit, at, CASES, slow=slow, revision=revision))
            self.lake.ingest(check_clock=False)
            judge(self.lake, policy=POLICY, now=night_time(night + 0.1))

    def waiting(self, unit: str, night: float) -> list[ConfirmRequest]:
        """What a unit is asked."""
        return open_requests(self.lake, device_unit=unit, now=night_time(night), policy=POLICY)

    def answer(self, unit: str, night: float, slow: Slow, revision: str) -> int:
        """Answers a unit's requests until none is open, as a node does; how many they were."""
        done = 0
        while asked := self.waiting(unit, night):
            done += 1
            bundle = write_night(
                self.folder / "b", unit, night + 0.001 * done, (asked[0].case_id,), slow=slow, revision=revision,
                confirms=asked[0].request_id, processes=asked[0].replicates, name=f"c-{asked[0].request_id}",
            )  # fmt: skip
            put(self.folder, bundle)
            self.lake.ingest(check_clock=False)
            judge(self.lake, policy=POLICY, now=night_time(night))
        return done

    def findings(self) -> list[Finding]:
        """All findings as they stand."""
        return list(fold_all(read_events(self.lake), read_triage(self.lake), now=night_time(60)).values())


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """Three units with an empty store."""
    lake = Lake.create(tmp_path / "store")
    yield Fleet(folder=tmp_path, lake=lake, units=("u0", "u1", "u2"))
    lake.close()


@pytest.mark.parametrize("everywhere", [True, False])
def test_a_confirmed_change_is_asked_of_another_unit(fleet: Fleet, everywhere: bool) -> None:
    """Confirmed on its own device, one further request goes to another unit of the model: it shows the change too, or
    it does not, and then the class is host and the cause names the one unit."""

    def slow(unit: str, case: str, arm: str) -> float:
        return 1.15 if (case, arm) == (STEP, "candidate") and (everywhere or unit == "u0") else 1.0

    fleet.nights(0, 5, lambda unit, case, arm: 1.0)
    put(fleet.folder, write_night(fleet.folder / "b", "u0", 5, CASES, slow=slow, revision="bbb"))
    fleet.lake.ingest(check_clock=False)
    judge(fleet.lake, policy=POLICY, now=night_time(5))
    assert fleet.answer("u0", 5.1, slow, "bbb") >= POLICY.confirm.looks
    (finding,) = fleet.findings()
    assert finding.state is FindingState.CONFIRMED
    assert [len(fleet.waiting(unit, 5.2)) for unit in ("u1", "u2")] in ([1, 0], [0, 1])
    other = next(unit for unit in ("u1", "u2") if fleet.waiting(unit, 5.2))
    assert fleet.answer(other, 5.2, slow, "bbb") == 1
    (finding,) = fleet.findings()
    assert finding.state is FindingState.CONFIRMED
    words = f"{other} shows it too" if everywhere else f"{other} does not show it"
    assert words in finding.facts.evidence.confirm
    assert finding.facts.finding_class is (FindingClass.CODE if everywhere else FindingClass.HOST)
    assert not [r for unit in fleet.units for r in fleet.waiting(unit, 5.3)]


def test_a_slow_unit_is_named_and_fenced_until_it_recovers(fleet: Fleet) -> None:
    """A unit a fifth slower in everything from its first night is one finding that names it; while it stands its times
    raise nothing and it is no witness for others; as fast as its fellows again, the fence is gone."""

    def throttled(unit: str, case: str, arm: str) -> float:
        return 1.2 if unit == "u2" else 1.0

    wide = Fleet(folder=fleet.folder, lake=fleet.lake, units=(*fleet.units, "u3"))
    wide.nights(0, 5, throttled)
    (finding,) = wide.findings()
    assert (finding.state, finding.facts.device_unit, finding.facts.finding_class) == (
        FindingState.CONFIRMED, "u2", FindingClass.HOST,
    )  # fmt: skip
    known = {finding.finding_id: finding}
    assert [unit for unit in wide.units if is_fenced(unit, known)] == ["u2"]

    def step(unit: str, case: str, arm: str) -> float:
        return throttled(unit, case, arm) * (1.15 if (case, arm) == (STEP, "candidate") and unit in ("u0", "u2") else 1)

    wide.nights(5, 6, step, "bbb")
    steps = [f for f in wide.findings() if f.facts.operator == "gemm"]
    assert {f.facts.device_unit for f in steps} >= {"u0"}
    assert all(len({m.subject_id[-2:] for m in f.facts.evidence.members}) == 1 for f in steps)
    assert not [e for e in read_events(wide.lake) if e.event is EventKind.CONFIRMED and e.facts.operator == "gemm"]
    wide.nights(6, 9, lambda unit, case, arm: 1.0)
    (slow_unit,) = [f for f in wide.findings() if f.facts.device_unit == "u2" and "slow unit" in f.facts.group]
    assert slow_unit.state is FindingState.RESOLVED
    assert not is_fenced("u2", {slow_unit.finding_id: slow_unit})
