"""From passes to weighted shapes and their representatives."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from importlib import resources
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from bench_suite.contract import DType, Phase
from bench_suite.contracts import CONTRACTS
from bench_suite.shapes.chips import CHIPS
from bench_suite.shapes.cost import attention_prefill, gemm
from bench_suite.shapes.derive import ShapeGroup, ShapeTable, derive
from bench_suite.shapes.errors import ShapeError
from bench_suite.shapes.listing import read_list, write_list
from bench_suite.shapes.models import load_models, model_named
from bench_suite.shapes.representatives import represent
from bench_suite.shapes.shipped import RECIPES, shipped_list
from bench_suite.shapes.traces import LengthTrace, read_trace, shipped_trace

QUICK = "llama-3.1-8b_tp1_azure2023-conv_load1_budget2048"


def lonely_requests(count: int, inputs: int, outputs: int) -> LengthTrace:
    """Requests so far apart that none meets another."""
    return LengthTrace(
        name="lonely",
        arrival_s=np.arange(count) * 1000.0,
        input_tokens=np.full(count, inputs),
        output_tokens=np.full(count, outputs),
        cached_prefix_tokens=np.zeros(count, dtype=np.int64),
        source="made",
        licence="own",
        sha256="",
    )


def calls(group: ShapeGroup, axis: str) -> dict[int, float]:
    """Calls by the size of a varying axis."""
    return dict(zip(dict(group.varying)[axis].tolist(), group.calls.tolist(), strict=True))


def group(table: ShapeTable, family: str) -> ShapeGroup:
    return next(entry for entry in table.groups if entry.family == family)


def test_distribution_of_lonely_requests_is_known() -> None:
    """Ten requests of 700 tokens in and 5 out that never meet: every shape and its calls follow by hand."""
    table = derive(lonely_requests(10, 700, 5), "llama-3.1-8b")

    assert calls(group(table, "gate_up"), "M") == {1: 4 * 32 * 10, 700: 32 * 10}
    assert dict(group(table, "gate_up").fixed) == {"N": 28672, "K": 4096}
    assert dict(group(table, "qkv").fixed) == {"N": 6144, "K": 4096}
    assert dict(group(table, "o").fixed) == {"N": 4096, "K": 4096}
    assert dict(group(table, "down").fixed) == {"N": 4096, "K": 14336}
    assert calls(group(table, "lm_head"), "M") == {1: 5 * 10}
    assert calls(group(table, "rms_norm"), "rows") == {1: 4 * 65 * 10, 700: 65 * 10}
    assert calls(group(table, "swiglu"), "rows") == {1: 4 * 32 * 10, 700: 32 * 10}
    assert calls(group(table, "prefill"), "q") == {700: 32 * 10}
    decode = group(table, "decode")
    assert float(decode.calls.sum()) == 4 * 32 * 10
    assert {decode.axes(i)[1][1] for i in range(decode.size.size)} == {702}  # the middle of 701 to 704


def test_tensor_parallel_ranks_hold_a_part_and_send_messages() -> None:
    """70B on four ranks: heads, columns and vocabulary are a quarter; two sums of hidden a layer, one gather a pass."""
    table = derive(lonely_requests(3, 100, 2), "llama-3.1-70b", tensor_parallel=4)

    assert dict(group(table, "qkv").fixed) == {"N": (16 + 2 * 2) * 128, "K": 8192}
    assert dict(group(table, "gate_up").fixed) == {"N": 2 * 28672 // 4, "K": 8192}
    assert dict(group(table, "down").fixed) == {"N": 8192, "K": 28672 // 4}
    assert calls(group(table, "tensor_parallel"), "elements") == {8192: 160 * 3, 100 * 8192: 160 * 3}
    assert calls(group(table, "logits"), "elements") == {128256: 2 * 3}


def test_mixtures_of_experts_group_their_rows() -> None:
    """A token goes to eight experts; with one token eight are read, with many nearly all 128."""
    table = derive(lonely_requests(2, 900, 3), "qwen3-30b-a3b")

    expert = group(table, "expert_gate_up")
    named = {sizes["rows"]: sizes for sizes in (dict(expert.axes(i)) for i in range(expert.size.size))}

    assert set(named) == {8, 7200}
    assert named[8]["active"] == 8
    assert named[7200]["active"] == 128
    assert (named[8]["N"], named[8]["K"]) == (2 * 768, 2048)
    assert all(entry.family not in ("gate_up", "down") for entry in table.groups)


def test_sliding_layers_see_their_window() -> None:
    """gpt-oss: half of the layers attend to 128 positions at most, the other half to all."""
    table = derive(lonely_requests(2, 900, 3), "gpt-oss-120b", tensor_parallel=4)

    assert dict(group(table, "decode_window128").axes(0))["kv"] == 128
    assert dict(group(table, "decode").axes(0))["kv"] == 901
    assert float(group(table, "decode").calls.sum()) == float(group(table, "decode_window128").calls.sum()) == 18 * 4


def test_windowed_pairs_against_counting() -> None:
    """Work of windowed causal attention is four times head_dim times the pairs that a double loop counts."""
    for q, kv, window in ((7, 7, 3), (5, 12, 4), (6, 9, 100), (4, 20, 1)):
        pairs = sum(
            1 for i in range(q) for j in range(kv) if j <= i + kv - q and (window == 0 or j > i + kv - q - window)
        )
        assert float(attention_prefill(q, kv, 2, 1, 8, CHIPS["h100"], window).flops) == 4 * 2 * 8 * pairs


def test_gemm_time_never_falls_with_rows() -> None:
    """More rows never take less time, and never less than work or traffic demand."""
    M = np.arange(1, 3000, dtype=np.float64)
    one = gemm(M, 6144, 4096, CHIPS["a100"])

    assert bool((np.diff(one.time_s) >= 0).all())
    assert bool((one.time_s * CHIPS["a100"].reached_flop_per_s >= one.flops * (1 - 1e-12)).all())
    assert bool((one.time_s * CHIPS["a100"].reached_bytes_per_s >= one.traffic_bytes * (1 - 1e-12)).all())


def test_representatives_are_shapes_that_ran_and_weigh_one() -> None:
    """Each is a shape of its table; weights of every kind sum to 1; each shape has exactly one representative."""
    table = derive(shipped_trace("azure2023_conv").slice(0, 500), "llama-3.1-8b", load=2)

    shapes = represent(table, 40)

    ran = {(entry.family, entry.axes(i)) for entry in table.groups for i in range(entry.size.size)}
    assert len(shapes.shapes) == 40
    assert all((shape.family, shape.axes) in ran for shape in shapes.shapes)
    for weight in ("weight_time", "weight_calls", "weight_flops", "weight_bytes"):
        assert sum(getattr(shape, weight) for shape in shapes.shapes) == pytest.approx(1)
    assert sum(shape.members for shape in shapes.shapes) == sum(entry.size.size for entry in table.groups)


def test_more_representatives_err_less_and_all_of_them_not_at_all() -> None:
    """Error falls with the budget, to rounding when every distinct shape may stand for itself."""
    table = derive(shipped_trace("azure2023_code").slice(0, 60), "qwen2.5-7b").only("gemm")

    errors = [represent(table, budget).error_time for budget in (5, 20, 80, 2000)]

    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-3
    assert represent(table, 2000).coverage_time == pytest.approx(1)


def test_a_budget_below_the_number_of_families_is_refused() -> None:
    """Each operator family needs one representative: fewer would leave it out silently."""
    table = derive(lonely_requests(1, 10, 2), "llama-3.1-8b")
    with pytest.raises(ShapeError, match="budget is 3 representatives, must be >= 10, one for each operator family"):
        represent(table, 3)


def test_lists_survive_writing_and_reading(tmp_path: Path) -> None:
    """What is read from a written list writes the same text; a list of another format is refused."""
    shapes = represent(derive(lonely_requests(3, 50, 4), "llama-3.1-70b", tensor_parallel=4), 20)
    path = tmp_path / "list.toml"
    path.write_text(write_list(shapes))

    assert write_list(read_list(path)) == path.read_text()
    path.write_text(path.read_text().replace("format = 1", "format = 99"))
    with pytest.raises(ShapeError, match="format is 99, must be 1; derive it again"):
        read_list(path)


def test_the_quick_list_is_reproduced() -> None:
    """Deriving the list of the quick model again gives the shipped bytes."""
    shipped = (resources.files("configs") / "shapes" / f"{QUICK}.toml").read_text(encoding="utf-8")

    assert write_list(RECIPES[QUICK].derive()) == shipped


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in RECIPES if name != QUICK])
def test_all_lists_are_reproduced(name: str) -> None:
    """Deriving any shipped list again gives the shipped bytes."""
    shipped = (resources.files("configs") / "shapes" / f"{name}.toml").read_text(encoding="utf-8")

    assert write_list(RECIPES[name].derive()) == shipped


@pytest.mark.parametrize("name", list(RECIPES))
def test_shipped_shapes_are_cases_of_their_contracts(name: str) -> None:
    """Axes are named and ordered as the contract has them, so that a suite can take a shape as it is."""
    shapes = shipped_list(name).shapes
    assert {"gemm", "attention_decode"} <= {shape.operator for shape in shapes}
    for shape in shapes:
        if shape.operator in CONTRACTS:
            case = CONTRACTS[shape.operator].case(dict(shape.axes), DType.BF16, Phase(shape.phase))
            assert case.axes == shape.axes


def test_a_trace_of_ones_own_derives_too(tmp_path: Path) -> None:
    """A length trace that is not in the repository gives shapes, with its file as provenance."""
    path = tmp_path / "mine.csv"
    path.write_text("arrival_s,input_tokens,output_tokens\n0,120,9\n0.5,90,7\n")

    table = derive(read_trace(path), "qwen3-8b")

    assert table.derivation.trace == "mine"
    assert table.derivation.requests == 2
    assert table.total_time_s > 0


def test_unknown_names_and_settings_get_one_line() -> None:
    """Model, chip, padding and operator: each message lists what is known."""
    trace = lonely_requests(1, 10, 2)
    with pytest.raises(ShapeError, match=r"model 'gpt-9': not known, must be one of llama-3\.1-8b"):
        derive(trace, "gpt-9")
    with pytest.raises(ShapeError, match="chip 'tpu': not known, must be one of a100, h100"):
        derive(trace, "qwen3-8b", chip="tpu")
    with pytest.raises(ShapeError, match="padding 'even': must be one of none, cudagraph"):
        derive(trace, "qwen3-8b", padding="even")
    with pytest.raises(ShapeError, match="none in the table"):
        derive(trace, "qwen3-8b").only("conv")


def test_models_of_ones_own_are_checked(tmp_path: Path) -> None:
    """A model file names its unknown keys, wrong sizes and contradictions."""
    good = model_named("qwen3-8b")
    path = tmp_path / "models.toml"
    path.write_text('[mine]\nlayers = 2\nwheels = 4\nsource = "me"\n')
    with pytest.raises(ShapeError, match="mine: unknown key 'wheels'"):
        load_models(path)
    path.write_text("[mine]\nlayers = 2\n")
    with pytest.raises(ShapeError, match="mine: missing"):
        load_models(path)
    for bad, complaint in (
        ({"layers": 0}, "layers is 0, must be a whole number >= 1"),
        ({"kv_heads": 5}, "must be a multiple of kv_heads"),
        ({"ffn": 0}, "exactly one must be > 0"),
    ):
        with pytest.raises(ShapeError, match=complaint):
            replace(good, **bad)  # type: ignore[arg-type]


def test_representatives_predict_measured_times_of_unseen_requests() -> None:
    """K=32 chosen on 3,000 requests errs by at most 3.2 % (8B) and 2.6 % (70B) of A100 time on the next 3,000."""
    benchmark = load_benchmark()
    trace = shipped_trace("azure2023_conv")
    for scenario, goal in zip(benchmark.SCENARIOS, (0.032, 0.026), strict=True):
        seen = benchmark.table_of(trace.slice(0, 3000), scenario)
        unseen = benchmark.table_of(trace.slice(3000, 6000), scenario)
        scores = {(s.method, s.budget): s.error_time for s in benchmark.compare(scenario, seen, unseen, "unseen")}

        assert scores["roofline-time medoids", 32] <= goal
        for other in ("log-size medoids", "call-count quantiles", "power-of-two grid"):
            assert scores["roofline-time medoids", 32] < scores[other, 32]


def load_benchmark() -> ModuleType:
    """benchmarks/shapes.py as a module; it is a script, not a package."""
    path = Path(__file__).parents[2] / "benchmarks" / "shapes.py"
    spec = importlib.util.spec_from_file_location("benchmark_of_shapes", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
