"""Where in shape space a regression lies: a small decision tree, stated only if it holds on cases it has not seen.

Each case is a shape and whether it moved. The tree may ask at most three questions on the way to a leaf (classification
trees of Breiman et al. 1984, Gini impurity, both classes weighing the same); its leaves that moved are put into words:
"phase is decode and M ≥ 64 and N % 128 ≠ 0". The cases are then split into ten parts, each told by a tree that was
grown on the other nine. Only the counts of that decide whether the rule is said.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from detection.shape_features import Question, Shape, questions_of

Bools = NDArray[np.bool_]

LEAST_MOVED = 3
LEAST_STILL = 3
LEAST_CASES = 8
"""Fewer cases than these have no pattern that could be told from luck."""
LEAST_RIGHT = 0.8
"""Of the cases that moved, and of those that the rule names, the share that must be right when held out ..."""
LARGEST_P = 0.01
"""... and the one-sided p of Fisher's exact test on the held-out answers must not be above this."""
FOLDS = 10
DEPTH = 3
LEAST_LEAF = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeCase:
    """A shape, and whether it moved."""

    shape: Shape
    moved: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeRule:
    """A border in shape space that held on held-out cases."""

    words: str
    """The condition: "M ≥ 64 and N % 128 ≠ 0"; alternatives are joined by ", or "."""
    clauses: tuple[tuple[str, ...], ...]
    inside: int
    """Cases that the rule names, and how many of them moved."""
    inside_moved: int
    outside: int
    outside_moved: int
    held_out_right: int
    """Cases told rightly by a tree that had not seen them, of `held_out`."""
    held_out: int
    p_value: float
    """Fisher's exact test on the held-out answers, one-sided."""
    also: tuple[str, ...] = ()
    """Of a rule of one condition: others that name exactly the same cases, so that these cannot be told apart."""

    @property
    def sentence(self) -> str:
        """In words, with the counts."""
        same = f" (the same cases: {'; '.join(self.also)})" if self.also else ""
        return (
            f"It lies where {self.words}{same}: {self.inside_moved} of {self.inside} cases there moved, "
            f"{self.outside_moved} of {self.outside} elsewhere; "
            f"{self.held_out_right} of {self.held_out} held-out cases are told rightly."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeAnswer:
    """A rule, or a sentence that says why there is none."""

    rule: ShapeRule | None
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """A question and the answer that leads on."""

    question: int
    answer: bool


_Path = tuple[_Step, ...]


def find_shape_rule(cases: Sequence[ShapeCase]) -> ShapeAnswer:
    """The border between the cases that moved and those that did not, if there is one that can be relied on."""
    ordered = sorted(cases, key=lambda c: c.shape.case_id)
    moved = np.array([c.moved for c in ordered], dtype=bool)
    n_moved, n = int(moved.sum()), len(ordered)
    if n and n_moved == n:
        return ShapeAnswer(rule=None, sentence=f"All {n} judged cases moved: no border in shape space.")
    if n < LEAST_CASES or n_moved < LEAST_MOVED or n - n_moved < LEAST_STILL:
        words = f"{n_moved} of {n} judged cases moved: too few to say where the border lies."
        return ShapeAnswer(rule=None, sentence=words)
    questions = questions_of([c.shape for c in ordered])
    answers = np.array([q.holds for q in questions], dtype=bool).reshape(len(questions), n)
    depth, told = _best_depth(answers, moved)
    p = _fisher(told, moved)
    if not _holds(told, moved) or p > LARGEST_P:
        words = f"{n_moved} of {n} judged cases moved; no rule over their shapes holds on held-out cases."
        return ShapeAnswer(rule=None, sentence=words)
    paths = [_pruned(path, answers, moved) for path in _grow(answers, moved, depth)]
    inside = _inside(paths, answers)
    clauses = tuple(dict.fromkeys(_clause(path, questions) for path in paths))
    rule = ShapeRule(
        words=", or ".join(" and ".join(clause) for clause in clauses),
        clauses=clauses,
        inside=int(inside.sum()),
        inside_moved=int((inside & moved).sum()),
        outside=int((~inside).sum()),
        outside_moved=int((~inside & moved).sum()),
        held_out_right=int((told == moved).sum()),
        held_out=n,
        p_value=p,
        also=_also(paths[0][0], questions) if len(paths) == len(paths[0]) == 1 else (),
    )
    return ShapeAnswer(rule=rule, sentence=rule.sentence)


def _best_depth(answers: Bools, moved: Bools) -> tuple[int, Bools]:
    """The least number of questions, and the held-out answers with it; one more must spare two errors or more."""
    best, told = 1, _held_out(answers, moved, 1)
    for depth in range(2, DEPTH + 1):
        deeper = _held_out(answers, moved, depth)
        if int((deeper != moved).sum()) + 2 <= int((told != moved).sum()):
            best, told = depth, deeper
    return best, told


def _held_out(answers: Bools, moved: Bools, depth: int) -> Bools:
    """What trees grown on the other parts say of each case; the parts have the same share of moved cases."""
    part = np.empty(moved.size, dtype=np.int64)
    for side in (moved, ~moved):
        part[side] = np.arange(int(side.sum())) % FOLDS
    told = np.zeros(moved.size, dtype=bool)
    for fold in range(FOLDS):
        out = part == fold
        if out.any() and moved[~out].any():
            told[out] = _inside(_grow(answers[:, ~out], moved[~out], depth), answers[:, out])
    return told


def _grow(answers: Bools, moved: Bools, depth: int) -> list[_Path]:
    """The paths to the leaves of a tree where moved cases prevail."""
    weight = np.where(moved, 0.5 / max(int(moved.sum()), 1), 0.5 / max(int((~moved).sum()), 1))
    leaves: list[_Path] = []

    def split(here: Bools, path: _Path) -> None:
        bad = float(weight[here & moved].sum())
        good = float(weight[here & ~moved].sum())
        chosen = _question(answers, weight, here, moved) if len(path) < depth and bad > 0 and good > 0 else None
        if chosen is None:
            if bad > good:
                leaves.append(path)
            return
        for answer in (True, False):
            side = here & (answers[chosen] if answer else ~answers[chosen])
            split(side, (*path, _Step(question=chosen, answer=answer)))

    split(np.ones(moved.size, dtype=bool), ())
    return [path for path in leaves if path]


def _question(answers: Bools, weight: NDArray[np.float64], here: Bools, moved: Bools) -> int | None:
    """The question that leaves the purest sides, the simplest of those that are equally good; None where none helps."""
    yes = answers[:, here]
    sizes = yes.sum(axis=1)
    total = int(here.sum())
    usable = (sizes >= LEAST_LEAF) & (total - sizes >= LEAST_LEAF)
    if not usable.any():
        return None
    bad_weight, good_weight = weight[here] * moved[here], weight[here] * ~moved[here]
    bad, good = yes @ bad_weight, yes @ good_weight
    other_bad, other_good = bad_weight.sum() - bad, good_weight.sum() - good
    left = _impurity(bad, good) + _impurity(other_bad, other_good)
    left[~usable] = np.inf
    best = int(np.argmin(np.round(left, 12)))
    before = _impurity(bad_weight.sum(), good_weight.sum())
    return best if left[best] < before - 1e-9 else None


def _impurity(bad: NDArray[np.float64], good: NDArray[np.float64]) -> NDArray[np.float64]:
    """Gini impurity times the weight of the leaf."""
    total = bad + good
    return np.where(total > 0, 2 * bad * good / np.where(total > 0, total, 1.0), 0.0)


def _inside(paths: Sequence[_Path], answers: Bools) -> Bools:
    found = np.zeros(answers.shape[1], dtype=bool)
    for path in paths:
        found |= _on(path, answers)
    return found


def _on(path: _Path, answers: Bools) -> Bools:
    here = np.ones(answers.shape[1], dtype=bool)
    for step in path:
        here &= answers[step.question] == step.answer
    return here


def _pruned(path: _Path, answers: Bools, moved: Bools) -> _Path:
    """Without the steps that add no unmoved case when they are left out."""
    kept = path
    for step in path:
        less = tuple(s for s in kept if s is not step)
        if less and not (_on(less, answers) & ~_on(kept, answers) & ~moved).any():
            kept = less
    return kept


def _also(step: _Step, questions: Sequence[Question]) -> tuple[str, ...]:
    question = questions[step.question]
    return question.also if step.answer else question.also_negated


def _clause(path: _Path, questions: Sequence[Question]) -> tuple[str, ...]:
    """The path in words; of several bounds of one size only the tightest are said."""
    bounds: dict[tuple[str, bool], tuple[float, str]] = {}
    others: list[str] = []
    for step in path:
        question = questions[step.question]
        words = question.words if step.answer else question.negated
        if question.bound is None:
            others.append(words)
            continue
        key = question.subject, step.answer
        tighter = key not in bounds or (question.bound > bounds[key][0]) == step.answer
        if tighter:
            bounds[key] = question.bound, words
    return (*others, *(words for _, words in bounds.values()))


def _holds(told: Bools, moved: Bools) -> bool:
    hits = int((told & moved).sum())
    return hits >= LEAST_RIGHT * int(moved.sum()) and hits >= LEAST_RIGHT * int(told.sum()) and hits > 0


def _fisher(told: Bools, moved: Bools) -> float:
    """P(as many hits or more) if the answers had nothing to do with what moved: the hypergeometric tail."""
    n, m, k = moved.size, int(moved.sum()), int(told.sum())
    hits = int((told & moved).sum())
    ways = sum(math.comb(m, i) * math.comb(n - m, k - i) for i in range(hits, min(m, k) + 1))
    return ways / math.comb(n, k)
