"""The rule over shapes: found where there is one, held out before it is said, silent where there is none."""

from __future__ import annotations

import numpy as np
import pytest

from detection.shape_features import Shape, questions_of
from detection.shape_rule import ShapeCase, find_shape_rule

SIZES = [
    (m, n, k)
    for m in (1, 4, 6, 8, 16, 37, 64, 93, 256, 470, 1182, 2048)
    for n, k in ((6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336), (18944, 3584), (2880, 2880))
]


def shape(m: int, n: int, k: int) -> Shape:
    """A GEMM of bf16."""
    return Shape(
        case_id=f"gemm[bf16,M={m},N={n},K={k}]",
        axes={"M": (m,), "N": (n,), "K": (k,)},
        operator="gemm",
        phase="decode" if m <= 64 else "prefill",
        dtype="bf16",
        flops=2.0 * m * n * k,
        traffic_bytes=2.0 * (m * k + n * k + m * n),
    )


def test_a_planted_rule_is_found_in_its_words() -> None:
    """Cases of one phase and one size that moved are told by exactly these two conditions, with all counts right."""
    cases = [ShapeCase(shape=shape(*s), moved=s[0] <= 64 and s[1] >= 18944) for s in SIZES]
    rule = find_shape_rule(cases).rule
    assert rule is not None
    assert rule.clauses == (("phase is decode", "N ≥ 18,944"),)
    assert (rule.inside, rule.inside_moved, rule.outside_moved) == (14, 14, 0)
    assert (rule.held_out, rule.held_out_right) == (72, 72)
    assert "14 of 14 cases there moved, 0 of 58 elsewhere" in rule.sentence


def test_misalignment_is_a_rule_and_its_equals_are_named() -> None:
    """Where several conditions name the same cases, the simplest is said and the others beside it."""
    cases = [ShapeCase(shape=shape(*s), moved=s[2] % 128 != 0) for s in SIZES]
    rule = find_shape_rule(cases).rule
    assert rule is not None
    assert rule.words == "N ≤ 2,880"
    assert "N % 128 ≠ 0" in rule.also


@pytest.mark.parametrize("n", [12, 30])
def test_chance_is_no_rule(n: int) -> None:
    """Labels that have nothing to do with the shapes are given a rule in at most 1 of 25 draws."""
    rng = np.random.default_rng(n)
    said = 0
    for _ in range(25):
        chosen = rng.permutation(len(SIZES))[:n]
        moved = rng.random(n) < rng.uniform(0.2, 0.8)
        cases = [ShapeCase(shape=shape(*SIZES[i]), moved=bool(m)) for i, m in zip(chosen, moved, strict=True)]
        said += find_shape_rule(cases).rule is not None
    assert said <= 1


def test_a_rule_survives_a_wrong_label() -> None:
    """One case of forty that is told wrongly hides no border, and is counted."""
    cases = [ShapeCase(shape=shape(*s), moved=s[0] >= 64) for s in SIZES[:40]]
    cases[3] = ShapeCase(shape=cases[3].shape, moved=not cases[3].moved)
    rule = find_shape_rule(cases).rule
    assert rule is not None
    assert rule.held_out_right < rule.held_out
    assert "M ≥" in rule.words


def test_the_order_of_the_cases_does_not_matter() -> None:
    """The same cases in another order have the same answer."""
    cases = [ShapeCase(shape=shape(*s), moved=s[0] % 16 != 0) for s in SIZES]
    order = np.random.default_rng(0).permutation(len(cases))
    assert find_shape_rule(cases) == find_shape_rule([cases[i] for i in order])


def test_too_little_is_said_to_be_too_little() -> None:
    """Few cases, or all of one kind, have no rule but a sentence that says why."""
    cases = [ShapeCase(shape=shape(*s), moved=True) for s in SIZES[:9]]
    assert find_shape_rule(cases).sentence == "All 9 judged cases moved: no border in shape space."
    assert "too few" in find_shape_rule([]).sentence
    assert "too few" in find_shape_rule([ShapeCase(shape=shape(*s), moved=s[0] > 1) for s in SIZES[:7]]).sentence


def test_ragged_axes_are_asked_by_length() -> None:
    """A ragged axis is asked for how many, the longest and the mean; one that is the same everywhere for nothing."""
    shapes = [
        Shape(case_id=f"d{i}", axes={"kv": tuple(float(100 * (i + j)) for j in range(1, 3)), "heads": (8.0,)})
        for i in range(4)
    ]
    words = {question.words for question in questions_of(shapes)}
    assert "longest kv ≥ 300" in words
    assert not any("heads" in w for w in words if "×" not in w)
