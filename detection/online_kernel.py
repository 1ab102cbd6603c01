"""The inner loop of the online detector, compiled by numba; docs/method.md says what each step is for.

A detector is one float64 vector, so that a night of 100,000 series is one array. Its parts are named by the offsets
below; fed positions are kept as floats (exact to 2^53).
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from detection.online_scores import (
    BASELINE,
    GROUP_LAST,
    GROUPS,
    LARGEST_GROUP,
    MINIMUM_EFFECT,
    STRICTNESS,
    WARMUP,
    Vector,
    ascending,
    clipped,
    compiled,
    group_ratio,
    is_drift,
    median_of,
    middle_of,
    newest_count,
    robust_scale,
    was_drifting,
)

SCORES_DIGEST: Final = "9e37552e9676"
"""Of online_scores.py. Numba's cache looks at this file only: a change there must change something here."""

HISTORY_SIZE: Final = 240
"""Values kept since the last accepted change: a baseline of at most 200 and a newest group of at most 40."""

# Head of the state vector.
FED, COUNT, IS_PLAIN, SCALE_BEFORE, COUNT_BEFORE, LAST_UP, LAST_DOWN, LAST_SIGN = range(8)
WATCH_LEFT, WATCH_SUM, WATCH_RUN, WATCH_SHIFT, WATCH_SIGN, WATCH_CENTRE, WATCH_SCALE = range(8, 15)
SAVED_COUNT, SAVED_SCALE_BEFORE, SAVED_COUNT_BEFORE, HEAD_SIZE = range(15, 19)
VALUES: Final = HEAD_SIZE
PLACES: Final = VALUES + HISTORY_SIZE
SAVED_VALUES: Final = PLACES + HISTORY_SIZE
SAVED_PLACES: Final = SAVED_VALUES + HISTORY_SIZE
KEPT_SIZE: Final = SAVED_PLACES + HISTORY_SIZE
"""What a stored state holds; the rest follows from it."""
ORDER_VALUES: Final = KEPT_SIZE
ORDER_PLACES: Final = ORDER_VALUES + HISTORY_SIZE
STATE_SIZE: Final = ORDER_PLACES + HISTORY_SIZE

# Alert vector.
AT, CHANGE, DIRECTION, EFFECT, SCORE, N_BEFORE, N_AFTER, ALERT_SIZE = range(8)

SAME_CHANGE: Final = 5
"""A change located within so many values of the last reported one of its direction is that one again."""
WATCH_LENGTH: Final = 25
WATCH_LIMIT: Final = 6.5
"""Log-likelihood ratio, in favour of the old level, at which a change is taken back."""
WATCH_LARGEST_SHIFT: Final = 4.0


@compiled
def new_state() -> Vector:
    """A detector that has seen nothing."""
    state = np.zeros(STATE_SIZE)
    state[LAST_UP] = -1e9
    state[LAST_DOWN] = -1e9
    return state


@compiled
def order_in(state: Vector, size: int, value: float, place: float) -> None:
    """Put a value into the ascending copy of the history, which holds `size` values."""
    at = size
    while at > 0 and state[ORDER_VALUES + at - 1] > value:
        state[ORDER_VALUES + at] = state[ORDER_VALUES + at - 1]
        state[ORDER_PLACES + at] = state[ORDER_PLACES + at - 1]
        at -= 1
    state[ORDER_VALUES + at] = value
    state[ORDER_PLACES + at] = place


@compiled
def order_out(state: Vector, size: int, place: float) -> None:
    """Take the value fed at `place` out of the ascending copy, which holds `size` values."""
    at = 0
    while state[ORDER_PLACES + at] != place:
        at += 1
    for i in range(at, size - 1):
        state[ORDER_VALUES + i] = state[ORDER_VALUES + i + 1]
        state[ORDER_PLACES + i] = state[ORDER_PLACES + i + 1]


@compiled
def order_all(state: Vector) -> None:
    """Build the ascending copy of the history anew."""
    for i in range(int(state[COUNT])):
        order_in(state, i, state[VALUES + i], state[PLACES + i])


@compiled
def ordered_between(state: Vector, first: int, end: int) -> Vector:
    """History values [first, end) in ascending order."""
    count = int(state[COUNT])
    low = state[PLACES + first]
    high = state[PLACES + end - 1]
    found = np.empty(end - first)
    size = 0
    for i in range(count):
        if low <= state[ORDER_PLACES + i] <= high:
            found[size] = state[ORDER_VALUES + i]
            size += 1
    return found


@compiled
def append(state: Vector, value: float, place: float) -> None:
    """Add one value to the history, letting the oldest go when it is full."""
    count = int(state[COUNT])
    if count == HISTORY_SIZE:
        order_out(state, count, state[PLACES])
        for i in range(HISTORY_SIZE - 1):
            state[VALUES + i] = state[VALUES + i + 1]
            state[PLACES + i] = state[PLACES + i + 1]
        count -= 1
    order_in(state, count, value, place)
    state[VALUES + count] = value
    state[PLACES + count] = place
    state[COUNT] = count + 1


@compiled
def watch(state: Vector, value: float) -> bool:
    """After a change: has the old level come back? A CUSUM; True where it brought the old history back."""
    state[WATCH_LEFT] -= 1
    shift = state[WATCH_SHIFT]
    u = state[WATCH_SIGN] * (value - state[WATCH_CENTRE]) / state[WATCH_SCALE]
    total = max(0.0, state[WATCH_SUM] - shift * (clipped(u, -2.0, shift + 2) - shift / 2))
    state[WATCH_SUM] = total
    state[WATCH_RUN] = state[WATCH_RUN] + 1 if total > 0 else 0
    if total <= WATCH_LIMIT or state[WATCH_RUN] < 2:
        return False
    state[WATCH_LEFT] = 0
    since = int(state[COUNT])
    saved = int(state[SAVED_COUNT])
    newer = np.empty((2, since))
    for i in range(since):
        newer[0, i] = state[VALUES + i]
        newer[1, i] = state[PLACES + i]
    for i in range(saved):
        state[VALUES + i] = state[SAVED_VALUES + i]
        state[PLACES + i] = state[SAVED_PLACES + i]
    state[COUNT] = saved
    order_all(state)
    for i in range(since):
        append(state, newer[0, i], newer[1, i])
    state[SCALE_BEFORE] = state[SAVED_SCALE_BEFORE]
    state[COUNT_BEFORE] = state[SAVED_COUNT_BEFORE]
    state[LAST_SIGN] = 0  # what went away is no part of a drift
    return True


@compiled
def to_plain(state: Vector) -> None:
    """A value of zero or below has come: from logarithms to plain values, for good."""
    for i in range(int(state[COUNT])):
        state[VALUES + i] = math.exp(state[VALUES + i])
    order_all(state)
    state[IS_PLAIN] = 1
    state[COUNT_BEFORE] = 0
    state[WATCH_LEFT] = 0
    state[SAVED_COUNT] = 0


@compiled
def largest_ratio(state: Vector, settings: Vector, fewest: int) -> float:
    """Largest score over threshold, signed by direction, over all window lengths; 0 where none exceeds 1."""
    count = int(state[COUNT])
    best = 0.0
    for group in range(GROUPS):
        newest = min(GROUP_LAST[group], count - fewest)
        split = count - newest
        first = max(0, split - int(settings[BASELINE]))
        ordered = ordered_between(state, first, split)
        centre = middle_of(ordered)
        scale = robust_scale(ordered, centre, state[IS_PLAIN] > 0, state[SCALE_BEFORE], state[COUNT_BEFORE])
        ratio = group_ratio(
            state[VALUES + split : VALUES + count],
            state[VALUES + first : VALUES + split],
            centre,
            scale,
            group,
            settings[STRICTNESS],
        )
        if abs(ratio) > abs(best):
            best = ratio
        if newest < GROUP_LAST[group]:
            break
    return best


@compiled
def step(state: Vector, settings: Vector, value: float, alert: Vector) -> bool:
    """Feed one value; True and `alert` filled where a change is reported. NaN is a gap: counted, not judged."""
    place = state[FED]
    state[FED] += 1
    if not math.isfinite(value):
        return False
    if value <= 0 and state[IS_PLAIN] == 0:
        to_plain(state)
    x = value if state[IS_PLAIN] > 0 else math.log(value)
    append(state, x, place)
    if state[WATCH_LEFT] > 0 and watch(state, x):
        return False
    fewest = int(settings[WARMUP])
    if state[COUNT] < fewest + 2:
        return False
    ratio = largest_ratio(state, settings, fewest)
    if ratio == 0:
        return False
    return accept(state, settings, ratio, fewest, place, alert)


@compiled
def accept(state: Vector, settings: Vector, ratio: float, fewest: int, place: float, alert: Vector) -> bool:
    """Locate the change, test its size, restart there; True where it is news."""
    sign = 1.0 if ratio > 0 else -1.0
    is_plain = state[IS_PLAIN] > 0
    count = int(state[COUNT])
    limit = int(settings[BASELINE])
    values = state[VALUES : VALUES + count]
    longest = min(LARGEST_GROUP, count - fewest)
    early = ascending(values[max(0, count - longest - limit) : count - longest])
    centre = middle_of(early)
    scale = robust_scale(early, centre, is_plain, state[SCALE_BEFORE], state[COUNT_BEFORE])
    newest = newest_count(values, centre, scale, sign, longest, limit)
    older = values[max(0, count - newest - limit) : count - newest]
    centre = median_of(older)
    newest_centre = median_of(values[count - newest :])
    change = newest_centre - centre
    if sign * change <= 0 or abs(change) < settings[MINIMUM_EFFECT] * (abs(centre) if is_plain else 1.0):
        return False
    first = state[PLACES + count - newest]
    last = LAST_UP if sign > 0 else LAST_DOWN
    is_news: bool = first - state[last] >= SAME_CHANGE
    if is_drift(values, newest, centre, newest_centre) and (
        state[LAST_SIGN] == sign or was_drifting(older, newest, newest_centre, change)
    ):
        is_news = False
    scale = robust_scale(ascending(older), centre, is_plain, state[SCALE_BEFORE], state[COUNT_BEFORE])
    if is_news:
        state[last] = first
        state[LAST_SIGN] = sign
        alert[AT] = place
        alert[CHANGE] = first
        alert[DIRECTION] = sign
        alert[EFFECT] = change / max(abs(centre), 1e-300) if is_plain else math.expm1(change)
        alert[SCORE] = abs(ratio)
        alert[N_BEFORE] = len(older)
        alert[N_AFTER] = newest
    considered = len(older)
    restart(state, newest)
    state[SCALE_BEFORE] = scale
    state[COUNT_BEFORE] = considered
    state[WATCH_LEFT] = 0
    if is_news and newest <= 20 and abs(change) >= scale:
        state[WATCH_LEFT] = WATCH_LENGTH
        state[WATCH_SUM] = 0
        state[WATCH_RUN] = 0
        state[WATCH_SHIFT] = min(abs(change) / scale, WATCH_LARGEST_SHIFT)
        state[WATCH_SIGN] = sign
        state[WATCH_CENTRE] = centre
        state[WATCH_SCALE] = scale
    return is_news


@compiled
def restart(state: Vector, newest: int) -> None:
    """The newest values become the history; the older ones are saved, in case they are needed again."""
    count = int(state[COUNT])
    older = count - newest
    for i in range(older):
        state[SAVED_VALUES + i] = state[VALUES + i]
        state[SAVED_PLACES + i] = state[PLACES + i]
    state[SAVED_COUNT] = older
    state[SAVED_SCALE_BEFORE] = state[SCALE_BEFORE]
    state[SAVED_COUNT_BEFORE] = state[COUNT_BEFORE]
    for i in range(newest):
        state[VALUES + i] = state[VALUES + older + i]
        state[PLACES + i] = state[PLACES + older + i]
    state[COUNT] = newest
    order_all(state)


@compiled
def replay(values: Vector, settings: Vector, state: Vector) -> Vector:
    """Feed all values; alerts as [alerts, ALERT_SIZE]."""
    alerts = np.empty((len(values), ALERT_SIZE))
    alert = np.zeros(ALERT_SIZE)
    found = 0
    for value in values:
        if step(state, settings, value, alert):
            alerts[found] = alert
            found += 1
    return alerts[:found].copy()
