"""PyTorch's names of operators, types and collectives, in the two kinds of trace that it writes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from bench_suite.shapes.importers.recording import Axes, attention_shape, batched_gemm_axes, gemm_axes, row_axes

Sizes = Sequence[Sequence[int]]

TYPES: Mapping[str, str] = {
    "double": "fp64", "float": "fp32", "c10::bfloat16": "bf16", "c10::half": "fp16", "c10::float8_e4m3fn": "fp8_e4m3",
    "c10::float8_e5m2": "fp8_e5m2", "signed char": "int8", "unsigned char": "int8", "char": "int8", "byte": "int8",
    "int": "int32", "long": "int64", "long int": "int64", "bfloat16": "bf16", "half": "fp16",
    "float8_e4m3fn": "fp8_e4m3", "float8_e5m2": "fp8_e5m2", "bool": "int8",
}  # fmt: skip

COLLECTIVES: Mapping[str, str] = {
    "allreduce": "all_reduce", "all_reduce": "all_reduce", "allreduce_coalesced": "all_reduce",
    "allgather": "all_gather", "all_gather": "all_gather", "_allgather_base": "all_gather",
    "_all_gather_base": "all_gather",
    "all_gather_into_tensor": "all_gather",
    "allgather_into_tensor_coalesced": "all_gather",
    "reduce_scatter": "reduce_scatter", "_reduce_scatter_base": "reduce_scatter",
    "reduce_scatter_tensor": "reduce_scatter", "reduce_scatter_tensor_coalesced": "reduce_scatter",
    "all_to_all": "all_to_all", "all_to_allv": "all_to_all", "alltoall": "all_to_all",
    "all_to_all_single": "all_to_all",
    "broadcast": "broadcast", "reduce": "reduce", "send": "send", "recv": "recv", "gather": "gather",
    "scatter": "scatter",
}  # fmt: skip

ATTENTION = "aten::scaled_dot_product_attention"
_FUSED_ATTENTION = re.compile(r"^aten::_scaled_dot_product_\w*attention\w*$")
_CAUSAL_POSITION = {ATTENTION: 5, "aten::_scaled_dot_product_efficient_attention": 6,
                    "aten::_scaled_dot_product_cudnn_attention": 6}  # fmt: skip
"""Of is_causal among the inputs; the other fused kernels have it at 4."""

OPERATORS: Mapping[str, str] = {
    "aten::mm": "gemm",
    "aten::addmm": "gemm",
    "aten::_scaled_mm": "gemm",
    "aten::bmm": "batched_gemm",
    "aten::baddbmm": "batched_gemm",
    "aten::_softmax": "softmax",
    "aten::rms_norm": "rms_norm",
    "aten::native_layer_norm": "layer_norm",
}
"""Leaves only: aten::linear and aten::matmul contain aten::mm or aten::addmm, and would count twice."""


def operator_of(name: str) -> str | None:
    """The suite's name of a leaf operator, or None."""
    if name == ATTENTION or _FUSED_ATTENTION.match(name):
        return None if "backward" in name else "attention"
    return OPERATORS.get(name)


def dtype_of(types: Sequence[str], name: str) -> str | None:
    """Of the first tensor that is multiplied, as the suite names it."""
    position = 1 if name in ("aten::addmm", "aten::baddbmm") else 0
    if len(types) <= position:
        return None
    text = str(types[position]).removeprefix("Tensor(").removesuffix(")")
    return TYPES.get(text.lower())


def is_attention(name: str) -> bool:
    return operator_of(name) == "attention"


def attention_of(name: str, sizes: Sizes, values: Sequence[object]) -> tuple[str, Axes | None]:
    """The contract and the named sizes of an attention call; `values` are its inputs as recorded, which say causal."""
    position = _CAUSAL_POSITION.get(name, 4)
    causal = len(values) > position and str(values[position]) == "True"
    if len(sizes) < 2:
        return "attention_full", None
    return attention_shape(sizes[0], sizes[1], causal=causal)


def axes_of(name: str, sizes: Sizes) -> Axes | None:
    """Named sizes of any other leaf operator from those of its inputs; None where they are missing or do not fit."""
    try:
        if name in ("aten::mm", "aten::_scaled_mm"):
            return gemm_axes(sizes[0], sizes[1])
        if name == "aten::addmm":
            return gemm_axes(sizes[1], sizes[2])
        if name == "aten::bmm":
            return batched_gemm_axes(sizes[0], sizes[1])
        if name == "aten::baddbmm":
            return batched_gemm_axes(sizes[1], sizes[2])
        if name == "aten::_softmax":
            return row_axes(sizes[0], "columns")
        if name in ("aten::rms_norm", "aten::native_layer_norm"):
            return row_axes(sizes[0], "hidden")
        return None
    except (IndexError, TypeError):
        return None


def elements_of(sizes: object) -> int:
    """Elements of all tensors in nested lists of sizes: [[2, 3]] and [[[2, 3]]] are 6, [[]] is 0."""
    if not isinstance(sizes, Sequence) or isinstance(sizes, str) or not sizes:
        return 0
    if all(isinstance(size, int) for size in sizes):
        product = 1
        for size in sizes:
            product *= size
        return product
    return sum(elements_of(part) for part in sizes)
