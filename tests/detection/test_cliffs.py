"""Cliffs: found where the time for a unit of work jumps, and nowhere else."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detection.cliffs import CliffKind, ShapeTimes, find_cliffs
from detection.shape_features import Shape

ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


def line(seconds: dict[int, float], noise: float = 0.0, runs: int = 7) -> list[ShapeTimes]:
    """Cases along one axis with their times in so many runs; the work is the size."""
    rng = np.random.default_rng(3)
    return [
        ShapeTimes(
            shape=Shape(case_id=f"op[bf16,rows={rows:05d}]", axes={"rows": (rows,), "width": (4096,)}, dtype="bf16"),
            seconds=tuple((value * np.exp(rng.normal(0, noise, runs))).tolist()),
            work=float(rows),
        )
        for rows, value in seconds.items()
    ]


def test_a_launch_and_a_roof_have_no_cliff() -> None:
    """A fixed cost and a constant rate: a unit of work only gets cheaper, whatever the noise."""
    assert find_cliffs(line({r: 5e-6 + 1e-7 * r for r in ROWS}, noise=0.02)) == ()


def test_a_jump_is_found_between_its_neighbours() -> None:
    """From 64 to 128 rows everything costs half as much again: that pair, that size, and no other."""
    times = {r: (1.5 if r >= 128 else 1.0) * 1e-6 * r for r in ROWS}
    (cliff,) = find_cliffs(line(times, noise=0.01))
    assert (cliff.kind, cliff.axis, cliff.small, cliff.large) == (CliffKind.JUMP, "rows", 64, 128)
    assert cliff.low < 0.5 < cliff.high
    assert cliff.fixed == "width 4,096"
    assert cliff.sentence.startswith("Cliff in rows (width 4,096): 64.02 µs at rows 64, 191.6 µs at 128")


def test_a_smaller_case_that_takes_longer_is_inverted() -> None:
    """37 rows that take longer than 64 could be padded: said with how much longer."""
    (cliff,) = find_cliffs(line({16: 10e-6, 37: 30e-6, 64: 20e-6}, noise=0.005))[:1]
    assert cliff.kind is CliffKind.INVERTED
    assert (cliff.small, cliff.large) == (37, 64)
    assert cliff.change == pytest.approx(0.5, abs=0.03)


def test_noise_is_no_cliff() -> None:
    """Runs that differ by 20 % do not show a jump of 30 %."""
    times = {r: (1.3 if r >= 128 else 1.0) * 1e-6 * r for r in ROWS}
    assert find_cliffs(line(times, noise=0.2)) == ()


def test_far_neighbours_and_single_runs_say_nothing() -> None:
    """Ten times the size is no neighbour, and two runs are no evidence."""
    assert find_cliffs(line({8: 1e-6, 80: 1e-3})) == ()
    assert find_cliffs(line({8: 1e-6, 16: 1e-4}, runs=2)) == ()


@given(st.floats(1e-3, 1e3), st.permutations(range(len(ROWS))))
def test_units_and_order_do_not_matter(scale: float, order: list[int]) -> None:
    """Other units of time and another order of the cases give the same cliffs."""
    cases = line({r: (1.6 if r >= 32 else 1.0) * 1e-6 * r for r in ROWS}, noise=0.01)
    scaled = [ShapeTimes(shape=c.shape, seconds=tuple(scale * s for s in c.seconds), work=c.work) for c in cases]
    found, again = find_cliffs(cases), find_cliffs([scaled[i] for i in order])
    assert [(c.small_case_id, c.kind) for c in found] == [(c.small_case_id, c.kind) for c in again]
    assert [c.change for c in found] == pytest.approx([c.change for c in again])


def test_measured_tiles_are_cliffs() -> None:
    """Published A100 times: 136 rows of the 70B model's QKV take 70 % longer than 128, one tile more."""
    path = Path(__file__).parents[2] / "benchmarks" / "data" / "vidur_a100_gemm_ms.csv"
    with path.open(encoding="utf-8") as file:
        rows = [r for r in csv.DictReader(file) if r["model"] == "Meta-Llama-3-70B"]
    cases = [
        ShapeTimes(
            shape=Shape(case_id=r["num_tokens"].zfill(6), axes={"M": (float(r["num_tokens"]),)}),
            seconds=(float(r["qkv_ms"]) * 1e-3,) * 3,
            work=max(2 * float(r["num_tokens"]) * 2560 * 8192 / 312e12, 2 * 2560 * 8192 / 2.039e12),
        )
        for r in rows
    ]
    jumps = [(c.small, c.large) for c in find_cliffs(cases) if c.kind is CliffKind.JUMP]
    assert jumps[0] == (128, 136)
