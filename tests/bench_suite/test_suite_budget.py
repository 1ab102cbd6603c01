"""A night's budget: what fits, what waits for its turn, what can never fit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_suite.budget import Cost, estimate, plan_night
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


@given(suites, st.floats(5, 2000), st.integers(0, 10**6))
def test_nothing_starves_and_nothing_is_silently_absent(
    sizes: list[tuple[int, float | None]], budget_s: float, first: int
) -> None:
    """Each night keeps or skips every case within the budget; all that can fit have their turn in `turns` nights."""
    suite = replace(load_suite("smoke"), method=METHOD, cases=tuple(planned(m, w) for m, w in sizes))
    turns = plan_night(suite, CEILINGS, budget_s=budget_s, night=first).turns
    seen: set[str] = set()
    never: set[str] = set()
    for night in range(first, first + turns):
        plan = plan_night(suite, CEILINGS, budget_s=budget_s, night=night)
        ids = [entry.case.case_id for entry in (*plan.kept, *(skip.planned for skip in plan.skipped))]
        assert sorted(ids) == sorted(entry.case.case_id for entry in suite.cases)
        assert sum(total_s(entry) for entry in plan.kept) <= budget_s * (1 + 1e-9)
        seen |= {entry.case.case_id for entry in plan.kept}
        never |= {skip.planned.case.case_id for skip in plan.skipped if "its turn" not in skip.reason}
        assert plan == plan_night(suite, CEILINGS, budget_s=budget_s, night=night)
    assert seen | never == {entry.case.case_id for entry in suite.cases}
    assert not seen & never


def test_reasons_carry_figures() -> None:
    """A case that fits no night says what it needs; one that waits says how long."""
    suite: Suite = replace(
        load_suite("smoke"),
        method=METHOD,
        cases=(planned(1, 0.5), planned(2, 0.2), planned(3, 0.1), planned(9999, 0.2)),
    )
    plan = plan_night(suite, CEILINGS, budget_s=40.0, night=0)
    assert [entry.case["M"] for entry in plan.kept] == [1, 2]
    assert [skip.reason for skip in plan.skipped] == [
        "needs about 19 s; its turn in a budget of 40 s is in 1 night",
        "needs about 2,413 s, more than the 21 s of one night's turn in a budget of 40 s",
    ]


def test_what_a_case_took_is_believed_rather_than_its_estimate() -> None:
    """A case known to be cheap fits where its estimate would not; one known to be dear says what it took."""
    suite: Suite = replace(load_suite("smoke"), method=METHOD, cases=(planned(9999, 0.5), planned(1, 0.1)))
    dear, cheap = (entry.case.case_id for entry in reversed(suite.cases))
    known = {cheap: Cost(prepare_s=1.0, replicate_s=2.0), dear: Cost(prepare_s=100.0, replicate_s=50.0)}
    plan = plan_night(suite, CEILINGS, budget_s=40.0, night=0, known=known)
    assert [entry.case.case_id for entry in plan.kept] == [cheap]
    assert plan.skipped[0].reason.startswith("took 200 s, more than the 35 s")
