"""From the numbers of one series to its verdict: what is called, what is worth a confirm run, what is not judged."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from detection.night_data import CommonShift, Floats, Night
from detection.night_evidence import Evidence
from detection.night_words import NOUNS, Numbers, figure, runs_words, sentence_of
from detection.policy import Policy
from detection.verdict import Metric, ReasonCode, Verdict, VerdictStatus, not_judged

POWER_QUANTILE = 0.8416
"""Phi^-1(0.8): seen in four of five nights."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """The numbers of a night, and the verdict that they give one series at a time."""

    night: Night
    policy: Policy
    floor: float
    evidence: Evidence
    change: Floats
    half: Floats
    p: Floats
    zero_before: NDArray[np.bool_]
    together: NDArray[np.bool_]
    recent: Floats

    def verdict(self, i: int, *, discovered: bool, usable: bool, shift: CommonShift | None) -> Verdict:
        """What is said of series `i`."""
        reason = self.night.absent[i]
        if reason is not None:
            return self._not_judged(i, *reason)
        if self.night.value[i] == 0 or self.zero_before[i]:
            return self._from_zero(i)
        if not usable:
            return self._no_history(i)
        d, half = float(self.change[i]), float(self.half[i])
        status, code = self._decide(i, d, half, discovered=discovered)
        words = self._sentence(i, code, d, half, shift)
        if self._of_the_run(i, code, d, shift):
            status, code = VerdictStatus.UNCHANGED, ReasonCode.COMMON_MODE
        visible = math.expm1(self.floor + half + POWER_QUANTILE * half / float(self.evidence.quantile[i]))
        return Verdict(
            status=status,
            code=code,
            sentence=words,
            change=math.expm1(d),
            low=math.expm1(d - half),
            high=math.expm1(d + half),
            smallest_visible_change=visible,
            baseline=runs_words(int(self.evidence.runs[i])),
            baseline_n=int(self.evidence.runs[i]),
            n=int(self.night.processes[i]),
            p_value=float(self.p[i]),
            policy=self.policy.name,
            policy_version=self.policy.version,
        )

    def _decide(self, i: int, d: float, half: float, *, discovered: bool) -> tuple[VerdictStatus, ReasonCode]:
        beyond = abs(d) - half > self.floor
        large = abs(d) > self.floor and self._worth_saying(i) and not self._lucky_baseline(i, d)
        if large and beyond and discovered:
            return (VerdictStatus.REGRESSED if d > 0 else VerdictStatus.IMPROVED), ReasonCode.BEYOND_FLOOR
        if large and (discovered or self.p[i] <= self.policy.night.suspicion_p):
            return VerdictStatus.INCONCLUSIVE, ReasonCode.SUSPICIOUS
        if self.together[i] and self._worth_saying(i):
            return VerdictStatus.INCONCLUSIVE, ReasonCode.RECENT_NIGHTS
        if abs(d) + half < self.floor or not self._worth_saying(i):
            return VerdictStatus.UNCHANGED, ReasonCode.WITHIN_FLOOR
        if half > self.floor and abs(d) <= half:
            return VerdictStatus.UNCHANGED, ReasonCode.WITHIN_NOISE
        return VerdictStatus.INCONCLUSIVE, ReasonCode.TOO_WIDE

    def _of_the_run(self, i: int, code: ReasonCode, d: float, shift: CommonShift | None) -> bool:
        """Whether there would be something to say, had the series not gone with its run."""
        if shift is not None:
            return code is ReasonCode.WITHIN_FLOOR
        still = code in (ReasonCode.WITHIN_FLOOR, ReasonCode.WITHIN_NOISE)
        return still and abs(d + float(self.evidence.common[i])) > self.floor >= abs(d)

    def _lucky_baseline(self, i: int, d: float) -> bool:
        """A gain over a few runs is no news yet: one of those may have been throttled, and nothing throttles
        upwards."""
        return d < 0 and bool(self.evidence.runs[i] < self.policy.night.short_history)

    def _worth_saying(self, i: int) -> bool:
        """Whether the change is large in its own unit too, where a ratio alone would mislead."""
        absolute = abs(float(self.night.value[i]) - math.exp(float(self.evidence.centre[i])))
        if self.night.metric is Metric.PEAK_MEMORY:
            return absolute >= self.policy.floors.peak_memory_bytes
        if self.night.metric is Metric.ERROR:
            return absolute >= self.policy.floors.error_margin
        return True

    def _from_zero(self, i: int) -> Verdict:
        value, history = float(self.night.value[i]), self.night.history[i]
        known = history[np.isfinite(history)]
        if known.size == 0:
            return self._no_history(i)
        before = float(np.median(known))
        n = int(known.size)
        if value == 0 and before == 0:
            sentence = f"Zero tonight and zero over {n} runs: no change."
            status, code = VerdictStatus.UNCHANGED, ReasonCode.STILL_ZERO
        elif before == 0:
            sentence = f"From zero over {n} runs to {figure(self.night.metric, value)}: more, and no ratio exists."
            status, code = VerdictStatus.REGRESSED, ReasonCode.FROM_ZERO
            if not self._worth_saying_from_zero(value):
                status = VerdictStatus.UNCHANGED
        else:
            sentence = f"From {figure(self.night.metric, before)} over {n} runs to zero: less, and no ratio exists."
            status, code = VerdictStatus.IMPROVED, ReasonCode.FROM_ZERO
            if not self._worth_saying_from_zero(before):
                status = VerdictStatus.UNCHANGED
        return Verdict(
            status=status,
            code=code,
            sentence=sentence,
            baseline=runs_words(n),
            baseline_n=n,
            policy=self.policy.name,
            policy_version=self.policy.version,
        )

    def _worth_saying_from_zero(self, value: float) -> bool:
        if self.night.metric is Metric.PEAK_MEMORY:
            return value >= self.policy.floors.peak_memory_bytes
        return self.night.metric is not Metric.ERROR or value >= self.policy.floors.error_margin

    def _no_history(self, i: int) -> Verdict:
        runs = int(self.evidence.runs[i])
        needed = self.policy.minimum_history(self.night.metric, self.night.device_kind)
        if runs == 0:
            return self._not_judged(
                i, ReasonCode.FIRST_RUN, "The first run with this series: nothing to compare it with."
            )
        sentence = (
            f"{runs} earlier runs, {needed} are needed before {NOUNS[self.night.metric]} is judged against history."
        )
        return self._not_judged(i, ReasonCode.NOT_ENOUGH_HISTORY, sentence)

    def _not_judged(self, i: int, code: ReasonCode, sentence: str) -> Verdict:
        n = int(self.night.processes[i])
        return not_judged(code, sentence, policy=self.policy.name, policy_version=self.policy.version, n=n)

    def _sentence(self, i: int, code: ReasonCode, d: float, half: float, shift: CommonShift | None) -> str:
        numbers = Numbers(
            metric=self.night.metric,
            now=float(self.night.value[i]),
            before=math.exp(float(self.evidence.centre[i])),
            runs=int(self.evidence.runs[i]),
            change=d,
            half=half,
            floor=self.floor,
            recent=float(self.recent[i]),
            shift=shift.change if shift else None,
            common=float(self.evidence.common[i]),
        )
        return sentence_of(code, numbers)
