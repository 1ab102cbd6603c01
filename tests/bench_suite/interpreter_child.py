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

from bench_suite.contract import Case, DType, Phase, Tolerance
from bench_suite.contracts import CONTRACTS
from bench_suite.contracts.error_bounds import at_extreme
from bench_suite.kernels import (
    attention,
    attention_paged,
    cross_entropy,
    gemm,
    grouped_gemm,
    layer_norm,
    norm_rows,
    rms_norm,
    rope,
    softmax,
    swiglu,
)
from bench_suite.operators.base import with_extreme
from bench_suite.operators.compare import compare
from bench_suite.operators.registry import operator
from bench_suite.operators.result import TORCH_DTYPES

LAUNCHERS: dict[str, Callable[..., torch.Tensor]] = {
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
}

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
    "grouped_gemm": (
        (
            "experts of several tiles",
            {"rows": 70, "experts": 5, "active": 3, "N": 40, "K": 48},
            grouped_gemm.GroupedGemmConfig(block_m=16, block_n=16, block_k=16),
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
    entry, launch = operator(name), LAUNCHERS[name]
    for label, case, config in cases(name, dtype):
        inputs = entry.make_inputs(case, 7, "cpu")
        before = [tensor.clone() for tensor in inputs]
        result = launch(*inputs, config=config)
        tolerance = allowed(entry.contract.tolerance(case), dtype)
        found = compare(result, entry.reference(case, inputs), tolerance, dtype=TORCH_DTYPES[dtype])
        kept = all(torch.equal(a, b) for a, b in zip(before, inputs, strict=True))
        yield label, found.ok and kept, found.reason if kept else "inputs were changed"
    case = entry.contract.case(entry.contract.edge_cases[2], dtype, Phase.PREFILL)
    for extreme in entry.contract.extremes:
        inputs = with_extreme(entry.make_inputs(case, 8, "cpu"), extreme)
        tolerance = allowed(at_extreme(entry.contract.tolerance(case), extreme, dtype), dtype)
        found = compare(launch(*inputs), entry.reference(case, inputs), tolerance, dtype=TORCH_DTYPES[dtype])
        yield f"{case.case_id} {extreme.name}", found.ok, found.reason


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
            for label, right, reason in check(name, dtype):
                sys.stdout.write(
                    json.dumps({"group": f"{name}-{dtype.value}", "label": label, "right": right, "reason": reason})
                    + "\n"
                )
    for label, right, reason in strided():
        sys.stdout.write(json.dumps({"group": "strided", "label": label, "right": right, "reason": reason}) + "\n")


if __name__ == "__main__":
    main()
