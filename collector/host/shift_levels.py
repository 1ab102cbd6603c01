"""Lasting shifts of series with two levels: where only the shares moved, there is no shift to tell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from collector.host.history import UnitHistory, visible_columns
from collector.host.second_look import SAMPLED_RUNS, bimodal_verdict, read_log_samples
from collector.host.shift import Shift
from detection.modes import only_shares_moved
from detection.policy import Policy
from detection.verdict import Metric
from store.lake.lake import Lake


def name_two_levels_of_shifts(
    lake: Lake, shifts: Sequence[Shift], column: int, history: UnitHistory, policy: Policy
) -> list[Shift]:
    """The shifts, those of unpaired series whose samples lie on the levels from before called bimodal.

    Compared are the samples of the runs before the shift with those since, up to the run at `column`.
    """
    asked = [s for s in shifts if s.said.moved and s.said.metric is Metric.LATENCY]
    if not asked:
        return list(shifts)
    visible = np.append(np.flatnonzero(visible_columns(history, column)), column).tolist()
    runs = {s.column: _runs_around(s.column, visible) for s in asked}
    names = sorted({history.runs[c].run_id for pair in runs.values() for part in pair for c in part})
    pools = read_log_samples(lake, names, [s.said.subject.subject_id for s in asked])
    floor = math.log1p(policy.floor(Metric.LATENCY, history.runs[column].device_kind))
    named = []
    for shift in shifts:
        modes = None
        if shift in asked:
            subject_id = shift.said.subject.subject_id
            before, after = (
                [pools[key] for c in part if (key := (history.runs[c].run_id, subject_id)) in pools]
                for part in runs[shift.column]
            )
            if before and after:
                modes = only_shares_moved(np.concatenate(before), np.concatenate(after), floor)
        named.append(shift if modes is None else replace(shift, said=bimodal_verdict(shift.said, modes)))
    return named


def _runs_around(start: int, visible: Sequence[int]) -> tuple[list[int], list[int]]:
    """The last runs before a place and the last since, at most SAMPLED_RUNS each."""
    return [c for c in visible if c < start][-SAMPLED_RUNS:], [c for c in visible if c >= start][-SAMPLED_RUNS:]
