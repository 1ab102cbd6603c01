"""Collectives on torch.distributed's default group: sends and receives, the backend's own call, another algorithm.

Every rank calls the same implementation with its own inputs. None changes its inputs; each allocates its result, so
that arms differ by the algorithm alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist

from bench_suite.contract import Case, Contract, Role
from bench_suite.contracts.collectives import ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, REDUCE_SCATTER, SEND_RECV
from bench_suite.operators.base import Implementation, Inputs, Operator, Origin, Runner, normal


def _make(case: Case, seed: int, device: torch.device, rank: int) -> Inputs:
    elements = case["elements"] // case["ranks"] if case.operator == "all_gather" else case["elements"]
    return (normal(case, seed, device, tensor="x", shape=(elements,), rank=rank),)


def _wide(inputs: Sequence[Inputs]) -> list[torch.Tensor]:
    return [entry[0].to("cpu", torch.float64) for entry in inputs]


def _sum(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.stack(list(tensors)).sum(0)


def _neighbour(x: torch.Tensor) -> torch.Tensor:
    """Sends x to the next rank of the ring and returns what the one before sent."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if ranks == 1:
        return x.clone()
    out = torch.empty_like(x)
    for request in (dist.isend(x, (rank + 1) % ranks), dist.irecv(out, (rank - 1) % ranks)):
        assert request is not None
        request.wait()
    return out


def _own(x: torch.Tensor, rank: int, ranks: int) -> torch.Tensor:
    return x.chunk(ranks)[rank] if ranks > 1 else x


# The truth, from all ranks' inputs.


def _reference_all_reduce(case: Case, inputs: Sequence[Inputs], rank: int) -> torch.Tensor:
    return _sum(_wide(inputs))


def _reference_all_gather(case: Case, inputs: Sequence[Inputs], rank: int) -> torch.Tensor:
    return torch.cat(_wide(inputs))


def _reference_reduce_scatter(case: Case, inputs: Sequence[Inputs], rank: int) -> torch.Tensor:
    return _own(_sum(_wide(inputs)), rank, case["ranks"])


def _reference_all_to_all(case: Case, inputs: Sequence[Inputs], rank: int) -> torch.Tensor:
    return torch.cat([_own(x, rank, case["ranks"]) for x in _wide(inputs)])


def _reference_send_recv(case: Case, inputs: Sequence[Inputs], rank: int) -> torch.Tensor:
    return _wide(inputs)[rank - 1]


# Naive: every rank sends to every other, then computes alone.


def _exchange(parts: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Sends parts[r] to each rank r and returns what each rank sent here, own part included."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    received = [parts[rank] if peer == rank else torch.empty_like(parts[rank]) for peer in range(ranks)]
    pending = []
    for peer in range(ranks):
        if peer != rank:
            pending.append(dist.isend(parts[peer].contiguous(), peer))
            pending.append(dist.irecv(received[peer], peer))
    for request in pending:
        assert request is not None
        request.wait()
    return received


def _naive_all_reduce(x: torch.Tensor) -> torch.Tensor:
    return _added(_exchange([x] * dist.get_world_size()))


def _naive_all_gather(x: torch.Tensor) -> torch.Tensor:
    return torch.cat(_exchange([x] * dist.get_world_size()))


def _naive_reduce_scatter(x: torch.Tensor) -> torch.Tensor:
    return _added(_exchange(x.chunk(dist.get_world_size())))


def _naive_all_to_all(x: torch.Tensor) -> torch.Tensor:
    return torch.cat(_exchange(x.chunk(dist.get_world_size())))


def _added(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    total = tensors[0].clone()
    for tensor in tensors[1:]:
        total += tensor
    return total


# Optimized: the backend's own call.


def _own_all_reduce(x: torch.Tensor) -> torch.Tensor:
    out = x.clone()
    dist.all_reduce(out)
    return out


def _own_all_gather(x: torch.Tensor) -> torch.Tensor:
    out = x.new_empty(x.numel() * dist.get_world_size())
    dist.all_gather_into_tensor(out, x)
    return out


def _own_reduce_scatter(x: torch.Tensor) -> torch.Tensor:
    out = x.new_empty(x.numel() // dist.get_world_size())
    dist.reduce_scatter_tensor(out, x)
    return out


def _own_all_to_all(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    dist.all_to_all_single(out, x)
    return out


def _own_send_recv(x: torch.Tensor) -> torch.Tensor:
    """Both in one batch, as pipeline schedules post them."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if ranks == 1:
        return x.clone()
    out = torch.empty_like(x)
    both = [dist.P2POp(dist.isend, x, (rank + 1) % ranks), dist.P2POp(dist.irecv, out, (rank - 1) % ranks)]
    for request in dist.batch_isend_irecv(both):
        request.wait()
    return out


# Candidate: another algorithm.


def _two_step_all_reduce(x: torch.Tensor) -> torch.Tensor:
    """Reduce-scatter, then all-gather; the buffer is padded to a multiple of the ranks."""
    ranks = dist.get_world_size()
    padded = torch.nn.functional.pad(x, (0, -x.numel() % ranks))
    return _own_all_gather(_own_reduce_scatter(padded))[: x.numel()].contiguous()


def _collective(
    contract: Contract,
    reference: Callable[[Case, Sequence[Inputs], int], torch.Tensor],
    naive: Runner,
    optimized: Runner,
    optimized_name: str,
    candidates: tuple[tuple[str, Runner], ...] = (),
) -> Operator:
    def entry(role: Role, name: str, runner: Runner) -> Implementation:
        origin = Origin.VENDOR if role is Role.OPTIMIZED else Origin.GENERIC
        return Implementation(role=role, name=name, origin=origin, prepare=lambda case, device: runner)

    every = (
        entry(Role.NAIVE, "isend + irecv to every rank", naive),
        entry(Role.OPTIMIZED, optimized_name, optimized),
        *(entry(Role.CANDIDATE, name, runner) for name, runner in candidates),
    )
    return Operator(
        contract=contract, make=_make, compute_reference=reference, list_implementations=lambda device_type: every
    )


OPERATORS = {
    "all_reduce": _collective(
        ALL_REDUCE,
        _reference_all_reduce,
        _naive_all_reduce,
        _own_all_reduce,
        "torch.distributed.all_reduce",
        (("reduce_scatter + all_gather", _two_step_all_reduce),),
    ),
    "all_gather": _collective(
        ALL_GATHER,
        _reference_all_gather,
        _naive_all_gather,
        _own_all_gather,
        "torch.distributed.all_gather_into_tensor",
    ),
    "reduce_scatter": _collective(
        REDUCE_SCATTER,
        _reference_reduce_scatter,
        _naive_reduce_scatter,
        _own_reduce_scatter,
        "torch.distributed.reduce_scatter_tensor",
    ),
    "all_to_all": _collective(
        ALL_TO_ALL,
        _reference_all_to_all,
        _naive_all_to_all,
        _own_all_to_all,
        "torch.distributed.all_to_all_single",
    ),
    "send_recv": _collective(
        SEND_RECV,
        _reference_send_recv,
        _neighbour,
        _own_send_recv,
        "torch.distributed.batch_isend_irecv",
    ),
}
