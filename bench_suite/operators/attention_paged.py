"""Decode attention over a paged cache on torch: gather each sequence's pages, then attend; a compiled or Triton one.

The cache lies in pages of `page` tokens, [pages, page, kv_heads, head_dim], as paged servers keep it (Kwon et al. 2023,
arXiv:2309.06180); torch has no attention call that reads a page table, so that its optimized form gathers first.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from bench_suite.contract import Case
from bench_suite.contracts.attention_decode import context_lengths
from bench_suite.contracts.attention_ragged import ATTENTION_DECODE_PAGED, SPARE_PAGES, pages_of
from bench_suite.operators.attention_decode import (
    formula_each,
    library_each,
    library_padded,
    padded_formula,
    reference_each,
)
from bench_suite.operators.base import Inputs, Origin, Runner, normal
from bench_suite.operators.frames import by_compiler, chosen_library, eager, plain_operator


def _make(case: Case, seed: int, device: torch.device, rank: int) -> Inputs:
    """Pages are dealt out in a seeded order; a table's unused entries are page 0, as servers leave them."""
    needed = pages_of(case)
    pages = sum(needed) + SPARE_PAGES
    cache = (pages, case["page"], case["kv_heads"], case["head_dim"])
    queries = (case["batch"], case["heads"], case["head_dim"])
    query = normal(case, seed, device, tensor="query", shape=queries, rank=rank)
    key = normal(case, seed, device, tensor="key", shape=cache, rank=rank)
    value = normal(case, seed, device, tensor="value", shape=cache, rank=rank)
    order = torch.randperm(pages, generator=torch.Generator().manual_seed(seed)).int()
    table = torch.zeros(case["batch"], max(needed), dtype=torch.int32)
    start = 0
    for row, count in enumerate(needed):
        table[row, :count] = order[start : start + count]
        start += count
    lengths = torch.tensor(context_lengths(case), dtype=torch.int32)
    return query, key, value, table.to(device), lengths.to(device)


def _gathered(cache: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """[batch, kv_heads, most pages x page, head_dim]: every sequence's pages one after the other."""
    batch, most = table.shape
    pages = cache[table.long()]  # [batch, most, page, kv_heads, head_dim]
    return pages.reshape(batch, most * cache.shape[1], *cache.shape[2:]).transpose(1, 2)


def _after_gathering(attend: Runner) -> Runner:
    def run(
        query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, table: torch.Tensor, lengths: torch.Tensor
    ) -> torch.Tensor:
        result = attend(query, _gathered(key, table), _gathered(value, table), lengths)
        assert isinstance(result, torch.Tensor)
        return result

    return run


def _compilable(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, table: torch.Tensor, lengths: torch.Tensor
) -> torch.Tensor:
    return padded_formula(query, _gathered(key, table), _gathered(value, table), lengths)


def _reference(case: Case, inputs: Sequence[Inputs], rank: int) -> torch.Tensor:
    query, key, value, table, lengths = (tensor.to("cpu") for tensor in inputs[rank])
    return reference_each(case, [(query, _gathered(key, table), _gathered(value, table), lengths)], 0)


def _prepare_library(case: Case, device: torch.device) -> Runner:
    return _after_gathering(library_each if device.type == "cpu" else library_padded)


OPERATOR = plain_operator(
    ATTENTION_DECODE_PAGED,
    make=_make,
    reference=_reference,
    naive=eager(_after_gathering(formula_each), "gather pages, eager formula a sequence"),
    optimized=chosen_library("gather pages, scaled_dot_product_attention", _prepare_library, origin=Origin.GENERIC),
    compiles=by_compiler(_compilable, "torch.compile(gather pages, padded formula)"),
    triton="attention_paged",
)
