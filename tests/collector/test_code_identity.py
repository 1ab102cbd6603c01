"""The identity of an arm's code: it changes with the code, and only with it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from collector.host.code_evidence import common_binaries
from collector.node.code_identity import code_sha256, configuration


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ModuleType]:
    """Writes a kernel and its tiles into a folder and loads them."""

    def load_once(kernel: str, tiles: str) -> ModuleType:
        for name, text in (("ko_tiles", tiles), ("ko_kernel", kernel)):
            path = tmp_path / f"{name}.py"
            path.write_text(text)
            spec = importlib.util.spec_from_file_location(name, path)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            monkeypatch.setitem(sys.modules, name, module)
            spec.loader.exec_module(module)
        return sys.modules["ko_kernel"]

    return load_once


KERNEL = "import ko_tiles\n\ndef kernel(x):\n    return x + ko_tiles.TILE\n"


def test_equal_files_are_equal_code(load: Callable[..., ModuleType]) -> None:
    """The same text has the same hash; another line of the kernel, or of a file that it uses, has another."""
    first = code_sha256(load(KERNEL, "TILE = 64\n").kernel)
    assert first is not None
    assert code_sha256(load(KERNEL, "TILE = 64\n").kernel) == first
    assert code_sha256(load(KERNEL, "TILE = 128\n").kernel) != first
    assert code_sha256(load(KERNEL + "# faster\n", "TILE = 64\n").kernel) != first


def test_a_builtin_has_no_code_of_its_own() -> None:
    """What is not written in a file here has no hash, and no configuration."""
    assert code_sha256(len) is None
    assert configuration(len) is None


def test_what_was_chosen_is_told(load: Callable[..., ModuleType]) -> None:
    """An autotuner's choice is read from the module; a function that states its own configuration is believed."""
    module = load(KERNEL, "TILE = 64\n")
    assert configuration(module.kernel) is None
    module.tuned = SimpleNamespace(best_config="BLOCK_M: 64, num_warps: 4")  # type: ignore[attr-defined]
    assert configuration(module.kernel) == "tuned: BLOCK_M: 64, num_warps: 4"
    module.kernel.configuration = "split 4"
    assert configuration(module.kernel) == "split 4"


def test_binaries_are_compared_where_both_were_compiled() -> None:
    """Equal machine code on every chip that both revisions have is equal code; without one there is no answer."""
    good = {("gemm[bf16]", "sm_90"): "aa", ("gemm[bf16]", "gfx942"): "bb", ("old", "sm_90"): "cc"}
    same = common_binaries(
        good, {("gemm[bf16]", "sm_90"): "aa", ("gemm[bf16]", "gfx942"): "bb", ("new", "sm_90"): "dd"}
    )
    other = common_binaries(good, {("gemm[bf16]", "sm_90"): "aa", ("gemm[bf16]", "gfx942"): "zz"})
    assert same is not None
    assert same[0] == same[1]
    assert other is not None
    assert other[0] != other[1]
    assert common_binaries(good, {("new", "sm_90"): "dd"}) is None
