"""What an operator is on the torch side: inputs, truth, and the implementations that compete."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

import torch

from bench_suite.contract import Case, Contract, Extreme, Role
from bench_suite.operators.compare import Comparison, compare, verify
from bench_suite.operators.result import TORCH_DTYPES, Result

Inputs = tuple[torch.Tensor, ...]
Runner = Callable[..., Result]

POOL_ELEMENTS = 4_194_301
"""A prime: rows of any other length start at another place of the repeated pool, so that no two tiles are alike."""


class Unsupported(Exception):  # noqa: N818 - a state of the device, not a fault
    """This implementation cannot run on this device or dtype; the message says why."""


class Origin(StrEnum):
    """Who wrote the code that runs."""

    VENDOR = "vendor"
    """A library call made for the operator."""
    HANDWRITTEN = "handwritten"
    """A kernel of this suite or of the user."""
    GENERIC = "generic"
    """Composed of general operations, by hand or by a compiler."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Implementation:
    """Somebody's code that claims to keep a contract."""

    role: Role
    name: str
    prepare: Callable[[Case, torch.device], Runner]
    """May compile or choose a configuration, untimed. The function it returns must not change its inputs.

    Raises Unsupported where this device or dtype has no such code.
    """
    origin: Origin = Origin.GENERIC
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """A contract with its code."""

    contract: Contract
    make: Callable[[Case, int, torch.device, int], Inputs]
    compute_reference: Callable[[Case, Sequence[Inputs], int], Result]
    """From the input tuples of all ranks (one for a plain operator) to the float64 result on the CPU."""
    list_implementations: Callable[[str], tuple[Implementation, ...]]
    observe: Callable[[Case, Inputs, torch.Tensor], torch.Tensor] | None = None
    """Of a result that no tolerance fits, as a sampled token: what of it is compared, in float64 on the CPU."""

    parts: Mapping[str, Runner] = field(default_factory=lambda: MappingProxyType({}))
    """Pieces of the work on the same inputs, `communication` and `computation`: timed beside the arms, they tell how
    much of the one each arm hides behind the other."""

    def make_inputs(self, case: Case, seed: int, device: torch.device | str, rank: int = 0) -> Inputs:
        """The input tensors in call order: the same values on every device for the same seed."""
        return self.make(case, seed, torch.device(device), rank)

    def reference(self, case: Case, inputs: Inputs | Sequence[Inputs], rank: int = 0) -> Result:
        """The truth in float64 on the CPU. For a collective `inputs` is the list of all ranks' input tuples."""
        if self.contract.collective:
            return self.compute_reference(case, inputs, rank)  # type: ignore[arg-type]
        return self.compute_reference(case, [inputs], rank)  # type: ignore[list-item]

    def check(self, case: Case, inputs: Inputs, output: Result, reference: Result) -> Comparison:
        """Is `output` right? By the contract's tolerance for each result."""
        if self.observe is None:
            return verify(self.contract, case, output, reference)
        assert isinstance(output, torch.Tensor) and isinstance(reference, torch.Tensor)
        return compare(self.observe(case, inputs, output), reference, self.contract.tolerance(case))

    def private(self, inputs: Inputs) -> Inputs:
        """The inputs for one call: copies of those that the call writes into, the others as they are."""
        names = (words.split()[0] for words in self.contract.tensors)
        return tuple(t.clone() if name in self.contract.updates else t for name, t in zip(names, inputs, strict=True))

    def kept(self, inputs: Inputs) -> Inputs:
        """Those inputs that a call must leave alone."""
        names = (words.split()[0] for words in self.contract.tensors)
        return tuple(t for name, t in zip(names, inputs, strict=True) if name not in self.contract.updates)

    def implementations(self, device_type: str) -> tuple[Implementation, ...]:
        """What competes on a device type ("cpu", "cuda", ...): one naive, one optimized, any number of candidates."""
        return self.list_implementations(device_type)


def normal(
    case: Case,
    seed: int,
    device: torch.device,
    *,
    tensor: str,
    shape: tuple[int, ...],
    mean: float = 0.0,
    sd: float = 1.0,
    rank: int = 0,
) -> torch.Tensor:
    """Normal values in the case's dtype, a function of seed, tensor name and rank alone.

    Drawn on the CPU and copied, so that all devices see the same values. A tensor larger than POOL_ELEMENTS repeats
    its values: drawing the 525 million weights of a vocabulary projection takes seconds, copying them does not.
    """
    elements = 1
    for size in shape:
        elements *= size
    digest = hashlib.blake2b(f"{seed}/{tensor}/{rank}".encode(), digest_size=8).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest, "big") >> 1)
    pool = torch.randn(min(elements, POOL_ELEMENTS), generator=generator).mul_(sd).add_(mean)
    pool = pool.to(TORCH_DTYPES[case.dtype]).to(device)
    if elements == pool.numel():
        return pool.view(shape)
    flat = torch.empty(elements, dtype=pool.dtype, device=device)
    for start in range(0, elements, POOL_ELEMENTS):
        part = flat[start : start + POOL_ELEMENTS]
        part.copy_(pool[: part.numel()])
    return flat.view(shape)


def with_extreme(inputs: Inputs, extreme: Extreme) -> Inputs:
    """The inputs with their first tensor scaled, and its first element planted, as the contract's extreme says."""
    first = inputs[0] * extreme.scale
    if extreme.planted is not None:
        first.view(-1)[0] = extreme.planted
    return (first, *inputs[1:])
