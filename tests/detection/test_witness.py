"""Confirm runs: two must agree, an unlucky one decides nothing, and a policy that is wrong says where."""

from __future__ import annotations

import pytest

from detection.pairs import judge_pair
from detection.policy import Policy, PolicyError, policy_from_mapping
from detection.verdict import ReasonCode, Verdict, VerdictStatus, percent
from detection.witness import Witness, together, weigh

POLICY = Policy()


def seen(change: float, half: float, p: float, n: int = 20) -> Verdict:
    return Verdict(
        status=VerdictStatus.INCONCLUSIVE,
        code=ReasonCode.SUSPICIOUS,
        sentence="",
        change=change,
        low=change - half,
        high=change + half,
        baseline_n=n,
        p_value=p,
    )


@pytest.mark.parametrize(
    ("verdict", "looks", "expected"),
    [
        (seen(0.10, 0.02, 1e-6), 1, Witness.UNDECIDED),  # one look may be as unlucky as the night
        (seen(0.10, 0.02, 1e-6), 2, Witness.CONFIRMED),
        (seen(0.10, 0.09, 0.00008), 3, Witness.UNDECIDED),
        (seen(0.10, 0.09, 0.00008, n=2), 3, Witness.CONFIRMED),  # a short baseline is most of the noise
        (seen(0.00, 0.02, 0.9), 1, Witness.REFUTED),
        (seen(0.00, 0.02, 0.9), 2, Witness.UNDECIDED),  # of two looks the smaller stands for both
        (seen(-0.10, 0.02, 1e-6), 3, Witness.REFUTED),
        (seen(0.02, 0.005, 1e-6), 3, Witness.REFUTED),  # real, and smaller than anybody wants to know
    ],
)
def test_looks_are_weighed(verdict: Verdict, looks: int, expected: Witness) -> None:
    """A suspected +10 % and what the looks at it say."""
    assert weigh(verdict, looks, 0.10, floor=0.03, policy=POLICY) is expected


def test_a_throttled_night_may_hide_a_small_change() -> None:
    """Suspected +25 %, seen +5 %: not the 25, but not nothing either: asked again."""
    assert weigh(seen(0.05, 0.03, 0.002), 3, 0.25, floor=0.03, policy=POLICY) is Witness.UNDECIDED


def test_no_look_decides_alone() -> None:
    """Two are represented by the smaller change, three by the middle one."""
    assert together([0.2, 0.01], 1) == (0.01, 1.0)
    assert together([-0.2, -0.01], -1) == (-0.01, 1.0)
    assert together([0.2, 0.01, 0.02], 1)[0] == 0.02


@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        ({"floor": 1}, "unknown key 'floor'"),
        ({"floors": {"gpu": 0.1}}, "p.toml: floors.gpu is unknown"),
        ({"floors": {"cpu": "5 %"}}, "floors.cpu is '5 %', must be a number"),
        ({"floors": {"cpu": 2.0}}, r"floors.cpu is 2.0, must be in \[0, 1\]"),
        ({"night": {"history_window": 2.5}}, "must be a whole number"),
        ({"floors": 0.05}, r"must be a table \[floors\]"),
        ({"name": ""}, "must be a text that is not empty"),
    ],
)
def test_a_wrong_policy_says_where(mapping: dict[str, object], words: str) -> None:
    """File, key, value and rule in one line; and a right one is taken."""
    with pytest.raises(PolicyError, match=words):
        policy_from_mapping(mapping, "p.toml")
    assert policy_from_mapping({"name": "mine", "floors": {"cpu": 0.1}}, "p.toml").floors.cpu == 0.1


@pytest.mark.parametrize(
    ("log_ratios", "code"),
    [
        ([0.10, 0.11, 0.10], ReasonCode.SLOWER),
        ([-0.10, -0.11, -0.10], ReasonCode.FASTER),
        ([0.001, -0.002, 0.003], ReasonCode.SAME),
        ([0.001, 0.2, -0.1], ReasonCode.TOO_WIDE),
        ([0.1], ReasonCode.NOT_ENOUGH_SAMPLES),
    ],
)
def test_two_arms_of_one_run(log_ratios: list[float], code: ReasonCode) -> None:
    """Slower, faster, the same, undecided or too few, by the interval over processes and the floor."""
    verdict = judge_pair(log_ratios, "optimized", policy=POLICY, device_kind="cuda")
    assert verdict.code is code
    assert verdict.sentence.endswith(".")


def test_percentages_are_written_as_people_read_them() -> None:
    """One decimal, a real minus, no signed zero."""
    assert [percent(v) for v in (0.0743, -0.05, 1.5, -0.0001)] == ["7.4 %", "−5.0 %", "150 %", "0.0 %"]
    assert percent(0.05, signed=True) == "+5.0 %"
