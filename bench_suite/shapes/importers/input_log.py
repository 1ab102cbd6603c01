"""Operator input logs of PyTorch's benchmarks.

A line `Operator: aten.mm.default`, then lines `cnt: 3, ((T([2, 4], f16), T([4, 8], f16)), {})`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from bench_suite.shapes.errors import ShapeError
from bench_suite.shapes.importers.recording import Recording, Tally
from bench_suite.shapes.importers.torch_names import axes_of, is_attention, operator_of

_TENSOR = re.compile(r"T\(\[(?P<sizes>[\d, ]*)\], (?P<type>\w+)")
_COUNT = re.compile(r"^cnt: (?P<count>\d+), (?P<inputs>.*)$")
_TYPES: Mapping[str, str] = {
    "f64": "fp64", "f32": "fp32", "f16": "fp16", "bf16": "bf16", "i8": "int8", "u8": "int8", "i32": "int32",
    "i64": "int64",
}  # fmt: skip


def read(content: bytes, sha256: str) -> Recording:
    """The shapes of a log; ShapeError for a line that does not parse, or a log without operators."""
    tally, name, operators = Tally(), "", 0
    for number, line in enumerate(content.decode("utf-8", errors="replace").splitlines(), start=1):
        text = line.strip()
        if text.startswith("Operator: "):
            operators += 1
            namespace, _, rest = text.removeprefix("Operator: ").partition(".")
            name = f"{namespace}::{rest.partition('.')[0]}"
            continue
        operator = operator_of(name)
        if not text or operator is None or is_attention(name):  # the logs do not say which input is causal
            continue
        match = _COUNT.match(text)
        if match is None:
            raise ShapeError(f"operator input log: line {number} is {text[:60]!r}, must be 'cnt: N, ((...), {{}})'")
        tensors = list(_TENSOR.finditer(match["inputs"]))
        sizes = [[int(size) for size in tensor["sizes"].replace(" ", "").split(",") if size] for tensor in tensors]
        dtype = _TYPES.get(tensors[0]["type"]) if tensors else None
        tally.add(operator, dtype, axes_of(name, sizes), int(match["count"]))
    if not operators:
        raise ShapeError("operator input log: no 'Operator: ' line in it")
    return tally.recording("input_log", sha256)
