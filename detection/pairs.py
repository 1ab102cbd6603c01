"""One run, two arms: is this implementation faster or slower than that one, here and now?"""

from __future__ import annotations

import math
from collections.abc import Sequence

from detection.policy import Policy
from detection.stats import t_interval
from detection.verdict import ReasonCode, Verdict, VerdictStatus, not_judged, percent


def judge_pair(
    log_ratios: Sequence[float], against: str, *, policy: Policy, device_kind: str, noise: float = 0.0
) -> Verdict:
    """The in-run verdict of an arm against another from the median log-ratio of each process.

    Slower (faster) when Student's interval over the processes lies wholly above (below) the floor; the same when it
    lies wholly inside it; else inconclusive with the width. `noise` widens the floor: the error that an A/A copy
    showed in this series (relative), since a placement bias is not a speed.
    """
    values = [x for x in log_ratios if math.isfinite(x)]
    if len(values) < 2:
        sentence = f"{len(values)} process measured both this arm and {against}; an interval needs at least 2."
        return not_judged(
            ReasonCode.NOT_ENOUGH_SAMPLES,
            sentence,
            n=len(values),
            policy=policy.name,
            policy_version=policy.version,
        )
    interval = t_interval(values).exp()
    floor = max(policy.floors.cpu if device_kind == "cpu" else policy.floors.accelerator, noise)
    change, low, high = interval.estimate - 1, interval.low - 1, interval.high - 1
    inside = f"95 % interval {interval.low:.3f} to {interval.high:.3f}, {interval.n} processes"
    ratio = f"{interval.estimate:.3f}× the time of {against} ({inside})"
    if low > floor:
        status, code = VerdictStatus.REGRESSED, ReasonCode.SLOWER
        sentence = f"Slower: {ratio}."
    elif high < -floor / (1 + floor):
        status, code = VerdictStatus.IMPROVED, ReasonCode.FASTER
        sentence = f"Faster: {ratio}."
    elif low > -floor and high < floor:
        status, code = VerdictStatus.UNCHANGED, ReasonCode.SAME
        sentence = f"The same within {percent(floor)}: {ratio}."
    else:
        status, code = VerdictStatus.INCONCLUSIVE, ReasonCode.TOO_WIDE
        width = (
            percent(math.expm1((math.log(interval.high) - math.log(interval.low)) / 2)) if interval.low > 0 else "any"
        )
        sentence = f"Undecided at ± {width} against a floor of {percent(floor)}: {ratio}."
    return Verdict(
        status=status,
        code=code,
        sentence=sentence,
        change=change,
        low=low,
        high=high,
        baseline=f"{against}, same processes",
        baseline_n=interval.n,
        n=interval.n,
        policy=policy.name,
        policy_version=policy.version,
    )
