"""Gradients of causal attention on torch: the formulas step by step, autograd of the fused call, a compiled one."""

from __future__ import annotations

import math

import torch
from torch.nn.functional import scaled_dot_product_attention

from bench_suite.contract import Case
from bench_suite.contracts.attention_backward import ATTENTION_BACKWARD
from bench_suite.operators.base import Inputs
from bench_suite.operators.frames import Draw, in_float64, library, plain_operator, recipe

Gradients = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def _inputs(case: Case, draw: Draw) -> Inputs:
    queries, keys = ("heads", "q", "head_dim"), ("kv_heads", "q", "head_dim")
    return draw("dout", *queries), draw("query", *queries), draw("key", *keys), draw("value", *keys)


def _gradients(dout: torch.Tensor, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> Gradients:
    """Dao et al. 2022 (arXiv:2205.14135), appendix B.2, every matrix stored."""
    kv_heads, tokens, head_dim = key.shape
    scale = 1 / math.sqrt(head_dim)
    q = query.reshape(kv_heads, -1, tokens, head_dim)
    do = dout.reshape(kv_heads, -1, tokens, head_dim)
    k, v = key[:, None], value[:, None]
    hidden = torch.ones(tokens, tokens, dtype=torch.bool, device=query.device).triu(1)
    p = torch.softmax((q @ k.mT * scale).masked_fill(hidden, -math.inf), dim=-1)
    delta = (do * (p @ v)).sum(-1, keepdim=True)
    ds = p * (do @ v.mT - delta) * scale
    return (ds @ k).flatten(0, 1), (ds.mT @ q).sum(1), (p.mT @ do).sum(1)


def _formula(dout: torch.Tensor, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> Gradients:
    """Unfused, in float32: scores, probabilities and their gradients each stored whole."""
    dq, dk, dv = _gradients(dout.float(), query.float(), key.float(), value.float())
    return dq.to(query.dtype), dk.to(query.dtype), dv.to(query.dtype)


def _autograd(dout: torch.Tensor, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> Gradients:
    with torch.enable_grad():
        q, k, v = (tensor.detach()[None].requires_grad_() for tensor in (query, key, value))
        out = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        dq, dk, dv = torch.autograd.grad(out, (q, k, v), dout[None])
    return dq[0], dk[0], dv[0]


OPERATOR = plain_operator(
    ATTENTION_BACKWARD,
    make=recipe(_inputs),
    reference=in_float64(_gradients),
    naive=_formula,
    optimized=library("scaled_dot_product_attention and autograd", _autograd),
)
