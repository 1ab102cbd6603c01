"""An all-reduce and a GEMM that does not need it: one after the other, beside each other, in chunks."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.distributed as dist

from bench_suite.contract import Case, Role
from bench_suite.contracts.collectives_overlap import ALL_REDUCE_OVERLAP
from bench_suite.operators.base import Implementation, Inputs, Operator, Origin, normal

CHUNKS = 2


def _make(case: Case, seed: int, device: torch.device, rank: int) -> Inputs:
    m, n, k = case["M"], case["N"], case["K"]
    return (
        normal(case, seed, device, tensor="x", shape=(case["elements"],), rank=rank),
        normal(case, seed, device, tensor="a", shape=(m, k), rank=rank),
        normal(case, seed, device, tensor="weight", shape=(n, k), sd=1 / math.sqrt(k)),
    )


def _reference(case: Case, inputs: Sequence[Inputs], rank: int) -> tuple[torch.Tensor, ...]:
    wide = [[t.to("cpu", torch.float64) for t in entry] for entry in inputs]
    return torch.stack([entry[0] for entry in wide]).sum(0), wide[rank][1] @ wide[rank][2].T


def _reduce(x: torch.Tensor) -> torch.Tensor:
    out = x.clone()
    dist.all_reduce(out)
    return out


def _multiply(a: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.linear(a, weight)


def _one_after_the_other(x: torch.Tensor, a: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return _reduce(x), _multiply(a, weight)


def _beside(x: torch.Tensor, a: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
    out = x.clone()
    pending = dist.all_reduce(out, async_op=True)
    product = _multiply(a, weight)
    pending.wait()
    return out, product


def _in_chunks(x: torch.Tensor, a: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Several reductions in flight: the first is on the wire while the next is still copied."""
    out = x.clone()
    pending = [dist.all_reduce(part, async_op=True) for part in out.chunk(CHUNKS)]
    product = _multiply(a, weight)
    for one in pending:
        one.wait()
    return out, product


_IMPLEMENTATIONS = (
    Implementation(role=Role.NAIVE, name="all_reduce, then linear", prepare=lambda case, device: _one_after_the_other),
    Implementation(
        role=Role.OPTIMIZED,
        name="all_reduce(async_op=True) beside linear",
        origin=Origin.VENDOR,
        prepare=lambda case, device: _beside,
    ),
    Implementation(
        role=Role.CANDIDATE, name=f"{CHUNKS} all_reduces in flight", prepare=lambda case, device: _in_chunks
    ),
)

OPERATOR = Operator(
    contract=ALL_REDUCE_OVERLAP,
    make=_make,
    compute_reference=_reference,
    list_implementations=lambda device_type: _IMPLEMENTATIONS,
    parts={
        "communication": lambda x, a, weight: _reduce(x),
        "computation": lambda x, a, weight: _multiply(a, weight),
    },
)
