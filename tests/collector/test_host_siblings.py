"""What the other series did stands beside the run in which they did it, and reaches the verdict."""

from __future__ import annotations

import numpy as np
import pytest
from judged_files import Judged, Line, judge_lines
from numpy.typing import NDArray

from detection.findings import EventKind
from detection.verdict import ReasonCode

RUNS, CASES = 30, 14
LAST = f"r{RUNS - 1:04d}"
Floats = NDArray[np.float64]


def wandering(host: str, tonight: Floats) -> list[Line]:
    """Cases of a host whose level wanders by 6 % from run to run, all alike; case 3 is measured in every second run.

    The last run is on `tonight`, by case, beside the middle of all runs.
    """
    rng = np.random.default_rng(21)
    level = rng.normal(0, 0.06, RUNS)
    x = level[:, None] + rng.normal(0, 0.004, (RUNS, CASES))
    x[-1] = np.median(level[:-1]) + tonight + rng.normal(0, 0.004, CASES)
    return [
        Line(run=r, case=f"{host}_{c}", host=host, gpu=host, sample=s, value=float((1 + c) * np.exp(x[r, c])))
        for r in range(RUNS)
        for c in range(CASES)
        for s in range(3)
        if c != 3 or r % 2 == 1
    ]


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """A host that is 5 % slower tonight; one that is 5 % faster, on which case 5 is 20 % slower than the others."""
    usual, one = np.full(CASES, 0.05), np.full(CASES, -0.05)
    one[5] += np.log1p(0.2)
    return judge_lines(tmp_path_factory.mktemp("siblings"), [*wandering("usual", usual), *wandering("one", one)])


def test_a_host_that_wanders_alarms_nobody(judged: Judged) -> None:
    """All of a run 5 % slower, as its runs are as a rule: no series is called or suspected, the run is no finding, and
    the sentences say why. Until enough is known of it, the host is suspected once at most."""
    lines = judged.lines("usual", LAST)

    assert len(lines) == CASES
    assert {line.code for line in lines} <= {ReasonCode.COMMON_MODE, ReasonCode.WITHIN_FLOOR, ReasonCode.TOO_WIDE}
    assert sum(" that it shares with the run's other series (" in line.sentence for line in lines) > CASES / 2
    assert len([kind for kind, _ in judged.kinds("usual") if kind is EventKind.SUSPECTED]) <= 1
    assert EventKind.CONFIRMED not in [kind for kind, _ in judged.kinds("usual")]


def test_what_moves_by_itself_on_such_a_host_is_called(judged: Judged) -> None:
    """20 % slower than its run, 14 % slower than it was: it is called with the 20 %, to a few percent, and no other
    series is, though one of them has gaps in its history."""
    by_case = {line.case_id: line for line in judged.lines("one", LAST)}
    called = [case for case, line in by_case.items() if line.code is ReasonCode.BEYOND_FLOOR]

    assert called == ["one_5"]
    assert by_case["one_5"].change == pytest.approx(0.20, abs=0.03)
    assert by_case["one_3"].code in (ReasonCode.COMMON_MODE, ReasonCode.WITHIN_FLOOR, ReasonCode.TOO_WIDE)
