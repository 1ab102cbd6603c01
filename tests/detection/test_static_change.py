"""Static metrics are judged exactly: by the hash first, then by the dearest number that differs."""

from __future__ import annotations

import pytest

from detection.static_change import StaticVerdict, static_change

BEFORE: dict[str, object] = {
    "static_registers": 64, "static_spills": 0, "static_shared_bytes": 24576, "static_stack_bytes": 0,
    "static_instructions": 400, "static_binary_bytes": 9000, "static_binary_sha256": "a" * 64,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "verdict", "words"),
    [
        ({"static_binary_sha256": "a" * 64, "static_registers": 99}, StaticVerdict.UNCHANGED, "the same binary"),
        ({}, StaticVerdict.CHANGED, "another binary of the same size"),
        ({"static_instructions": 410}, StaticVerdict.CHANGED, "instructions 400 to 410"),
        ({"static_registers": 72}, StaticVerdict.REGRESSED, "registers 64 to 72"),
        ({"static_registers": 56}, StaticVerdict.IMPROVED, "registers 64 to 56"),
        ({"static_spills": 4, "static_registers": 32}, StaticVerdict.REGRESSED, "spills 0 to 4, registers 64 to 32"),
        ({"static_shared_bytes": 49152}, StaticVerdict.REGRESSED, "shared bytes 24,576 to 49,152"),
    ],
)
def test_the_dearest_difference_decides(change: dict[str, object], verdict: StaticVerdict, words: str) -> None:
    """A spill outweighs registers, those shared memory; instructions alone are no verdict; an equal hash ends it."""
    now = BEFORE | {"static_binary_sha256": "b" * 64} | change
    found = static_change("gemm_kernel[bf16,M=16]", "sm_90", BEFORE, now)
    assert found.verdict is verdict and words in found.sentence and "sm_90" in found.sentence


def test_a_first_compilation_is_new() -> None:
    """Without a binary before, kept or failed, there is nothing to judge."""
    for before in (None, BEFORE | {"static_binary_sha256": None}):
        assert static_change("k", "sm_90", before, BEFORE).verdict is StaticVerdict.NEW
