"""What goes with the siblings is learnt, taken away, and said; what does not stays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.random import Generator
from numpy.typing import NDArray

from detection.common_mode import OWN_WAY, Siblings, learnt_common_mode, sibling_moves
from detection.night import Night, NightJudgement, judge_night
from detection.policy import CommonModeRules, Policy
from detection.stats import MAD_TO_SD
from detection.verdict import Metric, ReasonCode, VerdictStatus

POLICY = Policy()
RULES = CommonModeRules()
Floats = NDArray[np.float64]


def simulated(
    rng: Generator,
    *,
    along: float | Floats,
    series: int = 80,
    runs: int = 60,
    host: float = 0.03,
    own: float = 0.01,
) -> Floats:
    """[S, R + 1] logarithms: each series has its own level and noise, and goes along with the host by its share."""
    level = rng.normal(0, host, runs + 1)
    return (
        rng.normal(0, 2, (series, 1))
        + np.multiply.outer(np.broadcast_to(along, series), level)
        + rng.normal(0, own, (series, runs + 1))
    )


def moves_of(x: Floats, *, arms: int = 2, controls: bool = True, policy: Policy = POLICY) -> Floats:
    rows = np.arange(x.shape[0])
    return sibling_moves(
        np.exp(x),
        rows // arms,
        (rows % arms == 0) & controls,
        np.ones(rows.size, dtype=bool),
        least=policy.common_mode.minimum_cases,
        least_controls=policy.night.scatter_from,
    )


def make_night(x: Floats, *, metric: Metric = Metric.LATENCY, arms: int = 2, controls: bool = True) -> Night:
    """Tonight is the last column; every second series is a control, or none."""
    rows, runs = x.shape[0], x.shape[1] - 1
    moves = moves_of(x, arms=arms, controls=controls)
    return Night(
        metric=metric,
        device_kind="cuda",
        subjects=tuple(f"s{i}" for i in range(rows)),
        value=np.exp(x[:, -1]),
        processes=np.full(rows, 3),
        process_sd=np.full(rows, 0.01),
        history=np.exp(x[:, :-1]),
        history_process_variance=np.full(rows, 1e-4),
        history_process_df=np.full(rows, 2.0 * runs),
        control=(np.arange(rows) % arms == 0) & controls,
        absent=(None,) * rows,
        siblings=Siblings(history=moves[:, :-1], tonight=moves[:, -1]),
    )


def coefficients(x: Floats) -> Floats:
    moves = moves_of(x)
    siblings = Siblings(history=moves[:, :-1], tonight=moves[:, -1])
    return learnt_common_mode(x[:, :-1], x[:, -1], siblings, RULES).coefficient


def codes(judgement: NightJudgement) -> list[ReasonCode]:
    return [v.code for v in judgement.verdicts]


def alone(night: Night) -> Night:
    return replace(night, siblings=None)


def slow_moves(
    x: Floats, cases: NDArray[np.int64], control: NDArray[np.bool_], least: int, least_controls: int
) -> Floats:
    """The definition, value by value."""
    rows, columns = x.shape
    deviation = np.full(x.shape, np.nan)
    for i in range(rows):
        past = [v for v in x[i, :-1] if np.isfinite(v)]
        if len(past) >= 3:
            deviation[i] = x[i] - np.median(past)
    if sum(bool(c) and bool(np.isfinite(v)) for c, v in zip(control, deviation[:, -1], strict=True)) >= least_controls:
        deviation[~control] = np.nan

    def medians() -> Floats:
        out = np.full(x.shape, np.nan)
        for i in range(rows):
            for r in range(columns):
                others = [deviation[j, r] for j in range(rows) if cases[j] != cases[i] and np.isfinite(deviation[j, r])]
                out[i, r] = np.median(others) if len(others) >= least else np.nan
        return out

    own = deviation - medians()
    for i in range(rows):
        known = [abs(v) for v in own[i, :-1] if np.isfinite(v)]
        usual = MAD_TO_SD * np.median(known) if len(known) >= 8 else np.inf
        for r in range(columns):
            if abs(own[i, r]) > OWN_WAY * usual:
                deviation[i, r] = np.nan
    return medians()


@pytest.mark.parametrize("least_controls", [5, 50])
def test_moves_are_the_medians_of_the_series_of_other_cases(least_controls: int) -> None:
    """The sorted columns give what the definition gives value by value, with gaps, odd cases and outliers."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        x = rng.normal(0, 0.05, (17, 15)) + rng.normal(0, 0.05, 15)
        x[rng.random(x.shape) < 0.15] = np.nan
        x[rng.random(x.shape) < 0.05] += 1.0
        cases, control = rng.integers(0, 6, 17), rng.random(17) < 0.5
        found = sibling_moves(
            np.exp(x), cases, control, np.ones(17, dtype=bool), least=3, least_controls=least_controls
        )
        np.testing.assert_allclose(found, slow_moves(x, cases, control, 3, least_controls), atol=1e-12)


@pytest.mark.parametrize("along", [0.3, 0.7, 1.0])
def test_a_known_coefficient_is_recovered(along: float) -> None:
    """Series that go along by a known share of the run's move are found to, on average within a tenth."""
    shares = np.where(np.arange(80) % 2 == 0, 1.0, along)  # the controls go along wholly: they are the scale
    found = coefficients(simulated(np.random.default_rng(1), along=shares))
    assert np.median(found[1::2]) == pytest.approx(along, abs=0.1)
    assert np.quantile(found[1::2], 0.1) > along - 0.25


@pytest.mark.parametrize("wandering", [0.0, 0.8])
def test_siblings_that_have_nothing_to_do_with_a_series_take_nothing_away(wandering: float) -> None:
    """Independent series, also such that wander from night to night, learn a coefficient of zero in nine of ten."""
    found = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        x = rng.normal(0, 0.02, (60, 61))
        for r in range(1, 61):
            x[:, r] = wandering * x[:, r - 1] + np.sqrt(1 - wandering**2) * x[:, r]
        found.append(coefficients(x))
    assert np.mean(np.concatenate(found) == 0) > 0.9
    assert np.mean(np.concatenate(found)) < 0.05


def test_a_short_history_learns_nothing() -> None:
    """With one run fewer than the policy wants no series follows any other; with as many as it wants, some do."""
    x = simulated(np.random.default_rng(2), along=1.0, runs=RULES.learn_from)
    assert not coefficients(x[:, 1:]).any()
    assert coefficients(x).any()


def test_no_series_explains_itself() -> None:
    """All arms of one case 50 % slower: what their siblings did is what they did without it."""
    x = simulated(np.random.default_rng(3), along=1.0)
    stepped = x.copy()
    stepped[:2, -1] += np.log(1.5)
    np.testing.assert_allclose(moves_of(stepped)[:2, -1], moves_of(x)[:2, -1], atol=0.003)


@pytest.mark.parametrize("controls", [True, False])
def test_a_group_that_regresses_is_not_taken_for_the_host(controls: bool) -> None:
    """30 % of the series 10 % slower for one cause, on a host that wanders: most are called, more than without
    siblings, and of the others hardly any."""
    called = before = 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        x = simulated(rng, along=rng.uniform(0.3, 1.0, 80), own=0.015)
        x[1:49:2, -1] += np.log1p(0.10)
        night = make_night(x, controls=controls)
        found = np.array([c is ReasonCode.BEYOND_FLOOR for c in codes(judge_night(night, POLICY))])
        called += int(found[1:49:2].sum())
        assert found.sum() - found[1:49:2].sum() <= 1
        before += codes(judge_night(alone(night), POLICY)).count(ReasonCode.BEYOND_FLOOR)
    assert called > (0.8 if controls else 0.6) * 5 * 24
    assert called > before


def test_a_change_of_most_series_but_not_of_all_takes_nothing_away() -> None:
    """60 % of the series 15 % slower and the others where they were: no host does that, so nothing is subtracted."""
    x = simulated(np.random.default_rng(4), along=1.0, host=0.02)
    x[:48, -1] += np.log1p(0.15)
    night = make_night(x, controls=False)
    assert judge_night(night, POLICY).verdicts == judge_night(alone(night), POLICY).verdicts


def test_a_run_that_moved_as_a_whole_is_said_once_as_before() -> None:
    """Everything 15 % slower: one shift for the run, and the verdicts are those without siblings."""
    x = simulated(np.random.default_rng(5), along=1.0)
    x[:, -1] = np.median(x[:, :-1], axis=1) + np.log1p(0.15)
    night = make_night(x)
    judgement = judge_night(night, POLICY)
    assert judgement.shift is not None
    assert judgement.shift.change == pytest.approx(0.15, abs=0.01)
    assert judgement.verdicts == judge_night(alone(night), POLICY).verdicts


def test_a_host_that_wanders_is_no_news() -> None:
    """Runs that move by 10 % as a rule: a move of 8 % is not said, one of 60 % is; without siblings both are."""
    x = simulated(np.random.default_rng(12), along=1.0, host=0.1)
    x[:, -1] -= x[:, -1] - np.median(x[:, :-1], axis=1)
    for change, said in ((0.08, False), (0.60, True)):
        night = make_night(x + np.where(np.arange(61) == 60, np.log1p(change), 0.0))
        shift = judge_night(night, POLICY).shift
        assert (shift is not None and not shift.usual) is said
        assert judge_night(alone(night), POLICY).shift is not None


def test_what_a_series_shares_with_its_run_is_taken_away_and_said() -> None:
    """Tonight's host moves some series by more than a floor: without siblings some are suspected, with them it is said
    what was taken away."""
    rng = np.random.default_rng(6)
    x = simulated(rng, along=np.where(np.arange(80) % 4 == 0, 1.0, 0.35), host=0.05, own=0.005)
    x[:, -1] = np.median(x[:, :-1], axis=1) + np.where(np.arange(80) % 4 == 0, 0.06, 0.021) + rng.normal(0, 0.005, 80)
    judgement = judge_night(make_night(x, arms=4), POLICY)
    assert judgement.shift is None
    verdict = judgement.verdicts[0]
    assert (verdict.status, verdict.code) == (VerdictStatus.UNCHANGED, ReasonCode.COMMON_MODE)
    assert "that it shares with the run's other series" in verdict.sentence
    assert abs(verdict.change or 1.0) < 0.02


def test_less_scatter_makes_smaller_changes_visible() -> None:
    """The noise of what is left is the noise that is judged by, at the rate that was asked for."""
    unlikely, was, now = [], [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        night = make_night(simulated(rng, along=rng.uniform(0, 1, 80), own=0.02))
        unlikely += [v.p_value is not None and v.p_value < 0.05 for v in judge_night(night, POLICY).verdicts]
        for name, of in ((was, alone(night)), (now, night)):
            name.append(np.median([v.smallest_visible_change or np.nan for v in judge_night(of, POLICY).verdicts]))
    assert np.median(now) < 0.95 * np.median(was)
    assert 0.03 < np.mean(unlikely) < 0.07


def test_without_siblings_nothing_changes() -> None:
    """Too few series, and siblings that are not known: the verdicts are those without."""
    few = make_night(simulated(np.random.default_rng(7), along=1.0, series=6, host=0.1))
    assert few.siblings is not None
    assert np.isnan(few.siblings.tonight).all()
    assert judge_night(few, POLICY).verdicts == judge_night(alone(few), POLICY).verdicts


@pytest.mark.parametrize("metric", [Metric.LATENCY_RATIO, Metric.PEAK_MEMORY, Metric.ERROR])
def test_only_times_of_one_arm_alone_have_siblings(metric: Metric) -> None:
    """Paired ratios, memory and error are never touched, whatever their siblings did."""
    night = make_night(simulated(np.random.default_rng(8), along=1.0), metric=metric)
    assert judge_night(night, POLICY).verdicts == judge_night(alone(night), POLICY).verdicts


def test_scale_and_order_do_not_matter() -> None:
    """Each series in another unit, and the series in another order: the same verdicts, each with its series."""
    rng = np.random.default_rng(9)
    x = simulated(rng, along=rng.uniform(0, 1, 80))
    x[1, -1] += np.log1p(0.2)
    one = codes(judge_night(make_night(x), POLICY))
    assert codes(judge_night(make_night(x + rng.normal(0, 5, (80, 1))), POLICY)) == one
    cases = rng.permutation(40)
    order = np.column_stack([2 * cases, 2 * cases + 1]).ravel()
    assert codes(judge_night(make_night(x[order]), POLICY)) == [one[i] for i in order]


def test_same_input_same_verdict() -> None:
    """Judging twice gives equal records."""
    night = make_night(simulated(np.random.default_rng(10), along=0.8))
    assert judge_night(night, POLICY) == judge_night(night, POLICY)


def test_siblings_stand_beside_the_runs_of_the_history() -> None:
    """Arrays of another shape are refused, with both shapes named."""
    night = make_night(simulated(np.random.default_rng(11), along=0.8))
    wrong = Siblings(history=night.history[:, 1:], tonight=night.value)
    with pytest.raises(ValueError, match=r"siblings have shape \(80, 59\), must be \(80, 60\)"):
        replace(night, siblings=wrong)
