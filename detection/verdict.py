"""What a judgement says: a status, a reason code, one sentence with the numbers, and the policy that gave it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum


class VerdictStatus(StrEnum):
    """The five answers; "undecided" is one of them."""

    REGRESSED = "regressed"
    IMPROVED = "improved"
    UNCHANGED = "unchanged"
    INCONCLUSIVE = "inconclusive"
    NOT_JUDGED = "not_judged"


class Metric(StrEnum):
    """What is judged. All but `status` and `silence` are numbers for which more is worse."""

    LATENCY_RATIO = "latency_ratio"
    """Time of the arm over time of the optimized arm, paired in one process."""
    LATENCY = "latency"
    """Time of one call by the run's own clock, not paired with anything."""
    LATENCY_P99 = "latency_p99"
    FLOP_RATE = "flop_rate"
    """Of a row that states a rate and no time: seconds per FLOP, so that more is worse here too."""
    BANDWIDTH = "bandwidth"
    """Likewise: seconds per byte."""
    PEAK_MEMORY = "peak_memory"
    ERROR = "error"
    """Largest error as a fraction of what the contract's tolerance allows."""
    STATUS = "status"
    """Whether the case still runs and is right: measured, wrong, failed."""
    SILENCE = "silence"
    """Whether a device still reports."""


UNPAIRED = frozenset({Metric.LATENCY, Metric.LATENCY_P99, Metric.FLOP_RATE, Metric.BANDWIDTH})
"""Times of one arm alone: the host and its neighbours are in them."""


class Tier(StrEnum):
    """Which of the judges spoke."""

    IN_RUN = "in_run"
    TONIGHT = "tonight"
    CONFIRM = "confirm"
    ONLINE = "online"


class ReasonCode(StrEnum):
    """Why a verdict has its status."""

    SLOWER = "slower"
    """In one run, against another arm: the interval lies wholly above the floor."""
    FASTER = "faster"
    SAME = "same"
    """In one run: the interval lies wholly inside the floor."""
    BEYOND_FLOOR = "beyond_floor"
    """Against history: interval wholly beyond the floor, and significant over the whole night."""
    SUSPICIOUS = "suspicious"
    """Unlikely and large, but the interval still reaches into the floor: a confirm run decides."""
    RECENT_NIGHTS = "recent_nights"
    """Tonight alone would be believed, the last nights together not: a confirm run decides."""
    WITHIN_FLOOR = "within_floor"
    """The interval lies wholly inside the floor: no change of that size."""
    WITHIN_NOISE = "within_noise"
    """Compatible with the noise of the series, which is wider than the floor."""
    TOO_WIDE = "too_wide"
    """The interval reaches from inside the floor to far outside: more samples would decide."""
    OPEN_FINDING = "open_finding"
    """Still at the level that an open finding reported: not said twice."""
    RECOVERED = "recovered"
    """Back at the level from before an open finding."""
    COMMON_MODE = "common_mode"
    """The series went with its run: most of it moved, said once for the run, or it did what its siblings usually do."""
    SHIFTED = "shifted"
    """A lasting shift, seen over several nights, none of which need stand out alone."""
    BIMODAL = "bimodal"
    """Two clusters whose places did not move; only their shares did."""
    FROM_ZERO = "from_zero"
    """The baseline is zero: more than before, but no ratio exists."""
    STILL_ZERO = "still_zero"
    NOT_ENOUGH_HISTORY = "not_enough_history"
    NOT_ENOUGH_SAMPLES = "not_enough_samples"
    FIRST_RUN = "first_run"
    NO_VALUE = "no_value"
    """The run has no number here; the sentence gives the row's own reason."""
    THROTTLED = "throttled"
    CONTENDED = "contended"
    CLOCK_UNSETTLED = "clock_unsettled"
    IMPOSSIBLE_VALUE = "impossible_value"
    FAILED = "failed"
    WRONG = "wrong"
    SKIPPED = "skipped"
    NEWLY_FAILING = "newly_failing"
    """Measured before, wrong or failed tonight."""
    GAP = "gap"
    """Nothing arrived where a run was due."""
    AT_PLANNED_CHANGE = "at_planned_change"
    """The two-sample verdict at a known change of driver, compiler or harness."""
    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    FAR_FROM_MODEL = "far_from_model"
    """A shape without history that takes much more or less than the cost model expects."""
    AS_MODELLED = "as_modelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One judgement. Changes are relative (+0.15 is 15 % more); None where no number exists."""

    status: VerdictStatus
    code: ReasonCode
    sentence: str
    change: float | None = None
    low: float | None = None
    """Ends of the 95 % interval of the change."""
    high: float | None = None
    smallest_visible_change: float | None = None
    """The least change that this judge would have seen here in four of five nights."""
    baseline: str = ""
    """In words: which runs it was compared with."""
    baseline_n: int = 0
    n: int = 0
    """Processes behind tonight's value."""
    p_value: float | None = None
    policy: str = ""
    policy_version: str = ""


def not_judged(code: ReasonCode, sentence: str, *, policy: str, policy_version: str, n: int = 0) -> Verdict:
    """A verdict that says why there is none."""
    return Verdict(
        status=VerdictStatus.NOT_JUDGED, code=code, sentence=sentence, n=n, policy=policy, policy_version=policy_version
    )


def percent(fraction: float, *, signed: bool = False) -> str:
    """A fraction as a person reads it: 0.0743 is "7.4 %"; one decimal below 100 %, none above; never "-0.0 %"."""
    if math.isinf(fraction):
        return "unbounded" if fraction > 0 else "unbounded below"
    digits = 0 if abs(fraction) >= 1 else 1
    value = round(100 * fraction, digits) + 0.0
    sign = "+" if signed and value > 0 else ""
    return f"{sign}{value:,.{digits}f} %".replace("-", "−")


def in_words(metric: Metric, change: float) -> str:
    """A change as a clause: "7.4 % slower", "12 % more memory"; the word carries the sign."""
    more, less = _WORDS[metric]
    return f"{percent(abs(change))} {more if change >= 0 else less}"


_WORDS = {
    Metric.LATENCY_RATIO: ("slower", "faster"),
    Metric.LATENCY: ("slower", "faster"),
    Metric.LATENCY_P99: ("slower", "faster"),
    Metric.FLOP_RATE: ("slower", "faster"),
    Metric.BANDWIDTH: ("slower", "faster"),
    Metric.PEAK_MEMORY: ("more memory", "less memory"),
    Metric.ERROR: ("less exact", "more exact"),
    Metric.STATUS: ("failing", "running again"),
    Metric.SILENCE: ("silent", "reporting again"),
}
