"""Work, traffic and roofline time of the operators of one rank, on numbers or arrays alike.

time = max(work / reached FLOP/s, traffic / reached bytes/s), Williams et al. 2009 (doi 10.1145/1498765.1498785), where
a GEMM's work is done in whole tiles; a collective is latency + bus traffic / bus bandwidth. Traffic counts every input
and output once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bench_suite.shapes.chips import Chip

Floats = NDArray[np.float64]

ELEMENT_BYTES = 2
"""bf16 everywhere: what serves these models."""
TILES = ((256, 128), (128, 256), (128, 128), (256, 64), (64, 256), (128, 64), (64, 128), (64, 64))
"""Tiles of the result that GEMM libraries have, in rows and columns (NVIDIA, Matrix Multiplication Background User's
Guide, section "Tile efficiency")."""
SPLITS = (1, 2, 4)
"""Programs among which the sum over K of one tile may be split, where there are too few tiles for the chip."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cost:
    """Of one call; scalars are arrays of shape ()."""

    flops: Floats
    traffic_bytes: Floats
    time_s: Floats


def _floats(*values: ArrayLike) -> tuple[Floats, ...]:
    return tuple(np.asarray(value, dtype=np.float64) for value in values)


def _roofline(flops: Floats, traffic_bytes: Floats, chip: Chip) -> Cost:
    time = np.maximum(flops / chip.reached_flop_per_s, traffic_bytes / chip.reached_bytes_per_s)
    return Cost(flops=flops, traffic_bytes=traffic_bytes, time_s=np.asarray(time))


def gemm(M: ArrayLike, N: ArrayLike, K: ArrayLike, chip: Chip) -> Cost:
    """[M, K] @ [K, N] -> [M, N], in whole tiles and whole waves of them."""
    m, n, k = _floats(M, N, K)
    traffic = ELEMENT_BYTES * (m * k + n * k + m * n)
    time = np.maximum(_compute_s(m, n, k, chip), traffic / chip.reached_bytes_per_s)
    return Cost(flops=2 * m * n * k, traffic_bytes=traffic, time_s=np.asarray(time))


def _compute_s(m: Floats, n: Floats, k: Floats, chip: Chip) -> Floats:
    """Compute time of the tile and split that is fastest.

    129 rows take as long as 256 of a tile of 128, and 109 tiles as long as 216 on 108 processors (tile and wave
    quantization, same guide). A smaller tile reuses less of what it loads: its rate is taken as the square root of its
    work per loaded element, relative to the largest tile.
    """
    rate = chip.reached_flop_per_s / chip.processors
    best = np.full(np.broadcast_shapes(m.shape, n.shape, k.shape), np.inf)
    for rows, columns in TILES:
        reuse = rows * columns / (rows + columns)
        efficiency = np.sqrt(reuse / (256 * 128 / (256 + 128)))
        tiles = np.ceil(m / rows) * np.ceil(n / columns)
        for split in SPLITS:
            waves = np.ceil(tiles * split / chip.processors)
            best = np.minimum(best, waves * 2 * rows * columns * (k / split) / (rate * efficiency))
    return best


def active_experts(tokens: ArrayLike, experts: int, experts_per_token: int) -> Floats:
    """Expected number of experts that at least one of `tokens` chooses, each choosing evenly and without repetition.

    E (1 - (1 - k/E)^tokens). Real routers are skewed, so this is an upper estimate.
    """
    (t,) = _floats(tokens)
    return np.asarray(experts * (1 - (1 - experts_per_token / experts) ** t))


def grouped_gemm(rows: ArrayLike, active: ArrayLike, N: int, K: int, chip: Chip) -> Cost:
    """`rows` rows in all, each times the [K, N] weight of its expert; weights of `active` experts are read."""
    r, a = _floats(rows, active)
    return _roofline(2 * r * N * K, ELEMENT_BYTES * (r * (N + K) + a * N * K), chip)


def attention_decode(
    batch: ArrayLike, kv_total: ArrayLike, heads: int, kv_heads: int, head_dim: int, chip: Chip
) -> Cost:
    """One query per sequence against `kv_total` cached positions summed over the batch."""
    b, kv = _floats(batch, kv_total)
    traffic = ELEMENT_BYTES * head_dim * (2 * kv_heads * kv + 2 * heads * b)
    return _roofline(4 * heads * head_dim * kv, traffic, chip)


def attention_prefill(
    q: ArrayLike, kv: ArrayLike, heads: int, kv_heads: int, head_dim: int, chip: Chip, window: int = 0
) -> Cost:
    """The last `q` of `kv` positions attend causally, each to at most `window` positions where window > 0."""
    queries, context = _floats(q, kv)
    pairs = _causal_pairs(queries, context)
    if window:
        # What lies further back than the window is a causal triangle of the same kind, shifted by `window`.
        far = np.maximum(context - window, 0)
        pairs = pairs - _causal_pairs(np.minimum(queries, far), far)
        context = np.minimum(context, queries + window)
    traffic = ELEMENT_BYTES * head_dim * (2 * heads * queries + 2 * kv_heads * context)
    return _roofline(4 * heads * head_dim * pairs, traffic, chip)


def _causal_pairs(queries: Floats, context: Floats) -> Floats:
    return queries * context - queries * (queries - 1) / 2


def elementwise(flops: ArrayLike, elements: ArrayLike, chip: Chip) -> Cost:
    """A fused row-wise operator that reads and writes `elements` elements in all."""
    f, e = _floats(flops, elements)
    return _roofline(f, ELEMENT_BYTES * e, chip)


def all_reduce(size_bytes: ArrayLike, ranks: int, chip: Chip) -> Cost:
    """Bus traffic 2 (n-1)/n of the buffer, the convention of nccl-tests."""
    (size,) = _floats(size_bytes)
    return _collective(size, 2 * (ranks - 1) / ranks, chip)


def all_gather(size_bytes: ArrayLike, ranks: int, chip: Chip) -> Cost:
    """`size_bytes` is the gathered buffer; bus traffic (n-1)/n of it."""
    (size,) = _floats(size_bytes)
    return _collective(size, (ranks - 1) / ranks, chip)


def send_recv(size_bytes: ArrayLike, chip: Chip) -> Cost:
    """The whole buffer crosses the link once."""
    (size,) = _floats(size_bytes)
    return _collective(size, 1.0, chip)


def _collective(size: Floats, factor: float, chip: Chip) -> Cost:
    traffic = factor * size
    time = chip.link_latency_s + traffic / chip.link_bytes_per_s
    return Cost(flops=np.zeros_like(size), traffic_bytes=traffic, time_s=np.asarray(time))
