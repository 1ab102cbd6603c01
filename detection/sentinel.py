"""A change of the toolchain as a paired comparison: the same case in a frozen environment, same device, same night.

With p = log(time in the normal environment / time in the sentinel) of a night, and the nights before and after a known
place,

    log(after / before) of the normal time = (change of p) + (change of the sentinel's own time)

The first term is what is installed in the normal environment: both run the same source tree on the same device in the
same night. The second is what they share: driver, firmware, clocks, host, code. Where the metric is a ratio to the
optimized arm, the ratios of both environments take the place of the times. Changes are those of
`detection.planned.compare_at`, over the mean of several series where a finding has several.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from detection.classify import Cause, Difference, FindingClass, field_class
from detection.planned import compare_at
from detection.policy import Policy
from detection.verdict import Metric, ReasonCode, Verdict, VerdictStatus, in_words, not_judged, percent

Floats = NDArray[np.float64]
Environment = Mapping[str, str | None]

PREFIX = "sentinel."
"""Before the fields of a run's environment that are the sentinel's."""
REFUSED = f"{PREFIX}refused"
_NOT_ITS_IDENTITY = (f"{PREFIX}python_path", REFUSED)
_TOOLCHAIN = ("compiler", "python", "torch", "triton", "version.")
_OF_THE_HOST = ("torch.cpu_capability", "torch.threads")
LEAST_NIGHTS = 3
"""Nights before a place that a pair is compared with."""


def is_toolchain(field: str) -> bool:
    """Whether a field of the environment is of what the sentinel has of its own."""
    return field.startswith(_TOOLCHAIN) and not field.startswith(_OF_THE_HOST)


def toolchain_of(environment: Environment) -> dict[str, str | None]:
    """The fields of the normal environment that its sentinel does not share, each once."""
    return {
        name: text
        for name, text in environment.items()
        if is_toolchain(name) and f"version.{name}" not in environment  # torch and triton stand there twice
    }


def frozen_of(environment: Environment) -> dict[str, str | None]:
    """What identifies the sentinel of a run; empty where it had none, or one that took no part."""
    if environment.get(REFUSED):
        return {}
    return {n: text for n, text in environment.items() if n.startswith(PREFIX) and n not in _NOT_ITS_IDENTITY}


def changed_fields(before: Environment, after: Environment) -> tuple[Difference, ...]:
    """Every field that differs, by name."""
    names = sorted(set(before) | set(after))
    return tuple(
        Difference(field=n, good=before.get(n), bad=after.get(n)) for n in names if before.get(n) != after.get(n)
    )


def words_of(differing: Sequence[Difference], most: int = 3) -> str:
    """The fields that differ, in words, torch and triton only once."""
    versions = {d.field.removeprefix("version.") for d in differing if d.field.startswith("version.")}
    named = [d for d in differing if d.field not in versions]
    shown = ", ".join(f"{d.field} {d.good or 'unknown'} → {d.bad or 'unknown'}" for d in named[:most])
    return f"{shown} and {len(named) - most} more" if len(named) > most else shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """How much a level changed at a place, relative, with its 95 % interval; NaN where nothing is known."""

    change: float
    low: float
    high: float

    @property
    def words(self) -> str:
        ends = f"{percent(self.low, signed=True)} to {percent(self.high, signed=True)}"
        return f"{percent(self.change, signed=True)} (95 % interval {ends})"


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedChange:
    """What the pair and the sentinel alone did at a place."""

    pair: Shift
    """Of the normal environment over the sentinel."""
    frozen: Shift
    """Of the sentinel's own level."""
    nights: int
    """Before the place."""
    series: int


def paired_change(own: Floats, frozen: Floats, nights_before: int, policy: Policy) -> PairedChange | None:
    """The change of log levels [series, nights] (NaN for none) between the first `nights_before` and the later nights.

    Each series is held against its own median before; series without both sides are left out. None where fewer than
    `LEAST_NIGHTS` nights before, or none after, have a pair.
    """
    pair = own - frozen
    sides = (pair[:, :nights_before], pair[:, nights_before:])
    known = np.isfinite(sides[0]).any(axis=1) & np.isfinite(sides[1]).any(axis=1)
    if not known.any():
        return None
    of_pair, of_frozen = _mean_level(pair[known], nights_before), _mean_level(frozen[known], nights_before)
    nights = int(np.isfinite(of_pair[:nights_before]).sum())
    if nights < LEAST_NIGHTS:
        return None
    return PairedChange(
        pair=_shift(of_pair, nights_before, policy),
        frozen=_shift(of_frozen, nights_before, policy),
        nights=nights,
        series=int(known.sum()),
    )


def _mean_level(values: Floats, nights_before: int) -> Floats:
    """[nights]: the mean over series, each less its own median before; NaN for a night without any."""
    centred = values - np.nanmedian(values[:, :nights_before], axis=1, keepdims=True)
    count = np.isfinite(centred).sum(axis=0)
    return np.where(count > 0, np.nansum(centred, axis=0) / np.maximum(count, 1), np.nan)


def _shift(level: Floats, nights_before: int, policy: Policy) -> Shift:
    values = np.exp(level)[None, :]
    found = compare_at(values[:, :nights_before], values[:, nights_before:], floor=0.0, policy=policy)
    return Shift(change=float(found.change[0]), low=float(found.low[0]), high=float(found.high[0]))


class Answer(StrEnum):
    """Whether the toolchain caused a change."""

    TOOLCHAIN = "toolchain"
    """More than half of it, with the whole interval."""
    SHARED = "shared"
    """Less than half of it, with the whole interval: what both environments share moved."""
    UNDECIDED = "undecided"


def answer(found: PairedChange, change: float) -> Answer:
    """Whether the toolchain explains more or less than half of a relative change, as far as the pair can tell."""
    moved = math.log1p(change)
    low, high = (math.copysign(1.0, moved) * math.log1p(end) for end in (found.pair.low, found.pair.high))
    least, most = min(low, high), max(low, high)
    if not math.isfinite(least + most):
        return Answer.UNDECIDED
    if least > abs(moved) / 2:
        return Answer.TOOLCHAIN
    return Answer.SHARED if most < abs(moved) / 2 else Answer.UNDECIDED


def cause_with_pair(
    cause: Cause, differing: Sequence[Difference], found: PairedChange, said: Answer
) -> tuple[Cause, tuple[Difference, ...]]:
    """The cause in the light of the pair, and which of the differing fields are left to explain anything.

    A moved denominator stays one: the pair then says what moved it.
    """
    of_toolchain = tuple(d for d in differing if is_toolchain(d.field))
    others = tuple(d for d in differing if not is_toolchain(d.field))
    over = f", mean of {found.series} series" if found.series > 1 else ""
    where = "beside the sentinel, a frozen environment on the same device in the same nights"
    pair = f"{where}, it moved by {found.pair.words}{over}, against {found.nights} nights before"
    alone = f"the sentinel itself by {found.frozen.words}"
    if said is Answer.UNDECIDED:
        return Cause(
            finding_class=cause.finding_class,
            sentence=f"{cause.sentence} Whether the toolchain did it is open: {pair}, {alone}.",
        ), tuple(differing)
    if said is Answer.TOOLCHAIN:
        what = words_of(of_toolchain) or "no recorded version differs"
        words = f"The toolchain changed it ({what}): {pair}, {alone}."
        if cause.finding_class is FindingClass.BASELINE:
            return Cause(finding_class=FindingClass.BASELINE, sentence=f"{cause.sentence} {words}"), of_toolchain
        return Cause(finding_class=FindingClass.ENVIRONMENT, sentence=words), of_toolchain
    words = f"Not the toolchain: {pair}, {alone}."
    return _shared(cause, others, words), others


def _shared(cause: Cause, others: Sequence[Difference], words: str) -> Cause:
    """What moved is shared by both environments: driver, firmware, host, or the source tree."""
    by_class = {
        chosen: words_of([d for d in others if field_class(d.field) is chosen])
        for chosen in (FindingClass.ENVIRONMENT, FindingClass.CODE, FindingClass.HOST)
    }
    if cause.finding_class is not FindingClass.ENVIRONMENT:
        return Cause(finding_class=cause.finding_class, sentence=f"{cause.sentence} {words}")
    for chosen, fields in by_class.items():
        if fields:
            return Cause(finding_class=chosen, sentence=f"{words} What both share differs: {fields}.")
    left = "no recorded field that both share differs: device, firmware or host"
    return Cause(finding_class=FindingClass.HOST, sentence=f"{words} {left[0].upper()}{left[1:]}.")


def at_planned_change(
    own: Floats, frozen: Floats, nights_before: int, *, floor: float, what: str, policy: Policy
) -> list[Verdict]:
    """A verdict for each series [series, nights] of a run whose toolchain is new: is the pair another than before?"""
    pair = np.exp(own - frozen)
    found = compare_at(pair[:, :nights_before], pair[:, nights_before:], floor=floor, policy=policy)
    verdicts = []
    for i in range(pair.shape[0]):
        n, change = int(found.n_before[i]), float(found.change[i])
        if n < LEAST_NIGHTS or not math.isfinite(change):
            words = f"{what}: {n} nights before have a pair with the sentinel; {LEAST_NIGHTS} are needed."
            verdicts.append(
                not_judged(ReasonCode.NOT_ENOUGH_HISTORY, words, policy=policy.name, policy_version=policy.version)
            )
            continue
        shift = Shift(change=change, low=float(found.low[i]), high=float(found.high[i]))
        inside = shift.low > -floor and shift.high < floor
        if found.discovered[i]:
            status = VerdictStatus.REGRESSED if change > 0 else VerdictStatus.IMPROVED
        else:
            status = VerdictStatus.UNCHANGED if inside else VerdictStatus.INCONCLUSIVE
        verdicts.append(
            Verdict(
                status=status,
                code=ReasonCode.AT_PLANNED_CHANGE,
                sentence=f"{what}: {in_words(Metric.LATENCY, change)} beside the sentinel, {shift.words}, "
                f"against {n} nights before.",
                change=change,
                low=shift.low,
                high=shift.high,
                baseline=f"the sentinel, {n} nights before",
                baseline_n=n,
                n=int(found.n_after[i]),
                p_value=float(found.p[i]),
                policy=policy.name,
                policy_version=policy.version,
            )
        )
    return verdicts
