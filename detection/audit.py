"""What the audit of the alarms publishes: how often they rang where nothing changed, and where a known change was.

Counts come from the nights of A/A copies (any alarm there is false) and of planted slow-downs (any alarm is right);
each share has the score interval of Wilson (1927, doi 10.1080/01621459.1927.10502953), which holds for counts of zero.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist


class AuditKind(StrEnum):
    """What was audited."""

    AA = "aa"
    """The optimized code under a second label: nothing ever changes."""
    PLANTED = "planted"
    """The optimized code with extra work of a known share, for one night."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedNight:
    """One audited series in one run."""

    kind: AuditKind
    planted: float | None
    """Size of the planted slow-down, 0.05 is 5 %; None of an A/A copy."""
    suspected: bool
    """The night asked for a second look."""
    alarmed: bool
    """Of an A/A copy: later nights repeated a suspicion, so that it would have been told. Of a planted slow-down,
    which is there for one night only: suspected, and in the right direction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """`count` of `n`, with the ends of the 95 % interval of the probability behind it."""

    count: int
    n: int
    low: float
    high: float

    @property
    def share(self) -> float:
        """NaN of nothing."""
        return self.count / self.n if self.n else math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLine:
    """One kind of audited series: A/A copies, or planted slow-downs of one size."""

    kind: AuditKind
    planted: float | None
    alarms: Share
    suspicions: Share


def binomial_share(count: int, n: int, confidence: float = 0.95) -> Share:
    """A share with Wilson's score interval; [0, 1] of nothing. ValueError where count is not in 0..n."""
    if not 0 <= count <= n:
        raise ValueError(f"count is {count}, must be in 0 to {n}")
    if n == 0:
        return Share(count=0, n=0, low=0.0, high=1.0)
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    p, weight = count / n, z * z / n
    centre = (p + weight / 2) / (1 + weight)
    half = z / (1 + weight) * math.sqrt(p * (1 - p) / n + weight / (4 * n))
    low, high = (0.0 if count == 0 else centre - half), (1.0 if count == n else centre + half)
    return Share(count=count, n=n, low=max(low, 0.0), high=min(high, 1.0))


def summarise(nights: Iterable[AuditedNight]) -> tuple[AuditLine, ...]:
    """A line a kind and size: A/A first, then planted slow-downs by size."""
    groups: dict[tuple[AuditKind, float | None], list[AuditedNight]] = defaultdict(list)
    for night in nights:
        groups[night.kind, night.planted].append(night)
    return tuple(
        AuditLine(
            kind=kind,
            planted=planted,
            alarms=binomial_share(sum(n.alarmed for n in part), len(part)),
            suspicions=binomial_share(sum(n.suspected for n in part), len(part)),
        )
        for (kind, planted), part in sorted(groups.items(), key=lambda g: (g[0][0], g[0][1] or 0.0))
    )
