"""TOML read strictly: a wrong type, an unknown key, a value out of range is one line that names file and key."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from bench_suite.contract import ContractError

Choice = TypeVar("Choice", bound=StrEnum)


class SuiteError(ContractError):
    """A suite that cannot be run as written; the message is one line."""


def parse_toml(text: str, file: str) -> Table:
    """The root table of a TOML text; SuiteError where it is none."""
    try:
        return Table(tomllib.loads(text), file, "")
    except tomllib.TOMLDecodeError as error:
        raise SuiteError(f"{file}: not TOML: {error}") from None


class Table:
    """One table of a suite file. What is read is remembered, so that `done` can name a key nobody knows."""

    def __init__(self, values: Mapping[str, object], file: str, path: str) -> None:
        self._values = values
        self._file = file
        self._path = path
        self._known: list[str] = []

    def error(self, key: str, value: object, rule: str) -> SuiteError:
        """The line for a bad value: file, key, value, rule."""
        return SuiteError(f"{self._file}: {self._at(key)} is {_show(value)}, {rule}")

    def broken(self, key: str, rule: str) -> SuiteError:
        """The line for a key whose rule says the rest: file, key, rule."""
        return SuiteError(f"{self._file}: {self._at(key)}: {rule}")

    def names(self) -> tuple[str, ...]:
        return tuple(self._values)

    def done(self) -> None:
        """Raises SuiteError for the first key that was never asked for."""
        for key in self._values:
            if key not in self._known:
                known = ", ".join(dict.fromkeys(self._known))
                raise SuiteError(f"{self._file}: unknown key {self._at(key)}, must be one of {known}")

    def text(self, key: str, *, default: str | None = None) -> str:
        value = self._get(key, default)
        if not isinstance(value, str) or not value:
            raise self.error(key, value, "must be text")
        return value

    def choice(self, key: str, choices: type[Choice], *, default: Choice | None = None) -> Choice:
        """One of the words of an enumeration."""
        value = self._get(key, default)
        if not isinstance(value, str) or value not in [member.value for member in choices]:
            raise self.error(key, value, f"must be one of {', '.join(member.value for member in choices)}")
        return choices(value)

    def scalar_text(self, key: str) -> str:
        """Text, or a number or truth value as text."""
        value = self._get(key, None)
        if not isinstance(value, str | int | float):
            raise self.error(key, value, "must be text or a number")
        return str(value)

    def boolean(self, key: str, *, default: bool) -> bool:
        value = self._get(key, default)
        if not isinstance(value, bool):
            raise self.error(key, value, "must be true or false")
        return value

    def integer(self, key: str, *, default: int | None = None, minimum: int) -> int:
        value = self._get(key, default)
        if type(value) is not int or value < minimum:
            raise self.error(key, value, f"must be a whole number >= {minimum}")
        return value

    def number(self, key: str, *, default: float | None = None, above: float, most: float = math.inf) -> float:
        value = self._get(key, default)
        upper = "" if most == math.inf else f" and <= {most:g}"
        if isinstance(value, bool) or not isinstance(value, int | float) or not above < value <= most:
            raise self.error(key, value, f"must be a number > {above:g}{upper}")
        return float(value)

    def has(self, key: str) -> bool:
        self._known.append(key)
        return key in self._values

    def raw(self, key: str) -> object:
        """The value as it stands, for keys whose rule lies elsewhere."""
        return self._get(key, None)

    def table(self, key: str, *, optional: bool = False) -> Table:
        value = self._get(key, {} if optional else None)
        if not isinstance(value, dict):
            raise self.error(key, value, "must be a table")
        return Table(value, self._file, self._at(key))

    def tables(self, key: str, *, optional: bool = False) -> tuple[Table, ...]:
        """An array of tables, each named `key 1`, `key 2`, ... in messages."""
        value = self._get(key, [] if optional else None)
        if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
            raise self.error(key, value, f"must be an array of tables, written [[{key}]]")
        return tuple(Table(entry, self._file, f"{key} {number}") for number, entry in enumerate(value, 1))

    def _at(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key

    def _get(self, key: str, default: object) -> object:
        self._known.append(key)
        value = self._values.get(key, default)
        if value is None:
            raise SuiteError(f"{self._file}: {self._at(key)} is missing")
        return value


def _show(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)
