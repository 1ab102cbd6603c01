"""The page of compiled kernels: what is in the store, exactly, and what differs from the compilation before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import simulated_lake
from compiled_kernels import FIRST, GEMM, NORM, SECOND, keep

Page = Callable[..., Any]
Said = Callable[[Any], str]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two compilations of three kernels."""
    made = tmp_path_factory.mktemp("static")
    keep(made, FIRST)
    keep(made, SECOND)
    return made


def test_what_needs_more_is_said_first(page: Page, said: Said, root: Path) -> None:
    """The sentence counts the binaries that differ and names the one that needs more, with both numbers."""
    shown = said(page(root / "store", "static"))
    assert "1 of 2 binaries differ from the one before; " in shown
    assert "one needs more</span>: " in shown
    assert "for sm_90 (spills 0 to 4, registers 64 to 72)" in shown
    assert "one kernel does not compile for a chip" in shown


def test_grid_has_every_kernel_and_chip(page: Page, said: Said, root: Path) -> None:
    """A cell has its number and what it was; the same binary, a failure and a missing chip are each said in words."""
    shown = said(page(root / "store", "static"))
    for text in ("▲ 72", "was 64", "same binary", "fails", "no such instruction", "not compiled"):
        assert text in shown
    loads = said(page(root / "store", "static", number="wide loads"))
    assert f"{100 * 12 // 16}\u202f%" in loads


@pytest.mark.parametrize(
    "number", ["spills", "shared memory", "stack", "matrix instructions", "binary", "compile time"]
)
def test_every_number_can_be_shown(page: Page, said: Said, root: Path, number: str) -> None:
    """Each number of a compilation has its table, and the page stays whole."""
    shown = said(page(root / "store", "static", number=number))
    assert f"{number} by kernel and chip" in shown
    assert "this page failed" not in shown


def test_series_of_one_is_by_link(page: Page, said: Said, root: Path) -> None:
    """The address names a kernel and a chip, and all its compilations are listed with loads and hash."""
    shown = said(page(root / "store", "static", kernel=GEMM.variant, chip="sm_90"))
    assert "12 × 128 bit, 4 × 32 bit" in shown
    assert "b" * 12 in shown and "a" * 12 in shown
    gone = said(page(root / "store", "static", kernel="<img src=x>", chip="sm_90"))
    assert "There is no &lt;img src=x&gt; for sm_90 here." in gone


def test_first_compilation_has_nothing_beside_it(page: Page, said: Said, tmp_path: Path) -> None:
    """With one compilation the page says that a second brings what changed."""
    keep(tmp_path, FIRST)
    shown = said(page(tmp_path / "store", "static"))
    assert "3 binaries compiled, each for the first time." in shown
    assert "a second compilation brings it" in shown


def test_equal_hashes_are_no_change(page: Page, said: Said, tmp_path: Path) -> None:
    """Two compilations with equal hashes are the same code, whatever else differs."""
    keep(tmp_path, FIRST)
    keep(tmp_path, [replace(one, compile_s=9.0) for one in FIRST])
    shown = said(page(tmp_path / "store", "static"))
    assert "Nothing changed: 3 binaries are the same as at the compilation before." in shown


def test_compiled_kernels_are_no_device(page: Page, said: Said, tmp_path: Path) -> None:
    """Beside measured devices, compiled kernels are counted and chosen nowhere but on their own page."""
    simulation = simulated_lake.Simulation(nights=2, devices=simulated_lake.DEVICES[:1], cases=simulated_lake.CASES[:5])
    simulated_lake.build_lake(tmp_path, simulation)
    before = said(page(tmp_path / "store", "overview"))
    keep(tmp_path, FIRST)
    after = said(page(tmp_path / "store", "overview"))
    for part in ("<h1", "Newest run", "Judged tonight"):
        assert before.split(part)[1][:120] == after.split(part)[1][:120], part
    for view in ("roofline", "fleet", "memory"):
        assert "static" not in said(page(tmp_path / "store", view)).lower()
    assert "H200, nightly" in said(page(tmp_path / "store", "runs"))


def test_series_of_a_compiled_kernel_leads_to_its_page(page: Page, said: Said, root: Path) -> None:
    """A link to the series of a compiled kernel says where its numbers are."""
    from store.lake.lake import Lake

    query = "select subject_id from series where device_model = 'sm_90' and case_id = $c"
    (row,) = Lake.open(root / "store").sql(query, {"c": NORM.variant}).to_pylist()
    shown = said(page(root / "store", "series", subject=row["subject_id"]))
    assert "not measured" in shown
    assert "static?kernel=" in shown
