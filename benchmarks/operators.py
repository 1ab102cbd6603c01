"""Which library form is the fastest on this CPU: the choices behind the optimized arms.

    python benchmarks/operators.py

Times are medians of thread CPU time, one thread, milliseconds a call: wall time of a shared machine says little.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator

import torch
from torch.nn.functional import linear
from torch.nn.functional import scaled_dot_product_attention as sdpa

HEADS, KV_HEADS, HEAD_DIM = 32, 8, 128
GROUP = HEADS // KV_HEADS
CALLS = 7

Forms = dict[str, Callable[[], torch.Tensor]]


def time_ms(call: Callable[[], torch.Tensor]) -> float:
    call()
    times = []
    for _ in range(CALLS):
        start = time.thread_time()
        call()
        times.append(time.thread_time() - start)
    return statistics.median(times) * 1e3


def decode_forms(lengths: list[int]) -> Forms:
    """A batch of single queries, each over its own context in a padded cache."""
    batch, longest = len(lengths), max(lengths)
    query = torch.randn(batch, HEADS, HEAD_DIM)
    grouped = query.view(batch, KV_HEADS, GROUP, HEAD_DIM)
    key, value = torch.randn(2, batch, KV_HEADS, longest, HEAD_DIM)
    valid = (torch.arange(longest) < torch.tensor(lengths)[:, None])[:, None, None]

    def each(fold: bool) -> torch.Tensor:
        parts = []
        for b, n in enumerate(lengths):
            k, v = key[b : b + 1, :, :n], value[b : b + 1, :, :n]
            q = grouped[b : b + 1] if fold else query[b : b + 1, :, None]
            parts.append(sdpa(q, k, v, enable_gqa=not fold))
        return torch.cat(parts)

    return {
        "a call a sequence, heads of a group as rows": lambda: each(fold=True),
        "a call a sequence, enable_gqa": lambda: each(fold=False),
        "one padded call with mask, heads of a group as rows": lambda: sdpa(grouped, key, value, attn_mask=valid),
        "one padded call with mask, enable_gqa": lambda: sdpa(
            query[:, :, None], key, value, attn_mask=valid, enable_gqa=True
        ),
    }


def prefill_forms(q: int, kv: int) -> Forms:
    """New tokens over their context, causal, bottom-right aligned."""
    query = torch.randn(1, HEADS, q, HEAD_DIM)
    key, value = torch.randn(2, 1, KV_HEADS, kv, HEAD_DIM)
    mask = torch.ones(q, kv, dtype=torch.bool).tril(kv - q)

    def repeated() -> torch.Tensor:
        wide_key, wide_value = (x.repeat_interleave(GROUP, dim=1) for x in (key, value))
        return sdpa(query, wide_key, wide_value, attn_mask=mask)

    folded = query.view(1, KV_HEADS, GROUP * q, HEAD_DIM)
    forms: Forms = {
        "mask, enable_gqa": lambda: sdpa(query, key, value, attn_mask=mask, enable_gqa=True),
        "mask, keys repeated": repeated,
        "mask, heads of a group as rows": lambda: sdpa(folded, key, value, attn_mask=mask.repeat(GROUP, 1)),
    }
    if q == kv:
        forms["is_causal, enable_gqa"] = lambda: sdpa(query, key, value, is_causal=True, enable_gqa=True)
    return forms


def linear_forms(rows: int, dtype: torch.dtype) -> Forms:
    """x [rows, 4096] @ weight [4096, 4096]^T in 16 bits on a CPU that may have no 16-bit matrix units."""
    x, weight = torch.randn(rows, 4096).to(dtype), torch.randn(4096, 4096).to(dtype)
    return {
        "linear": lambda: linear(x, weight),
        "widened to fp32": lambda: linear(x.float(), weight.float()).to(dtype),
    }


def cases() -> Iterator[tuple[str, Forms]]:
    for lengths in ([1020] * 4, [96, 210, 400, 1020, 1400, 2200, 3000, 4096], [488, 1282, 1348, 1595]):
        yield f"decode, batch {len(lengths)}, kv {min(lengths)} to {max(lengths)}", decode_forms(lengths)
    for q, kv in ((128, 128), (181, 181), (64, 512), (96, 2140)):
        yield f"prefill, q {q}, kv {kv}", prefill_forms(q, kv)
    for rows in (1, 8, 32, 64, 128):
        yield f"linear bf16, M {rows}", linear_forms(rows, torch.bfloat16)


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for title, forms in cases():
        print(title)
        for name, call in forms.items():
            print(f"  {time_ms(call):8.2f} ms  {name}", flush=True)


if __name__ == "__main__":
    main()
