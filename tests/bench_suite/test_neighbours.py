"""Cliff neighbours: sizes a step to either side of heavy shapes, allowed by the contract, without weight."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_suite.contract import AxisValue, DType, Phase
from bench_suite.contracts import contract
from bench_suite.neighbours import neighbours, steps
from bench_suite.plan import PlannedCase
from bench_suite.suite import load_suite


def planned(operator: str, **axes: AxisValue) -> PlannedCase:
    case = contract(operator).case(axes, DType.BF16, Phase.PREFILL)
    return PlannedCase(case=case, weight=0.2, label="heavy", provenance="made")


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (1, (2, 16, 17)),
        (128, (129, 127, 256)),
        (2048, (2049, 2047, 2176, 1920)),
        (93, (94, 92, 128, 129, 64, 63, 157, 29)),
    ],
)
def test_steps_by_hand(size: int, expected: tuple[int, ...]) -> None:
    """Off by one first, then the edges of the tile and one beyond them, then a whole tile to either side."""
    assert steps(size) == expected


@given(st.integers(1, 10**6))
def test_steps_are_other_sizes_near_by(size: int) -> None:
    """Each is another whole number above 0, at most two tiles away, and none comes twice."""
    found = steps(size)
    assert len(set(found)) == len(found) and size not in found
    assert all(value >= 1 and abs(value - size) <= 256 for value in found)


def test_neighbours_keep_the_rest_of_the_case() -> None:
    """Only the stepped size changes; a chunk keeps the context before it, a ragged batch its spread."""
    gemm = list(neighbours(planned("gemm", M=128, N=4096, K=4096), 3))
    assert [entry.case["M"] for entry in gemm] == [129, 127, 129 + 127]
    assert all((entry.case["N"], entry.case["K"], entry.weight) == (4096, 4096, None) for entry in gemm)
    assert gemm[0].label == "heavy: M +1" and gemm[0].provenance == "neighbour of gemm[bf16,M=128,N=4096,K=4096]"
    heads = {"heads": 8, "kv_heads": 2, "head_dim": 64}
    chunk = next(neighbours(planned("attention_prefill", q=100, kv=300, **heads), 1))
    assert (chunk.case["q"], chunk.case["kv"]) == (101, 301)
    ragged = next(neighbours(planned("attention_decode", batch=3, kv=(5, 80, 9), **heads), 1))
    assert ragged.case["batch"] == 4 and ragged.case.ragged("kv") == (5, 5, 9, 80, 80, 80)
    assert not list(neighbours(planned("all_reduce", ranks=2, elements=4096), 3))


def test_a_suite_asks_for_them(tmp_path: Path) -> None:
    """`neighbours = 2` adds two cases to each of the heaviest shapes, behind the list's own, with no weight."""
    text = (
        '[suite]\nname = "mine"\nsummary = "s"\nversion = 1\nseed = 1\ndtype = { cpu = "fp32", accelerator = "bf16" }\n'
        '[[shapes]]\nlist = "llama-3.1-8b_tp1_azure2023-conv_load1_budget2048"\n'
    )
    (tmp_path / "plain.toml").write_text(text)
    (tmp_path / "cliffs.toml").write_text(text + "neighbours = 2\nneighbours_of = 3\n")
    plain, cliffs = (load_suite(tmp_path / f"{name}.toml") for name in ("plain", "cliffs"))
    assert cliffs.cases[: len(plain.cases)] == plain.cases
    added = cliffs.cases[len(plain.cases) :]
    assert len(added) == 6 and all(entry.weight is None for entry in added)
    heaviest = {entry.case.case_id for entry in plain.cases[:3]}
    assert {entry.provenance.removeprefix("neighbour of ") for entry in added} == heaviest
