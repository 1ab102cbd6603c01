"""Static metrics: each Triton kernel compiled ahead of time for each chip, without a GPU. Exact, free of noise.

Compiling happens in a process of its own (bench_suite.kernels.ahead): it must not be Triton's interpreter, and the
caller stays free of torch.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

CHIPS: Mapping[str, int] = {
    "sm_80": 108,
    "sm_90": 132,
    "sm_100": 148,
    "sm_120": 170,
    "gfx90a": 104,
    "gfx942": 304,
    "gfx950": 256,
}
"""Architecture -> processors of its usual product, by which configurations are chosen: A100, H100, B200, RTX 5090, a
MI250X die, MI300X, MI355X (vendors' datasheets)."""


class StaticError(ValueError):
    """Static metrics that cannot be had; the message is one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticMetrics:
    """One kernel compiled for one chip; or the reason why it does not compile there."""

    operator: str
    kernel: str
    variant: str
    chip: str
    failure: str = ""
    """Empty, or the compiler's complaint; all numbers are 0 then."""
    registers: int = 0
    """Per thread; vector registers on AMD."""
    accumulation_registers: int = 0
    scalar_registers: int = 0
    spills: int = 0
    """Instructions that touch thread-private memory (NVIDIA), registers spilled (AMD)."""
    stack_bytes: int = 0
    shared_bytes: int = 0
    matrix_instructions: int = 0
    matrix_kind: str = ""
    instructions: int = 0
    load_widths: tuple[tuple[int, int], ...] = ()
    """(bits, loads) of global memory, narrowest first; 0 bits: a bulk copy."""
    binary_bytes: int = 0
    binary_sha256: str = ""
    """Of the binary without line numbers: equal hashes are equal code."""
    compile_s: float = 0.0
    num_warps: int = 0
    num_stages: int = 0
    compiler: str = ""
    """Triton's version."""


def measure_static(
    chips: Sequence[str] = tuple(CHIPS), *, dtype: str = "bf16", operators: Sequence[str] = ()
) -> Iterator[StaticMetrics]:
    """Compiles every kernel (of `operators`, if given) for every chip, and yields each as it is done.

    Raises StaticError for an unknown chip or dtype, and where Triton is not installed.
    """
    for chip in chips:
        if chip not in CHIPS:
            raise StaticError(f"chip {chip!r}: not known, must be one of {', '.join(CHIPS)}")
    if dtype not in ("bf16", "fp16", "fp32"):
        raise StaticError(f"dtype {dtype!r}: must be bf16, fp16 or fp32")
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    # Without line numbers a comment does not change the binary; without the cache the time is a compilation's;
    # fused multiply-add is named because its default changes with Triton 3.10.
    environment |= {"TRITON_DISABLE_LINE_INFO": "1", "TRITON_ALWAYS_COMPILE": "1", "TRITON_DEFAULT_FP_FUSION": "1"}
    request = json.dumps({"chips": list(chips), "dtype": dtype, "operators": list(operators)})
    with subprocess.Popen(
        [sys.executable, "-m", "bench_suite.kernels.ahead", request],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as child:
        assert child.stdout is not None and child.stderr is not None
        for line in child.stdout:
            if line.startswith("{"):
                yield _parse(line)
        complaint = child.stderr.read().strip()
    if child.returncode:
        raise StaticError(f"static: the compiling process ended with {child.returncode}: {complaint.splitlines()[-1:]}")


def _parse(line: str) -> StaticMetrics:
    values = json.loads(line)
    values["load_widths"] = tuple((int(bits), int(count)) for bits, count in values["load_widths"])
    return StaticMetrics(**values)
