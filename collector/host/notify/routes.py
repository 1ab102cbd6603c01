"""Where messages go: the records that `config` reads from alerts.toml, and which route takes which message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase

from collector.host.notify.hours import DigestTimes, QuietHours
from collector.host.notify.message import Message, MessageKind, Severity
from collector.host.notify.secrets import Reference, Secret, shown_address
from collector.host.notify.services.registry import SERVICES
from collector.host.notify.services.service import Service

DEFAULT_KINDS = tuple(
    kind for kind in MessageKind if kind not in (MessageKind.IMPROVED, MessageKind.DIGEST, MessageKind.TEST)
)
"""What a route tells unless it says otherwise: everything that asks for an act, and its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One receiver and what it wants to hear. Empty filters take everything."""

    name: str
    service_name: str
    url: Reference
    secret: Reference | None = None
    kinds: tuple[MessageKind, ...] = DEFAULT_KINDS
    operators: tuple[str, ...] = ()
    """Shell patterns: "attention_*"."""
    devices: tuple[str, ...] = ()
    """Shell patterns on device model, unit or host, upper and lower case alike."""
    classes: tuple[str, ...] = ()
    teams: tuple[str, ...] = ()
    at_least: Severity = Severity.LOW
    """Messages below it are left out; good news is told where the bad one was."""
    price_at_least: float | None = None
    """Share of production time; a finding without a known price passes."""
    mute_until: datetime | None = None
    quiet: QuietHours | None = None
    digest: DigestTimes | None = None

    @property
    def service(self) -> Service:
        return SERVICES[self.service_name]

    @property
    def secrets(self) -> tuple[Secret | None, ...]:
        """What must be masked in everything that is shown about this route."""
        return (self.url.secret, self.secret.secret if self.secret else None)

    def describe(self) -> str:
        """The route in one line, without its secrets."""
        source = (
            self.url.source
            if self.url.source.startswith(("env:", "file:"))
            else shown_address(self.url.secret.reveal())
        )
        return f"{self.name}: {self.service.title} at {source}"

    def takes(self, message: Message) -> bool:
        """Whether the message is for this route; a follow-up of a told finding is the outbox's to let through."""
        return self._matches(message) and self._loud_enough(message)

    def follows(self, message: Message) -> bool:
        """Whether it takes the follow-up of a finding that it was told of."""
        return message.kind in self.kinds

    def held_until(self, message: Message, now: datetime) -> datetime | None:
        """When a message of `now` may go out if not at once: after a mute, quiet hours, or with the next digest."""
        start = max(now, self.mute_until) if self.mute_until else now
        if self.digest is not None:
            return self.digest.next_after(start)
        quiet_end = self.quiet.ends_at(start) if self.quiet else None
        if quiet_end is not None:
            return quiet_end
        return start if start > now else None

    def _matches(self, message: Message) -> bool:
        devices = [text.lower() for text in (message.device_model, message.device_unit, message.host) if text]
        patterns = [pattern.lower() for pattern in self.devices]
        return (
            message.kind in self.kinds
            and _any(self.operators, [message.operator])
            and _any(patterns, devices)
            and _any(self.classes, [message.finding_class])
            and _any(self.teams, [message.team])
        )

    def _loud_enough(self, message: Message) -> bool:
        if message.severity.rank > self.at_least.rank:
            return False
        return self.price_at_least is None or message.price is None or abs(message.price) >= self.price_at_least


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """Who owns which operators and devices; the first that matches a finding names it."""

    name: str
    operators: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    owner: str = ""

    def owns(self, message: Message) -> bool:
        devices = [text.lower() for text in (message.device_model, message.device_unit, message.host) if text]
        return _any(self.operators, [message.operator]) and _any([d.lower() for d in self.devices], devices)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertConfig:
    """All routes, in order."""

    routes: tuple[Route, ...] = ()
    base_url: str = ""
    teams: tuple[Team, ...] = ()
    link_secret: Secret | None = None
    """Signs the links that act; without it messages hold none."""
    source: str = "no alert configuration"
    """Which file or variable it came from, in words."""

    def route(self, name: str) -> Route | None:
        return next((route for route in self.routes if route.name == name), None)


def _any(patterns: Sequence[str], names: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns for name in names)
