"""Top-k, top-p sampling on torch: sort the vocabulary, or select the k likeliest; and what of a token is compared."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch

from bench_suite.contract import Case, Role
from bench_suite.contracts.sampling import SAMPLING, boundary_slack
from bench_suite.contracts.softmax import LOGIT_SD
from bench_suite.operators.base import Implementation, Inputs, Origin, Runner, normal
from bench_suite.operators.compiled import compiled
from bench_suite.operators.frames import candidate, chosen_library, plain_operator
from bench_suite.operators.triton_candidate import triton_candidate


def _make(case: Case, seed: int, device: torch.device, rank: int) -> Inputs:
    shape = (case["rows"], case["columns"])
    logits = normal(case, seed, device, tensor="logits", shape=shape, sd=LOGIT_SD, rank=rank)
    digest = hashlib.blake2b(f"{seed}/u/{rank}".encode(), digest_size=8).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest, "big") >> 1)
    return logits, torch.rand(case["rows"], generator=generator).to(device)


def _kept(logits: torch.Tensor, top_k: int, top_p: float) -> torch.Tensor:
    """Probability of each token that is kept, 0 of the others, [rows, columns], by a sort of the whole vocabulary."""
    ordered = logits.sort(dim=-1, descending=True).values
    allowed = logits >= ordered[:, top_k - 1 : top_k]
    p = torch.softmax(logits.masked_fill(~allowed, -torch.inf), dim=-1)
    likelier, order = p.sort(dim=-1, descending=True)
    above = likelier.cumsum(-1) - likelier
    # Tied tokens share the probability above the first of them.
    above = torch.where(likelier == likelier.roll(1, -1), torch.inf, above)
    above[:, 0] = 0.0
    first = above.masked_fill(above.isinf(), -1.0).cummax(-1).values
    kept = torch.zeros_like(p).scatter_(-1, order, likelier.masked_fill(first >= top_p, 0.0))
    return torch.where(p > 0, kept, 0.0)


def _token(kept: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    """The first token at which the running sum exceeds u times the total; never one that is not kept."""
    running = kept.cumsum(-1)
    threshold = u[:, None].to(running.dtype) * running[:, -1:]
    return ((running > threshold) & (kept > 0)).int().argmax(-1)


def _prepare_sorted(case: Case, device: torch.device) -> Runner:
    top_k, top_p = case["top_k"], case["top_p_percent"] / 100

    def run(logits: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        """Textbook, in float32: two sorts of the whole vocabulary and a running sum over it."""
        return _token(_kept(logits.float(), top_k, top_p), u)

    return run


def _prepare_selected(case: Case, device: torch.device) -> Runner:
    """torch.topk first: what follows works on k tokens. Ties with the k-th beyond k need the whole vocabulary."""
    top_k, top_p = case["top_k"], case["top_p_percent"] / 100
    columns = case["columns"]
    wide = min(columns, 2 * top_k + 64)

    def run(logits: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        values, index = logits.topk(wide, dim=-1, sorted=True)
        tied_beyond = wide < columns and bool((values[:, -1] == values[:, top_k - 1]).any())
        if tied_beyond:
            return _token(_kept(logits.float(), top_k, top_p), u)
        order = index.argsort(dim=-1)  # back into the order of the vocabulary
        chosen = _token(_kept(values.float().gather(-1, order), top_k, top_p), u)
        return index.gather(-1, order).gather(-1, chosen[:, None]).squeeze(-1)

    return run


def _prepare_compiled(case: Case, device: torch.device) -> Runner:
    return compiled(_prepare_sorted(case, device))


def _reference(case: Case, inputs: Sequence[Inputs], rank: int) -> torch.Tensor:
    """The right token's distance from u."""
    return torch.zeros(case["rows"], dtype=torch.float64)


def _distance(case: Case, inputs: Inputs, token: torch.Tensor) -> torch.Tensor:
    """How far u is from the token's interval of cumulative probability; the least over the ways to decide at p."""
    if token.shape != (case["rows"],) or token.dtype != torch.int64:
        return torch.full((case["rows"],), torch.inf, dtype=torch.float64)
    logits, u = (tensor.to("cpu", torch.float64) for tensor in inputs)
    chosen = token.to("cpu")[:, None]
    best = torch.full((case["rows"],), torch.inf, dtype=torch.float64)
    inside = ((chosen >= 0) & (chosen < case["columns"])).squeeze(-1)
    chosen = chosen.clamp(0, case["columns"] - 1)
    slack = boundary_slack(case)
    for p in {case["top_p_percent"] / 100 + shift for shift in (-slack, 0.0, slack)}:
        kept = _kept(logits, case["top_k"], p)
        running = kept.cumsum(-1)
        high = (running.gather(-1, chosen) / running[:, -1:]).squeeze(-1)
        own = (kept.gather(-1, chosen) / running[:, -1:]).squeeze(-1)
        distance = torch.maximum(u - high, high - own - u).clamp(min=0.0)
        best = torch.minimum(best, torch.where((own > 0) & inside, distance, torch.inf))
    return best


OPERATOR = plain_operator(
    SAMPLING,
    make=_make,
    reference=_reference,
    naive=Implementation(role=Role.NAIVE, name="two sorts, running sum", prepare=_prepare_sorted),
    optimized=chosen_library("torch.topk, then sort of k", _prepare_selected, origin=Origin.GENERIC),
    compiles=candidate("torch.compile(two sorts, running sum)", _prepare_compiled),
    triton=triton_candidate(
        "sampling", settings=lambda case: {"top_k": case["top_k"], "top_p": case["top_p_percent"] / 100}
    ),
    observe=_distance,
)
