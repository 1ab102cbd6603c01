"""What measurements mean: pure functions from arrays to verdicts and findings.

Importing the package loads numpy only; names that need more (numba) load when they are first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from detection.online import Alert, DetectorError, OnlineDetector, judge_many

_HOMES = {
    "Alert": "detection.online",
    "DetectorError": "detection.online",
    "OnlineDetector": "detection.online",
    "judge_many": "detection.online",
}

__all__ = ["Alert", "DetectorError", "OnlineDetector", "judge_many"]


def __getattr__(name: str) -> object:
    """PEP 562: the compiled detector loads on first use, so that a node can import `detection.stats` cheaply."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
