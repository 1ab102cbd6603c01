"""Rules over loss curves: each answers from its evidence, and is undecided without it."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from collector.host.curves import read_curves
from collector.host.gates import load_gate
from detection.gate import CURVE_METRICS, Against, Answer, GateLine, GateMetric, GateRule
from detection.gate_curves import Curve, CurveRole, check_curves
from detection.policy import PolicyError


def rule(metric: GateMetric, at_most: float) -> GateRule:
    """A rule that wants three accepted runs and ten steps."""
    return GateRule(
        name="r", metric=metric, against=Against.HISTORY, at_most=at_most, minimum_runs=3, minimum_samples=10
    )


def curve(name: str, role: CurveRole, *, seed: int = 0, factor: float = 1.0, noise: float = 0.003) -> Curve:
    """A loss that falls from 8 to 2 in a hundred steps."""
    rng = np.random.default_rng(seed)
    losses = {
        step: float((2 + 6 * math.exp(-step / 20)) * factor * math.exp(rng.normal(0, noise))) for step in range(100)
    }
    return Curve(name=name, role=role, losses=losses)


REFERENCES = [curve(f"seed {i}", CurveRole.REFERENCE, seed=i) for i in range(1, 5)]


def answer(metric: GateMetric, at_most: float, curves: list[Curve]) -> GateLine:
    return check_curves(rule(metric, at_most), curves)


def test_a_run_like_the_accepted_ones_converges() -> None:
    """Losses within the limit of the accepted runs pass; five percent above them fails and says by how much."""
    good = curve("new", CurveRole.CANDIDATE, seed=9)
    bad = curve("new", CurveRole.CANDIDATE, seed=9, factor=1.05)
    assert answer(GateMetric.CONVERGENCE, 0.01, [good, *REFERENCES]).answer is Answer.PASSED
    line = answer(GateMetric.CONVERGENCE, 0.01, [bad, *REFERENCES])
    assert line.answer is Answer.FAILED
    assert "+5.1 % against 4 accepted runs over the last 25 of 100 common steps" in line.sentence


def test_accepted_runs_that_differ_leave_it_open() -> None:
    """Beyond the limit, and within what the accepted runs differ among themselves: undecided."""
    wide = [curve(f"s{i}", CurveRole.REFERENCE, seed=i, factor=f) for i, f in enumerate((0.9, 1.0, 1.1, 1.05))]
    candidate = curve("new", CurveRole.CANDIDATE, factor=1.08)
    assert answer(GateMetric.CONVERGENCE, 0.01, [candidate, *wide]).answer is Answer.UNDECIDED


def test_a_loss_that_is_no_number_has_diverged() -> None:
    """A candidate with a loss of nan fails, at the step where it begins."""
    candidate = curve("new", CurveRole.CANDIDATE)
    broken = Curve(name="new", role=CurveRole.CANDIDATE, losses={**candidate.losses, 40: math.nan, 41: math.inf})
    line = answer(GateMetric.CONVERGENCE, 0.01, [broken, *REFERENCES])
    assert (line.answer, "step 40" in line.sentence) == (Answer.FAILED, True)


@pytest.mark.parametrize(
    ("metric", "role"),
    [(GateMetric.CHECKPOINT, CurveRole.RESTORED), (GateMetric.DETERMINISM, CurveRole.REPEATED)],
)
def test_the_same_losses_are_asked_step_by_step(metric: GateMetric, role: CurveRole) -> None:
    """Bitwise the same passes at a limit of zero; one step apart fails and is named; a limit lets it through."""
    candidate = curve("new", CurveRole.CANDIDATE)
    same = Curve(name="again", role=role, losses={s: v for s, v in candidate.losses.items() if s >= 50})
    apart = Curve(name="again", role=role, losses={**same.losses, 77: same.losses[77] * 1.0005})
    assert answer(metric, 0.0, [candidate, same]).answer is Answer.PASSED
    line = answer(metric, 0.0, [candidate, apart])
    assert (line.answer, "at step 77 of again" in line.sentence) == (Answer.FAILED, True)
    assert answer(metric, 0.001, [candidate, apart]).answer is Answer.PASSED


@pytest.mark.parametrize("metric", sorted(CURVE_METRICS))
def test_without_evidence_nothing_is_green(metric: GateMetric) -> None:
    """No curves, no second run, or too few steps in common: undecided."""
    candidate = curve("new", CurveRole.CANDIDATE)
    assert answer(metric, 0.01, []).answer is Answer.UNDECIDED
    assert answer(metric, 0.01, [candidate]).answer is Answer.UNDECIDED
    others = [
        Curve(name=f"x{i}", role=role, losses={1000 + i: 1.0, 5: candidate.losses[5]})
        for i, role in enumerate((CurveRole.REFERENCE,) * 3 + (CurveRole.RESTORED, CurveRole.REPEATED))
    ]
    assert answer(metric, 0.01, [candidate, *others]).answer is Answer.UNDECIDED


def test_the_shipped_training_gate_has_all_three() -> None:
    """The training gate asks for convergence, checkpoint and determinism."""
    assert {r.metric for r in load_gate("training").rules} >= CURVE_METRICS


def test_curves_come_from_a_file(tmp_path: Path) -> None:
    """One row a step; nan is a loss."""
    path = tmp_path / "curves.csv"
    path.write_text("curve,role,step,loss\nnew,candidate,1,2.5\nnew,candidate,2,nan\nold,reference,1,2.4\n")
    curves = read_curves(path)
    assert [(c.name, c.role, len(c.losses)) for c in curves] == [
        ("new", CurveRole.CANDIDATE, 2),
        ("old", CurveRole.REFERENCE, 1),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("curve,role,step\n", "has no column 'loss'"),
        ("curve,role,step,loss\na,best,1,2\n", "line 2: role is 'best'"),
        ("curve,role,step,loss\na,candidate,x,2\n", "line 2: step is 'x'"),
        ("curve,role,step,loss\na,candidate,1,low\n", "line 2: loss is 'low'"),
        ("curve,role,step,loss\na,candidate,1,2\na,candidate,1,2\n", "line 3: step 1 of curve 'a' appears twice"),
        ("curve,role,step,loss\na,candidate,1,2\nb,candidate,1,2\n", "must be one"),
    ],
)
def test_a_broken_file_of_curves_is_named(tmp_path: Path, text: str, words: str) -> None:
    """A line that is no loss of a curve is refused with its number and the rule."""
    path = tmp_path / "curves.csv"
    path.write_text(text)
    with pytest.raises(PolicyError, match=words):
        read_curves(path)
