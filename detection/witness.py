"""A suspicion and the confirm runs that looked at it again: was it there?

Each look is one confirm run of fresh processes. One look may be as unlucky as the night was (a throttled run slows a
confirm run as well), so a change is confirmed by two looks or more that agree, judged together; an unlucky one among
three does not decide, since three and more are represented by their median.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum

import numpy as np

from detection.policy import Policy
from detection.verdict import Verdict

LARGEST_DOUBT = 3.0
"""Floors beyond which a suspected change is not believed in full: a throttled night may hide a small real one."""
MEDIAN_WORTH = 0.7
"""The median of three to five normal values is worth about this share of their number (variance .449, .287 for 3,
5)."""


class Witness(StrEnum):
    """What the looks say so far."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    UNDECIDED = "undecided"


def together(log_values: Sequence[float], direction: int) -> tuple[float, float]:
    """The value that looks stand for together, and how many independent ones it is worth.

    Of two, the one further from the suspected `direction`; of three and more the median.
    """
    if len(log_values) <= 2:
        return (min(log_values) if direction > 0 else max(log_values)), 1.0
    return float(np.median(log_values)), MEDIAN_WORTH * len(log_values)


def weigh(verdict: Verdict, looks: int, suspected: float | None, *, floor: float, policy: Policy) -> Witness:
    """The looks of one suspicion against the runs from before it.

    `verdict` judges the looks together, `suspected` is the change reported; both are relative, as `floor` is.
    Confirmed: at least `confirm.looks` of them, together beyond the floor in the suspected direction, with a p below
    the policy allows. Refuted: even the far end of the 95 % interval is below `share_of_change` of the suspected
    change, or below the floor.
    """
    if verdict.change is None or verdict.low is None or verdict.high is None or verdict.change <= -1:
        return Witness.UNDECIDED
    reported = verdict.change if suspected is None else suspected
    direction = 1.0 if reported > 0 else -1.0
    rules, short = policy.confirm, verdict.baseline_n < policy.night.short_history
    least = math.log1p(floor)
    d = direction * math.log1p(verdict.change)
    far = max(direction * math.log1p(max(end, -1 + 1e-12)) for end in (verdict.low, verdict.high))
    size = min(abs(math.log1p(max(reported, -1 + 1e-12))), LARGEST_DOUBT * least)
    if looks != 2 and far < max(least, rules.share_of_change * size):
        return Witness.REFUTED  # of two looks the smaller one stands for both: fair to a denial, unfair to the change
    if looks >= rules.looks and d > least and verdict.p_value is not None:
        likely = verdict.p_value <= (rules.p_short_history if short else rules.p)
        return Witness.CONFIRMED if likely else Witness.UNDECIDED
    return Witness.UNDECIDED
