"""Rules of a training gate over loss curves: converging as accepted runs do, going on from a checkpoint, repeating.

The evidence is curves, each with a role; without the role that a rule needs it answers `undecided`, never green.

- convergence needs the candidate and `minimum_runs` references, and fails where its loss lies above theirs by more than
  the limit and their own spread;
- checkpoint needs the candidate and itself, restored, and fails where a step after the restore has another loss;
- determinism needs the candidate and itself, repeated with the same seed, and fails where a step has another loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from detection.gate import Answer, GateLine, GateMetric, GateRule
from detection.stats import student_t_quantile
from detection.verdict import percent

Floats = NDArray[np.float64]

LAST_SHARE = 0.25
"""Of the common steps: where runs are compared; before, they differ by their warm-up."""


class CurveRole(StrEnum):
    """What a curve is evidence of."""

    CANDIDATE = "candidate"
    """The run that is asked about."""
    REFERENCE = "reference"
    """A run that was accepted; several, with other seeds."""
    RESTORED = "restored"
    """The candidate, gone on from a checkpoint."""
    REPEATED = "repeated"
    """The candidate again, with the same seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """The losses of one training run."""

    name: str
    role: CurveRole
    losses: Mapping[int, float]
    """Step -> loss."""


Said = tuple[Answer, str]


def check_curves(rule: GateRule, curves: Sequence[Curve]) -> GateLine:
    """What the rule says of these curves."""
    candidate = next((c for c in curves if c.role is CurveRole.CANDIDATE), None)
    if candidate is None:
        said: Said = (
            Answer.UNDECIDED,
            f"No loss curve of the candidate (--curves FILE.csv); {rule.metric.value} needs one.",
        )
    else:
        said = _CHECKS[rule.metric](rule, candidate, curves)
    return GateLine(rule=rule.name, case_id=candidate.name if candidate else "", answer=said[0], sentence=said[1])


def _convergence(rule: GateRule, candidate: Curve, curves: Sequence[Curve]) -> Said:
    broken = next((step for step, loss in sorted(candidate.losses.items()) if not math.isfinite(loss)), None)
    if broken is not None:
        return Answer.FAILED, f"{candidate.name} diverged: its loss at step {broken} is {candidate.losses[broken]}."
    references = [c for c in curves if c.role is CurveRole.REFERENCE]
    needed = max(rule.minimum_runs, 2)
    if len(references) < needed:
        return Answer.UNDECIDED, f"Not enough accepted runs, {len(references)}; {needed} are needed."
    steps = _common([candidate, *references])
    if len(steps) < max(rule.minimum_samples, 4):
        return Answer.UNDECIDED, f"Not enough common steps, {len(steps)}; {max(rule.minimum_samples, 4)} are needed."
    last = steps[-max(2, math.ceil(LAST_SHARE * len(steps))) :]
    past = np.array([_values(c, last) for c in references])
    if not (np.isfinite(past).all() and (past > 0).all()):
        return Answer.UNDECIDED, "A reference has a loss that is not a positive number, so there is no band."
    centre = np.median(past, axis=0)
    own = np.median(np.log(past / centre), axis=1)
    n = len(references)
    spread = student_t_quantile(0.975, n - 1) * float(own.std(ddof=1)) * math.sqrt(1 + 1 / n)
    values = _values(candidate, last)
    if not (values > 0).all():
        return Answer.UNDECIDED, f"{candidate.name} has a loss that is not positive; the band is one of ratios."
    change = float(np.median(np.log(values / centre)) - own.mean())
    words = (
        f"{candidate.name}: loss {percent(math.expm1(change), signed=True)} against {n} accepted runs over the last "
        f"{len(last)} of {len(steps)} common steps, at most {percent(rule.at_most, signed=True)}"
    )
    if change <= math.log1p(rule.at_most):
        return Answer.PASSED, f"{words}."
    if change <= spread:
        return Answer.UNDECIDED, f"{words}; within their own spread of ± {percent(math.expm1(spread))}."
    return Answer.FAILED, f"{words}."


def _same(rule: GateRule, candidate: Curve, curves: Sequence[Curve], role: CurveRole, missing: str) -> Said:
    """Whether every curve of a role has the candidate's losses, step by step."""
    others = [c for c in curves if c.role is role]
    if not others:
        return Answer.UNDECIDED, missing
    worst, where, compared = 0.0, "", 0
    for other in others:
        for step in _common([candidate, other]):
            a, b = candidate.losses[step], other.losses[step]
            apart = 0.0 if a == b or (math.isnan(a) and math.isnan(b)) else abs(a - b) / max(abs(a), abs(b))
            compared += 1
            if not apart <= worst:
                worst, where = apart, f" at step {step} of {other.name}"
    if compared < max(rule.minimum_samples, 1):
        needed = max(rule.minimum_samples, 1)
        return Answer.UNDECIDED, f"Not enough common steps, {compared}; {needed} are needed."
    words = (
        f"{candidate.name}: losses differ by {worst:.3g} at most{where} ({compared} steps), {rule.at_most:g} allowed."
    )
    return (Answer.PASSED if worst <= rule.at_most else Answer.FAILED), words


def _checkpoint(rule: GateRule, candidate: Curve, curves: Sequence[Curve]) -> Said:
    missing = "No curve that went on from a checkpoint (role restored)."
    return _same(rule, candidate, curves, CurveRole.RESTORED, missing)


def _determinism(rule: GateRule, candidate: Curve, curves: Sequence[Curve]) -> Said:
    missing = "No second run with the same seed (role repeated)."
    return _same(rule, candidate, curves, CurveRole.REPEATED, missing)


_CHECKS: dict[GateMetric, Callable[[GateRule, Curve, Sequence[Curve]], Said]] = {
    GateMetric.CONVERGENCE: _convergence,
    GateMetric.CHECKPOINT: _checkpoint,
    GateMetric.DETERMINISM: _determinism,
}


def _common(curves: Sequence[Curve]) -> list[int]:
    """The steps that all of them have, in order."""
    shared = set(curves[0].losses)
    for curve in curves[1:]:
        shared &= set(curve.losses)
    return sorted(shared)


def _values(curve: Curve, steps: Sequence[int]) -> Floats:
    return np.array([curve.losses[step] for step in steps], dtype=float)
