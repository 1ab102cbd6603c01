"""Which cases of a suite fit a night: heavy ones always, the rest in turn, the impossible said with its figure.

An estimate is a roofline time and therefore optimistic; what a case took on an earlier night, where that is known, is
better and is used instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bench_suite.contracts import contract
from bench_suite.plan import Method, PlannedCase, Suite
from bench_suite.roofline import Ceilings, roofline

CORE_SHARE = 0.5
"""Of the budget: for the heaviest cases, every night. The other half rotates."""

CALLS_PER_ROUND = 8
"""In roofline times: three arms near it, and a naive one that takes some five times as long."""

PREPARE_CALLS, REPLICATE_CALLS = 40, 20
"""In roofline times, beside the timed rounds: references in float64, first calls, memory, warm-up, the recheck."""

PREPARE_S, REPLICATE_S = 10.0, 1.5
"""What a case costs beside its calls: a cold compilation, and a replicate's share of processes and messages."""

DRAWN_BYTES_PER_S = 3e8
"""Making one set of inputs: drawn, copied and summed up."""

UNKNOWN_LATENCY_S = 0.0
"""Where no roof is known the case is taken to fill its own budget and no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Seconds that a case takes in a run."""

    prepare_s: float
    """Once: compile, check, weigh."""
    replicate_s: float
    """In each replicate."""

    def total_s(self, replicates: int) -> float:
        return self.prepare_s + replicates * self.replicate_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """A case that is not measured this night, and why."""

    planned: PlannedCase
    reason: str
    """One sentence with the figures."""
    estimate_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """What fits: every case of the suite is either kept or skipped."""

    kept: tuple[PlannedCase, ...]
    skipped: tuple[Skip, ...]
    turns: int
    """Nights until every case that can fit has had its turn."""


def estimate(planned: PlannedCase, method: Method, ceilings: Ceilings | None) -> Cost:
    """What a case takes: its own timed seconds, or what its least rounds need, and what stands around them."""
    latency_s = roofline(planned.case, ceilings).latency_s or UNKNOWN_LATENCY_S
    drawn_s = contract(planned.case.operator).input_bytes(planned.case) / DRAWN_BYTES_PER_S
    timed_s = max(method.case_budget_s, method.min_rounds * CALLS_PER_ROUND * latency_s)
    return Cost(
        prepare_s=PREPARE_S + PREPARE_CALLS * latency_s + 2 * drawn_s,
        replicate_s=REPLICATE_S + REPLICATE_CALLS * latency_s + drawn_s + timed_s,
    )


def plan_night(
    suite: Suite,
    ceilings: Ceilings | None,
    *,
    budget_s: float,
    night: int,
    known: Mapping[str, Cost] | None = None,
) -> Night:
    """The part of `suite` that fits `budget_s` on the night number `night` (any whole number that grows by one).

    Up to CORE_SHARE of the budget goes to the heaviest cases, the same each night. The others are cut into turns that
    each fit what is left, in the suite's order, and night n runs turn n modulo their number: none starves. `known` has
    what cases took on an earlier night, by case_id.
    """
    measured = known or {}
    costs = []
    for entry in suite.cases:
        cost = measured.get(entry.case.case_id) or estimate(entry, suite.method, ceilings)
        costs.append((entry, cost.total_s(suite.method.replicates)))
    core, left_s = _core(costs, budget_s)
    turns, hopeless = _turns([pair for pair in costs if pair[0] not in core], left_s)
    chosen = {entry.case.case_id for entry in core}
    if turns:
        chosen |= {entry.case.case_id for entry, _ in turns[night % len(turns)]}
    skipped = []
    for entry, cost_s in costs:
        if entry.case.case_id in chosen:
            continue
        source = "took" if entry.case.case_id in measured else "needs about"
        if entry in hopeless:
            words = f"{source} {cost_s:,.0f} s, more than the {left_s:,.0f} s of one night's turn"
            reason = f"{words} in a budget of {budget_s:,.0f} s"
        else:
            place = next(i for i, turn in enumerate(turns) if any(entry is other for other, _ in turn))
            wait = (place - night) % len(turns)
            nights = "1 night" if wait == 1 else f"{wait} nights"
            reason = f"{source} {cost_s:,.0f} s; its turn in a budget of {budget_s:,.0f} s is in {nights}"
        skipped.append(Skip(planned=entry, reason=reason, estimate_s=cost_s))
    kept = tuple(entry for entry in suite.cases if entry.case.case_id in chosen)
    return Night(kept=kept, skipped=tuple(skipped), turns=max(1, len(turns)))


def _core(costs: list[tuple[PlannedCase, float]], budget_s: float) -> tuple[list[PlannedCase], float]:
    """The heaviest cases that fit the core's share, or everything where everything fits; and the budget left."""
    if sum(cost_s for _, cost_s in costs) <= budget_s:
        return [entry for entry, _ in costs], 0.0
    core: list[PlannedCase] = []
    spent_s = 0.0
    for entry, cost_s in sorted(costs, key=lambda pair: -(pair[0].weight or 0.0)):
        if spent_s + cost_s <= CORE_SHARE * budget_s:
            core.append(entry)
            spent_s += cost_s
    return core, budget_s - spent_s


def _turns(
    costs: list[tuple[PlannedCase, float]], left_s: float
) -> tuple[list[list[tuple[PlannedCase, float]]], list[PlannedCase]]:
    """The rest in turns that each fit, and the cases that fit no night at all."""
    turns: list[list[tuple[PlannedCase, float]]] = []
    hopeless: list[PlannedCase] = []
    spent_s = 0.0
    for entry, cost_s in costs:
        if cost_s > left_s:
            hopeless.append(entry)
            continue
        if not turns or spent_s + cost_s > left_s:
            turns.append([])
            spent_s = 0.0
        turns[-1].append((entry, cost_s))
        spent_s += cost_s
    return turns, hopeless
