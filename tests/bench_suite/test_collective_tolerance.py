"""Sums over ranks in the tensors' own dtype: every order of adding passes, and what is not a sum of them fails."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch

from bench_suite.contract import Case, DType, Phase
from bench_suite.contracts import contract
from bench_suite.contracts.error_bounds import FALSE_ALARM, largest_normal
from bench_suite.operators.compare import verify
from bench_suite.operators.registry import operator
from bench_suite.operators.result import TORCH_DTYPES

REDUCTIONS = ("all_reduce", "reduce_scatter")
SIXTEEN_BITS_SUMS = 1 << 20
PLANTED_SUMS = 1 << 14
TILE = slice(512, 768)
Sum = Callable[[list[torch.Tensor]], torch.Tensor]


def _case(ranks: int, elements: int, dtype: DType, name: str = "all_reduce") -> Case:
    return contract(name).case({"ranks": ranks, "elements": elements}, dtype, Phase.DECODE)


def _inputs(case: Case) -> list[tuple[torch.Tensor, ...]]:
    return [operator(case.operator).make_inputs(case, 3, "cpu", rank=rank) for rank in range(case["ranks"])]


def _chain(terms: list[torch.Tensor]) -> torch.Tensor:
    total = terms[0].clone()
    for term in terms[1:]:
        total += term
    return total


def _tree(terms: list[torch.Tensor]) -> torch.Tensor:
    while len(terms) > 1:
        terms = [_chain(terms[at : at + 2]) for at in range(0, len(terms), 2)]
    return terms[0]


def _ring(terms: list[torch.Tensor]) -> torch.Tensor:
    """Each part of the buffer is a chain that begins at another rank."""
    parts = [[term.chunk(len(terms))[part] for term in terms] for part in range(len(terms))]
    return torch.cat([_chain(part[at:] + part[:at]) for at, part in enumerate(parts)])


def _upwards(terms: list[torch.Tensor]) -> torch.Tensor:
    """Every partial sum rounded up instead of to nearest."""
    total = terms[0].clone()
    for term in terms[1:]:
        exact = total.double() + term.double()
        total += term
        total = torch.where(total.double() < exact, torch.nextafter(total, torch.full_like(total, math.inf)), total)
    return total


@pytest.mark.parametrize("add", [_chain, _tree, _ring], ids=lambda add: add.__name__.strip("_"))
@pytest.mark.parametrize("ranks", [4, 8])
def test_a_million_sums_in_any_order_are_right(ranks: int, add: Sum) -> None:
    """In bf16, where every partial sum is rounded to 8 bits, no element of a million is called wrong."""
    case = _case(ranks, SIXTEEN_BITS_SUMS, DType.BF16)
    inputs = _inputs(case)
    found = verify(contract("all_reduce"), case, add([x for (x,) in inputs]), _reference(case, inputs))
    assert found.ok, found.reason


def test_the_tolerance_grows_with_how_many_sums_there_are() -> None:
    """The largest of more errors lies further out; two ranks round once, to nearest, however many sums there are."""
    allowed = contract("all_reduce").tolerance
    found = [allowed(_case(4, 1 << power, DType.BF16)).absolute for power in range(0, 30, 5)]
    assert all(few < many for few, many in pairwise(found))
    assert found[-1] < 2 * found[0]
    assert [allowed(_case(2, 1 << power, DType.BF16)).absolute for power in (0, 30)] == [0.0, 0.0]


def test_the_largest_normal_number_by_its_tail() -> None:
    """Against the exact tail of a normal number: at most FALSE_ALARM for all, not twenty times less."""
    for count in (1, 1000, 10**7):
        exact = count * math.erfc(largest_normal(count) / math.sqrt(2))
        assert FALSE_ALARM / 20 < exact < FALSE_ALARM
    assert largest_normal(0) == 0.0


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("ranks", [3, 8, 200])
def test_the_formula_by_hand(name: str, ranks: int) -> None:
    """Partial sums of 2 .. n-1 terms, added term by term: at most the worst case, and what random signs leave of it."""
    elements, u = 1000 * ranks, DType.FP32.unit_roundoff
    worst = square = 0.0
    for terms in range(2, ranks):
        worst += terms**0.5
        square += terms
    z = (2 * math.log(2 * elements * (ranks - 2) / FALSE_ALARM)) ** 0.5
    random = (2 * math.log(2 * elements / FALSE_ALARM) * square) ** 0.5
    found = contract(name).tolerance(_case(ranks, elements, DType.FP32, name))
    assert found.absolute == pytest.approx(u * z * min(worst, random), rel=1e-4)
    assert found.relative == pytest.approx(u)
    assert (random < worst) == (ranks == 200)


def _reference(case: Case, inputs: list[tuple[torch.Tensor, ...]]) -> torch.Tensor:
    found = operator(case.operator).reference(case, inputs, 0)
    assert isinstance(found, torch.Tensor)
    return found


def _without_the_last(terms: list[torch.Tensor]) -> torch.Tensor:
    return _chain(terms[:-1])


def _tile_without_the_last(terms: list[torch.Tensor]) -> torch.Tensor:
    total = _chain(terms)
    total[TILE] = _chain([term[TILE] for term in terms[:-1]])
    return total


def _tile_twice(terms: list[torch.Tensor]) -> torch.Tensor:
    total = _chain(terms)
    total[TILE] += terms[0][TILE]
    return total


@pytest.mark.parametrize("plant", [_without_the_last, _tile_without_the_last, _tile_twice])
@pytest.mark.parametrize("dtype", contract("all_reduce").dtypes)
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_a_missing_rank_is_caught(ranks: int, dtype: DType, plant: Sum) -> None:
    """One rank left out, or added twice, everywhere or in one tile of 256 elements, in every dtype."""
    case = _case(ranks, PLANTED_SUMS, dtype)
    inputs = _inputs(case)
    terms, reference = [x for (x,) in inputs], _reference(case, inputs)
    assert verify(contract("all_reduce"), case, _chain(terms), reference).ok
    assert not verify(contract("all_reduce"), case, plant(terms), reference).ok


@pytest.mark.parametrize("narrow", [DType.BF16, DType.FP16])
@pytest.mark.parametrize("ranks", [2, 8])
def test_one_tile_rounded_to_16_bits_is_caught_in_fp32(ranks: int, narrow: DType) -> None:
    """A single rounding more of 256 sums, as where a message was compressed."""
    case = _case(ranks, PLANTED_SUMS, DType.FP32)
    inputs = _inputs(case)
    total = _chain([x for (x,) in inputs])
    total[TILE] = total[TILE].to(TORCH_DTYPES[narrow]).to(total.dtype)
    assert not verify(contract("all_reduce"), case, total, _reference(case, inputs)).ok


@pytest.mark.parametrize("dtype", contract("all_reduce").dtypes)
def test_one_tile_rounded_up_is_caught_between_two_ranks(dtype: DType) -> None:
    """Two ranks round once and to nearest: the other neighbour of the exact sum is wrong."""
    case = _case(2, PLANTED_SUMS, dtype)
    inputs = _inputs(case)
    terms, reference = [x for (x,) in inputs], _reference(case, inputs)
    total = _chain(terms)
    total[TILE] = _upwards([term[TILE] for term in terms])
    assert not verify(contract("all_reduce"), case, total, reference).ok
