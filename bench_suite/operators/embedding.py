"""Embedding on torch: one copy a token, the library's call, and a compiled candidate."""

from __future__ import annotations

import torch

from bench_suite.contract import Case
from bench_suite.contracts.embedding import EMBEDDING
from bench_suite.operators.base import Inputs, normal
from bench_suite.operators.frames import by_compiler, eager, library, plain_operator

_STRIDE = 7919
"""A prime: neighbouring tokens' rows lie far apart in the table."""


def _make(case: Case, seed: int, device: torch.device, rank: int) -> Inputs:
    table = normal(case, seed, device, tensor="table", shape=(case["vocab"], case["hidden"]), rank=rank)
    return table, ((torch.arange(case["rows"]) + seed + rank) * _STRIDE % case["vocab"]).to(device)


def _indexed(table: torch.Tensor, token: torch.Tensor) -> torch.Tensor:
    return table[token]


def _one_by_one(table: torch.Tensor, token: torch.Tensor) -> torch.Tensor:
    """Textbook: each token's row copied alone."""
    out = table.new_empty(token.shape[0], table.shape[1])
    for row, index in enumerate(token.tolist()):
        out[row].copy_(table[index])
    return out


def _library(table: torch.Tensor, token: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.embedding(token, table)


OPERATOR = plain_operator(
    EMBEDDING,
    make=_make,
    reference=lambda case, inputs, rank: _indexed(*(tensor.to("cpu") for tensor in inputs[rank])).double(),
    naive=eager(_one_by_one, "a copy a token"),
    optimized=library("torch.nn.functional.embedding", _library),
    compiles=by_compiler(_indexed, "torch.compile(table[token])"),
)
