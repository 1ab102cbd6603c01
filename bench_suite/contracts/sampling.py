"""Sampling a token by top-k, then top-p (Holtzman et al. 2020, arXiv:1904.09751), with the random number given.

The kept sets are defined by values, so that ties need no order: top-k keeps every logit not below the k-th largest,
top-p every token whose strictly likelier ones have less than p of the probability. The token is the first, in the order
of the vocabulary, at which the kept probability, summed up, exceeds u times its total. With u an input the result is
one token, not a distribution: it can be checked, and a seed gives it again.

What is compared is not the token but the *distance* of u from the token's own interval of cumulative probability in
float64: 0 for the right token, and for a neighbour that rounding can reach.
"""

from __future__ import annotations

import math

from bench_suite.contract import Axis, Case, Extreme, Tolerance
from bench_suite.contracts.error_bounds import accumulation
from bench_suite.contracts.frames import COLUMNS, FP32_BYTES, INT64_BYTES, plain_contract, tensor, work
from bench_suite.contracts.softmax import probability_error


def _tolerance(case: Case) -> Tolerance:
    """Of a cumulative probability: the error of its terms and of the running sum, both same-sign, below 1."""
    columns = case["columns"]
    return Tolerance(absolute=2 * (probability_error(columns) + accumulation(columns)), relative=0.0)


def boundary_slack(case: Case) -> float:
    """How far from p the probability above a token may be for either decision to be right."""
    return _tolerance(case).absolute


def _constraint(case: Case) -> str:
    if case["top_k"] > case["columns"]:
        return f"top_k is {case['top_k']}, must be at most columns, {case['columns']}"
    return f"top_p_percent is {case['top_p_percent']}, must be at most 100" if case["top_p_percent"] > 100 else ""


SAMPLING = plain_contract(
    operator="sampling",
    family="Sampling",
    title="Sampling, top-k and top-p",
    formula="token = first with Σ kept p ≥ u · total, kept: top-k, then top-p of its probability",
    axes=(
        Axis(name="rows", meaning="sequences that sample a token", dynamic=True),
        COLUMNS,
        Axis(name="top_k", meaning="likeliest tokens that are kept"),
        Axis(name="top_p_percent", meaning="per cent of the probability that is kept"),
    ),
    inputs="logits normal(0, 3); u fp32, evenly in [0, 1), from the seed",
    reads=(tensor("logits", "rows", "columns"), tensor("u", "rows", element_bytes=FP32_BYTES)),
    writes=(tensor("", "rows", element_bytes=INT64_BYTES),),
    flops=work(6.0, "rows", "columns"),  # compare with the k-th, subtract, exp, add, compare with p, running sum
    tolerance=_tolerance,
    sensitivity="a running sum over the vocabulary in 16 bits skips tokens; ties at the k-th logit are all kept",
    edge_cases=(
        {"rows": 1, "columns": 1, "top_k": 1, "top_p_percent": 100},
        {"rows": 1, "columns": 128256, "top_k": 50, "top_p_percent": 90},
        {"rows": 3, "columns": 2, "top_k": 2, "top_p_percent": 50},
        {"rows": 7, "columns": 1025, "top_k": 40, "top_p_percent": 95},
        {"rows": 65, "columns": 33, "top_k": 33, "top_p_percent": 100},
    ),
    extremes=(
        Extreme(name="large", meaning="logits scaled by 16: nearly one token counts", scale=16.0),
        Extreme(name="zeros", meaning="logits are zero: all are tied, all are kept", scale=0.0),
        Extreme(name="minus_inf", meaning="one logit is −∞: it is never chosen", planted=-math.inf),
    ),
)
