"""A lasting shift of one series: what is said of it, and the run in which it begins."""

from __future__ import annotations

from dataclasses import dataclass

from collector.host.run_verdicts import SubjectVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """A lasting shift of one series, with the run where it begins."""

    said: SubjectVerdict
    column: int


def runs_words(n: int) -> str:
    """`1 run`, `5 runs`."""
    return "1 run" if n == 1 else f"{n} runs"
