"""Is a result right? Element by element against the float64 reference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from bench_suite.contract import Case, Contract, Tolerance
from bench_suite.operators.result import TORCH_DTYPES, Result

_BLOCK = 1 << 22
"""Elements compared at a time: bounds the float64 copies of a large result to some 100 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How far a result is from its reference. All numbers are infinite where nothing could be compared."""

    ok: bool
    max_abs: float
    max_rel: float
    """Largest |y - r| / |r| over elements with |r| of at least the root mean square of r: free of zero crossings."""
    max_ulp: float
    """Largest |y - r| in steps of the result's dtype at r, over the same elements; 0.5 is rounding to nearest."""
    mismatch_share: float
    """Share of elements beyond the tolerance."""
    margin: float
    """Largest |y - r| as a fraction of what the tolerance allows there; above 1 is wrong."""
    reason: str
    """Empty where ok; else one sentence with the numbers."""


EQUAL = Comparison(ok=True, max_abs=0.0, max_rel=0.0, max_ulp=0.0, mismatch_share=0.0, margin=0.0, reason="")


def compare(
    output: torch.Tensor, reference: torch.Tensor, tolerance: Tolerance, *, dtype: torch.dtype | None = None
) -> Comparison:
    """Compares `output` with `reference` (float64): |y - r| <= absolute + relative |r| in every element.

    Where both are NaN, or the same infinity, they are equal; where only one is not finite, the element is wrong.
    With `dtype` given, an output of another dtype is wrong.
    """
    if tuple(output.shape) != tuple(reference.shape):
        return _incomparable(f"shape is {_shape(output)}, must be {_shape(reference)}")
    if dtype is not None and output.dtype != dtype:
        return _incomparable(f"dtype is {output.dtype}, must be {dtype}")
    if output.numel() == 0:
        return EQUAL
    flat_output, flat_reference = output.detach().reshape(-1), reference.detach().reshape(-1)
    floor = _root_mean_square(flat_reference)
    total = _Total(roundoff=torch.finfo(output.dtype).eps / 2 if output.is_floating_point() else 0.0)
    for start in range(0, flat_output.numel(), _BLOCK):
        total.add(flat_output[start : start + _BLOCK], flat_reference[start : start + _BLOCK], tolerance, floor, start)
    return total.comparison(tuple(output.shape), flat_output, flat_reference)


def verify(contract: Contract, case: Case, output: Result, reference: Result) -> Comparison:
    """`compare` with the tolerance and the dtype that the contract promises; of several results the worst."""
    outputs, references = _parts(output), _parts(reference)
    allowed = contract.results_allow(case)
    if not len(outputs) == len(references) == len(allowed):
        return _incomparable(f"{len(outputs)} results, must be {len(allowed)}")
    dtype = TORCH_DTYPES[contract.result_dtype or case.dtype]
    return worst([compare(y, r, t, dtype=dtype) for y, r, t in zip(outputs, references, allowed, strict=True)])


def _parts(result: Result) -> tuple[torch.Tensor, ...]:
    return result if isinstance(result, tuple) else (result,)


def worst(comparisons: Sequence[Comparison]) -> Comparison:
    """Of several results of one call: the largest of each number; the reason names the result it is about."""
    if len(comparisons) == 1:
        return comparisons[0]
    reasons = [f"result {number}: {found.reason}" for number, found in enumerate(comparisons, 1) if not found.ok]
    return Comparison(
        ok=not reasons,
        max_abs=max(found.max_abs for found in comparisons),
        max_rel=max(found.max_rel for found in comparisons),
        max_ulp=max(found.max_ulp for found in comparisons),
        mismatch_share=max(found.mismatch_share for found in comparisons),
        margin=max(found.margin for found in comparisons),
        reason=reasons[0] if reasons else "",
    )


class _Total:
    """The running worst of all blocks."""

    def __init__(self, roundoff: float) -> None:
        self.roundoff = roundoff
        self.max_abs = self.max_rel = self.max_ulp = self.margin = 0.0
        self.mismatches = 0
        self.elements = 0
        self.worst = 0

    def add(self, y_block: torch.Tensor, r_block: torch.Tensor, tolerance: Tolerance, floor: float, start: int) -> None:
        y, r = y_block.to("cpu", torch.float64), r_block.to("cpu", torch.float64)
        error, size = (y - r).abs_(), r.abs()
        allowed = size * tolerance.relative + tolerance.absolute
        if not bool(error.isfinite().all()):  # rare, and slow
            same = (y == r) | (y.isnan() & r.isnan())  # covers equal infinities
            error = torch.where(same, 0.0, torch.where(error.isnan(), math.inf, error))
            allowed = torch.where(r.isfinite(), allowed, 0.0)
            size = torch.where(r.isfinite(), size, 0.0)
        self.elements += y.numel()
        self.mismatches += int((error > allowed).sum())
        self.max_abs = max(self.max_abs, float(error.max()))
        margin, index = (
            (error / allowed).nan_to_num_(nan=0.0, posinf=math.inf).max(0)
        )  # 0 / 0: nothing allowed or needed
        if float(margin) > self.margin:
            self.margin, self.worst = float(margin), start + int(index)
        small = (size < floor) | (size == 0)
        if self.roundoff:
            exponent = torch.frexp(
                size
            ).exponent.double()  # size = m 2^exponent with 0.5 <= m < 1: a step is 2^exponent u
            steps = error.div(exponent.exp2_()).div_(self.roundoff).masked_fill_(small, 0.0)
            self.max_ulp = max(self.max_ulp, float(steps.max()))
        relative = error.div_(size).masked_fill_(small, 0.0)
        self.max_rel = max(self.max_rel, float(relative.max()))

    def comparison(self, shape: tuple[int, ...], y: torch.Tensor, r: torch.Tensor) -> Comparison:
        reason = ""
        if self.mismatches:
            place = ", ".join(str(int(i)) for i in torch.unravel_index(torch.tensor(self.worst), shape))
            reason = (
                f"{self.mismatches:,} of {self.elements:,} elements beyond tolerance; worst at [{place}]: "
                f"{float(y[self.worst]):.9g}, reference {float(r[self.worst]):.9g}, {self.margin:.3g}x what is allowed"
            )
        return Comparison(
            ok=self.mismatches == 0,
            max_abs=self.max_abs,
            max_rel=self.max_rel,
            max_ulp=self.max_ulp,
            mismatch_share=self.mismatches / self.elements,
            margin=self.margin,
            reason=reason,
        )


def _root_mean_square(reference: torch.Tensor) -> float:
    """Of the finite elements; 0.0 where there is none."""
    total, elements = 0.0, 0
    for start in range(0, reference.numel(), _BLOCK):
        block = reference[start : start + _BLOCK].to("cpu", torch.float64)
        squares = float(block.dot(block))
        if not math.isfinite(squares):
            block = block[block.isfinite()]
            squares = float(block.dot(block))
        total += squares
        elements += block.numel()
    return math.sqrt(total / elements) if elements else 0.0


def _shape(tensor: torch.Tensor) -> str:
    return "[" + ", ".join(map(str, tensor.shape)) + "]"


def _incomparable(reason: str) -> Comparison:
    return Comparison(
        ok=False,
        max_abs=math.inf,
        max_rel=math.inf,
        max_ulp=math.inf,
        mismatch_share=1.0,
        margin=math.inf,
        reason=reason,
    )
