"""One thing that the doctor found out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Health(StrEnum):
    """What a fact means for a run."""

    GOOD = "good"
    NOTE = "note"
    """A run works; its numbers are noisier or say less."""
    MISSING = "missing"
    """Something will not be measured."""
    BAD = "bad"
    """A run fails, or measures something else than was meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A value with what follows from it; `value` None has its reason in `words`."""

    section: str
    name: str
    value: str | None
    health: Health = Health.GOOD
    words: str = ""
    """Why there is no value, or what follows from it."""
    way_out: str = ""
    """What to do about it."""


def guarded(section: str, name: str, read: Callable[[], Fact]) -> Fact:
    """The fact, or that it could not be found out: a check never ends the examination."""
    try:
        return read()
    except Exception as error:  # the doctor looks at broken machines; anything may raise anything
        words = f"{type(error).__name__}: {error}"
        return Fact(section=section, name=name, value=None, health=Health.NOTE, words=words)
