"""A pair with a frozen environment: what is of the toolchain, what both share, and what cannot be told."""

from __future__ import annotations

import math

import numpy as np
import pytest

from detection.classify import Cause, Difference, FindingClass
from detection.policy import Policy
from detection.sentinel import (
    Answer,
    PairedChange,
    Shift,
    answer,
    at_planned_change,
    cause_with_pair,
    changed_fields,
    frozen_of,
    paired_change,
    toolchain_of,
    words_of,
)
from detection.verdict import ReasonCode, VerdictStatus

POLICY = Policy()
BEFORE, AFTER, NOISE, NIGHT = 12, 1, 0.01, 0.08


def levels(
    seed: int, *, toolchain: float = 0.0, shared: float = 0.0, series: int = 1, noise: float = NOISE
) -> tuple[np.ndarray, np.ndarray]:
    """Log levels in both environments: one night's own effect in both, noise of each, and log changes on the last."""
    rng = np.random.default_rng(seed)
    nights = BEFORE + AFTER
    common = rng.normal(0, NIGHT, nights) + np.r_[np.zeros(BEFORE), shared]
    of_toolchain = np.r_[np.zeros(BEFORE), toolchain]
    base = rng.normal(-7, 1, (series, 1))
    own = base + common + of_toolchain + rng.normal(0, noise, (series, nights))
    frozen = base + 0.1 + common + rng.normal(0, noise, (series, nights))
    return own, frozen


def found(own: np.ndarray, frozen: np.ndarray) -> PairedChange:
    change = paired_change(own, frozen, BEFORE, POLICY)
    assert change is not None
    return change


def test_the_pair_and_the_sentinel_add_up_to_what_the_time_did() -> None:
    """Oracle, one series of few nights: medians and means by hand."""
    own = np.log(np.array([[1.0, 1.1, 1.2, 1.0, 2.0]]))
    frozen = np.log(np.array([[1.0, 1.1, 1.2, 1.0, 1.0]]))
    change = paired_change(own, frozen, 4, POLICY)
    assert change is not None
    before = (1.0 * 1.1 * 1.2 * 1.0) ** 0.25

    assert change.pair.change == pytest.approx(1.0)
    assert change.frozen.change == pytest.approx(1 / before - 1)
    assert (1 + change.pair.change) * (1 + change.frozen.change) == pytest.approx(2.0 / before)
    assert (change.nights, change.series) == (4, 1)


@pytest.mark.parametrize(("series", "told"), [(1, 150), (6, 200)])
def test_a_change_of_the_normal_environment_alone_is_the_toolchain(series: int, told: int) -> None:
    """Nights differ by 8 %, a pair by 1.4 %: +10 % of the toolchain is told in most draws, and never called shared."""
    said = []
    for seed in range(200):
        own, frozen = levels(seed, toolchain=math.log(1.10), series=series)
        change = found(own, frozen)
        said.append(answer(change, 0.10))
        assert change.pair.change == pytest.approx(0.10, abs=0.07)

    assert said.count(Answer.TOOLCHAIN) >= told
    assert Answer.SHARED not in said


def test_a_change_of_both_is_shared() -> None:
    """+10 % of a driver moves both: told in most draws, and never called the toolchain."""
    said = [answer(found(*levels(seed, shared=math.log(1.10))), 0.10) for seed in range(200)]

    assert said.count(Answer.SHARED) >= 160
    assert Answer.TOOLCHAIN not in said


def test_a_faster_one_is_told_likewise() -> None:
    """The direction of the change does not matter."""
    assert answer(found(*levels(1, toolchain=math.log(0.8))), -0.2) is Answer.TOOLCHAIN
    assert answer(found(*levels(1, shared=math.log(0.8))), -0.2) is Answer.SHARED
    assert answer(found(*levels(1, toolchain=math.log(1.2))), -0.2) is Answer.SHARED


def test_noise_of_the_size_of_the_change_leaves_it_open() -> None:
    """A pair that scatters by 28 % decides nothing about 5 %, but for the few per cent that its interval promises."""
    said = [answer(found(*levels(seed, noise=0.2)), 0.05) for seed in range(100)]

    assert said.count(Answer.UNDECIDED) >= 80
    assert said.count(Answer.TOOLCHAIN) <= 8


def test_too_few_nights_or_no_pair_is_no_answer() -> None:
    """Three nights before are needed, and a pair after them; a series without both is left out, not guessed."""
    own, frozen = levels(2, toolchain=0.1, series=2)
    gap = own.copy()
    gap[:, 2:BEFORE] = np.nan
    assert paired_change(gap, frozen, BEFORE, POLICY) is None
    gone = own.copy()
    gone[:, BEFORE:] = np.nan
    assert paired_change(gone, frozen, BEFORE, POLICY) is None
    half = own.copy()
    half[0, BEFORE:] = np.nan
    assert found(half, frozen).series == 1


def differing(*names: str) -> tuple[Difference, ...]:
    return tuple(Difference(field=name, good="1", bad="2") for name in names)


def change_of(pair: float, frozen: float) -> PairedChange:
    shifts = [Shift(change=c, low=c - 0.01, high=c + 0.01) for c in (pair, frozen)]
    return PairedChange(pair=shifts[0], frozen=shifts[1], nights=9, series=1)


@pytest.mark.parametrize(
    ("was", "fields", "said", "becomes", "words"),
    [
        ("code", ("revision", "version.torch"), Answer.TOOLCHAIN, "environment", "changed it (version.torch 1 → 2)"),
        ("method", ("method",), Answer.TOOLCHAIN, "environment", "(no recorded version differs)"),
        ("baseline", ("torch",), Answer.TOOLCHAIN, "baseline", "The toolchain changed it (torch 1 → 2)"),
        ("environment", ("driver", "torch"), Answer.SHARED, "environment", "What both share differs: driver 1 → 2."),
        ("environment", ("torch", "revision"), Answer.SHARED, "code", "What both share differs: revision 1 → 2."),
        ("environment", ("triton",), Answer.SHARED, "host", "No recorded field that both share differs"),
        ("code", ("revision",), Answer.SHARED, "code", "Not the toolchain"),
        ("environment", ("torch",), Answer.UNDECIDED, "environment", "Whether the toolchain did it is open"),
    ],
)
def test_the_pair_has_the_last_word_on_the_class(
    was: str, fields: tuple[str, ...], said: Answer, becomes: str, words: str
) -> None:
    """Both environments run the same source tree on the same device: only what one of them has of its own differs."""
    cause = Cause(finding_class=FindingClass(was), sentence="As it was.")
    now, left = cause_with_pair(cause, differing(*fields), change_of(0.2, 0.003), said)

    assert now.finding_class.value == becomes
    assert words in now.sentence
    assert "+20.0 % (95 % interval +19.0 % to +21.0 %)" in now.sentence
    if said is Answer.SHARED:
        assert not any(d.field in ("torch", "triton", "version.torch") for d in left)


def test_a_planned_change_is_judged_series_by_series() -> None:
    """Of 40 series 4 are 10 % slower under the new toolchain, one has no past: those are found, and no other."""
    own, frozen = levels(5, series=40)
    own[:4, -1] += math.log(1.10)
    own[39, :BEFORE] = np.nan
    verdicts = at_planned_change(own, frozen, BEFORE, floor=0.03, what="version.torch 1 → 2", policy=POLICY)

    assert [v.status for v in verdicts[:4]] == [VerdictStatus.REGRESSED] * 4
    assert all(v.code is ReasonCode.AT_PLANNED_CHANGE for v in verdicts[:39])
    assert not any(v.status in (VerdictStatus.REGRESSED, VerdictStatus.IMPROVED) for v in verdicts[4:])
    assert verdicts[39].code is ReasonCode.NOT_ENOUGH_HISTORY
    assert verdicts[0].sentence.startswith("version.torch 1 → 2: ")


def test_what_is_of_the_sentinel_and_what_of_the_toolchain() -> None:
    """Fields of the host and of the run are neither; a sentinel that took no part has no identity."""
    environment = {
        "version.torch": "2.9", "torch": "2.9", "torch.cuda": "13", "torch.threads": "1", "driver": "580",
        "sentinel.version.torch": "2.8", "sentinel.python_path": "/opt/s/bin/python", "revision": "a", "python": "3.12",
    }  # fmt: skip

    assert set(toolchain_of(environment)) == {"version.torch", "torch.cuda", "python"}
    assert frozen_of(environment) == {"sentinel.version.torch": "2.8"}
    assert frozen_of(environment | {"sentinel.refused": "no such file"}) == {}
    assert words_of(changed_fields({"version.torch": "1", "torch": "1"}, {"version.torch": "2", "torch": "2"})) == (
        "version.torch 1 → 2"
    )
