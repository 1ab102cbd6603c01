"""Shapes in words, for people: thousands with commas, a middle dot between axes, the dtype last."""

from __future__ import annotations

from collections.abc import Sequence

from bench_suite.contract import Case


def count(value: int) -> str:
    """`28,672`."""
    return f"{value:,}"


def shape_words(case: Case, *parts: str) -> str:
    """`M 16 · N 28,672 · K 4,096, bf16`, with a word on the cache where inputs stay warm."""
    warm = ", warm cache" if case.cache == "warm" else ""
    return f"{' · '.join(parts)}, {case.dtype.value}{warm}"


def axis_words(case: Case, names: Sequence[str]) -> str:
    """The plain axes in order, each `name 1,234`."""
    return shape_words(case, *(f"{name} {count(case[name])}" for name in names))
