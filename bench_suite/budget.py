"""Which cases of a suite a night takes, and in what order: the weightiest always, the rest in turn.

An estimate is a roofline time and what stands around it on some machine; what a case took on an earlier night is better
and is used instead; and both are scaled by how the steps of this very run compare with what was expected of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bench_suite.contracts import contract
from bench_suite.plan import Method, PlannedCase, Suite
from bench_suite.roofline import Ceilings, roofline

CORE_SHARE = 0.5
"""Of the budget: for the cases with the most weight a second, every night. The other half rotates."""

CALLS_PER_ROUND = 8
"""In roofline times: three arms near it, and a naive one that takes some five times as long."""

FEWEST_ROUNDS = 10
"""Where fewer rounds than a suite's least take twice a case's seconds, the harness stops after these."""

PREPARE_CALLS, REPLICATE_CALLS = 40, 20
"""In roofline times, beside the timed rounds: references in float64, first calls, memory, warm-up, the recheck."""

PREPARE_S, REPLICATE_S = 10.0, 1.5
"""What a case costs beside its calls: a cold compilation, and a replicate's messages."""

START_S = 4.0
"""Until a process has imported what it needs; as many ranks on as few cores take as many times as long."""

DRAWN_BYTES_PER_S = 3e8
"""Making one set of inputs: drawn, copied and summed up."""

UNKNOWN_LATENCY_S = 0.0
"""Where no roof is known the case is taken to fill its own budget and no more."""

TRUST_S = 5.0
"""Seconds of steps as expected that stand against the first ones of a run, so that one odd step is not a rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Seconds that a case takes in a run."""

    prepare_s: float
    """Once: compile, check, weigh."""
    replicate_s: float
    """In each replicate."""

    def total_s(self, replicates: int) -> float:
        return self.prepare_s + replicates * self.replicate_s


def ranks_of(planned: PlannedCase) -> int:
    """Processes that the case needs at the same time."""
    return planned.case["ranks"] if contract(planned.case.operator).collective else 1


def estimate(planned: PlannedCase, method: Method, ceilings: Ceilings | None) -> Cost:
    """What a case takes: its own timed seconds, or what its rounds need, and what stands around them."""
    latency_s = roofline(planned.case, ceilings).latency_s or UNKNOWN_LATENCY_S
    drawn_s = contract(planned.case.operator).input_bytes(planned.case) / DRAWN_BYTES_PER_S
    rounds_s = [rounds * CALLS_PER_ROUND * latency_s for rounds in (method.min_rounds, FEWEST_ROUNDS)]
    timed_s = max(method.case_budget_s, min(rounds_s[0], max(2 * method.case_budget_s, rounds_s[1])))
    return Cost(
        prepare_s=PREPARE_S + PREPARE_CALLS * latency_s + 2 * drawn_s,
        replicate_s=REPLICATE_S + REPLICATE_CALLS * latency_s + drawn_s + timed_s,
    )


@dataclass(slots=True)
class Pace:
    """How long things take, as a factor on what was expected of them."""

    expected_s: float = 0.0
    took_s: float = 0.0

    def add(self, expected_s: float, took_s: float) -> None:
        self.expected_s += expected_s
        self.took_s += took_s

    @property
    def factor(self) -> float:
        return (self.took_s + TRUST_S) / (self.expected_s + TRUST_S)


@dataclass(slots=True)
class _Paces:
    prepare: Pace = field(default_factory=Pace)
    replicate: Pace = field(default_factory=Pace)


class Forecast:
    """What each case of a suite will take, the better the more has been seen."""

    def __init__(self, suite: Suite, ceilings: Ceilings | None, known: Mapping[str, Cost]) -> None:
        """`known`: what cases took on an earlier night, by case_id; how far that was from estimates scales the rest."""
        self.replicates = suite.method.replicates
        estimates = {entry.case.case_id: estimate(entry, suite.method, ceilings) for entry in suite.cases}
        self.known = {case_id for case_id in estimates if case_id in known}
        self._expected = estimates | {case_id: known[case_id] for case_id in self.known}
        self._of_known, self._of_estimates, self._starts = _Paces(), _Paces(), Pace()
        for case_id in self.known:
            self._of_estimates.prepare.add(estimates[case_id].prepare_s, known[case_id].prepare_s)
            self._of_estimates.replicate.add(estimates[case_id].replicate_s, known[case_id].replicate_s)

    def cost(self, case_id: str) -> Cost:
        """As far as is known now."""
        expected, paces = self._expected[case_id], self._paces(case_id)
        return Cost(
            prepare_s=expected.prepare_s * paces.prepare.factor,
            replicate_s=expected.replicate_s * paces.replicate.factor,
        )

    def total_s(self, case_id: str) -> float:
        return self.cost(case_id).total_s(self.replicates)

    def start_s(self, ranks: int) -> float:
        """Until so many processes are ready."""
        return START_S * ranks * self._starts.factor

    def prepared(self, case_id: str, took_s: float) -> None:
        """The case has been compiled, checked and weighed."""
        self._paces(case_id).prepare.add(self._expected[case_id].prepare_s, took_s)

    def measured(self, case_id: str, took_s: float) -> None:
        """The case has been measured in one replicate."""
        self._paces(case_id).replicate.add(self._expected[case_id].replicate_s, took_s)

    def started(self, ranks: int, took_s: float) -> None:
        self._starts.add(START_S * ranks, took_s)

    @property
    def blind(self) -> bool:
        """Whether nothing but rooflines is behind it."""
        return not self.known and self._of_estimates.replicate.took_s == 0.0

    def _paces(self, case_id: str) -> _Paces:
        return self._of_known if case_id in self.known else self._of_estimates


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """All cases of a suite in the order in which a night takes them, as far as it gets."""

    order: tuple[PlannedCase, ...]
    waits: Mapping[str, int]
    """case_id -> nights until its turn, 0 tonight; a case without one fits no night."""
    left_s: float
    """Of the budget, for the cases that rotate: what costs more fits no night."""


def plan_night(suite: Suite, cost_s: Mapping[str, float], last: Mapping[str, int], *, budget_s: float) -> Night:
    """The order of a night of `budget_s`, where each case costs `cost_s` by case_id.

    Up to CORE_SHARE of the budget goes to the cases with the most weight for their seconds, every night. The others
    follow by the night in which they were measured `last` (any numbers that grow), those that never were first: none
    starves; of the same night the cheap come first. Both take turns by the seconds that they need, so that a night that
    ends early ends so for both. What fits no night comes last.
    """
    costs = {entry.case.case_id: cost_s[entry.case.case_id] for entry in suite.cases}
    core, left_s = _core(suite.cases, costs, budget_s)
    waits = {entry.case.case_id: 0 for entry in core}
    rest = sorted(
        (entry for entry in suite.cases if entry.case.case_id not in waits),
        key=lambda entry: (last.get(entry.case.case_id, -1), costs[entry.case.case_id]),
    )
    rotating = [entry for entry in rest if costs[entry.case.case_id] <= left_s]
    hopeless = [entry for entry in rest if costs[entry.case.case_id] > left_s]
    night, spent_s = 0, 0.0
    for entry in rotating:
        case_id = entry.case.case_id
        if spent_s + costs[case_id] > left_s:
            night, spent_s = night + 1, 0.0
        spent_s += costs[case_id]
        waits[case_id] = night
    return Night(order=(*_by_seconds(core, rotating, costs), *hopeless), waits=waits, left_s=left_s)


def _core(cases: Sequence[PlannedCase], costs: Mapping[str, float], budget_s: float) -> tuple[list[PlannedCase], float]:
    """The cases that give the core's share the most weight, or everything where everything fits; and the budget left.

    Greedily by weight a second: within one case's weight of the best choice there is (Dantzig 1957).
    """
    if sum(costs.values()) <= budget_s:
        return list(cases), 0.0
    core: list[PlannedCase] = []
    spent_s = 0.0
    for entry in sorted(cases, key=lambda entry: -(entry.weight or 0.0) / costs[entry.case.case_id]):
        if spent_s + costs[entry.case.case_id] <= CORE_SHARE * budget_s:
            core.append(entry)
            spent_s += costs[entry.case.case_id]
    return core, budget_s - spent_s


def _by_seconds(
    one: Sequence[PlannedCase], other: Sequence[PlannedCase], costs: Mapping[str, float]
) -> list[PlannedCase]:
    """Both in their order; next comes the one that has had fewer seconds so far."""
    queues, spent_s = [list(one), list(other)], [0.0, 0.0]
    merged: list[PlannedCase] = []
    while queues[0] or queues[1]:
        which = 0 if queues[0] and (not queues[1] or spent_s[0] <= spent_s[1]) else 1
        entry = queues[which].pop(0)
        spent_s[which] += costs[entry.case.case_id]
        merged.append(entry)
    return merged
