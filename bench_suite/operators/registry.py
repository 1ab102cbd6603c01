"""From an operator's name to its code; only the module asked for is imported."""

from __future__ import annotations

import importlib

from bench_suite.contract import ContractError
from bench_suite.contracts import contract
from bench_suite.operators.base import Operator

_FILES = {
    "gemm": ("gemm", "batched_gemm", "gemm_dgrad", "gemm_wgrad"),
    "grouped_gemm": ("grouped_gemm",),
    "quantized_gemm": ("gemm_int8", "gemm_fp8"),
    "attention_prefill": ("attention_prefill", "attention_prefill_window"),
    "attention_varlen": ("attention_prefill_varlen",),
    "attention_decode": ("attention_decode",),
    "attention_paged": ("attention_decode_paged",),
    "attention_backward": ("attention_backward",),
    "rms_norm": ("rms_norm", "rms_norm_backward"),
    "layer_norm": ("layer_norm",),
    "swiglu": ("swiglu", "geglu", "swiglu_backward"),
    "rope": ("rope",),
    "embedding": ("embedding",),
    "softmax": ("softmax",),
    "sampling": ("sampling",),
    "cross_entropy": ("cross_entropy", "cross_entropy_backward"),
    "adamw": ("adamw",),
    "decoder_layer": ("decoder_layer",),
    "collectives": ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv"),
    "collectives_overlap": ("all_reduce_overlap",),
}

MODULES = {name: f"bench_suite.operators.{file}" for file, names in _FILES.items() for name in names}


def operator(name: str) -> Operator:
    """The operator called `name`; ContractError lists the known ones."""
    contract(name)
    if name not in MODULES:
        raise ContractError(f"operator {name!r} has a contract but no code here")
    module = importlib.import_module(MODULES[name])
    found = module.OPERATORS[name] if hasattr(module, "OPERATORS") else module.OPERATOR
    assert isinstance(found, Operator)
    return found
