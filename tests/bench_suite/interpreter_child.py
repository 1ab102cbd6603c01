"""Runs every Triton kernel in the interpreter against float64 references; prints one line of JSON a case.

    python interpreter_child.py fp32,bf16 [operator ...]

A process of its own: the interpreter is chosen before Triton is imported, and holds for the whole process.
"""

from __future__ import annotations

import os

os.environ["TRITON_INTERPRET"] = "1"

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch

from bench_suite.contract import Case, Contract, DType, Phase, Tolerance
from bench_suite.contracts import CONTRACTS
from bench_suite.contracts.error_bounds import contract_at
from bench_suite.kernels import (
    adamw,
    attention,
    attention_paged,
    attention_varlen,
    cross_entropy,
    gemm,
    gemm_int8,
    gemm_persistent,
    grouped_gemm,
    layer_norm,
    norm_rows,
    rms_norm,
    rms_norm_backward,
    rope,
    sampling,
    softmax,
    swiglu,
)
from bench_suite.kernels.runtime import DeviceTraits
from bench_suite.operators.base import Inputs, Operator, with_extreme
from bench_suite.operators.compare import Comparison, compare
from bench_suite.operators.registry import operator
from bench_suite.operators.result import TORCH_DTYPES, Result

LAUNCHERS: dict[str, Callable[..., Result]] = {
    "gemm": gemm.launch,
    "rms_norm": rms_norm.launch,
    "swiglu": swiglu.launch,
    "softmax": softmax.launch,
    "attention_prefill": attention.launch_prefill,
    "attention_decode": attention.launch_decode,
    "attention_decode_paged": attention_paged.launch,
    "grouped_gemm": grouped_gemm.launch,
    "layer_norm": layer_norm.launch,
    "geglu": swiglu.launch_geglu,
    "rope": rope.launch,
    "cross_entropy": cross_entropy.launch,
    "cross_entropy_backward": cross_entropy.launch_backward,
    "gemm_int8": gemm_int8.launch,
    "attention_prefill_varlen": attention_varlen.launch,
    "sampling": sampling.launch,
    "rms_norm_backward": rms_norm_backward.launch,
    "adamw": adamw.launch,
}
SETTINGS: dict[str, Callable[[Case], dict[str, float]]] = {
    "sampling": lambda case: {"top_k": case["top_k"], "top_p": case["top_p_percent"] / 100},
}
"""What a launcher takes beside the inputs."""
MOST_ROWS = {"sampling": 7}
"""Rows of an edge case, where each takes the interpreter a tenth of a second."""

SPLIT_DECODE = attention.DecodeConfig(block_kv=16, splits=3, num_warps=4, num_stages=2)
CONFIGURED: dict[str, tuple[tuple[str, dict[str, object], object], ...]] = {
    "gemm": (
        ("split sum", {"M": 3, "N": 100, "K": 300}, gemm.GemmConfig(block_m=16, block_n=32, block_k=32, split_k=3)),
        (
            "more parts than steps",
            {"M": 2, "N": 9, "K": 40},
            gemm.GemmConfig(block_m=16, block_n=16, block_k=32, split_k=4),
        ),
        ("grouped tiles", {"M": 70, "N": 50, "K": 32}, gemm.GemmConfig(block_m=16, block_n=16, block_k=16, group_m=3)),
    ),
    "rms_norm": (("row in parts", {"rows": 3, "hidden": 300}, norm_rows.NormConfig(block=128, num_warps=1)),),
    "layer_norm": (("row in parts", {"rows": 3, "hidden": 300}, norm_rows.NormConfig(block=128, num_warps=1)),),
    "rope": (("heads in parts", {"rows": 3, "heads": 5, "head_dim": 6}, rope.RopeConfig(heads=2, num_warps=1)),),
    "cross_entropy": (
        ("row in steps", {"rows": 3, "columns": 300}, cross_entropy.CrossEntropyConfig(block=64, num_warps=1)),
    ),
    "cross_entropy_backward": (
        ("row in steps", {"rows": 3, "columns": 300}, cross_entropy.CrossEntropyConfig(block=64, num_warps=1)),
    ),
    "gemm_int8": (
        ("split sum", {"M": 3, "N": 100, "K": 300}, gemm.GemmConfig(block_m=16, block_n=32, block_k=32, split_k=3)),
    ),
    "attention_prefill_varlen": (
        (
            "narrow tiles",
            {"batch": 3, "q": (50, 1, 33), "heads": 4, "kv_heads": 2, "head_dim": 80},
            attention.PrefillConfig(block_q=16, block_kv=16, num_warps=4, num_stages=2),
        ),
    ),
    "sampling": (
        (
            "row in steps",
            {"rows": 3, "columns": 300, "top_k": 40, "top_p_percent": 90},
            sampling.SamplingConfig(block=64, num_warps=1),
        ),
        ("everything kept", {"rows": 2, "columns": 33, "top_k": 33, "top_p_percent": 100}, None),
    ),
    "rms_norm_backward": (("row in parts", {"rows": 19, "hidden": 300}, norm_rows.NormConfig(block=128, num_warps=1)),),
    "adamw": (("blocks", {"elements": 300}, adamw.AdamwConfig(block=64, num_warps=1)),),
    "grouped_gemm": (
        (
            "experts of several tiles",
            {"rows": 70, "experts": 5, "active": 3, "N": 40, "K": 48},
            gemm.TileConfig(block_m=16, block_n=16, block_k=16),
        ),
    ),
    "softmax": (("row in chunks", {"rows": 3, "columns": 300}, softmax.SoftmaxConfig(block=64, num_warps=1)),),
    "attention_prefill": (
        (
            "narrow tiles",
            {"q": 50, "kv": 83, "heads": 4, "kv_heads": 2, "head_dim": 64},
            attention.PrefillConfig(block_q=16, block_kv=16, num_warps=4, num_stages=2),
        ),
        (
            "head_dim that is no power of two",
            {"q": 20, "kv": 20, "heads": 2, "kv_heads": 1, "head_dim": 80},
            None,
        ),
    ),
    "attention_decode": (
        (
            "split cache",
            {"batch": 3, "kv": (1, 17, 130), "heads": 8, "kv_heads": 2, "head_dim": 64},
            SPLIT_DECODE,
        ),
        ("five heads a group", {"batch": 2, "kv": (9, 70), "heads": 5, "kv_heads": 1, "head_dim": 80}, SPLIT_DECODE),
    ),
    "attention_decode_paged": (
        (
            "split cache",
            {"batch": 3, "kv": (1, 17, 130), "heads": 8, "kv_heads": 2, "head_dim": 64, "page": 10},
            SPLIT_DECODE,
        ),
    ),
}


def cases(name: str, dtype: DType) -> Iterator[tuple[str, Case, object]]:
    """Edge cases of the contract with the default configuration, then shapes that a configuration makes hard."""
    contract = CONTRACTS[name]
    for axes in contract.edge_cases:
        if int(axes.get("rows", 0)) > MOST_ROWS.get(name, 1000):  # type: ignore[arg-type]
            continue
        case = contract.case(axes, dtype, Phase.PREFILL)
        yield case.case_id, case, None
    for label, axes, config in CONFIGURED.get(name, ()):
        case = contract.case(axes, dtype, Phase.PREFILL)  # type: ignore[arg-type]
        yield f"{case.case_id} {label}", case, config


def allowed(promised: Tolerance, dtype: DType) -> Tolerance:
    """The interpreter truncates to bf16 where hardware rounds to nearest: one unit roundoff more."""
    return replace(promised, relative=promised.relative + dtype.unit_roundoff) if dtype is DType.BF16 else promised


def check(name: str, dtype: DType) -> Iterator[tuple[str, bool, str]]:
    """(label, right, what is wrong) of every case and extreme."""
    entry, launch, settings = operator(name), LAUNCHERS[name], SETTINGS.get(name, lambda case: {})
    for label, case, config in cases(name, dtype):
        inputs = entry.make_inputs(case, 7, "cpu")
        before = [tensor.clone() for tensor in inputs]
        reference = entry.reference(case, inputs)
        result = launch(*entry.private(inputs), config=config, **settings(case))
        found = held(entry, case, inputs, result, reference, entry.contract)
        kept = all(torch.equal(a, b) for a, b in zip(before, inputs, strict=True))
        yield label, found.ok and kept, found.reason if kept else "inputs were changed"
    case = entry.contract.case(entry.contract.edge_cases[2], dtype, Phase.PREFILL)
    for extreme in entry.contract.extremes:
        inputs = with_extreme(entry.make_inputs(case, 8, "cpu"), extreme)
        reference = entry.reference(case, inputs)
        result = launch(*entry.private(inputs), **settings(case))
        found = held(entry, case, inputs, result, reference, contract_at(entry.contract, extreme))
        yield f"{case.case_id} {extreme.name}", found.ok, found.reason


def held(
    entry: Operator, case: Case, inputs: Inputs, result: Result, reference: Result, promise: Contract
) -> Comparison:
    """As `Operator.check`, with what the interpreter's own rounding needs beside the promise."""
    given = tuple(allowed(tolerance, case.dtype) for tolerance in promise.results_allow(case))
    wider = replace(promise, tolerance=lambda case: given[0], tolerances=lambda case: given)
    return replace(entry, contract=wider).check(case, inputs, result, reference)


def persistent(dtype: DType) -> Iterator[tuple[str, bool, str]]:
    """GEMM by descriptors: tiles that end outside, several tiles a program, and what a descriptor does not take."""
    entry, traits = operator("gemm"), DeviceTraits(architecture="sm_90", processors=132)
    for axes in ({"M": 70, "N": 112, "K": 80}, {"M": 1, "N": 16, "K": 16}, {"M": 33, "N": 64, "K": 136}):
        case = entry.contract.case(axes, dtype, Phase.PREFILL)
        inputs = entry.make_inputs(case, 7, "cpu")
        config = gemm.GemmConfig(block_m=16, block_n=32, block_k=32, group_m=3)
        result = gemm_persistent.launch(*inputs, config=config)
        found = held(entry, case, inputs, result, entry.reference(case, inputs), entry.contract)
        yield f"{case.case_id} persistent", found.ok, found.reason
    refused = gemm_persistent.why_not(64, 33, TORCH_DTYPES[dtype], traits)
    yield "a K that is not whole steps", "needs K in multiples of" in refused, refused


def strided() -> Iterator[tuple[str, bool, str]]:
    """Rows that do not follow each other in memory, and a sequence without context."""
    x = torch.randn(6, 40)[:, :33]
    weight = torch.randn(12, 50)[::2, :33]
    found = compare(gemm.launch(x, weight), x.double() @ weight.double().T, Tolerance(absolute=1e-5, relative=1e-5))
    yield "gemm over strided rows", found.ok, found.reason
    found = compare(softmax.launch(x), torch.softmax(x.double(), -1), Tolerance(absolute=1e-7, relative=1e-5))
    yield "softmax over strided rows", found.ok, found.reason
    cache = torch.randn(1, 1, 8, 64)
    empty = attention.launch_decode(torch.randn(1, 2, 64), cache, cache, torch.zeros(1, dtype=torch.int32))
    yield "decode of an empty context is zero", bool((empty == 0).all()), str(empty)
    nothing = gemm.launch(torch.empty(0, 8), torch.empty(4, 8))
    yield "gemm of no rows", tuple(nothing.shape) == (0, 4), str(nothing.shape)


def main() -> None:
    torch.set_num_threads(1)
    dtypes = [DType(name) for name in sys.argv[1].split(",")]
    for name in sys.argv[2:] or LAUNCHERS:
        for dtype in dtypes:
            say(f"{name}-{dtype.value}", check(name, dtype))
    for dtype in dtypes:
        say(f"gemm_persistent-{dtype.value}", persistent(dtype))
    say("strided", strided())


def say(group: str, found: Iterator[tuple[str, bool, str]]) -> None:
    for label, right, reason in found:
        sys.stdout.write(json.dumps({"group": group, "label": label, "right": right, "reason": reason}) + "\n")


if __name__ == "__main__":
    main()
