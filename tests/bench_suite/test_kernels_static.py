"""Kernels compiled ahead of time, and the reading of their machine code."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bench_suite.kernels.machine_code import read_amd_resources, read_amdgcn, read_resource_usage, read_sass
from bench_suite.static import CHIPS, StaticError, StaticMetrics, measure_static

SASS = """
        /*0000*/                   LDC R1, c[0x0][0x28] ;                        /* 0x00000a00ff017b82 */
        /*0010*/              @!P0 LDG.E.128.CONSTANT R4, desc[UR4][R2.64] ;     /* 0x0000000402048981 */
        /*0020*/                   LDG.E.U16 R8, desc[UR4][R2.64+0x10] ;
        /*0030*/                   LDGSTS.E.BYPASS.128 [R5], desc[UR4][R2.64] ;
        /*0040*/                   LDG.E R9, desc[UR4][R6.64] ;
        /*0050*/                   STL.64 [R1], R8 ;
        /*0060*/                   LDL.64 R8, [R1] ;
        /*0070*/              @UP1 UBLKCP.S.G [UR8], [UR4], UR6 ;
        /*0080*/                   HMMA.16816.F32.BF16 R4, R8, R10, R4 ;
        /*0090*/                   HMMA.16816.F32.BF16 R4, R8, R10, R4 ;
        /*00a0*/                   NOP ;
"""

AMDGCN = """
	s_load_dwordx4 s[0:3], s[4:5], 0x0
	buffer_load_dwordx4 v[8:11], v1, s[8:11], 0 offen
	global_load_ushort v2, v3, s[0:1]
	global_load_dword v2, v3, s[0:1]
	v_mfma_f32_32x32x8_bf16_1k a[0:15], v[0:1], v[2:3], a[0:15]
	scratch_store_dword off, v1, off
	.agpr_count:     16
	.sgpr_count:     40
	.sgpr_spill_count: 1
	.vgpr_count:     118
	.vgpr_spill_count: 2
	.private_segment_fixed_size: 12
"""


def test_sass_is_counted() -> None:
    """Matrix instructions, spills and load widths of a listing that a person can count."""
    counts = read_sass(SASS)

    assert (counts.matrix_instructions, counts.matrix_kind) == (2, "HMMA")
    assert counts.spill_instructions == 2
    assert counts.load_widths == ((0, 1), (16, 1), (32, 1), (128, 2))
    assert counts.widest_load_bits == 128
    assert counts.instructions == 10
    assert read_resource_usage(" Function k:\n  REG:64 STACK:8 SHARED:0 LOCAL:0") == (64, 8)


def test_amd_assembly_is_counted() -> None:
    """The same of AMD's assembly, with the registers of its metadata."""
    counts, resources = read_amdgcn(AMDGCN), read_amd_resources(AMDGCN)

    assert (counts.matrix_instructions, counts.matrix_kind) == (1, "v_mfma")
    assert counts.load_widths == ((16, 1), (32, 1), (128, 1))
    assert counts.spill_instructions == 1
    assert (resources.vector_registers, resources.accumulation_registers, resources.scalar_registers) == (118, 16, 40)
    assert (resources.spills, resources.stack_bytes) == (3, 12)


MULTIPLYING = (
    "gemm_kernel", "gemm_persistent_kernel", "gemm_int8_kernel", "grouped_gemm_kernel",
    "prefill_kernel", "varlen_prefill_kernel", "decode_kernel", "paged_decode_kernel",
)  # fmt: skip


BULK = 1024
"""Bits, at least, of a bulk copy, which has no width of its own."""


def check(metrics: StaticMetrics) -> None:
    assert metrics.failure == ""
    assert metrics.registers > 0
    assert metrics.binary_bytes > 0
    assert len(metrics.binary_sha256) == 64
    assert max(bits or BULK for bits, _ in metrics.load_widths) >= 32
    needs_matrix_unit = metrics.kernel in MULTIPLYING
    assert (metrics.matrix_instructions > 0) == needs_matrix_unit


@pytest.mark.parametrize(
    ("chip", "operators", "kernels"),
    [("sm_90", (), 27), ("sm_80", ("gemm",), 3), ("gfx942", ("gemm", "attention_decode"), 5)],
)
def test_kernels_compile_for_chips_that_are_not_here(chip: str, operators: tuple[str, ...], kernels: int) -> None:
    """Each kernel becomes a binary with registers, wide loads and, where it multiplies, matrix instructions."""
    found = list(measure_static((chip,), operators=operators))

    assert len(found) == kernels
    for metrics in found:
        check(metrics)


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
def test_every_kernel_compiles_for_every_chip(dtype: str) -> None:
    """All kernels, all chips, all dtypes; those chosen for bf16 do not spill much."""
    for metrics in measure_static(dtype=dtype):
        assert metrics.failure == "", metrics
        assert metrics.registers > 0
        if dtype == "bf16":
            check(metrics)
            assert metrics.spills <= 16, metrics


def test_equal_code_has_an_equal_hash() -> None:
    """Compiling again gives the same binary: an equal hash says that the code did not change."""
    first, second = measure_static(("sm_90", "sm_90"), operators=("swiglu",))

    assert first.binary_sha256 == second.binary_sha256


def test_unknown_chips_and_dtypes_get_one_line() -> None:
    """The message lists what is known."""
    with pytest.raises(StaticError, match=f"chip 'sm_70': not known, must be one of {', '.join(CHIPS)}"):
        list(measure_static(("sm_70",)))
    with pytest.raises(StaticError, match="dtype 'fp8': must be bf16, fp16 or fp32"):
        list(measure_static(("sm_90",), dtype="fp8"))


def test_asking_for_static_metrics_loads_no_torch() -> None:
    """The compiler runs in a process of its own; the caller stays light."""
    script = "import sys, bench_suite.static; assert 'torch' not in sys.modules and 'triton' not in sys.modules"

    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
