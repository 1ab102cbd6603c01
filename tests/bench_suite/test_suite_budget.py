"""A night's budget: what fits, what waits for its turn, what can never fit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_suite.budget import Cost, Forecast, Night, estimate, plan_night
from bench_suite.contract import DType, Phase
from bench_suite.contracts import contract
from bench_suite.plan import Method, PlannedCase, Suite
from bench_suite.roofline import Ceilings
from bench_suite.suite import load_suite

CEILINGS = Ceilings(flop_per_s={"fp32": 1e9}, bandwidth_bytes_per_s=1e12)
METHOD = Method(replicates=2, min_rounds=10, case_budget_s=3.0)


def planned(m: int, weight: float | None) -> PlannedCase:
    """A GEMM of m milliseconds on CEILINGS: 2 m 5e5 flops at 1e9 a second."""
    case = contract("gemm").case({"M": m, "N": 1000, "K": 500}, DType.FP32, Phase.DECODE)
    return PlannedCase(case=case, weight=weight, label="", provenance="")


def total_s(entry: PlannedCase) -> float:
    return estimate(entry, METHOD, CEILINGS).total_s(METHOD.replicates)


def test_estimates_by_hand() -> None:
    """A short case costs its budget, a long one its least rounds; around them stand calls, inputs and a compilation."""
    short, long = estimate(planned(1, None), METHOD, CEILINGS), estimate(planned(1000, None), METHOD, CEILINGS)
    drawn_s = 4 * 501 * 1000 / 3e8 - 4 * 1000 / 3e8 + 4 * 500 / 3e8  # (M + N) K elements of M = 1
    assert short.prepare_s == pytest.approx(10 + 40 * 0.001 + 2 * drawn_s, rel=1e-3)
    assert short.replicate_s == pytest.approx(1.5 + 20 * 0.001 + drawn_s + 3.0, rel=1e-3)
    assert long.replicate_s == pytest.approx(1.5 + 20 * 1.0 + 4 * 2000 * 500 / 3e8 + 10 * 8 * 1.0)
    unknown = estimate(planned(1000, None), METHOD, None)
    assert unknown.replicate_s == pytest.approx(1.5 + 4 * 2000 * 500 / 3e8 + 3.0)
    assert unknown.total_s(2) == unknown.prepare_s + 2 * unknown.replicate_s


suites = st.lists(
    st.tuples(st.integers(1, 3000), st.none() | st.floats(0.001, 0.1)),
    min_size=1,
    max_size=12,
    unique_by=lambda p: p[0],
)


def suite_of(*cases: PlannedCase) -> Suite:
    return replace(load_suite("smoke"), method=METHOD, cases=cases)


def night_of(suite: Suite, budget_s: float, last: dict[str, int] | None = None) -> Night:
    return plan_night(suite, {e.case.case_id: total_s(e) for e in suite.cases}, last or {}, budget_s=budget_s)


@given(suites, st.floats(5, 2000))
def test_nothing_starves_and_nothing_is_silently_absent(sizes: list[tuple[int, float | None]], budget_s: float) -> None:
    """Nights that take what fits, in order, come to every case that fits one, and in the night that was said."""
    suite = suite_of(*(planned(m, w) for m, w in sizes))
    last: dict[str, int] = {}
    told = dict(night_of(suite, budget_s).waits)
    for night in range(1 + max(told.values(), default=0)):
        plan = night_of(suite, budget_s, last)
        ids = [entry.case.case_id for entry in plan.order]
        assert sorted(ids) == sorted(entry.case.case_id for entry in suite.cases)
        tonight = [entry for entry in plan.order if plan.waits.get(entry.case.case_id) == 0]
        assert sum(total_s(entry) for entry in tonight) <= budget_s * (1 + 1e-9)
        last |= dict.fromkeys((entry.case.case_id for entry in tonight), night)
        for case_id, wait in told.items():
            assert wait > night or case_id in last
    never = {entry.case.case_id: total_s(entry) for entry in suite.cases if entry.case.case_id not in last}
    assert set(never) == {entry.case.case_id for entry in suite.cases} - set(told)
    assert all(cost_s > night_of(suite, budget_s).left_s for cost_s in never.values())


def test_heavy_cases_and_those_in_turn_share_the_night() -> None:
    """The heaviest fill half of it; the others come by how long ago they were measured, between them by seconds."""
    suite = suite_of(*(planned(m, w) for m, w in ((1, 0.5), (2, 0.4), (3, 0.1), (4, None), (5, None), (9999, None))))
    ids = {entry.case.case_id: entry.case["M"] for entry in suite.cases}
    plan = night_of(suite, 80.0, {case_id: night for night, case_id in enumerate(ids)})
    assert [entry.case["M"] for entry in plan.order] == [1, 3, 2, 4, 5, 9999]
    assert {ids[case_id]: wait for case_id, wait in plan.waits.items()} == {1: 0, 2: 0, 3: 0, 4: 0, 5: 1}
    assert plan.left_s == pytest.approx(80.0 - total_s(suite.cases[0]) - total_s(suite.cases[1]))


def test_what_a_case_took_is_believed_rather_than_its_estimate() -> None:
    """A case known to be cheap fits where its estimate would not; the estimates of others are scaled alike."""
    suite = suite_of(planned(9999, 0.5), planned(1, 0.1))
    big, small = (entry.case.case_id for entry in suite.cases)
    before, after = (Forecast(suite, CEILINGS, known) for known in ({}, {big: Cost(prepare_s=1.0, replicate_s=2.0)}))
    assert before.blind and not after.blind
    assert before.total_s(big) == pytest.approx(total_s(suite.cases[0]))
    assert after.total_s(big) == 5.0
    assert after.cost(small).prepare_s < before.cost(small).prepare_s / 20
    assert after.cost(small).replicate_s < before.cost(small).replicate_s / 20


def test_a_forecast_learns_from_the_run_that_goes_on() -> None:
    """What steps took scales what is still expected, apart for preparing, measuring and starting processes."""
    suite = suite_of(planned(1, None), planned(2, None))
    one, two = (entry.case.case_id for entry in suite.cases)
    forecast = Forecast(suite, CEILINGS, {})
    expected, start_s = forecast.cost(one), forecast.start_s(4)
    for _ in range(100):
        forecast.prepared(one, 3 * expected.prepare_s)
        forecast.measured(one, expected.replicate_s / 2)
        forecast.started(2, start_s)
    assert not forecast.blind
    assert forecast.cost(two).prepare_s == pytest.approx(
        3 * estimate(suite.cases[1], METHOD, CEILINGS).prepare_s, rel=0.02
    )
    assert forecast.cost(two).replicate_s == pytest.approx(expected.replicate_s / 2, rel=0.02)
    assert forecast.start_s(4) == pytest.approx(2 * start_s, rel=0.02)


def test_one_odd_step_is_no_rule() -> None:
    """A case that took no time at all does not make the others free."""
    suite = suite_of(planned(1, None), planned(2, None))
    forecast = Forecast(suite, CEILINGS, {})
    before = forecast.cost(suite.cases[1].case.case_id).replicate_s
    forecast.measured(suite.cases[0].case.case_id, 0.0)
    assert forecast.cost(suite.cases[1].case.case_id).replicate_s > before / 2
