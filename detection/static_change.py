"""What changed in a kernel's binary: exact, so that one look decides and no interval is needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

WORSE_WHEN_LARGER = ("static_spills", "static_registers", "static_shared_bytes", "static_stack_bytes")
"""In the order of what they cost: a spill is memory traffic, the others are room for fewer programs at a time."""
OTHER = ("static_matrix_instructions", "static_instructions", "static_binary_bytes")


class StaticVerdict(StrEnum):
    """Of a kernel on a chip against the compilation before."""

    UNCHANGED = "unchanged"
    """Equal hash: the same machine code, whatever the source."""
    REGRESSED = "regressed"
    """Another binary that needs more of something, and less of nothing dearer."""
    IMPROVED = "improved"
    CHANGED = "changed"
    """Another binary that needs as much of everything."""
    NEW = "new"
    """Nothing was kept before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticChange:
    """The verdict on one kernel and chip, with what differs."""

    variant: str
    chip: str
    verdict: StaticVerdict
    differences: tuple[tuple[str, float, float], ...] = ()
    """(metric, before, now), dearest first."""

    @property
    def sentence(self) -> str:
        if self.verdict is StaticVerdict.UNCHANGED:
            return f"{self.variant} for {self.chip}: the same binary"
        if self.verdict is StaticVerdict.NEW:
            return f"{self.variant} for {self.chip}: nothing was kept before"
        told = ", ".join(
            f"{name.removeprefix('static_').replace('_', ' ')} {before:,.0f} to {now:,.0f}"
            for name, before, now in self.differences
        )
        return f"{self.variant} for {self.chip}: {self.verdict.value}, {told or 'another binary of the same size'}"


def static_change(
    variant: str, chip: str, before: Mapping[str, object] | None, now: Mapping[str, object]
) -> StaticChange:
    """Compares two rows of static metrics, by the names of their columns. The dearest that differs decides.

    A number that one of the two does not have is not compared.
    """
    if before is None or before.get("static_binary_sha256") is None:
        return StaticChange(variant=variant, chip=chip, verdict=StaticVerdict.NEW)
    if before["static_binary_sha256"] == now["static_binary_sha256"]:
        return StaticChange(variant=variant, chip=chip, verdict=StaticVerdict.UNCHANGED)
    pairs = [(name, before.get(name), now.get(name)) for name in (*WORSE_WHEN_LARGER, *OTHER)]
    differences = tuple(
        (name, float(was), float(is_now))
        for name, was, is_now in pairs
        if isinstance(was, int | float) and isinstance(is_now, int | float) and was != is_now
    )
    dear = [(was, now_) for name, was, now_ in differences if name in WORSE_WHEN_LARGER]
    verdict = StaticVerdict.CHANGED
    if dear:
        verdict = StaticVerdict.REGRESSED if dear[0][1] > dear[0][0] else StaticVerdict.IMPROVED
    return StaticChange(variant=variant, chip=chip, verdict=verdict, differences=differences)
