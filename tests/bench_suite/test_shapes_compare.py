"""Comparing lists: what is the same, what is near, and what lies elsewhere."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_suite.shapes.compare import compare_lists
from bench_suite.shapes.representatives import Recorded, Representative, ShapeList
from bench_suite.shapes.shipped import shipped_list

LIGHT = "llama-3.1-8b_tp1_azure2023-conv_load1_budget2048"
HEAVY = "llama-3.1-8b_tp1_azure2023-conv_load4_budget2048"
OTHER_MODEL = "qwen2.5-7b_tp1_azure2023-code_load6_budget8192"
ORIGIN = Recorded(format="kineto", sha256="0" * 64, calls=1, dtype="bf16", weighted_by="roofline time", chip="h100")


def shape(m: int, weight: float, *, n: int = 4096, operator: str = "gemm", family: str = "o") -> Representative:
    return Representative(
        operator=operator,
        family=family,
        phase="decode",
        axes=(("M", m), ("N", n), ("K", 4096)),
        weight_time=weight,
        weight_calls=weight,
        weight_flops=weight,
        weight_bytes=weight,
        members=1,
        cover_low=m,
        cover_high=m,
    )


def listed(*shapes: Representative) -> ShapeList:
    return ShapeList(origin=ORIGIN, shapes=shapes, coverage_time=1.0, error_time=0.0, error_total=0.0)


@pytest.mark.parametrize("name", [LIGHT, OTHER_MODEL])
def test_a_list_is_all_of_itself(name: str) -> None:
    """Against itself nothing differs, and all time is in common shapes."""
    found = compare_lists(shipped_list(name), shipped_list(name))

    assert (found.distance, found.settings) == (0.0, ())
    assert found.common_shapes == len({(s.operator, s.axes) for s in shipped_list(name).shapes})
    assert found.common_share_a == pytest.approx(1.0, abs=1e-4)
    assert found.near_share_a == found.near_share_b == pytest.approx(1.0, abs=1e-4)


def test_more_load_is_more_attention() -> None:
    """Four times the load moves time from GEMM weights to caches, and the load is named as what differs."""
    found = compare_lists(shipped_list(LIGHT), shipped_list(HEAVY))

    assert found.families[0].operator == "attention_decode"
    assert found.families[0].share_b > 2 * found.families[0].share_a
    assert ("load", "1.0", "4.0") in found.settings
    assert found.distance == pytest.approx(sum(max(0.0, f.share_b - f.share_a) for f in found.families), abs=1e-4)


def test_another_model_has_no_shape_near() -> None:
    """Sizes that the model decides must be equal: none of the GEMMs of another model stands for one of this."""
    found = compare_lists(
        listed(*[s for s in shipped_list(LIGHT).shapes if s.operator == "gemm"]),
        listed(*[s for s in shipped_list(OTHER_MODEL).shapes if s.operator == "gemm"]),
    )

    assert (found.common_shapes, found.near_share_a, found.near_share_b) == (0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("a", "b", "near"),
    [
        (shape(64, 1.0), shape(72, 1.0), True),
        (shape(64, 1.0), shape(73, 1.0), False),
        (shape(64, 1.0), shape(64, 1.0, n=4097), False),
        (shape(64, 1.0), shape(64, 1.0, operator="batched_gemm"), False),
    ],
)
def test_near_is_an_eighth_of_the_same_operator(a: Representative, b: Representative, near: bool) -> None:
    """Within 12.5 % in the size that traffic decides, all else equal."""
    found = compare_lists(listed(a), listed(b))

    assert (found.near_share_a, found.near_share_b) == ((1.0, 1.0) if near else (0.0, 0.0))
    assert found.common_shapes == 0


def test_a_recording_is_told_from_a_derivation() -> None:
    """Lists of two kinds differ in their origin, as a whole."""
    found = compare_lists(listed(shape(1, 1.0)), shipped_list(LIGHT))

    assert [name for name, _, _ in found.settings] == ["origin"]


@given(st.lists(st.tuples(st.integers(1, 4096), st.sampled_from(["q", "o", "down"])), min_size=1, max_size=8))
def test_sides_may_be_swapped(sizes: list[tuple[int, str]]) -> None:
    """Comparing B with A says the same as A with B, with the sides swapped; shares stay within 0 and 1."""
    a = listed(*[shape(m, 1 / len(sizes), family=family) for m, family in sizes])
    b = listed(*[replace(s, axes=(("M", 2 * i + 1), *s.axes[1:])) for i, s in enumerate(a.shapes)])
    one, other = compare_lists(a, b), compare_lists(b, a)

    assert one.distance == pytest.approx(other.distance)
    assert (one.common_share_a, one.near_share_a) == (other.common_share_b, other.near_share_b)
    assert 0 <= one.common_share_a <= one.near_share_a + 1e-9
    assert one.near_share_a <= 1 + 1e-9
