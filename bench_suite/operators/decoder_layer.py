"""One decoder layer on torch, up to a step: by formulas in float32, by the library's calls, compiled; truth in float64.

All of them store each step's result in the dtype of the inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from bench_suite.contract import Case, Role
from bench_suite.contracts.decoder_layer import DECODER_LAYER, LayerStep
from bench_suite.contracts.rms_norm import EPSILON
from bench_suite.operators.base import Implementation, Inputs, Runner, normal
from bench_suite.operators.compiled import compiled
from bench_suite.operators.frames import candidate, chosen_library, in_float64, plain_operator
from bench_suite.operators.rope import angles_of

Weights = tuple[torch.Tensor, ...]
Layer = Callable[..., torch.Tensor]


def _make(case: Case, seed: int, device: torch.device, rank: int) -> Inputs:
    hidden, ffn, queries = case["hidden"], case["ffn"], case["heads"] * case["head_dim"]
    projected = queries + 2 * case["kv_heads"] * case["head_dim"]

    def draw(tensor: str, *shape: int, mean: float = 0.0, sd: float = 1.0) -> torch.Tensor:
        return normal(case, seed, device, tensor=tensor, shape=shape, mean=mean, sd=sd, rank=rank)

    return (
        draw("x", case["tokens"], hidden),
        draw("norm1", hidden, mean=1.0, sd=0.1),
        draw("qkv", projected, hidden, sd=1 / math.sqrt(hidden)),
        angles_of(torch.arange(case["tokens"]), case["head_dim"]).to(device),
        draw("output", hidden, queries, sd=1 / math.sqrt(queries)),
        draw("norm2", hidden, mean=1.0, sd=0.1),
        draw("gate_up", 2 * ffn, hidden, sd=1 / math.sqrt(hidden)),
        draw("down", hidden, ffn, sd=1 / math.sqrt(ffn)),
    )


def _norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPSILON) * weight


def _rotate(x: torch.Tensor, angles: torch.Tensor, turned: int) -> torch.Tensor:
    """The first `turned` heads of x [tokens, heads, head_dim], queries and keys; the values are left."""
    first, second = x[:, :turned].chunk(2, dim=-1)
    cosine, sine = angles[:, :, None]
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)


def _attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """[heads, tokens, head_dim] each, as many of k and v as of q; causal."""
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
    return torch.softmax(scores.masked_fill(hidden, -math.inf), dim=-1) @ v


def _layer(case: Case, *, library: bool) -> Layer:
    """The layer up to the case's step; every step in float32 (or what is wider), stored in the dtype of x."""
    heads, kv_heads, step = case["heads"], case["kv_heads"], case["step"]
    group = heads // kv_heads

    def run(
        x: torch.Tensor,
        norm1: torch.Tensor,
        qkv: torch.Tensor,
        angles: torch.Tensor,
        output: torch.Tensor,
        norm2: torch.Tensor,
        gate_up: torch.Tensor,
        down: torch.Tensor,
    ) -> torch.Tensor:
        dtype = x.dtype
        wide = torch.promote_types(dtype, torch.float32)

        def normed(y: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
            if library:
                return torch.nn.functional.rms_norm(y, (y.shape[-1],), weight, EPSILON)
            return _norm(y.to(wide), weight.to(wide)).to(dtype)

        def linear(y: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.linear(y, weight) if library else (y.to(wide) @ weight.to(wide).T).to(dtype)

        y = normed(x, norm1)
        if step == LayerStep.FIRST_NORM:
            return y
        y = linear(y, qkv)
        if step == LayerStep.QKV:
            return y
        split = y.view(y.shape[0], heads + 2 * kv_heads, -1)
        turned = _rotate(split.to(wide), angles.to(wide), heads + kv_heads).to(dtype)
        values = split[:, heads + kv_heads :]
        if step == LayerStep.ROPE:
            return torch.cat((turned, values), dim=1).flatten(1)
        q, k, v = (t.transpose(0, 1) for t in (turned[:, :heads], turned[:, heads:], values))
        if library:
            attended = torch.nn.functional.scaled_dot_product_attention(
                q[None], k[None], v[None], is_causal=True, enable_gqa=True
            )[0]
        else:
            keys, vals = (t.to(wide).repeat_interleave(group, dim=0) for t in (k, v))
            attended = _attend(q.to(wide), keys, vals).to(dtype)
        y = attended.transpose(0, 1).flatten(1)
        if step == LayerStep.ATTENTION:
            return y
        y = linear(y, output)
        if step == LayerStep.OUTPUT_PROJECTION:
            return y
        between = x + y
        if step == LayerStep.FIRST_RESIDUAL:
            return between
        y = normed(between, norm2)
        if step == LayerStep.SECOND_NORM:
            return y
        y = linear(y, gate_up)
        if step == LayerStep.GATE_UP:
            return y
        gate, up = y.chunk(2, dim=-1)
        if library:
            y = torch.nn.functional.silu(gate) * up
        else:
            y = (torch.nn.functional.silu(gate.to(wide)) * up.to(wide)).to(dtype)
        if step == LayerStep.SWIGLU:
            return y
        y = linear(y, down)
        return y if step == LayerStep.DOWN else between + y

    return run


def _prepare_naive(case: Case, device: torch.device) -> Runner:
    return _layer(case, library=False)


def _prepare_library(case: Case, device: torch.device) -> Runner:
    return _layer(case, library=True)


OPERATOR = plain_operator(
    DECODER_LAYER,
    make=_make,
    reference=lambda case, inputs, rank: in_float64(_layer(case, library=False))(case, inputs, rank),
    naive=Implementation(role=Role.NAIVE, name="eager formulas", prepare=_prepare_naive),
    optimized=chosen_library("rms_norm, linear, scaled_dot_product_attention, silu", _prepare_library),
    compiles=candidate("torch.compile(eager formulas)", lambda case, device: compiled(_layer(case, library=False))),
)
