"""Kernels as a compiler would leave them, put into a store as `collector suite static` does."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench_suite.static import StaticMetrics
from collector.node.static_rows import publish_static
from store.bundle.inbox import Inbox
from store.lake.lake import Lake

GEMM = StaticMetrics(
    operator="gemm",
    kernel="gemm_kernel",
    variant="gemm_kernel[bf16,M=16,N=28672,K=4096]",
    chip="sm_90",
    registers=64,
    shared_bytes=24576,
    instructions=400,
    matrix_instructions=48,
    load_widths=((32, 4), (128, 12)),
    binary_bytes=9000,
    binary_sha256="a" * 64,
    compile_s=1.5,
    num_warps=4,
    num_stages=3,
    compiler="triton 3.9.0",
)
NORM = replace(
    GEMM,
    operator="rms_norm",
    kernel="rms_norm_kernel",
    variant="rms_norm_kernel[bf16,hidden=4096]",
    registers=32,
    shared_bytes=0,
    matrix_instructions=0,
    binary_sha256="c" * 64,
)
FIRST = (GEMM, NORM, replace(NORM, chip="gfx942", registers=25, binary_sha256="d" * 64))
SECOND = (
    replace(GEMM, registers=72, spills=4, binary_sha256="b" * 64),
    NORM,
    replace(NORM, chip="gfx942", failure="CompilationError: no such instruction"),
)
"""Of the three, one needs more, one is the same, one does not compile any more."""


def keep(root: Path, found: Sequence[StaticMetrics]) -> str:
    """Publishes one compilation into the store below `root`; gives its run id."""
    lake = Lake.create(root / "store")
    run_id, bundle = publish_static(found, root / "spool", command="collector suite static")
    Inbox(root / "store").put(bundle)
    shutil.rmtree(bundle)
    lake.ingest()
    return run_id
