"""Secrets are named in a config, read when needed and never shown: not by repr, not in errors, logs or tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from collector.host.notify.errors import SecretError

MASK = "****"
_SHORTEST_MASKED = 6


class Secret:
    """A value that shows itself only through `reveal`."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return f"Secret({MASK})"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __reduce__(self) -> str:
        raise TypeError("a Secret is not pickled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """Where a secret comes from, safe to show: `env:NAME`, `file:/path`, or a literal that is shown masked."""

    source: str
    """As it may be printed."""
    secret: Secret = field(repr=False)


def resolve(text: str, environment: Mapping[str, str], *, base: Path | None = None) -> Reference:
    """The secret behind `env:NAME`, `file:/path` or the literal text itself.

    A file's surrounding white space is dropped; a relative file is looked up from `base`. Raises SecretError.
    """
    scheme, _, rest = text.partition(":")
    if scheme == "env":
        value = environment.get(rest, "").strip()
        if not value:
            raise SecretError(f"{text}: environment variable {rest} is not set or empty; set it, or use file:PATH")
        return Reference(source=text, secret=Secret(value))
    if scheme == "file":
        path = Path(rest) if base is None or Path(rest).is_absolute() else base / rest
        try:
            value = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise SecretError(f"{text}: the file cannot be read ({reason})") from None
        if not value:
            raise SecretError(f"{text}: the file is empty; it must hold the secret on one line")
        return Reference(source=text, secret=Secret(value))
    return Reference(source=MASK, secret=Secret(text))


def mask(text: str, secrets: Iterable[Secret | None]) -> str:
    """`text` without any of the secrets, nor the telling parts (path, query, user) of those that are addresses."""
    parts: set[str] = set()
    for secret in secrets:
        if secret is not None:
            parts |= _telling_parts(secret.reveal())
    for part in sorted(parts, key=len, reverse=True):
        text = text.replace(part, MASK)
    return text


def _telling_parts(value: str) -> set[str]:
    parts = {value}
    try:
        address = urlsplit(value)
    except ValueError:
        return parts
    if address.scheme and address.netloc:
        parts |= {address.path.strip("/"), address.query, address.username or "", address.password or ""}
        parts |= set(re.split(r"[/&=?]", f"{address.path}&{address.query}"))
    return {part for part in parts if len(part) >= _SHORTEST_MASKED}


def shown_address(url: str) -> str:
    """An address as it may be shown: scheme and host, its path masked."""
    address = urlsplit(url)
    host = address.hostname or "?"
    port = f":{address.port}" if address.port else ""
    tail = f"/{MASK}" if address.path.strip("/") or address.query else ""
    return f"{address.scheme}://{host}{port}{tail}"
