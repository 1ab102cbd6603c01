"""The frame that most operators share: inputs by recipe, a formula in float64 as the truth, the usual implementations.

An operator file then holds what is its own: the recipe, the formula, the library's call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from bench_suite.contract import Case, Contract, Role
from bench_suite.operators.base import Implementation, Inputs, Operator, Origin, Runner, normal
from bench_suite.operators.compiled import compiled
from bench_suite.operators.result import Result
from bench_suite.operators.triton_candidate import triton_candidate

Prepare = Callable[[Case, torch.device], Runner]
Draw = Callable[..., torch.Tensor]
"""draw("x", "rows", "hidden", sd=2.0): normal values over these axes, by the case's seed."""


def recipe(build: Callable[[Case, Draw], Inputs]) -> Callable[[Case, int, torch.device, int], Inputs]:
    """`make` of an operator from what its inputs are; each tensor that `draw` gives is seeded by its own name."""

    def make(case: Case, seed: int, device: torch.device, rank: int) -> Inputs:
        def draw(tensor: str, *axes: str | int, mean: float = 0.0, sd: float = 1.0) -> torch.Tensor:
            shape = tuple(case[axis] if isinstance(axis, str) else axis for axis in axes)
            return normal(case, seed, device, tensor=tensor, shape=shape, mean=mean, sd=sd, rank=rank)

        return build(case, draw)

    return make


def in_float64(formula: Callable[..., Result]) -> Callable[[Case, Sequence[Inputs], int], Result]:
    """The truth: `formula` of the very inputs, floating-point ones widened to float64, on the CPU."""

    def reference(case: Case, inputs: Sequence[Inputs], rank: int) -> Result:
        local = (tensor.to("cpu") for tensor in inputs[rank])
        return formula(*(tensor.double() if tensor.is_floating_point() else tensor for tensor in local))

    return reference


def plain_operator(
    contract: Contract,
    *,
    make: Callable[[Case, int, torch.device, int], Inputs],
    reference: Callable[[Case, Sequence[Inputs], int], Result],
    naive: Runner | Implementation,
    optimized: Implementation,
    compiles: Implementation | None = None,
    triton: str | Implementation | None = None,
    more_triton: tuple[Implementation, ...] = (),
    others: tuple[Implementation, ...] = (),
    observe: Callable[[Case, Inputs, torch.Tensor], torch.Tensor] | None = None,
) -> Operator:
    """An operator with one naive, one optimized and one usual candidate.

    The candidate is a Triton kernel, `module` or `module.function`, on accelerators, where the suite has one, with
    `more_triton` beside it; elsewhere `compiles`: the naive formula by torch.compile, if nothing else is given.
    """
    if isinstance(naive, Implementation):
        assert compiles is not None, f"{contract.operator}: say what to compile, the naive arm is no plain formula"
        first, compiler = naive, compiles
    else:
        first, compiler = eager(naive), compiles or by_compiler(naive)

    def implementations(device_type: str) -> tuple[Implementation, ...]:
        if triton is not None and device_type != "cpu":
            return first, optimized, _kernel(triton), *more_triton, *others
        return first, optimized, compiler, *others

    return Operator(
        contract=contract,
        make=make,
        compute_reference=reference,
        list_implementations=implementations,
        observe=observe,
    )


def _kernel(named: str | Implementation) -> Implementation:
    if isinstance(named, Implementation):
        return named
    module, _, function = named.partition(".")
    return triton_candidate(module, function or "launch")


def eager(formula: Runner, name: str = "eager formula") -> Implementation:
    """The textbook, step by step."""
    return Implementation(role=Role.NAIVE, name=name, prepare=lambda case, device: formula)


def library(name: str, call: Runner, *, origin: Origin = Origin.VENDOR) -> Implementation:
    """The library's own call; GENERIC where it has none and its general calls are put together."""
    return Implementation(role=Role.OPTIMIZED, origin=origin, name=name, prepare=lambda case, device: call)


def chosen_library(name: str, prepare: Prepare, *, origin: Origin = Origin.VENDOR) -> Implementation:
    """The library's call, chosen by case and device."""
    return Implementation(role=Role.OPTIMIZED, origin=origin, name=name, prepare=prepare)


def by_compiler(formula: Runner, name: str = "torch.compile(formula)") -> Implementation:
    """torch.compile of a formula, for exactly the shapes of the case."""
    return candidate(name, lambda case, device: compiled(formula))


def candidate(name: str, prepare: Prepare, *, origin: Origin = Origin.GENERIC) -> Implementation:
    """Different code under test."""
    return Implementation(role=Role.CANDIDATE, name=name, prepare=prepare, origin=origin)
