"""What can be asked of a shape: its sizes and what follows from them, each question with its words.

Simple questions come first: of two that separate the cases equally well, the first one is asked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

MULTIPLES = (8, 16, 32, 64, 128, 256)
"""What kernels tile by and vectorise by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A case in shape space."""

    case_id: str
    axes: Mapping[str, tuple[float, ...]]
    """Axis -> its size; the sizes of a ragged axis."""
    operator: str = ""
    phase: str = ""
    dtype: str = ""
    flops: float | None = None
    traffic_bytes: float | None = None
    """Compulsory traffic; None where it is not known."""

    @property
    def intensity(self) -> float | None:
        """FLOP per byte; None where either is not known."""
        return self.flops / self.traffic_bytes if self.flops and self.traffic_bytes else None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Question:
    """A property of shapes."""

    words: str
    negated: str
    holds: NDArray[np.bool_]
    """Of each case."""
    subject: str = ""
    bound: float | None = None
    """Of a question of size (`subject` is `bound` or more): several of them on one path say only the tightest."""
    also: tuple[str, ...] = ()
    """Other words that hold of exactly these cases ..."""
    also_negated: tuple[str, ...] = ()
    """... and their negations."""


MOST_ALSO = 3


def questions_of(shapes: Sequence[Shape]) -> tuple[Question, ...]:
    """Every question that some of the cases answer with yes and some with no; of equal ones the simplest, which names
    the others."""
    kept: dict[bytes, Question] = {}
    for question in _all(shapes):
        yes, no = question.holds.tobytes(), (~question.holds).tobytes()
        if not 0 < int(question.holds.sum()) < len(shapes):
            continue
        if yes in kept:
            kept[yes] = _alike(kept[yes], question.words, question.negated)
        elif no in kept:
            kept[no] = _alike(kept[no], question.negated, question.words)
        else:
            kept[yes] = question
    return tuple(kept.values())


def _alike(question: Question, words: str, negated: str) -> Question:
    if len(question.also) >= MOST_ALSO:
        return question
    return replace(question, also=(*question.also, words), also_negated=(*question.also_negated, negated))


def sizes_of(case: Shape) -> Mapping[str, float]:
    """The sizes of a case by name: those of its axes; of a ragged axis how many, the longest and the mean."""
    found: dict[str, float] = {}
    for name, values in case.axes.items():
        if len(values) == 1:
            found[name] = values[0]
        elif values:
            found |= {
                f"count of {name}": float(len(values)),
                f"longest {name}": max(values),
                f"mean {name}": sum(values) / len(values),
            }
    return found


def derived_of(case: Shape) -> Mapping[str, float]:
    """What follows from the sizes: products of two axes, and the arithmetic intensity where it is known."""
    plain = {name: values[0] for name, values in case.axes.items() if len(values) == 1}
    found = {f"{a} × {b}": plain[a] * plain[b] for a, b in combinations(plain, 2)}
    if case.intensity is not None:
        found["FLOP per byte"] = case.intensity
    return found


def _all(cases: Sequence[Shape]) -> Iterator[Question]:
    for name in ("phase", "dtype", "operator"):
        yield from _kinds(name, [getattr(case, name) for case in cases])
    sizes = [sizes_of(case) for case in cases]
    shared = [name for name in sizes[0] if all(name in of for of in sizes)] if sizes else []
    for name in shared:
        yield from _bounds(name, [of[name] for of in sizes])
    for name in shared:
        yield from _divisibility(name, [of[name] for of in sizes])
    derived = [derived_of(case) for case in cases]
    for name in derived[0] if derived else ():
        if all(name in of for of in derived):
            yield from _bounds(name, [of[name] for of in derived])


def _kinds(name: str, values: Sequence[str]) -> Iterator[Question]:
    for value in sorted(set(values)):
        holds = np.array([v == value for v in values])
        yield Question(words=f"{name} is {value}", negated=f"{name} is not {value}", holds=holds)


def _bounds(name: str, values: Sequence[float]) -> Iterator[Question]:
    """One question between any two neighbouring sizes; both answers name a size that was measured."""
    array = np.array(values)
    known = np.unique(array)
    for below, at in zip(known[:-1].tolist(), known[1:].tolist(), strict=True):
        yield Question(
            words=f"{name} ≥ {_number(at)}",
            negated=f"{name} ≤ {_number(below)}",
            holds=array >= at,
            subject=name,
            bound=at,
        )


def _divisibility(name: str, values: Sequence[float]) -> Iterator[Question]:
    if any(v != int(v) for v in values):
        return
    whole = np.array([int(v) for v in values], dtype=np.int64)
    for m in MULTIPLES:
        if m < int(whole.max()):
            yield Question(words=f"{name} % {m} ≠ 0", negated=f"{name} % {m} = 0", holds=whole % m != 0)
    powers = np.array([v > 0 and v & (v - 1) == 0 for v in whole.tolist()])
    yield Question(words=f"{name} is a power of two", negated=f"{name} is no power of two", holds=powers)


def _number(value: float) -> str:
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}" if value else "0"
