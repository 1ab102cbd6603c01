"""What the other series of a unit did in the runs of each: what `detection.common_mode` learns from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from collector.host.history import UnitHistory
from collector.host.night_arrays import CONTROL_ROLES, baseline_values, packed
from collector.host.segments import WHOLE, Segments
from detection.common_mode import Siblings, sibling_moves
from detection.policy import Policy
from detection.verdict import UNPAIRED, Metric


def siblings_of(
    history: UnitHistory,
    metric: Metric,
    rows: Sequence[int],
    column: int,
    visible: NDArray[np.bool_],
    segments: Segments,
    policy: Policy,
) -> Siblings | None:
    """For the rows of `make_night`, which are all that the run measured; None for what is not a time alone.

    A series off its baseline, since it has an open finding, is nobody's sibling tonight; neither were its runs since.
    One whose finding is of its whole run has none itself: what its siblings do is what is asked of it.
    """
    if metric not in UNPAIRED:
        return None
    past = baseline_values(history, metric, rows, column, visible, segments)
    seen = np.flatnonzero(visible[:column])[-policy.night.history_window :]
    tonight = history.metrics[metric].value[np.asarray(rows), column]
    subjects = [history.subjects[row] for row in rows]
    moves = sibling_moves(
        np.column_stack([past[:, seen], tonight]),
        np.unique([s.case_id for s in subjects], return_inverse=True)[1],
        np.array([s.role in CONTROL_ROLES for s in subjects], dtype=bool),
        np.array([segments.get((row, metric), WHOLE).finding_id is None for row in rows], dtype=bool),
        least=policy.common_mode.minimum_cases,
        least_controls=policy.night.scatter_from,
    )
    of_run = [segments.get((row, metric), WHOLE).whole_run for row in rows]
    moves[of_run] = np.nan
    beside = np.full(past.shape, np.nan)
    beside[:, seen] = moves[:, :-1]
    return Siblings(history=packed(beside, np.isfinite(past)), tonight=moves[:, -1])
