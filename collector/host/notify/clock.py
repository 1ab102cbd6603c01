"""Time as the sender needs it: a wall clock for what is written, a monotonic one for waiting."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """A source of time that can also wait."""

    def now(self) -> datetime:
        """UTC."""
        ...

    def monotonic_s(self) -> float:
        """Seconds that never jump."""
        ...

    def sleep(self, seconds: float) -> None:
        """Waits."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic_s(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


@dataclass(slots=True)
class FakeClock:
    """A clock that moves only when it is told to, or when somebody sleeps on it."""

    at: datetime
    elapsed_s: float = 0.0
    slept_s: list[float] = field(default_factory=list)

    def now(self) -> datetime:
        return self.at

    def monotonic_s(self) -> float:
        return self.elapsed_s

    def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)
        self.elapsed_s += seconds
