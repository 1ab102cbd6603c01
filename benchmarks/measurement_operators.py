"""What the methods measure: one callable, in a fresh process, on inputs that the caches do not hold.

Every method gets the same callables with the product's own arena under them, so that cache control, which no peer has
on a CPU, is given to all: what is compared is the way of measuring. Both labels share the arena and the function: the
true ratio is 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from bench_suite.contract import Phase, Role, parse_case_id
from bench_suite.operators.registry import operator
from collector.node.arena import Arena
from collector.node.devices.cpu import last_level_cache_bytes

TRIAD_ELEMENTS = 2 * 2**20
"""8 MiB an array: three of them do not fit the L2 cache, and the arena's sets not the L3."""
SEED = 20_261_130

Call = Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One operator of the comparison; `case_id` is empty for the triad, which is no operator of the product."""

    name: str
    title: str
    case_id: str


SUBJECTS = (
    Subject(name="gemm", title="GEMM 384³", case_id="gemm[fp32,M=384,N=384,K=384]"),
    Subject(name="rms_norm", title="RMSNorm 443 × 4,096", case_id="rms_norm[fp32,rows=443,hidden=4096]"),
    Subject(name="triad", title="triad x + 3 y, 8 MiB arrays", case_id=""),
)


def subject(name: str) -> Subject:
    return next(s for s in SUBJECTS if s.name == name)


class Opener:
    """Makes the call of one subject in whatever process asks: inputs are made once, their arena by each process."""

    def __init__(self, chosen: Subject) -> None:
        self._function, self._inputs = _product_operator(chosen.case_id) if chosen.case_id else _triad()
        self._function(*self._inputs)  # what a library loads at its first call, it loads here

    def __call__(self) -> Call:
        """Called twice already: what a method then times is warm code on cold inputs."""
        function, arena = self._function, Arena(self._inputs, cache_bytes=last_level_cache_bytes())

        def call() -> object:
            return function(*arena.next())

        call()
        call()
        return call


def _product_operator(case_id: str) -> tuple[Callable[..., object], tuple[torch.Tensor, ...]]:
    case = parse_case_id(case_id, Phase.PREFILL)
    found = operator(case.operator)
    device = torch.device("cpu")
    optimized = next(i for i in found.implementations("cpu") if i.role is Role.OPTIMIZED)
    return optimized.prepare(case, device), tuple(found.make_inputs(case, SEED, device, 0))


def _triad() -> tuple[Callable[..., object], tuple[torch.Tensor, ...]]:
    generator = torch.Generator().manual_seed(SEED)
    x, y = (torch.randn(TRIAD_ELEMENTS, generator=generator) for _ in range(2))

    def triad(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.add(a, b, alpha=3.0)

    return triad, (x, y)
