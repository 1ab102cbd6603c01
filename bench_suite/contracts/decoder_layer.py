"""One decoder layer of a Llama-like model, up to a step: how far each step takes the numbers from float64.

Every step stores its result in the dtype, as a model does, and the next one reads that: the error of step n is what all
steps so far have done to the numbers, which no operator shows alone.
"""

from __future__ import annotations

import math
from enum import IntEnum

from bench_suite.contract import Axis, Case, Contract, Tolerance
from bench_suite.contracts.attention_prefill import grouped_heads
from bench_suite.contracts.error_bounds import CONFIDENCE, accumulation, smallest, storage
from bench_suite.contracts.frames import FLOATS, FP32_BYTES
from bench_suite.contracts.wording import axis_words


class LayerStep(IntEnum):
    """The steps of a layer, in order."""

    FIRST_NORM = 1
    QKV = 2
    ROPE = 3
    ATTENTION = 4
    OUTPUT_PROJECTION = 5
    FIRST_RESIDUAL = 6
    SECOND_NORM = 7
    GATE_UP = 8
    SWIGLU = 9
    DOWN = 10
    SECOND_RESIDUAL = 11


_GAIN = 2.0
"""What later steps make of an error: projections and norms keep its size, the two residuals add one up."""


def _queries(case: Case) -> int:
    return case["heads"] * case["head_dim"]


def _projected(case: Case) -> int:
    return (case["heads"] + 2 * case["kv_heads"]) * case["head_dim"]


def width_of(case: Case) -> int:
    """Features of the result of the case's step."""
    return {
        LayerStep.QKV: _projected(case),
        LayerStep.ROPE: _projected(case),
        LayerStep.ATTENTION: _queries(case),
        LayerStep.GATE_UP: 2 * case["ffn"],
        LayerStep.SWIGLU: case["ffn"],
    }.get(LayerStep(case["step"]), case["hidden"])


def _lengths(case: Case) -> dict[LayerStep, int]:
    """Terms that a step adds up."""
    hidden = case["hidden"]
    return {
        LayerStep.FIRST_NORM: hidden,
        LayerStep.QKV: hidden,
        LayerStep.ATTENTION: case["tokens"] + case["head_dim"],
        LayerStep.OUTPUT_PROJECTION: _queries(case),
        LayerStep.SECOND_NORM: hidden,
        LayerStep.GATE_UP: hidden,
        LayerStep.DOWN: case["ffn"],
    }


def _tolerance(case: Case) -> Tolerance:
    """Independent roundings of n stored steps, values of variance near 1: lambda u √n, and each step's accumulation."""
    step = case["step"]
    summed = sum(accumulation(length) for at, length in _lengths(case).items() if at <= step)
    rounded = CONFIDENCE * case.dtype.unit_roundoff * math.sqrt(step)
    return Tolerance(absolute=_GAIN * (summed + rounded) + smallest(case.dtype), relative=storage(case.dtype, 2))


def _flops(case: Case) -> float:
    """Of the products of all steps so far; the rest is small beside them."""
    tokens, hidden, step = case["tokens"], case["hidden"], case["step"]
    products = {
        LayerStep.QKV: 2.0 * tokens * _projected(case) * hidden,
        LayerStep.ATTENTION: 2.0 * _queries(case) * tokens * (tokens + 1),
        LayerStep.OUTPUT_PROJECTION: 2.0 * tokens * _queries(case) * hidden,
        LayerStep.GATE_UP: 4.0 * tokens * case["ffn"] * hidden,
        LayerStep.DOWN: 2.0 * tokens * case["ffn"] * hidden,
    }
    return sum(flops for at, flops in products.items() if at <= step)


def _input_bytes(case: Case) -> float:
    hidden = case["hidden"]
    weights = 2 * hidden + (_projected(case) + _queries(case) + 3 * case["ffn"]) * hidden
    elements = weights + case["tokens"] * hidden
    return float(elements * case.dtype.size_bytes + case["tokens"] * case["head_dim"] * FP32_BYTES)


def _traffic_bytes(case: Case) -> float:
    """The input, the weights of all steps so far, the result."""
    hidden, step = case["hidden"], case["step"]
    weights = {
        LayerStep.FIRST_NORM: hidden,
        LayerStep.QKV: _projected(case) * hidden,
        LayerStep.OUTPUT_PROJECTION: _queries(case) * hidden,
        LayerStep.SECOND_NORM: hidden,
        LayerStep.GATE_UP: 2 * case["ffn"] * hidden,
        LayerStep.DOWN: case["ffn"] * hidden,
    }
    elements = sum(size for at, size in weights.items() if at <= step) + case["tokens"] * (hidden + width_of(case))
    angles = case["tokens"] * case["head_dim"] * FP32_BYTES if step >= LayerStep.ROPE else 0
    return float(elements * case.dtype.size_bytes + angles)


def _constraint(case: Case) -> str:
    if case["step"] > len(LayerStep):
        return f"step is {case['step']}, must be at most {len(LayerStep)}"
    return grouped_heads(case)


_AXES = (
    Axis(name="tokens", meaning="of one sequence", dynamic=True),
    Axis(name="hidden", meaning="hidden size"),
    Axis(name="heads", meaning="query heads"),
    Axis(name="kv_heads", meaning="key and value heads, each serves heads / kv_heads query heads"),
    Axis(name="head_dim", meaning="elements of a head"),
    Axis(name="ffn", meaning="intermediate size"),
    Axis(name="step", meaning="the last step that is computed, 1 (first norm) to 11 (second residual)"),
)

_SMALL = {"tokens": 17, "hidden": 96, "heads": 6, "kv_heads": 2, "head_dim": 16, "ffn": 160}

DECODER_LAYER = Contract(
    operator="decoder_layer",
    family="Layer",
    title="Decoder layer",
    formula="the result of one step of norm, qkv, RoPE, attention, projection, residual, norm, SwiGLU, residual",
    axes=_AXES,
    dtypes=FLOATS,
    inputs="x normal(0, 1), weights normal(0, 1/√ their inputs), norms 1 + normal(0, 0.1); seeded per tensor",
    tensors=(
        "x [tokens, hidden]",
        "norm1 [hidden]",
        "qkv [(heads + 2 kv_heads) head_dim, hidden]",
        "angles [2, tokens, head_dim / 2]",
        "output [hidden, heads head_dim]",
        "norm2 [hidden]",
        "gate_up [2 ffn, hidden]",
        "down [hidden, ffn]",
    ),
    output="[tokens, features of the step]",
    flops=_flops,
    traffic_bytes=_traffic_bytes,
    input_bytes=_input_bytes,
    tolerance=_tolerance,
    describe=lambda case: (
        f"{LayerStep(case['step']).name.lower().replace('_', ' ')}: "
        + axis_words(case, [axis.name for axis in _AXES[:-1]])
    ),
    sensitivity="each step stores in the dtype; attention turns errors of scores into errors of probabilities",
    edge_cases=tuple(
        {**_SMALL, "step": step.value}
        for step in (LayerStep.FIRST_NORM, LayerStep.ROPE, LayerStep.ATTENTION, LayerStep.SECOND_RESIDUAL)
    ),
    constraint=_constraint,
)
