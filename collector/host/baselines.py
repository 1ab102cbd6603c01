"""Baselines move by recorded acts: who moved which series to which run, why, and that it was undone."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from detection.verdict import Metric
from store.lake.errors import StoreError
from store.lake.lake import Lake


class BaselineAct(StrEnum):
    """What was done."""

    MOVED = "moved"
    UNDONE = "undone"


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineMove:
    """The start of a series' baseline, and the act that put it there."""

    act_id: str
    act: BaselineAct
    at: datetime
    actor: str
    subject_id: str
    metric: Metric
    from_run_id: str
    reason: str
    case_id: str = ""
    arm: str = ""
    device_unit: str = ""
    stands: bool = False
    """Whether the newest act on this series and run is this one, and is a move."""


_SERIES = """
    SELECT DISTINCT subject_id, case_id, arm, device_unit FROM results
    WHERE case_id = $case AND ($arm IS NULL OR arm = $arm) AND ($unit IS NULL OR device_unit = $unit)
    ORDER BY subject_id
"""
_ACTS = """
    WITH names AS (SELECT subject_id, any_value(case_id) AS case_id, any_value(arm) AS arm,
                   any_value(device_unit) AS device_unit FROM results
                   WHERE subject_id IN (SELECT subject_id FROM baselines) GROUP BY subject_id)
    SELECT b.*, n.case_id, n.arm, n.device_unit FROM baselines b LEFT JOIN names n USING (subject_id)
    ORDER BY b."at", b.event_id
"""


def move_baseline(
    lake: Lake,
    *,
    case_id: str,
    from_run_id: str,
    metric: Metric,
    reason: str,
    actor: str,
    now: datetime,
    arm: str | None = None,
    device_unit: str | None = None,
) -> tuple[BaselineMove, ...]:
    """Lets the baseline of the chosen series start with a run: what was before it is no longer what they are held to.

    Raises:
        StoreError: the reason is empty, or no visible run, or no series, has these names.
    """
    _require(reason)
    if not lake.sql("SELECT 1 FROM runs WHERE run_id = $run", {"run": from_run_id}).num_rows:
        raise StoreError(f"run {from_run_id!r}: is not in the store; `collector store sql` over runs lists them")
    series = lake.sql(_SERIES, {"case": case_id, "arm": arm, "unit": device_unit}).to_pylist()
    if not series:
        raise StoreError(
            f"case {case_id!r}, arm {arm or 'any'}, unit {device_unit or 'any'}: no series has these names; "
            "`collector store sql` over series lists them"
        )
    moves = [_act(BaselineAct.MOVED, row, metric, from_run_id, reason, actor, now) for row in series]
    _append(lake, moves)
    return tuple(moves)


def undo_baseline(
    lake: Lake, act_ids: Sequence[str], *, reason: str, actor: str, now: datetime
) -> tuple[BaselineMove, ...]:
    """Takes moves back: the series are judged against what was before again, from the next judging on.

    Raises:
        StoreError: the reason is empty, or an act is unknown or stands no longer.
    """
    _require(reason)
    known = {move.act_id: move for move in read_moves(lake)}
    undone = []
    for name in dict.fromkeys(act_ids):
        move = known.get(name)
        if move is None or not move.stands:
            why = "is unknown" if move is None else "stands no longer"
            raise StoreError(f"act {name!r}: {why}; `collector baseline list` has those that stand")
        names = {
            "subject_id": move.subject_id,
            "case_id": move.case_id,
            "arm": move.arm,
            "device_unit": move.device_unit,
        }
        undone.append(_act(BaselineAct.UNDONE, names, move.metric, move.from_run_id, reason, actor, now))
    _append(lake, undone)
    return tuple(undone)


def read_moves(lake: Lake) -> tuple[BaselineMove, ...]:
    """All acts, oldest first; the newest one on a series, metric and run says whether it stands."""
    rows = [row for row in lake.sql(_ACTS).to_pylist() if row["metric"] in set(Metric)]
    newest = {(row["subject_id"], row["metric"], row["from_run_id"]): row["event_id"] for row in rows}
    return tuple(
        BaselineMove(
            act_id=row["event_id"],
            act=BaselineAct(row["event"]),
            at=row["at"],
            actor=row["actor"] or "",
            subject_id=row["subject_id"],
            metric=Metric(row["metric"]),
            from_run_id=row["from_run_id"],
            reason=row["reason"] or "",
            case_id=row["case_id"] or "",
            arm=row["arm"] or "",
            device_unit=row["device_unit"] or "",
            stands=row["event"] == BaselineAct.MOVED
            and newest[row["subject_id"], row["metric"], row["from_run_id"]] == row["event_id"],
        )
        for row in rows
    )


def _require(reason: str) -> None:
    if not reason.strip():
        raise StoreError("a baseline needs a reason; it is empty")


def _act(
    act: BaselineAct,
    series: Mapping[str, Any],
    metric: Metric,
    from_run_id: str,
    reason: str,
    actor: str,
    now: datetime,
) -> BaselineMove:
    parts = (act, series["subject_id"], metric, from_run_id, now.isoformat())
    return BaselineMove(
        act_id=hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:16],
        act=act,
        at=now,
        actor=actor,
        subject_id=series["subject_id"],
        metric=metric,
        from_run_id=from_run_id,
        reason=reason,
        case_id=series["case_id"] or "",
        arm=series["arm"] or "",
        device_unit=series["device_unit"] or "",
        stands=act is BaselineAct.MOVED,
    )


def _append(lake: Lake, moves: Sequence[BaselineMove]) -> None:
    rows = [
        {
            "event_id": move.act_id,
            "event": move.act.value,
            "at": move.at,
            "actor": move.actor,
            "subject_id": move.subject_id,
            "metric": move.metric.value,
            "from_run_id": move.from_run_id,
            "reason": move.reason,
        }
        for move in moves
    ]
    lake.append("baselines", rows)
