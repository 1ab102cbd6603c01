"""The statistics of the online detector, compiled by numba; docs/method.md says what each is for.

All work on one baseline (the older values) and the newest values, both in working units: logarithms of values, or
plain values where a series is not positive.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

Vector = NDArray[np.float64]
P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile with numba, kept on disk where there is a place for it: a read-only installation compiles each time."""
    try:
        return cast(Callable[P, R], njit(cache=True)(function))
    except RuntimeError:  # "cannot cache function: no locator available"
        return cast(Callable[P, R], njit(function))


# Settings vector.
WARMUP, STRICTNESS, BASELINE, MINIMUM_EFFECT, SETTINGS_SIZE = range(5)

MAD_TO_SD: Final = 1.4826
RELATIVE_FLOOR: Final = 1e-3
"""No series is believed to be quieter than 0.1 % of its level: clocks and counters are quantised."""

GROUPS: Final = 4
LARGEST_GROUP: Final = 40
GROUP_FIRST: Final = np.array([3, 6, 11, 21])
GROUP_LAST: Final = np.array([5, 10, 20, 40])
THRESHOLDS: Final = np.array([3.87, 4.35, 4.31, 3.89])
"""In standard deviations, for windows of 3-5, 6-10, 11-20, 21-40 values."""
CLIPS: Final = np.array([2.48, 1.85, 1.62, 1.57])
"""Most that one value can count for a change. Less in long windows, where a burst of outliers must not decide."""
OPPOSITE_CLIP: Final = 0.77
"""Share of the clip that one value can count against a change: rare excursions the other way hide few real shifts."""
SMALL_SAMPLE: Final = 11.0
SMALL_SAMPLE_LIMIT: Final = 0.855
"""Thresholds grow by the factor SMALL_SAMPLE_LIMIT + SMALL_SAMPLE / n for a baseline of n values, from 1 on."""
SHORTEST_WORTH: Final = 1.1
"""Three values must say so much more than longer windows."""
USUAL_EXCURSION: Final = 1.6
"""The newest values must go so many times further than any window of their length in the baseline did."""
LEAST_VARIANCE: Final = 0.5
SPREAD_WEIGHT: Final = 1.0
SPREAD_CLIP: Final = 5.0
LAGS: Final = 20
CORRELATION_GATE: Final = 2.15
"""Autocorrelation counts from 2.15 standard errors, 2.15 / sqrt(n), on; each lag then less one standard error."""
LOCATION_CLIP: Final = 3.0
LOCATION_SLACK: Final = 0.57
MEMORY: Final = 20.0
"""Weight, in values, of the scale before a change while the history after it is short."""


@compiled
def middle_of(ordered: Vector) -> float:
    """Median of values in ascending order."""
    n = len(ordered)
    middle: float = ordered[n // 2] if n % 2 else 0.5 * (ordered[n // 2 - 1] + ordered[n // 2])
    return middle


@compiled
def ascending(values: Vector) -> Vector:
    """A sorted copy, by insertion: there are at most 240, and numpy's sort takes seconds to compile."""
    ordered = np.empty(len(values))
    for i in range(len(values)):
        at = i
        while at > 0 and ordered[at - 1] > values[i]:
            ordered[at] = ordered[at - 1]
            at -= 1
        ordered[at] = values[i]
    return ordered


@compiled
def median_of(values: Vector) -> float:
    return middle_of(ascending(values))


@compiled
def mean_of(values: Vector) -> float:
    total = 0.0
    for x in values:
        total += x
    return total / len(values)


@compiled
def scale_floor(centre: float, is_plain: bool) -> float:
    """Smallest standard deviation believed in."""
    return max(RELATIVE_FLOOR * abs(centre), 1e-300) if is_plain else RELATIVE_FLOOR


@compiled
def median_deviation(ordered: Vector, centre: float) -> float:
    """Median absolute deviation from `centre` of values in ascending order, by walking outwards from it."""
    n = len(ordered)
    above = 0
    while above < n and ordered[above] < centre:
        above += 1
    below = above - 1
    distance = 0.0
    previous = 0.0
    for _ in range(n // 2 + 1):
        previous = distance
        if below >= 0 and (above >= n or centre - ordered[below] <= ordered[above] - centre):
            distance = centre - ordered[below]
            below -= 1
        else:
            distance = ordered[above] - centre
            above += 1
    return distance if n % 2 else 0.5 * (previous + distance)


@compiled
def robust_scale(ordered: Vector, centre: float, is_plain: bool, scale_before: float, count_before: float) -> float:
    """1.4826 MAD of values in ascending order, drawn towards the scale before the last change.

    `count_before` is 0 where there was no change.
    """
    scale = max(MAD_TO_SD * median_deviation(ordered, centre), scale_floor(centre, is_plain))
    weight = min(MEMORY, count_before)
    if weight <= 0:
        return scale
    n = len(ordered)
    before = min(scale_before**2, 4 * scale**2)
    return math.sqrt((n * scale**2 + weight * before) / (n + weight))


@compiled
def clipped(x: float, low: float, high: float) -> float:
    return min(max(x, low), high)


@compiled
def correlations(psi: Vector, mean: float, variance: float) -> Vector:
    """Autocorrelations believed in: none unless lag 1 is significant, then until the first that is not positive."""
    n = len(psi)
    found = np.zeros(LAGS + 1)
    error = 1 / math.sqrt(n)
    for lag in range(1, LAGS + 1):
        if lag >= n // 3:
            break
        total = 0.0
        for i in range(n - lag):
            total += (psi[i] - mean) * (psi[i + lag] - mean)
        r = total / (n * max(variance, 1e-12)) + 1 / n
        if (lag == 1 and r < CORRELATION_GATE * error) or r <= error:
            break
        found[lag] = r - error
    return found


@compiled
def variance_inflation(r: Vector, k: int) -> float:
    """Variance of a mean of k correlated values over that of k independent ones: 1 + 2 sum (1 - l/k) r_l."""
    inflation = 1.0
    for lag in range(1, min(LAGS, k - 1) + 1):
        inflation += 2 * (1 - lag / k) * r[lag]
    return inflation


@compiled
def spread_of(values: Vector, centre: float, scale: float) -> float:
    """Variance of the standardised values, each clipped at 5."""
    total = 0.0
    squares = 0.0
    for x in values:
        u = clipped((x - centre) / scale, -SPREAD_CLIP, SPREAD_CLIP)
        total += u
        squares += u * u
    n = len(values)
    return squares / n - (total / n) ** 2


@compiled
def deviations(values: Vector, centre: float, scale: float, sign: float, low: float, high: float) -> Vector:
    """Standardised deviations in direction `sign`, clipped."""
    psi = np.empty(len(values))
    for i in range(len(values)):
        psi[i] = clipped(sign * (values[i] - centre) / scale, low, high)
    return psi


@compiled
def moments(values: Vector, centre: float, scale: float, low: float, high: float) -> tuple[float, float, float, float]:
    """Mean and variance of the clipped deviations upwards, then downwards."""
    n = len(values)
    up = 0.0
    up2 = 0.0
    down = 0.0
    down2 = 0.0
    for x in values:
        u = (x - centre) / scale
        p = clipped(u, low, high)
        q = clipped(-u, low, high)
        up += p
        up2 += p * p
        down += q
        down2 += q * q
    return up / n, up2 / n - (up / n) ** 2, down / n, down2 / n - (down / n) ** 2


@compiled
def threshold_of(group: int, n: int) -> float:
    """Standard deviations that a window of the group must reach above a baseline of n values."""
    threshold: float = THRESHOLDS[group] * max(1.0, SMALL_SAMPLE_LIMIT + SMALL_SAMPLE / n)
    return threshold


@compiled
def widest_excursion(psi: Vector, mean: float, k: int) -> float:
    """Largest sum, less the mean, of k values in a row."""
    run = 0.0
    widest = 0.0
    for i in range(len(psi)):
        run += psi[i] - mean
        if i >= k:
            run -= psi[i - k] - mean
        if i >= k - 1:
            widest = max(widest, run)
    return widest


@compiled
def group_ratio(newest: Vector, baseline: Vector, centre: float, scale: float, group: int, strictness: float) -> float:
    """Largest |z_k| / threshold over the group's window lengths k, signed; 0 where none exceeds 1.

    z_k is the sum of the newest k clipped deviations, less the baseline's mean, over its standard deviation. That
    takes in the uncertainty of the baseline's mean, autocorrelation, and newest values more scattered than the old.
    """
    n = len(baseline)
    high = CLIPS[group]
    low = -OPPOSITE_CLIP * high
    up_mean, up_variance, down_mean, down_variance = moments(baseline, centre, scale, low, high)
    threshold = strictness * threshold_of(group, n)
    best = 0.0
    for sign in (1.0, -1.0):
        mean = up_mean if sign > 0 else down_mean
        variance = up_variance if sign > 0 else down_variance
        total = 0.0
        is_over = False
        for k in range(1, len(newest) + 1):
            total += clipped(sign * (newest[len(newest) - k] - centre) / scale, low, high) - mean
            if k >= GROUP_FIRST[group] and total > threshold * math.sqrt(
                max(variance, LEAST_VARIANCE) * k * (1 + k / n)
            ):
                is_over = True
                break
        if is_over:
            ratio = corrected_ratio(newest, baseline, centre, scale, group, sign) / strictness
            if ratio > max(1.0, abs(best)):
                best = sign * ratio
    return best


@compiled
def corrected_ratio(newest: Vector, baseline: Vector, centre: float, scale: float, group: int, sign: float) -> float:
    """Largest z_k / threshold in direction `sign`, z_k deflated for autocorrelation and for scatter.

    And for excursions that the baseline is used to: what a series did before without changing is no sign of a change.
    """
    n = len(baseline)
    high = CLIPS[group]
    low = -OPPOSITE_CLIP * high
    psi = deviations(baseline, centre, scale, sign, low, high)
    mean = mean_of(psi)
    variance = mean_of(psi * psi) - mean * mean
    threshold = threshold_of(group, n)
    spread = max(1.0, spread_of(baseline, centre, scale))
    r = correlations(psi, mean, variance)
    total = 0.0
    best = 0.0
    best_k = 0
    best_total = 0.0
    for k in range(1, len(newest) + 1):
        total += clipped(sign * (newest[len(newest) - k] - centre) / scale, low, high) - mean
        if k < GROUP_FIRST[group]:
            continue
        excess = max(0.0, spread_of(newest[len(newest) - k :], centre, scale) / spread - 1)
        scatter = 1 + SPREAD_WEIGHT * excess * k / (k + 5)
        long_run = variance_inflation(r, k) + k / n * variance_inflation(r, n)
        z = total / math.sqrt(max(variance, LEAST_VARIANCE) * scatter * k * long_run)
        ratio = z / threshold / (SHORTEST_WORTH if k == 3 else 1.0)
        if ratio > best:
            best = ratio
            best_k = k
            best_total = total
    if best > 1 and best_k <= n // 2:
        best /= max(1.0, USUAL_EXCURSION * widest_excursion(psi, mean, best_k) / best_total)
    return best


@compiled
def newest_count(values: Vector, centre: float, scale: float, sign: float, longest: int, baseline: int) -> int:
    """How many of the newest values belong to the new level: the shortest window whose score is nearly the best."""
    count = len(values)
    scores = np.empty(longest + 1)
    total = 0.0
    largest = -1e300
    for j in range(1, longest + 1):
        total += clipped(sign * (values[count - j] - centre) / scale, -LOCATION_CLIP, LOCATION_CLIP)
        if j >= 2:
            scores[j] = total / math.sqrt(j * (1 + j / min(count - j, baseline)))
            largest = max(largest, scores[j])
    for j in range(2, longest + 1):
        if scores[j] >= largest - LOCATION_SLACK:
            return j
    return longest


@compiled
def line_of(values: Vector) -> tuple[float, float, float]:
    """Least-squares line: level at the middle, slope, and the slope over its standard error."""
    n = len(values)
    middle = (n - 1) / 2
    level = mean_of(values)
    cross = 0.0
    for i in range(n):
        cross += (i - middle) * values[i]
    sxx = n * (n * n - 1) / 12
    slope = cross / sxx
    rest = 0.0
    for i in range(n):
        rest += (values[i] - level - slope * (i - middle)) ** 2
    error = math.sqrt(max(rest, 1e-12) / max(1, n - 2) / sxx)
    return level, slope, slope / error


@compiled
def is_drift(values: Vector, newest: int, older_centre: float, newest_centre: float) -> bool:
    """Does one line fit the history better than one step does? By sums of absolute residuals."""
    n = len(values)
    level, slope, _ = line_of(values)
    line_error = 0.0
    step_error = 0.0
    for i in range(n):
        line_error += abs(values[i] - level - slope * (i - (n - 1) / 2))
        step_error += abs(values[i] - (older_centre if i < n - newest else newest_centre))
    return line_error < step_error


@compiled
def was_drifting(older: Vector, newest: int, newest_centre: float, change: float) -> bool:
    """Did the older values already drift this way, so that their line leads to the newest level?"""
    level, slope, t = line_of(older)
    expected = level + slope * ((len(older) - 1) / 2 + (newest + 1) / 2)
    return abs(t) > 4 and t * change > 0 and abs(newest_centre - expected) < 0.5 * abs(change)
