"""What a listing of machine code says: matrix instructions, widths of global loads, spills. Text in, counts out."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeCounts:
    """Instructions in one kernel, counted as written, not as executed."""

    instructions: int
    matrix_instructions: int
    matrix_kind: str
    """The most frequent one: HMMA, HGMMA, UTCHMMA, v_mfma, ...; empty without any."""
    spill_instructions: int
    """Loads and stores of thread-private memory."""
    load_widths: tuple[tuple[int, int], ...]
    """(bits a thread loads from global memory, number of such loads), narrowest first; bulk copies count as 0 bits."""

    @property
    def widest_load_bits(self) -> int:
        return max((bits for bits, _ in self.load_widths), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AmdResources:
    """The kernel descriptor's own numbers."""

    vector_registers: int
    accumulation_registers: int
    scalar_registers: int
    spills: int
    """Vector registers spilled, scalar ones added."""
    stack_bytes: int


_SASS = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)", re.MULTILINE)
_SASS_MATRIX = re.compile(r"^(HMMA|IMMA|QMMA|OMMA|DMMA|HGMMA|QGMMA|IGMMA|UTC[A-Z]*MMA)")
_SASS_LOAD = re.compile(r"^(LDG|LDGSTS)\.")
_SASS_BULK = re.compile(r"^(UBLKCP|UTMALDG)")
_AMD = re.compile(r"^\s+([a-z][a-z0-9_]+)(?:\s|$)", re.MULTILINE)
_AMD_MATRIX = re.compile(r"^v_(mfma|smfmac|wmma)")
_AMD_LOAD = re.compile(
    r"^(?:global|buffer|flat)_load_(?:lds_)?(dwordx4|dwordx3|dwordx2|dword|b128|b96|b64|b32|[us]?short|[us]?byte)"
)
_AMD_BITS = {
    "dwordx4": 128, "b128": 128, "dwordx3": 96, "b96": 96, "dwordx2": 64, "b64": 64, "dword": 32, "b32": 32,
}  # fmt: skip


def read_sass(listing: str) -> CodeCounts:
    """Counts of a `cuobjdump -sass` or `nvdisasm` listing of one kernel."""
    names = _SASS.findall(listing)
    matrix = Counter(match[1] for name in names if (match := _SASS_MATRIX.match(name)))
    widths: Counter[int] = Counter()
    for name in names:
        if _SASS_LOAD.match(name):
            widths[_sass_bits(name)] += 1
        elif _SASS_BULK.match(name):
            widths[0] += 1
    return CodeCounts(
        instructions=sum(not name.startswith("NOP") for name in names),
        matrix_instructions=matrix.total(),
        matrix_kind=matrix.most_common(1)[0][0] if matrix else "",
        spill_instructions=sum(name.startswith(("LDL", "STL")) for name in names),
        load_widths=tuple(sorted(widths.items())),
    )


def _sass_bits(name: str) -> int:
    parts = name.split(".")
    for bits in (256, 128, 64):
        if str(bits) in parts:
            return bits
    if any(part in ("U8", "S8") for part in parts):
        return 8
    return 16 if any(part in ("U16", "S16") for part in parts) else 32


def read_amdgcn(listing: str) -> CodeCounts:
    """Counts of the assembly text of one AMD kernel."""
    names = _AMD.findall(listing)
    matrix = Counter(f"v_{match[1]}" for name in names if (match := _AMD_MATRIX.match(name)))
    widths: Counter[int] = Counter()
    for name in names:
        if match := _AMD_LOAD.match(name):
            widths[_AMD_BITS.get(match[1], 16 if match[1].endswith("short") else 8)] += 1
    return CodeCounts(
        instructions=sum(
            name.startswith(("v_", "s_", "ds_", "global_", "buffer_", "flat_", "scratch_")) for name in names
        ),
        matrix_instructions=matrix.total(),
        matrix_kind=matrix.most_common(1)[0][0] if matrix else "",
        spill_instructions=sum(name.startswith("scratch_") for name in names),
        load_widths=tuple(sorted(widths.items())),
    )


def read_amd_resources(listing: str) -> AmdResources:
    """The metadata at the end of the assembly text."""

    def number(key: str) -> int:
        match = re.search(rf"^\s*\.{key}:\s+(\d+)", listing, re.MULTILINE)
        return int(match[1]) if match else 0

    return AmdResources(
        vector_registers=number("vgpr_count"),
        accumulation_registers=number("agpr_count"),
        scalar_registers=number("sgpr_count"),
        spills=number("vgpr_spill_count") + number("sgpr_spill_count"),
        stack_bytes=number("private_segment_fixed_size"),
    )


def read_resource_usage(listing: str) -> tuple[int, int]:
    """Registers and stack bytes a thread, of `cuobjdump -res-usage`."""
    match = re.search(r"REG:(\d+)\s+STACK:(\d+)", listing)
    if match is None:
        raise ValueError("no REG and STACK in the resource usage of cuobjdump")
    return int(match[1]), int(match[2])
