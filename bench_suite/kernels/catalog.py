"""Every Triton kernel as it would be compiled for a chip at a production shape: the rows of the static metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch
import triton

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

_TRITON_TYPES = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}

# Sizes of Llama 3.1 8B, the model of the shipped suites, and the experts of Qwen3-30B-A3B.
HIDDEN, FFN, HEADS, KV_HEADS, HEAD_DIM, VOCABULARY = 4096, 14336, 32, 8, 128, 128256
PREFILL_TOKENS, DECODE_TOKENS, CACHE_POSITIONS, PAGE, PROMPTS = 2048, 16, 4096, 16, 4
EXPERTS, EXPERT_ROWS, EXPERT_FFN, EXPERT_HIDDEN = 128, 4096, 768, 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A kernel with argument types and constants: what one binary is."""

    operator: str
    """Of the contract whose candidate it belongs to."""
    kernel: str
    shape: str
    """The production shape its configuration was chosen for, in words."""
    dtype: str
    function: Any
    """The raw `@triton.jit` function."""
    types: Mapping[str, str]
    """Triton type of each argument that is no constant; `:16` marks multiples of 16 (bytes, elements)."""
    constants: Mapping[str, int | bool]
    num_warps: int
    num_stages: int

    @property
    def name(self) -> str:
        return f"{self.kernel}[{self.dtype},{self.shape}]"


class _Runs(Protocol):
    """What of a configuration says how a program runs."""

    @property
    def num_warps(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Element:
    """The element type of the variants, as torch and as Triton name it."""

    torch_type: torch.dtype

    @property
    def name(self) -> str:
        return _TRITON_TYPES[self.torch_type]

    def variant(
        self,
        operator: str,
        function: Any,
        shape: str,
        config: _Runs,
        *,
        sizes: str = "",
        counts: str = "",
        other: Mapping[str, str] | None = None,
        **constants: int | bool,
    ) -> Variant:
        """Arguments that end in `_ptr` point to elements unless `other` types them; `sizes` are multiples of 16."""
        types = {name: f"*{self.name}:16" for name in function.arg_names if name.endswith("_ptr")}
        types |= dict.fromkeys((name for name in function.arg_names if name.startswith("stride_")), "i32:16")
        types |= dict.fromkeys(sizes.split(), "i32:16") | dict.fromkeys(counts.split(), "i32") | dict(other or {})
        return Variant(
            operator=operator,
            kernel=function.__name__,
            shape=shape,
            dtype=self.name,
            function=function,
            types=types,
            constants=constants,
            num_warps=config.num_warps,
            num_stages=getattr(config, "num_stages", 3),
        )


def variants(traits: DeviceTraits, dtype: torch.dtype = torch.bfloat16) -> tuple[Variant, ...]:
    """All kernels with the configurations that `traits` gets."""
    element = _Element(torch_type=dtype)
    makers: tuple[Callable[[_Element, DeviceTraits], Iterator[Variant]], ...] = (
        _gemm,
        _gemm_persistent,
        _gemm_int8,
        _grouped_gemm,
        _prefill,
        _decode,
        _rowwise,
        _logits,
        _training,
    )
    return tuple(variant for make in makers for variant in make(element, traits))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plain:
    num_warps: int = 4


def _gemm(element: _Element, traits: DeviceTraits) -> Iterator[Variant]:
    N, K = 2 * FFN, HIDDEN
    for M in (DECODE_TOKENS, PREFILL_TOKENS):
        config = gemm.choose(M, N, K, element.torch_type, traits)
        yield element.variant(
            "gemm", gemm.gemm_kernel, f"M={M},N={N},K={K}", config,
            counts="M", sizes="N K k_per_split", other={} if config.split_k == 1 else {"out_ptr": "*fp32:16"},
            BLOCK_M=config.block_m, BLOCK_N=config.block_n, BLOCK_K=config.block_k, GROUP_M=config.group_m,
            UPCAST=False,
        )  # fmt: skip
    yield element.variant(
        "gemm", gemm.sum_parts_kernel, "parts=4", _Plain(),
        sizes="elements", other={"parts_ptr": "*fp32:16"}, SPLIT=4, BLOCK=1024,
    )  # fmt: skip


def _gemm_persistent(element: _Element, traits: DeviceTraits) -> Iterator[Variant]:
    N, K = 2 * FFN, HIDDEN
    if gemm_persistent.why_not(N, K, element.torch_type, traits):
        return
    for M in (DECODE_TOKENS, PREFILL_TOKENS):
        config = gemm_persistent.choose(M, N, K, element.torch_type, traits)
        yield element.variant(
            "gemm", gemm_persistent.gemm_persistent_kernel, f"M={M},N={N},K={K}", config,
            counts="M", sizes="N K",
            BLOCK_M=config.block_m, BLOCK_N=config.block_n, BLOCK_K=config.block_k, GROUP_M=config.group_m,
            UPCAST=False,
        )  # fmt: skip


def _gemm_int8(element: _Element, traits: DeviceTraits) -> Iterator[Variant]:
    N, K = 2 * FFN, HIDDEN
    for M in (DECODE_TOKENS, PREFILL_TOKENS):
        config = gemm.choose(M, N, K, element.torch_type, traits)
        parts = {} if config.split_k == 1 else {"out_ptr": "*fp32:16"}
        yield element.variant(
            "gemm_int8", gemm_int8.gemm_int8_kernel, f"M={M},N={N},K={K}", config,
            counts="M", sizes="N K k_per_split", other={"weight_ptr": "*i8:16", **parts},
            BLOCK_M=config.block_m, BLOCK_N=config.block_n, BLOCK_K=config.block_k, GROUP_M=config.group_m,
            UPCAST=False,
        )  # fmt: skip


def _grouped_gemm(element: _Element, traits: DeviceTraits) -> Iterator[Variant]:
    config = grouped_gemm.choose(EXPERT_ROWS, EXPERTS, element.torch_type, traits)
    yield element.variant(
        "grouped_gemm", grouped_gemm.grouped_gemm_kernel, f"rows={EXPERT_ROWS},experts={EXPERTS}", config,
        sizes="experts N K", other={"ends_ptr": "*i32:16"},
        BLOCK_M=config.block_m, BLOCK_N=config.block_n, BLOCK_K=config.block_k, UPCAST=False,
    )  # fmt: skip


def _prefill(element: _Element, traits: DeviceTraits) -> Iterator[Variant]:
    config = attention.choose_prefill(PREFILL_TOKENS, HEAD_DIM, element.torch_type, traits)
    yield element.variant(
        "attention_prefill", attention.prefill_kernel, f"q={PREFILL_TOKENS},d={HEAD_DIM}", config,
        counts="q_len kv_len group", other={"scale_log2": "fp32"},
        D=HEAD_DIM, BLOCK_Q=config.block_q, BLOCK_KV=config.block_kv, BLOCK_D=HEAD_DIM, UPCAST=False,
    )  # fmt: skip

    packed = attention.choose_prefill(PREFILL_TOKENS // PROMPTS, HEAD_DIM, element.torch_type, traits)
    yield element.variant(
        "attention_prefill_varlen", attention_varlen.varlen_prefill_kernel,
        f"batch={PROMPTS},tokens={PREFILL_TOKENS},d={HEAD_DIM}", packed,
        counts="batch group", other={"scale_log2": "fp32", "ends_ptr": "*i32:16"},
        D=HEAD_DIM, BLOCK_Q=packed.block_q, BLOCK_KV=packed.block_kv, BLOCK_D=HEAD_DIM, UPCAST=False,
    )  # fmt: skip


def _decode(element: _Element, traits: DeviceTraits) -> Iterator[Variant]:
    config = attention.choose_decode(DECODE_TOKENS, KV_HEADS, CACHE_POSITIONS, HEAD_DIM, element.torch_type, traits)
    parts = dict.fromkeys(("part_ptr", "maximum_ptr", "total_ptr"), "*fp32:16")
    common = {"lengths_ptr": "*i32:16", "scale_log2": "fp32", **parts}
    shape = f"batch={DECODE_TOKENS},kv={CACHE_POSITIONS},d={HEAD_DIM}"
    decode = partial(
        element.variant, config=config, counts="kv_heads group", sizes="positions_per_split",
        D=HEAD_DIM, BLOCK_G=max(16, triton.next_power_of_2(HEADS // KV_HEADS)), BLOCK_KV=config.block_kv,
        BLOCK_D=HEAD_DIM, SPLITS=config.splits, UPCAST=False,
    )  # fmt: skip
    yield decode("attention_decode", attention.decode_kernel, shape, other=common)
    yield decode(
        "attention_decode_paged", attention_paged.paged_decode_kernel, f"{shape},page={PAGE}",
        other={**common, "table_ptr": "*i32:16"}, PAGE=PAGE,
    )  # fmt: skip
    yield element.variant(
        "attention_decode", attention.join_splits_kernel, f"splits={config.splits},d={HEAD_DIM}", _Plain(),
        counts="splits", other=parts,
        D=HEAD_DIM, BLOCK_D=HEAD_DIM, BLOCK_S=triton.next_power_of_2(config.splits),
    )  # fmt: skip


def _rowwise(element: _Element, traits: DeviceTraits) -> Iterator[Variant]:
    norm, glu = norm_rows.choose(HIDDEN), swiglu.choose(FFN)
    yield element.variant(
        "rms_norm", rms_norm.rms_norm_kernel, f"hidden={HIDDEN}", norm,
        sizes="hidden", other={"epsilon": "fp32"}, BLOCK=norm.block, ONE_BLOCK=norm.block >= HIDDEN,
    )  # fmt: skip
    yield element.variant(
        "layer_norm", layer_norm.layer_norm_kernel, f"hidden={HIDDEN}", norm,
        sizes="hidden", other={"epsilon": "fp32"}, BLOCK=norm.block, ONE_BLOCK=norm.block >= HIDDEN,
    )  # fmt: skip
    for operator, function in (("swiglu", swiglu.swiglu_kernel), ("geglu", swiglu.geglu_kernel)):
        yield element.variant(operator, function, f"ffn={FFN}", glu, sizes="ffn", BLOCK=glu.block)
    rotated = rope.choose(HEADS + KV_HEADS, HEAD_DIM)
    yield element.variant(
        "rope", rope.rope_kernel, f"heads={HEADS + KV_HEADS},d={HEAD_DIM}", rotated,
        counts="heads", sizes="half", other={"cosine_ptr": "*fp32:16", "sine_ptr": "*fp32:16"},
        BLOCK_H=rotated.heads, BLOCK_D=HEAD_DIM // 2,
    )  # fmt: skip


def _logits(element: _Element, traits: DeviceTraits) -> Iterator[Variant]:
    chunked, row = softmax.choose(VOCABULARY), softmax.choose(softmax.LONGEST_ROW)
    sums = {"maximum_ptr": "*fp32:16", "sum_ptr": "*fp32:16"}
    long, short = f"columns={VOCABULARY}", f"columns={softmax.LONGEST_ROW}"
    chunks = triton.next_power_of_2(triton.cdiv(VOCABULARY, chunked.block))
    make = partial(element.variant, "softmax", sizes="columns")
    yield make(softmax.softmax_row_kernel, short, row, BLOCK=row.block)
    yield make(softmax.softmax_chunk_kernel, long, chunked, counts="chunks", other=sums, BLOCK=chunked.block)
    yield make(
        softmax.softmax_join_kernel, long, chunked, counts="chunks", other=sums, BLOCK=chunked.block, CHUNKS=chunks
    )
    loss, target = cross_entropy.choose(VOCABULARY), {"target_ptr": "*i64:16"}
    for operator, function in (
        ("cross_entropy", cross_entropy.cross_entropy_kernel),
        ("cross_entropy_backward", cross_entropy.cross_entropy_backward_kernel),
    ):
        yield element.variant(operator, function, long, loss, sizes="columns", other=target, BLOCK=loss.block)
    picked = sampling.choose(VOCABULARY, traits)
    yield element.variant(
        "sampling", sampling.sampling_kernel, long, picked,
        sizes="columns", counts="top_k",
        other={"u_ptr": "*fp32:16", "token_ptr": "*i64:16", "top_p": "fp32"},
        HALVINGS=sampling.HALVINGS, BLOCK=picked.block, ONE_BLOCK=picked.block >= VOCABULARY,
    )  # fmt: skip


def _training(element: _Element, traits: DeviceTraits) -> Iterator[Variant]:
    norm, step = norm_rows.choose(HIDDEN), adamw.AdamwConfig()
    parts = {"rstd_ptr": "*fp32:16", "part_ptr": "*fp32:16"}
    yield element.variant(
        "rms_norm_backward", rms_norm_backward.rms_norm_backward_kernel, f"hidden={HIDDEN}", norm,
        counts="rows", sizes="hidden", other=parts, BLOCK=norm.block, ONE_BLOCK=norm.block >= HIDDEN,
    )  # fmt: skip
    yield element.variant(
        "rms_norm_backward", rms_norm_backward.sum_rows_kernel, f"hidden={HIDDEN}", _Plain(),
        counts="rows", sizes="hidden", other={"part_ptr": "*fp32:16"}, BLOCK=rms_norm_backward.SUM_BLOCK,
    )  # fmt: skip
    numbers = ("decay", "rate", "beta1", "beta2", "scale_m", "scale_v", "epsilon")
    yield element.variant(
        "adamw", adamw.adamw_kernel, f"block={step.block}", step,
        sizes="elements", other=dict.fromkeys(numbers, "fp32"), BLOCK=step.block,
    )  # fmt: skip
