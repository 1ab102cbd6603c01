"""Logs of NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=COLL (RCCL writes the same): one line a collective.

Several processes write to one terminal, so that lines may lack their prefix or hold two; each is found by its own words
(src/enqueue.cc). `count` is what one rank sends to a gather, and what it receives of a reduce-scatter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from bench_suite.shapes.errors import ShapeError
from bench_suite.shapes.importers.recording import Recording, Tally

_LINE = re.compile(
    r"(?P<name>[A-Z]\w+): opCount [0-9a-f]+ sendbuff \S+ recvbuff \S+ count (?P<count>\d+) datatype (?P<type>\d+) "
    r"op \d+ root \d+ comm \S+ \[nranks=(?P<ranks>\d+)\]"
)
_NAMES: Mapping[str, str] = {
    "AllReduce": "all_reduce", "AllGather": "all_gather", "ReduceScatter": "reduce_scatter", "AlltoAll": "all_to_all",
    "AllToAll": "all_to_all", "Broadcast": "broadcast", "Reduce": "reduce", "Send": "send", "Recv": "recv",
}  # fmt: skip
_TYPES = (
    "int8", "int8", "int32", "int32", "int64", "int64", "fp16", "fp32", "fp64", "bf16", "fp8_e4m3", "fp8_e5m2",
)  # fmt: skip
"""ncclDataType_t in its order; signed and unsigned integers move the same bytes."""
_PER_RANK = ("all_gather", "reduce_scatter", "all_to_all")


def read(content: bytes, sha256: str) -> Recording:
    """The messages of a log; every rank of it counts. ShapeError where there is none."""
    tally = Tally()
    found = 0
    for match in _LINE.finditer(content.decode("utf-8", errors="replace")):
        found += 1
        operator, ranks, count, kind = (
            _NAMES.get(match["name"]),
            int(match["ranks"]),
            int(match["count"]),
            int(match["type"]),
        )
        if operator is None:
            tally.skip(f"{match['name']}: not a known collective")
        elif ranks == 1:
            tally.skip(f"{operator}: one rank, nothing is sent")
        else:
            elements = count * ranks if operator in _PER_RANK else count
            dtype = _TYPES[kind] if kind < len(_TYPES) else None
            tally.add(operator, dtype, (("ranks", ranks), ("elements", elements)))
    if not found:
        raise ShapeError("nccl log: no collective in it; set NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=COLL")
    return tally.recording("nccl_log", sha256)
