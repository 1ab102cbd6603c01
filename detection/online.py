"""One change detector per series, fed one value a run: `OnlineDetector.update(value) -> Alert | None`.

It sees values as they come and never looks ahead. How it works and where each threshold comes from: docs/method.md.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from detection import online_kernel as kernel
from detection import online_scores as scores

STATE_VERSION: Final = 3
_HEADER = struct.Struct("<4sHHH")
_MAGIC: Final = b"KODS"


class DetectorError(ValueError):
    """Settings or a stored state that the detector cannot use; the message is one line for a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """A change of level that the detector reports.

    Positions count every fed value from 0, gaps included. `effect` is the new median over the old one, less 1
    (infinite where the old one is 0). `score` is the evidence over the
    threshold, so above 1.
    """

    change: int
    direction: int
    at: int
    effect: float
    score: float
    n_before: int
    n_after: int


def _to_alert(row: NDArray[np.float64]) -> Alert:
    return Alert(
        change=int(row[kernel.CHANGE]),
        direction=int(row[kernel.DIRECTION]),
        at=int(row[kernel.AT]),
        effect=float(row[kernel.EFFECT]),
        score=float(row[kernel.SCORE]),
        n_before=int(row[kernel.N_BEFORE]),
        n_after=int(row[kernel.N_AFTER]),
    )


class OnlineDetector:
    """Finds lasting shifts of one series' level, in both directions.

    Logarithms are judged while every value is positive, so multiplying a series by a constant changes no alert; plain
    values from the first value of zero or below on. None, NaN and infinities are gaps: counted, not judged.

    Args:
        strictness: Factor on every threshold; below 1 finds smaller shifts and raises more false alarms.
        warmup: Fewest values of a baseline before anything is judged, at the start and after each change.
        baseline: Most values of a baseline; older ones are forgotten.
        minimum_effect: Smallest relative change of medians that is reported.
    """

    __slots__ = ("_alert", "_settings", "_state")

    def __init__(
        self,
        *,
        strictness: float = 1.0,
        warmup: int = 12,
        baseline: int = 200,
        minimum_effect: float = 0.003,
    ) -> None:
        self._settings = settings_vector(
            strictness=strictness,
            warmup=warmup,
            baseline=baseline,
            minimum_effect=minimum_effect,
        )
        self._state = kernel.new_state()
        self._alert = np.zeros(kernel.ALERT_SIZE)

    def update(self, value: float | None) -> Alert | None:
        """Feed the next value; the alert it raises, if any."""
        if kernel.step(self._state, self._settings, math.nan if value is None else float(value), self._alert):
            return _to_alert(self._alert)
        return None

    @property
    def fed(self) -> int:
        """Values fed so far, gaps included."""
        return int(self._state[kernel.FED])

    def to_state(self) -> bytes:
        """Everything the next update depends on, settings included."""
        count = int(self._state[kernel.COUNT])
        head = self._state[: kernel.HEAD_SIZE].copy()
        if head[kernel.WATCH_LEFT] <= 0:
            head[kernel.WATCH_LEFT :] = 0
        saved = int(head[kernel.SAVED_COUNT])
        parts = (
            self._settings,
            head,
            self._state[kernel.VALUES : kernel.VALUES + count],
            self._state[kernel.PLACES : kernel.PLACES + count],
            self._state[kernel.SAVED_VALUES : kernel.SAVED_VALUES + saved],
            self._state[kernel.SAVED_PLACES : kernel.SAVED_PLACES + saved],
        )
        return _HEADER.pack(_MAGIC, STATE_VERSION, count, saved) + np.concatenate(parts).astype("<f8").tobytes()

    @classmethod
    def from_state(cls, data: bytes) -> OnlineDetector:
        """The detector that `to_state` described: every later update is the same bit for bit."""
        if len(data) < _HEADER.size:
            raise DetectorError(f"detector state is {len(data)} bytes, must be at least {_HEADER.size}; start afresh")
        magic, version, count, saved = _HEADER.unpack_from(data)
        if magic != _MAGIC or version != STATE_VERSION:
            raise DetectorError(f"detector state has version {version}, must be {STATE_VERSION}; replay the series")
        length = scores.SETTINGS_SIZE + kernel.HEAD_SIZE + 2 * (count + saved)
        if len(data) != _HEADER.size + 8 * length or max(count, saved) > kernel.HISTORY_SIZE:
            raise DetectorError(
                f"detector state is {len(data)} bytes, must be {_HEADER.size + 8 * length}; start afresh"
            )
        numbers = np.frombuffer(data, dtype="<f8", offset=_HEADER.size).astype(np.float64)
        detector = cls.__new__(cls)
        settings, head, values, places, saved_values, saved_places = np.split(
            numbers,
            np.cumsum([scores.SETTINGS_SIZE, kernel.HEAD_SIZE, count, count, saved]),
        )
        detector._settings = settings.copy()
        detector._alert = np.zeros(kernel.ALERT_SIZE)
        state = kernel.new_state()
        state[: kernel.HEAD_SIZE] = head
        state[kernel.VALUES : kernel.VALUES + count] = values
        state[kernel.PLACES : kernel.PLACES + count] = places
        state[kernel.SAVED_VALUES : kernel.SAVED_VALUES + saved] = saved_values
        state[kernel.SAVED_PLACES : kernel.SAVED_PLACES + saved] = saved_places
        state[kernel.SAVED_COUNT] = saved
        kernel.order_all(state)
        detector._state = state
        return detector


def settings_vector(*, strictness: float, warmup: int, baseline: int, minimum_effect: float) -> NDArray[np.float64]:
    """The settings as the compiled loop takes them; DetectorError where one is out of range."""
    ranges = (
        ("strictness", strictness, 0.1, 10.0),
        ("warmup", warmup, 8, 100),
        ("baseline", baseline, 20, kernel.HISTORY_SIZE - scores.LARGEST_GROUP),
        ("minimum_effect", minimum_effect, 0.0, 1.0),
    )
    for name, value, low, high in ranges:
        if not low <= value <= high:
            raise DetectorError(f"{name} is {value}, must be from {low} to {high}")
    settings = np.zeros(scores.SETTINGS_SIZE)
    settings[scores.STRICTNESS] = strictness
    settings[scores.WARMUP] = warmup
    settings[scores.BASELINE] = baseline
    settings[scores.MINIMUM_EFFECT] = minimum_effect
    return settings


def judge_many(histories: Iterable[ArrayLike], **settings: float) -> list[tuple[Alert, ...]]:
    """The alerts of each history, as a fresh `OnlineDetector(**settings)` fed one by one would raise them."""
    vector = OnlineDetector(**settings)._settings  # type: ignore[arg-type]
    found: list[tuple[Alert, ...]] = []
    for history in histories:
        rows = kernel.replay(np.asarray(history, dtype=np.float64), vector, kernel.new_state())
        found.append(tuple(_to_alert(row) for row in rows))
    return found


__all__: Sequence[str] = ("Alert", "DetectorError", "OnlineDetector", "judge_many")
