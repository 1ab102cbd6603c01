"""Training shapes: the arithmetic of a step, counted by hand, and the shipped lists reproduced."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench_suite.contract import DType, Phase
from bench_suite.shapes.errors import ShapeError
from bench_suite.shapes.listing import read_list, write_list
from bench_suite.shapes.representatives import Representative, ShapeList
from bench_suite.shapes.shipped import shipped_list, shipped_text
from bench_suite.shapes.training import TRAINING_RECIPES, TrainingRecipe
from bench_suite.shapes.training_run import Sharding
from bench_suite.suite import load_suite

MIB = 2**20
DENSE, LARGE = TRAINING_RECIPES.values()


@pytest.fixture(scope="module")
def dense() -> ShapeList:
    """Llama-3.1-8B, FSDP on 64 ranks, one sequence of 8,192 tokens."""
    return DENSE.derive()


@pytest.fixture(scope="module")
def large() -> ShapeList:
    """Llama-3.1-70B, tp8 pp4 dp16, sixteen micro-batches."""
    return LARGE.derive()


def _sizes(found: ShapeList, operator: str, family: str) -> set[tuple[int, ...]]:
    return {tuple(size for _, size in s.axes) for s in _of(found, operator, family)}  # type: ignore[misc]


def _of(found: ShapeList, operator: str, family: str) -> list[Representative]:
    return [shape for shape in found.shapes if (shape.operator, shape.family) == (operator, family)]


def _calls(found: ShapeList, shape: Representative, one: Representative, calls_of_one: int) -> int:
    """Calls a step, from the share of calls and a shape whose calls are known."""
    return round(shape.weight_calls / one.weight_calls * calls_of_one)


def test_projections_of_a_dense_model(dense: ShapeList) -> None:
    """Each projection forward and both gradients, with M the tokens and N, K the model's."""
    expected = {"qkv": (8192, 6144, 4096), "o": (8192, 4096, 4096), "gate_up": (8192, 28672, 4096)}
    expected |= {"down": (8192, 4096, 14336), "lm_head": (8192, 128256, 4096)}
    for family, sizes in expected.items():
        for operator in ("gemm", "gemm_dgrad", "gemm_wgrad"):
            assert _sizes(dense, operator, family) == {sizes}


def test_messages_of_fsdp(dense: ShapeList) -> None:
    """A layer of 218 million parameters is 416 MiB in bf16: gathered 64 times, scattered 32 times a step."""
    (optimizer,) = _of(dense, "adamw", "optimizer")
    for operator, times in (("all_gather", 64), ("reduce_scatter", 32)):
        layer = next(s for s in _of(dense, operator, "fsdp") if dict(s.axes)["elements"] == 218_103_808)
        assert dict(layer.axes)["elements"] * 2 == 416 * MIB  # type: ignore[operator]
        assert _calls(dense, layer, optimizer, 1) == times
    whole = 32 * 218_103_808 + 2 * 128256 * 4096
    assert dict(optimizer.axes)["elements"] == whole // 64


def test_messages_of_tensor_and_pipeline_and_data_parallelism(large: ShapeList) -> None:
    """128 MiB 1,280 times each way, 16 MiB between stages, 8,160 MiB of fp32 layer gradients and the head's beside."""
    (optimizer,) = _of(large, "adamw", "optimizer")
    for operator in ("all_gather", "reduce_scatter"):
        (message,) = _of(large, operator, "tensor_parallel")
        assert message.axes == (("ranks", 8), ("elements", 128 * MIB // 2))
        assert _calls(large, message, optimizer, 1) == 1280
    (between,) = _of(large, "send_recv", "pipeline_parallel")
    assert between.axes == (("ranks", 2), ("elements", 16 * MIB // 2))
    (gradients,) = _of(large, "all_reduce", "data_parallel")
    head = 128256 // 8 * 8192 * 4
    assert dict(gradients.axes)["elements"] * 2 == 8160 * MIB + head  # type: ignore[operator]
    assert _sizes(large, "gemm", "gate_up") == {(8192, 7168, 8192)}
    assert _sizes(large, "rms_norm", "rms_norm") == {(1024, 8192)}


@pytest.mark.parametrize("recipe", TRAINING_RECIPES.values(), ids=list(TRAINING_RECIPES))
def test_shipped_lists_are_reproduced_and_read_again(recipe: TrainingRecipe, tmp_path: Path) -> None:
    """The recipe gives the shipped bytes; the file read again is the list; each weight sums to 1."""
    text = write_list(recipe.derive())
    assert text == shipped_text(recipe.name)
    again = read_list_of(text, tmp_path)
    assert again == shipped_list(recipe.name) and again.origin == shipped_list(recipe.name).origin
    for weight in ("weight_time", "weight_calls", "weight_flops", "weight_bytes"):
        assert sum(getattr(shape, weight) for shape in again.shapes) == pytest.approx(1.0, abs=1e-4)


def read_list_of(text: str, folder: Path) -> ShapeList:
    (folder / "list.toml").write_text(text, encoding="utf-8")
    return read_list(folder / "list.toml")


def test_the_training_suite_holds_every_shape() -> None:
    """Each shape of both lists is a case in training, in bf16 on an accelerator; the optimizer stays in fp32."""
    suite = load_suite("training", "cuda")
    shapes = {(s.operator, s.axes) for name in TRAINING_RECIPES for s in shipped_list(name).shapes}
    assert len(suite.cases) == len(shapes)
    assert all(entry.case.phase is Phase.TRAINING and "analytic" in entry.provenance for entry in suite.cases)
    dtypes = {entry.case.operator: entry.case.dtype for entry in suite.cases}
    assert dtypes.pop("adamw") is DType.FP32 and set(dtypes.values()) == {DType.BF16}
    assert sum(entry.weight or 0.0 for entry in suite.cases) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "qwen3-30b-a3b"}, "training shapes of mixtures of experts are not derived"),
        ({"pipeline_parallel": 3}, "pipeline_parallel is 3: layers of llama-3.1-8b is 32, must be a multiple of it"),
        ({"tensor_parallel": 3}, "tp is 3: heads of llama-3.1-8b is 32, must be a multiple of tp"),
        ({"pipeline_parallel": 0}, "pipeline_parallel is 0, must be a whole number >= 1"),
        ({"sequence": 0}, "sequence is 0, must be a whole number >= 1"),
        ({"tensor_parallel": 8, "sequence": 100}, "tensor_parallel is 8, must divide the 100 tokens of a pass"),
    ],
)
def test_what_cannot_be_derived_gets_one_line(change: dict[str, object], message: str) -> None:
    """What, value, rule."""
    with pytest.raises(ShapeError, match=message):
        replace(DENSE, **change).derive()  # type: ignore[arg-type]


def test_ranks_that_hold_copies_update_all_they_hold() -> None:
    """With DDP the optimizer walks the whole stage, with FSDP a share; one data-parallel rank sends nothing."""
    alone = replace(DENSE, data_parallel=1, sharding=Sharding.DDP).derive()
    (optimizer,) = _of(alone, "adamw", "optimizer")
    assert dict(optimizer.axes)["elements"] == 32 * 218_103_808 + 2 * 128256 * 4096
    assert not [shape for shape in alone.shapes if shape.operator.startswith("all_")]
