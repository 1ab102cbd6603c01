"""The promises of all operators, by name. Free of torch: suites, estimates and dashboards' catalogs need no more."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from bench_suite.contract import Contract, ContractError
from bench_suite.contracts.adamw import ADAMW
from bench_suite.contracts.attention_backward import ATTENTION_BACKWARD
from bench_suite.contracts.attention_decode import ATTENTION_DECODE
from bench_suite.contracts.attention_prefill import ATTENTION_PREFILL, ATTENTION_PREFILL_WINDOW
from bench_suite.contracts.attention_ragged import ATTENTION_DECODE_PAGED, ATTENTION_PREFILL_VARLEN
from bench_suite.contracts.collectives import ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, REDUCE_SCATTER, SEND_RECV
from bench_suite.contracts.collectives_overlap import ALL_REDUCE_OVERLAP
from bench_suite.contracts.cross_entropy import CROSS_ENTROPY, CROSS_ENTROPY_BACKWARD
from bench_suite.contracts.decoder_layer import DECODER_LAYER
from bench_suite.contracts.embedding import EMBEDDING
from bench_suite.contracts.gemm import BATCHED_GEMM, GEMM, GEMM_DGRAD, GEMM_WGRAD
from bench_suite.contracts.grouped_gemm import GROUPED_GEMM
from bench_suite.contracts.layer_norm import LAYER_NORM
from bench_suite.contracts.quantized_gemm import GEMM_FP8, GEMM_INT8
from bench_suite.contracts.rms_norm import RMS_NORM, RMS_NORM_BACKWARD
from bench_suite.contracts.rope import ROPE
from bench_suite.contracts.sampling import SAMPLING
from bench_suite.contracts.softmax import SOFTMAX
from bench_suite.contracts.swiglu import GEGLU, SWIGLU, SWIGLU_BACKWARD

CONTRACTS: Mapping[str, Contract] = MappingProxyType(
    {
        entry.operator: entry
        for entry in (
            GEMM,
            BATCHED_GEMM,
            GROUPED_GEMM,
            GEMM_INT8,
            GEMM_FP8,
            GEMM_DGRAD,
            GEMM_WGRAD,
            ATTENTION_PREFILL,
            ATTENTION_PREFILL_WINDOW,
            ATTENTION_PREFILL_VARLEN,
            ATTENTION_DECODE,
            ATTENTION_DECODE_PAGED,
            ATTENTION_BACKWARD,
            RMS_NORM,
            RMS_NORM_BACKWARD,
            LAYER_NORM,
            SWIGLU,
            SWIGLU_BACKWARD,
            GEGLU,
            ROPE,
            EMBEDDING,
            SOFTMAX,
            SAMPLING,
            CROSS_ENTROPY,
            CROSS_ENTROPY_BACKWARD,
            ADAMW,
            DECODER_LAYER,
            ALL_REDUCE,
            ALL_GATHER,
            REDUCE_SCATTER,
            ALL_TO_ALL,
            SEND_RECV,
            ALL_REDUCE_OVERLAP,
        )
    }
)


def contract(name: str) -> Contract:
    """The contract called `name`; ContractError lists the known ones."""
    if name not in CONTRACTS:
        raise ContractError(f"operator {name!r} is unknown, must be one of {', '.join(CONTRACTS)}")
    return CONTRACTS[name]
