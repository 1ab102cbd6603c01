"""Planted errors: what a tolerance must catch in each operator, and what it must let pass."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
import torch

from bench_suite.contract import AxisValue, Case, Contract, DType, Phase, Role
from bench_suite.contracts import CONTRACTS, contract
from bench_suite.operators.compare import Comparison, compare, verify, worst
from bench_suite.operators.registry import operator
from bench_suite.operators.result import TORCH_DTYPES, Result

PLAIN: dict[str, dict[str, AxisValue]] = {
    "gemm": {"M": 48, "N": 160, "K": 512},
    "batched_gemm": {"batch": 2, "M": 48, "N": 160, "K": 256},
    "grouped_gemm": {"rows": 64, "experts": 6, "active": 4, "N": 160, "K": 512},
    "gemm_int8": {"M": 48, "N": 160, "K": 512},
    "gemm_fp8": {"M": 48, "N": 160, "K": 512},
    "gemm_dgrad": {"M": 48, "N": 512, "K": 160},
    "gemm_wgrad": {"M": 512, "N": 48, "K": 160},
    "attention_prefill": {"q": 64, "kv": 96, "heads": 8, "kv_heads": 2, "head_dim": 64},
    "attention_prefill_window": {"q": 64, "kv": 96, "heads": 8, "kv_heads": 2, "head_dim": 64, "window": 40},
    "attention_prefill_varlen": {"batch": 3, "q": (64, 90, 33), "heads": 8, "kv_heads": 2, "head_dim": 64},
    "attention_decode": {"batch": 4, "kv": (200, 333, 96, 150), "heads": 8, "kv_heads": 2, "head_dim": 64},
    "attention_decode_paged": {
        "batch": 4, "kv": (200, 333, 96, 150), "heads": 8, "kv_heads": 2, "head_dim": 64, "page": 16,
    },
    "attention_backward": {"q": 64, "heads": 8, "kv_heads": 2, "head_dim": 64},
    "rms_norm": {"rows": 48, "hidden": 512},
    "rms_norm_backward": {"rows": 48, "hidden": 1536},
    "layer_norm": {"rows": 48, "hidden": 512},
    "swiglu": {"rows": 48, "ffn": 512},
    "swiglu_backward": {"rows": 48, "ffn": 512},
    "geglu": {"rows": 48, "ffn": 512},
    "rope": {"rows": 48, "heads": 8, "head_dim": 64},
    "embedding": {"rows": 48, "vocab": 100, "hidden": 512},
    "softmax": {"rows": 48, "columns": 512},
    "sampling": {"rows": 1536, "columns": 96, "top_k": 40, "top_p_percent": 95},
    "cross_entropy": {"rows": 1536, "columns": 96},
    "cross_entropy_backward": {"rows": 48, "columns": 96},
    "adamw": {"elements": 48 * 512},
    "decoder_layer": {"tokens": 48, "hidden": 256, "heads": 4, "kv_heads": 2, "head_dim": 64, "ffn": 512, "step": 11},
}  # fmt: skip
COLLECTIVE: dict[str, dict[str, AxisValue]] = {
    "all_reduce": {},
    "all_gather": {},
    "reduce_scatter": {},
    "all_to_all": {},
    "send_recv": {},
    "all_reduce_overlap": {"M": 48, "N": 160, "K": 512},
}
"""Axes beside four ranks and 48 rows of 48 elements for each of them."""
CASES = [(name, dtype) for name in PLAIN for dtype in contract(name).dtypes]
Right = tuple[Case, tuple[torch.Tensor, ...], Result, Result]


def _case(name: str, dtype: DType) -> Case:
    return contract(name).case(PLAIN[name], dtype, Phase.PREFILL)


@functools.cache
def _right(name: str, dtype: DType) -> Right:
    """The case, its inputs, the optimized result and the reference; not to be changed."""
    case, op = _case(name, dtype), operator(name)
    inputs = op.make_inputs(case, 11, "cpu")
    optimized = next(i for i in op.implementations("cpu") if i.role is Role.OPTIMIZED)
    output = optimized.prepare(case, torch.device("cpu"))(*op.private(inputs))
    return case, inputs, output, op.reference(case, inputs)


def _parts(result: Result) -> tuple[torch.Tensor, ...]:
    return result if isinstance(result, tuple) else (result,)


def _copies(result: Result) -> Result:
    copies = tuple(part.clone(memory_format=torch.contiguous_format) for part in _parts(result))
    return copies if isinstance(result, tuple) else copies[0]


def _rows(y: torch.Tensor) -> torch.Tensor:
    """[rows, elements]; a vector in rows of 48."""
    return y.view(-1, y.shape[-1] if y.dim() > 1 else 48)


def _one_element(y: torch.Tensor) -> None:
    """The largest element is 10 % off; a token is the one before it."""
    flat = y.view(-1)
    largest = flat.abs().argmax()
    flat[largest] = flat[largest] * 1.1 if y.is_floating_point() else flat[largest] - 1


def _one_row_lost(y: torch.Tensor) -> None:
    _rows(y)[3] = 0


def _one_row_twice(y: torch.Tensor) -> None:
    _rows(y)[5] = _rows(y)[3]


def _one_tile_of_the_neighbour(y: torch.Tensor) -> None:
    """A tile of 16 x 16 comes from the tile beside it, as a wrong block offset gives."""
    rows = _rows(y)
    rows[16:32, 16:32] = rows[16:32, 32:48].clone()


def _one_tile_not_written(y: torch.Tensor) -> None:
    _rows(y)[16:32, -16:] = 0


PLANTS: list[Callable[[torch.Tensor], None]] = [
    _one_element,
    _one_row_lost,
    _one_row_twice,
    _one_tile_of_the_neighbour,
    _one_tile_not_written,
]


def test_every_operator_is_planted() -> None:
    """No operator is left out of this file."""
    assert set(PLAIN) | set(COLLECTIVE) == set(CONTRACTS)
    assert set(COLLECTIVE) == {name for name, promise in CONTRACTS.items() if promise.collective}


@pytest.mark.parametrize(("name", "dtype"), [(name, d) for name in COLLECTIVE for d in contract(name).dtypes])
def test_planted_errors_of_collectives_are_caught(name: str, dtype: DType) -> None:
    """The truth, rounded, is right on every rank; with one element, row or tile of a result off it is not."""
    promise, op = contract(name), operator(name)
    case = promise.case({"ranks": 4, "elements": 4 * 48 * 48, **COLLECTIVE[name]}, dtype, Phase.TRAINING)
    inputs = [op.make_inputs(case, 11, "cpu", rank=rank) for rank in range(4)]
    for rank in (0, 3):
        reference = op.reference(case, inputs, rank)
        rounded = tuple(part.to(TORCH_DTYPES[dtype]) for part in _parts(reference))
        right: Result = rounded if isinstance(reference, tuple) else rounded[0]
        assert verify(promise, case, right, reference).ok
        for plant in PLANTS:
            for number in range(len(rounded)):
                broken = _copies(right)
                plant(_parts(broken)[number])
                assert not verify(promise, case, broken, reference).ok, (plant.__name__, rank, number)


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__.strip("_"))
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_planted_errors_are_caught(name: str, dtype: DType, plant: Callable[[torch.Tensor], None]) -> None:
    """One element, one row, one tile: each makes any one result of a right call wrong, in every dtype."""
    case, inputs, output, reference = _right(name, dtype)
    op = operator(name)
    assert op.check(case, inputs, output, reference).ok
    for number in range(len(_parts(output))):
        broken = _copies(output)
        plant(_parts(broken)[number])
        found = op.check(case, inputs, broken, reference)
        assert not found.ok and found.margin > 1 and found.reason, f"result {number}"


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_the_exactly_rounded_result_is_right(name: str, dtype: DType) -> None:
    """The reference rounded to nearest is the best possible result: it passes, within a margin of 1."""
    case, inputs, output, reference = _right(name, dtype)
    op = operator(name)
    if op.observe is not None:  # a token is not rounded: the one of the naive arm, with two sorts, is right as well
        naive = next(i for i in op.implementations("cpu") if i.role is Role.NAIVE)
        exact: Result = naive.prepare(case, torch.device("cpu"))(*inputs)
    else:
        rounded = tuple(r.to(y.dtype) for r, y in zip(_parts(reference), _parts(output), strict=True))
        exact = rounded if isinstance(output, tuple) else rounded[0]
    found = op.check(case, inputs, exact, reference)
    assert found.ok and found.margin <= 1
    if op.observe is None:
        assert found.max_ulp <= 0.501  # torch rounds from binary64 by way of binary32


def _stretched(name: str, dtype: DType, factor: float) -> Comparison:
    """What is said of a result whose every element is off by `factor` of what the tolerance allows there."""
    case, _, _, reference = _right(name, dtype)
    op = operator(name)
    shifted = tuple(
        r + factor * (allowed.absolute + allowed.relative * r.abs())
        for r, allowed in zip(_parts(reference), op.contract.results_allow(case), strict=True)
    )
    found = [
        compare(y, r, allowed)
        for y, r, allowed in zip(shifted, _parts(reference), op.contract.results_allow(case), strict=True)
    ]
    return worst(found)


@pytest.mark.parametrize(("name", "dtype"), [case for case in CASES if case[0] != "embedding"])
def test_the_edge_of_the_tolerance_is_sharp(name: str, dtype: DType) -> None:
    """An error just inside the tolerance everywhere is right, one just beyond it is wrong. (Embedding allows none.)"""
    assert _stretched(name, dtype, 1 - 1e-6).ok
    beyond = _stretched(name, dtype, 1 + 1e-6)
    assert not beyond.ok and beyond.mismatch_share == 1.0


def _truncated(x: torch.Tensor) -> torch.Tensor:
    """Rounded to bf16 toward zero instead of to nearest."""
    bits = x.float().contiguous().view(torch.int32)
    return (bits & ~0xFFFF).view(torch.float32).bfloat16()


ONE_ROUNDING = [
    "gemm", "batched_gemm", "grouped_gemm", "gemm_dgrad", "gemm_wgrad", "layer_norm", "softmax", "rope", "adamw",
]  # fmt: skip
"""Operators whose contract allows one rounding to the dtype; the others may round an intermediate result as well."""


@pytest.mark.parametrize("name", ONE_ROUNDING)
def test_truncation_is_caught_where_one_rounding_is_promised(name: str) -> None:
    """Rounding toward zero errs by up to 2 u and is wrong where the contract allows one rounding to nearest."""
    case, inputs, output, reference = _right(name, DType.BF16)
    cut = tuple(_truncated(part) for part in _parts(reference))
    found = operator(name).check(case, inputs, cut if isinstance(output, tuple) else cut[0], reference)
    assert not found.ok and 1 < found.margin <= 2


@pytest.mark.parametrize("name", [name for name in PLAIN if name not in ("sampling", "gemm_fp8")])
def test_a_result_rounded_to_16_bits_is_caught_in_fp32(name: str) -> None:
    """An fp32 result that has passed through bf16 anywhere at its end is wrong."""
    case, inputs, output, reference = _right(name, DType.FP32)
    coarse = tuple(part.bfloat16().float() for part in _parts(output))
    assert not operator(name).check(case, inputs, coarse if isinstance(output, tuple) else coarse[0], reference).ok


def test_a_coarse_product_is_caught_in_gemm() -> None:
    """fp32 with inputs cut to the 10 bits of TF32, and a sum kept in bf16, leave the bound."""
    case, op = _case("gemm", DType.FP32), operator("gemm")
    x, weight = op.make_inputs(case, 11, "cpu")
    cut = [(t.view(torch.int32) & ~0x1FFF).view(torch.float32) for t in (x, weight)]
    reference = op.reference(case, (x, weight))
    assert not verify(contract("gemm"), case, cut[0] @ cut[1].T, reference).ok

    half = _case("gemm", DType.BF16)
    x, weight = op.make_inputs(half, 11, "cpu")
    total = torch.zeros(half["M"], half["N"], dtype=torch.bfloat16)
    for k in range(0, half["K"], 16):
        total += x[:, k : k + 16] @ weight[:, k : k + 16].T
    assert not verify(contract("gemm"), half, total, op.reference(half, (x, weight))).ok


def test_wrong_masks_are_caught_in_attention() -> None:
    """A causal mask off by one key, or aligned to the top left, and a decode that reads padding are wrong."""
    case, op = _case("attention_prefill", DType.BF16), operator("attention_prefill")
    query, key, value = op.make_inputs(case, 11, "cpu")
    reference = op.reference(case, (query, key, value))
    q, kv = case["q"], case["kv"]
    for diagonal, right in ((kv - q, True), (kv - q + 1, False), (kv - q - 1, False), (0, False)):
        mask = torch.ones(q, kv, dtype=torch.bool).tril(diagonal)
        output = torch.nn.functional.scaled_dot_product_attention(
            query[None], key[None], value[None], attn_mask=mask, enable_gqa=True
        )[0]
        assert verify(contract("attention_prefill"), case, output, reference).ok is right

    ragged, op = _case("attention_decode", DType.BF16), operator("attention_decode")
    inputs = op.make_inputs(ragged, 11, "cpu")
    optimized = next(i for i in op.implementations("cpu") if i.role is Role.OPTIMIZED)
    run = optimized.prepare(ragged, torch.device("cpu"))
    reference = op.reference(ragged, inputs)
    longer = (*inputs[:3], (inputs[3] + 1).clamp(max=inputs[1].shape[2]))
    assert not verify(contract("attention_decode"), ragged, run(*longer), reference).ok


def test_missing_epsilon_and_maximum_are_caught() -> None:
    """RMSNorm without its epsilon is wrong on tiny rows; softmax without the maximum is NaN on large logits."""
    norm, op = _case("rms_norm", DType.FP32), operator("rms_norm")
    x, weight = op.make_inputs(norm, 11, "cpu")
    x = x * 2.0**-10
    bare = x * torch.rsqrt(x.square().mean(-1, keepdim=True)) * weight
    assert not verify(contract("rms_norm"), norm, bare, op.reference(norm, (x, weight))).ok

    soft, op = _case("softmax", DType.FP32), operator("softmax")
    (logits,) = op.make_inputs(soft, 11, "cpu")
    logits = logits * 100
    powers = torch.exp(logits)
    found = verify(contract("softmax"), soft, powers / powers.sum(-1, keepdim=True), op.reference(soft, (logits,)))
    assert not found.ok


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(torch.int8) if tensor.element_size() == 1 else tensor


def _contracts() -> list[Contract]:
    return [contract(name) for name in PLAIN]


@pytest.mark.parametrize("promise", _contracts(), ids=lambda promise: promise.operator)
def test_inputs_are_what_the_contract_says(promise: Contract) -> None:
    """Inputs have the promised bytes; equal seeds give equal values, other seeds and ranks others."""
    case, op = _case(promise.operator, promise.dtypes[-1]), operator(promise.operator)
    inputs = op.make_inputs(case, 1, "cpu")
    assert len(inputs) == len(promise.tensors)
    assert sum(t.numel() * t.element_size() for t in inputs) == promise.input_bytes(case)
    again, other, rank = (op.make_inputs(case, seed, "cpu", rank=r) for seed, r in ((1, 0), (2, 0), (1, 1)))
    assert all(torch.equal(_bits(a), _bits(b)) for a, b in zip(inputs, again, strict=True))
    for changed in (other, rank):
        assert not all(torch.equal(_bits(a), _bits(b)) for a, b in zip(inputs, changed, strict=True))


def test_large_tensors_repeat_their_values_out_of_step() -> None:
    """Beyond the pool values repeat, yet rows differ: a kernel that reads the wrong row shows."""
    from bench_suite.operators.base import POOL_ELEMENTS, normal

    case = _case("gemm", DType.FP32)
    tensor = normal(case, 3, torch.device("cpu"), tensor="weight", shape=(2100, 4096))
    assert tensor.numel() > POOL_ELEMENTS
    flat = tensor.view(-1)
    assert torch.equal(flat[POOL_ELEMENTS:], flat[: flat.numel() - POOL_ELEMENTS])
    assert len({tuple(row.tolist()) for row in tensor[:, :4]}) == 2100
    assert abs(float(tensor.mean())) < 0.01 and abs(float(tensor.std()) - 1) < 0.01
