"""How far a correct result may be from the float64 reference: the derivation behind every contract's tolerance.

Model. The reference is computed in float64 from the very inputs the implementation gets, already rounded to the case's
dtype, so that only two errors are left:

1. *Storing*: each time a value is rounded to the dtype it moves by at most u |value|, u the unit roundoff (Higham 2002,
   Accuracy and Stability of Numerical Algorithms, section 2.1). Rounding to nearest needs exactly `relative = u`;
   a formula that rounds an intermediate result as well needs one u more for each.
2. *Accumulating* n terms in at least binary32. The worst case grows as n u. Rounding errors of mean zero give, with
   probability 1 - 2 exp(-lambda^2 / 2) each, lambda sqrt(n) u times the sum of magnitudes (Higham & Mary 2019, A new
   approach to probabilistic rounding error analysis, SIAM J. Sci. Comput. 41(5), theorem 3.1,
   doi:10.1137/18M1226312). For terms that themselves have mean zero, as ours have, partial sums grow as sqrt(k) and not
   as k, so that the error is lambda sqrt(n) u times the root mean square of the *result* (Higham & Mary 2020, Sharper
   probabilistic backward error analysis, SIAM J. Sci. Comput. 42(5), doi:10.1137/20M1314355).

CONFIDENCE is lambda. Plain recursive summation of zero-mean terms has a standard deviation of
sqrt(n) u / sqrt(6) = 0.41 sqrt(n) u; lambda = 4 is ten of those: no correct kernel trips it in any number of elements,
and blocked, pairwise or matrix-unit summation stays far inside. Arithmetic below binary32 (TF32, a bf16 accumulator)
does not.

Where the numbers are added in the tensors' own 16 bits, a few terms each, there is no such distance: the largest of
millions of errors counts, and `largest_normal` says how far out that may lie.
"""

from __future__ import annotations

import math
from dataclasses import replace

from bench_suite.contract import Case, Contract, DType, Extreme, Tolerance

CONFIDENCE = 4.0
"""lambda of Higham & Mary: ten standard deviations of recursive summation."""

FALSE_ALARM = 1e-6
"""The chance that one of all the numbers behind a result lies beyond `largest_normal`."""

ACCUMULATE = DType.FP32.unit_roundoff
"""Unit roundoff of the accumulator a contract demands: binary32, whatever the dtype of the tensors."""

SMALLEST_STORED = {
    DType.FP64: 2.0**-1074,
    DType.FP32: 2.0**-126,  # compilers may flush subnormal binary32 numbers to zero
    DType.BF16: 2.0**-126,
    DType.FP16: 2.0**-24,
}
"""Below this a relative bound holds no longer: the step of the smallest numbers, or the flush-to-zero threshold."""


def accumulation(length: int) -> float:
    """lambda sqrt(n) u of the accumulator: relative to the magnitudes for same-sign terms, to the result else."""
    return CONFIDENCE * math.sqrt(length) * ACCUMULATE


def largest_normal(count: int) -> float:
    """What the largest of `count` standard normal numbers exceeds with a chance below FALSE_ALARM; 0 of none.

    P(|Z| > z) <= 2 exp(-z^2 / 2), added up over all of them (Boole's inequality): z = sqrt(2 ln(2 count / p)). Sums of
    bounded errors of mean zero have the same tail (Hoeffding 1963, J. Am. Stat. Assoc. 58, theorem 2).
    """
    return math.sqrt(2.0 * math.log(2.0 * count / FALSE_ALARM)) if count else 0.0


def storage(dtype: DType, roundings: int = 1) -> float:
    """Relative error of `roundings` roundings to the dtype, one after the other: (1 + u)^k - 1."""
    return (1.0 + dtype.unit_roundoff) ** roundings - 1.0


def smallest(dtype: DType) -> float:
    """Absolute error that underflow alone may cause."""
    return SMALLEST_STORED[dtype]


def at_extreme(promised: Tolerance, extreme: Extreme, dtype: DType) -> Tolerance:
    """The promised tolerance where the result is scaled: the absolute part with it, yet never below underflow."""
    absolute = max(promised.absolute * extreme.output_scale, smallest(dtype))
    return Tolerance(absolute=absolute, relative=promised.relative)


def contract_at(contract: Contract, extreme: Extreme) -> Contract:
    """The contract with the tolerances of an extreme, for each of its results."""

    def allowed(case: Case) -> tuple[Tolerance, ...]:
        return tuple(at_extreme(entry, extreme, case.dtype) for entry in contract.results_allow(case))

    return replace(contract, tolerance=lambda case: allowed(case)[0], tolerances=allowed)
