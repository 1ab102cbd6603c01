"""GEMM with narrow weights: int8 with one scale a row (weight-only), and fp8 in both operands with one scale each."""

from __future__ import annotations

import math

from bench_suite.contract import Case, DType, Tolerance
from bench_suite.contracts.error_bounds import CONFIDENCE, accumulation, smallest, storage
from bench_suite.contracts.frames import FP32_BYTES, INT8_BYTES, plain_contract, tensor, work
from bench_suite.contracts.gemm import GEMM_EDGES, K_AXIS, M_AXIS, N_AXIS, product_extremes

INT8_RMS = 127 / math.sqrt(3)
"""Root mean square of whole numbers spread evenly over -127 to 127."""

FP8_RESULT = DType.BF16
"""fp8 products are stored wider: no model keeps their results in fp8."""

_FP8_STEP = 32
"""Terms of one matrix instruction."""


def _int8_tolerance(case: Case) -> Tolerance:
    """As GEMM; a kernel may round each widened weight to the dtype before the product.

    Those roundings are independent, below u |weight| each: their sum over zero-mean terms has a standard deviation of
    u / √3 times the root mean square of the result, which is 1 by the recipe.
    """
    widened = CONFIDENCE * case.dtype.unit_roundoff / math.sqrt(3)
    return Tolerance(absolute=accumulation(case["K"]) + widened + smallest(case.dtype), relative=storage(case.dtype, 2))


def _fp8_tolerance(case: Case) -> Tolerance:
    """Products of fp8 numbers are exact in binary32: what is left is accumulation, and one rounding to bf16.

    Hopper's matrix units keep 14 bits of a sum of fp8 products (DeepSeek-AI 2024, arXiv:2412.19437, section 3.3.2):
    each step of 32 terms rounds a partial sum of root mean square at most 1 to 2^-14.
    """
    narrow = CONFIDENCE * 2.0**-14 * math.sqrt(case["K"] / _FP8_STEP / 3)
    return Tolerance(absolute=accumulation(case["K"]) + narrow + smallest(FP8_RESULT), relative=storage(FP8_RESULT))


GEMM_INT8 = plain_contract(
    operator="gemm_int8",
    family="GEMM",
    title="GEMM, int8 weights",
    formula="y = x · (weight · scale)ᵀ",
    axes=(M_AXIS, N_AXIS, K_AXIS),
    inputs="x normal(0, 1), weight int8 evenly over −127 to 127, scale of a row so that the result has variance 1",
    reads=(tensor("x", "M", "K"), tensor("weight", "N", "K", element_bytes=INT8_BYTES), tensor("scale", "N")),
    writes=(tensor("", "M", "N"),),
    flops=work(2.0, "M", "N", "K"),
    tolerance=_int8_tolerance,
    sensitivity="a weight that is widened and scaled in 16 bits is rounded once more; the scale belongs after the sum",
    edge_cases=GEMM_EDGES,
    extremes=product_extremes("x"),
)

GEMM_FP8 = plain_contract(
    operator="gemm_fp8",
    family="GEMM",
    title="GEMM, fp8",
    formula="y = scale_x · scale_weight · x · weightᵀ, stored in bf16",
    axes=(M_AXIS, N_AXIS, K_AXIS),
    inputs="x normal(0, 1) and weight normal(0, 1) rounded to fp8 e4m3; fp32 scales 1 and 1/√K: variance near 1",
    reads=(
        tensor("x", "M", "K"),
        tensor("weight", "N", "K"),
        tensor("scale_x", element_bytes=FP32_BYTES),
        tensor("scale_weight", element_bytes=FP32_BYTES),
    ),
    writes=(tensor("", "M", "N", element_bytes=FP8_RESULT.size_bytes),),
    flops=work(2.0, "M", "N", "K"),
    tolerance=_fp8_tolerance,
    sensitivity="inputs carry 3 bits; Hopper keeps 14 bits of a partial sum unless it is promoted to fp32 in between",
    edge_cases=(
        {"M": 1, "N": 16, "K": 16},
        {"M": 1, "N": 256, "K": 128},
        {"M": 3, "N": 16, "K": 4096},
        {"M": 17, "N": 32, "K": 64},
        {"M": 65, "N": 128, "K": 32},
    ),
    dtypes=(DType.FP8,),
    result_dtype=FP8_RESULT,
)
