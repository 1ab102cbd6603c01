"""What a change costs, and which doubt is worth machine time first."""

from __future__ import annotations

from collections.abc import Iterable


def price(weight: float | None, change: float | None) -> float | None:
    """Share of production time that a change costs (or saves, below 0): share of the case x relative change.

    None where the suite states no weight or no relative change exists. Times the fleet's device-hours a day it becomes
    device-hours a day; that number belongs to whoever configured the fleet.
    """
    return None if weight is None or change is None else weight * change


def total_price(parts: Iterable[tuple[float | None, float | None]]) -> float | None:
    """Summed price of (weight, change) pairs; None where none of them has one."""
    prices = [p for p in (price(w, c) for w, c in parts) if p is not None]
    return sum(prices) if prices else None


UNWEIGHTED = 0.001
"""Share of production time assumed of a case without weight, only to put requests in an order."""


def request_priority(weight: float | None, change: float | None, low: float | None, high: float | None) -> float:
    """Value of settling a suspicion: what it would cost if real, times how open the question is.

    The doubt is the half-width of the interval over the size of the change, held to [0.1, 1]: 1 where the interval
    reaches zero, small where there is hardly anything left to ask. Improvements count half: nobody is paged for them.
    """
    size = 1.0 if change is None else abs(change)
    stake = (UNWEIGHTED if weight is None else max(weight, 0.0)) * size
    if change is None or low is None or high is None or size == 0:
        doubt = 1.0
    else:
        doubt = min(1.0, max(0.1, (high - low) / 2 / size))
    return stake * doubt * (0.5 if change is not None and change < 0 else 1.0)
