"""What goes into the judgement of a night and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from detection.common_mode import Siblings
from detection.noise_pool import NOTHING_LEARNT, NoisePool
from detection.verdict import Metric, ReasonCode, Verdict

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Night:
    """One metric of one run, row i of every array is series i. Values are in natural units, not logarithms."""

    metric: Metric
    device_kind: str
    subjects: tuple[str, ...]
    value: Floats
    """[S] tonight; NaN where there is none."""
    processes: NDArray[np.int64]
    """[S] processes behind tonight's value."""
    process_sd: Floats
    """[S] standard deviation of the logarithms over those processes; NaN where it is not known."""
    history: Floats
    """[S, R] earlier runs of the current baseline, oldest first, NaN where there is none."""
    history_process_variance: Floats
    """[S] pooled variance of the logarithms between processes in the earlier runs; NaN where it is not known."""
    history_process_df: Floats
    """[S] its degrees of freedom."""
    control: NDArray[np.bool_]
    """[S] series that nobody works on (A/A, naive): they show how noisy this night is."""
    absent: tuple[tuple[ReasonCode, str] | None, ...]
    """[S] where tonight has no value: the code and the sentence that say why."""
    looks: float = 1.0
    """Runs that tonight's value stands for: confirm runs of one suspicion are judged together."""
    known_scatter: float = 1.0
    """The scatter of the night that raised a suspicion, for judging its confirm runs: they are too few to have one."""
    known_noise: NoisePool | None = None
    """What the whole night's series say of the belief, for judging a few of them; None: this night has all of them."""
    told: NDArray[np.bool_] | None = None
    """[S] series with an open finding: whether that still stands is asked however short the baseline before it."""
    known_discovery_p: float | None = None
    """The p-value below which one more series of the whole night would have been a discovery, for judging it alone."""

    siblings: Siblings | None = None
    """What the other series did in the same runs; None for paired ratios, and where it is not known."""

    def __post_init__(self) -> None:
        rows = len(self.subjects)
        for name in ("value", "processes", "process_sd", "history_process_variance", "history_process_df", "control"):
            if getattr(self, name).shape != (rows,):
                raise ValueError(f"night: {name} has shape {getattr(self, name).shape}, must be ({rows},)")
        if self.history.ndim != 2 or self.history.shape[0] != rows or len(self.absent) != rows:
            raise ValueError(f"night: history has shape {self.history.shape}, must be ({rows}, runs)")
        if self.siblings is not None and self.siblings.history.shape != self.history.shape:
            raise ValueError(f"night: siblings have shape {self.siblings.history.shape}, must be {self.history.shape}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonShift:
    """All of a run moved together."""

    metric: Metric
    change: float
    """Median over the series, relative."""
    share: float
    """Of the series, those that moved the same way by half a floor or more."""
    n: int
    sentence: str
    usual: bool = False
    """Whether this unit's runs move like that as a rule: then it is taken away and is no news."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NightJudgement:
    """One verdict per series, in the order of the night's subjects; and what all of them did together."""

    verdicts: tuple[Verdict, ...]
    shift: CommonShift | None
    scatter: float
    """How many times wider than expected this night scattered; 1 where it did not, or could not be told."""
    discovery_p: float
    """The p-value below which one more series would have been a discovery of this night."""
    noise: NoisePool = NOTHING_LEARNT
    """How far the series' own histories bear out what was believed of their noise."""
