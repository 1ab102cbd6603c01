"""Embedding: one row of the table for each token. Bits are moved, nothing is computed."""

from __future__ import annotations

import math

from bench_suite.contract import Axis, Case, Extreme, Tolerance
from bench_suite.contracts.frames import HIDDEN, INT64_BYTES, ROWS, plain_contract, tensor


def _traffic_bytes(case: Case) -> float:
    """The rows that are asked for, read and written, and the tokens: the rest of the table is not touched."""
    return float(case["rows"] * (2 * case["hidden"] * case.dtype.size_bytes + INT64_BYTES))


EMBEDDING = plain_contract(
    operator="embedding",
    family="Embedding",
    title="Embedding",
    formula="y = table[token]",
    axes=(ROWS, Axis(name="vocab", meaning="rows of the table, fixed by the model"), HIDDEN),
    inputs="table normal(0, 1); tokens int64, evenly spread over the table by a prime stride; seeded",
    reads=(tensor("table", "vocab", "hidden"), tensor("token", "rows", element_bytes=INT64_BYTES)),
    writes=(tensor("", "rows", "hidden"),),
    flops=lambda case: 0.0,
    traffic_bytes=_traffic_bytes,
    tolerance=lambda case: Tolerance(absolute=0.0, relative=0.0),
    sensitivity="none: moves bits",
    edge_cases=(
        {"rows": 1, "vocab": 1, "hidden": 1},
        {"rows": 1, "vocab": 1000, "hidden": 4096},
        {"rows": 3, "vocab": 17, "hidden": 1023},
        {"rows": 65, "vocab": 33, "hidden": 65},
    ),
    extremes=(
        Extreme(name="nan", meaning="one element of the table is NaN: so is what is read of it", planted=math.nan),
        Extreme(name="inf", meaning="one element of the table is +∞", planted=math.inf),
    ),
)
