"""Reads alerts.toml, and the one environment variable that needs no file.

Strict: an unknown key, a wrong type or an unknown scheme is one line that names the file and the key. A secret's value
stands in no message.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

import msgspec

from collector.host.notify.errors import AlertConfigError, SecretError, WebhookError
from collector.host.notify.hours import DigestTimes, QuietHours, parse_digest, parse_window
from collector.host.notify.message import MessageKind, Severity
from collector.host.notify.routes import DEFAULT_KINDS, AlertConfig, Route, Team
from collector.host.notify.secrets import Reference, Secret, resolve, shown_address
from collector.host.notify.services.registry import SERVICES
from collector.host.notify.webhook import checked_address, checked_receiver, split_webhook
from detection.act_links import LEAST_SECRET
from detection.act_links import SECRET_VARIABLE as LINK_SECRET_VARIABLE

FILE_VARIABLE = "KERNEL_OBSERVATORY_ALERTS"
WEBHOOK_VARIABLE = "KERNEL_OBSERVATORY_WEBHOOK"
SECRET_VARIABLE = "KERNEL_OBSERVATORY_WEBHOOK_SECRET"
BASE_URL_VARIABLE = "KERNEL_OBSERVATORY_BASE_URL"
DEFAULT_FILE = Path("alerts.toml")
ENVIRONMENT_ROUTE = "environment"

_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")


class RouteKeys(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The keys of [[route]]."""

    name: str
    url: str
    service: str = ""
    secret: str = ""
    kinds: list[str] | None = None
    operators: list[str] = []
    devices: list[str] = []
    classes: list[str] = []
    teams: list[str] = []
    at_least: str = "low"
    price_at_least: float | None = None
    mute_until: datetime | None = None
    quiet: str = ""
    digest: str = ""
    digest_at: str = "08:00"
    digest_on: str = "monday"


class TeamKeys(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The keys of [[team]]."""

    name: str
    operators: list[str] = []
    devices: list[str] = []
    owner: str = ""


class FileKeys(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The keys of the file."""

    base_url: str = ""
    timezone: str = "UTC"
    route: list[dict[str, Any]] = []
    team: list[dict[str, Any]] = []


Keys = TypeVar("Keys", RouteKeys, TeamKeys, FileKeys)


def load_alerts(path: Path | None = None, environment: Mapping[str, str] | None = None) -> AlertConfig:
    """The routes of `path`, else of $KERNEL_OBSERVATORY_ALERTS, else of ./alerts.toml where there is one.

    $KERNEL_OBSERVATORY_WEBHOOK adds a route named "environment" that takes everything. Raises AlertConfigError.
    """
    variables = os.environ if environment is None else environment
    named = path or (Path(variables[FILE_VARIABLE]) if variables.get(FILE_VARIABLE) else None)
    chosen = named or (DEFAULT_FILE if DEFAULT_FILE.is_file() else None)
    config = AlertConfig() if chosen is None else read_alerts(chosen, variables)
    base_url = variables.get(BASE_URL_VARIABLE, "").strip() or config.base_url
    extra = _environment_route(variables)
    routes = (*config.routes, extra) if extra else config.routes
    if extra and config.route(ENVIRONMENT_ROUTE):
        raise AlertConfigError(
            f"{chosen}: route {ENVIRONMENT_ROUTE!r}: the name is taken by ${WEBHOOK_VARIABLE}; rename it"
        )
    source = " and ".join(part for part in (str(chosen or ""), f"${WEBHOOK_VARIABLE}" if extra else "") if part)
    return AlertConfig(
        routes=routes,
        base_url=_base_url(base_url, BASE_URL_VARIABLE),
        teams=config.teams,
        link_secret=_link_secret(variables),
        source=source or config.source,
    )


def read_alerts(path: Path, environment: Mapping[str, str]) -> AlertConfig:
    """The routes of one file. Raises AlertConfigError."""
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise AlertConfigError(f"{path}: cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise AlertConfigError(f"{path}: is not TOML: {error}") from None
    keys = _convert(tree, FileKeys, f"{path}")
    zone = _zone(keys.timezone, path)
    labelled = ((row, f"{path}: route {_label(row, i)}") for i, row in enumerate(keys.route))
    routes = [_route(row, where, zone, environment, path.parent) for row, where in labelled]
    teams = [_team(row, f"{path}: team {_label(row, i)}") for i, row in enumerate(keys.team)]
    for kind, names in (("route", [route.name for route in routes]), ("team", [team.name for team in teams])):
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise AlertConfigError(f"{path}: {kind} {twice!r}: the name stands twice; each must be its own")
    _check_teams(routes, teams, path)
    return AlertConfig(
        routes=tuple(routes),
        teams=tuple(teams),
        base_url=_base_url(keys.base_url, f"{path}: base_url"),
        source=str(path),
    )


def _route(row: Mapping[str, Any], where: str, zone: ZoneInfo, environment: Mapping[str, str], folder: Path) -> Route:
    keys = _convert(row, RouteKeys, where)
    if not _NAME.match(keys.name):
        raise AlertConfigError(f"{where}: name must be 1 to 64 letters, digits, dots, dashes or underscores")
    service, url = _receiver(keys, where, environment, folder)
    try:
        secret = resolve(keys.secret, environment, base=folder) if keys.secret else None
    except SecretError as error:
        raise AlertConfigError(f"{where}: secret {error}") from None
    if secret is not None and not SERVICES[service].takes_secret:
        signed = ", ".join(sorted(name for name, known in SERVICES.items() if known.takes_secret))
        raise AlertConfigError(f"{where}: secret has no meaning for {service}, only for {signed}; leave it out")
    if keys.price_at_least is not None and not 0 <= keys.price_at_least <= 1:
        raise AlertConfigError(f"{where}: price_at_least is {keys.price_at_least}, must be a share from 0 to 1")
    return Route(
        name=keys.name,
        service_name=service,
        url=url,
        secret=secret,
        kinds=_kinds(keys.kinds, where),
        operators=tuple(keys.operators),
        devices=tuple(keys.devices),
        classes=tuple(keys.classes),
        teams=tuple(keys.teams),
        at_least=_choice(Severity, keys.at_least, f"{where}: at_least"),
        price_at_least=keys.price_at_least,
        mute_until=_aware(keys.mute_until, zone),
        quiet=_quiet(keys, where, zone),
        digest=_digest(keys, where, zone),
    )


def _kinds(names: list[str] | None, where: str) -> tuple[MessageKind, ...]:
    if names is None:
        return DEFAULT_KINDS
    return tuple(_choice(MessageKind, name, f"{where}: kinds") for name in names)


def _quiet(keys: RouteKeys, where: str, zone: ZoneInfo) -> QuietHours | None:
    try:
        return parse_window(keys.quiet, zone) if keys.quiet else None
    except ValueError as error:
        raise AlertConfigError(f"{where}: quiet {error}") from None


def _digest(keys: RouteKeys, where: str, zone: ZoneInfo) -> DigestTimes | None:
    try:
        return parse_digest(keys.digest, keys.digest_at, keys.digest_on, zone) if keys.digest else None
    except ValueError as error:
        raise AlertConfigError(f"{where}: digest {error}") from None


def _aware(at: datetime | None, zone: ZoneInfo) -> datetime | None:
    """A time of the file without an offset is meant in the file's time zone."""
    return None if at is None else (at if at.tzinfo else at.replace(tzinfo=zone)).astimezone(UTC)


def _label(row: Mapping[str, Any], index: int) -> str:
    name = row.get("name")
    return repr(name) if isinstance(name, str) and name else f"number {index + 1}"


def _receiver(keys: RouteKeys, where: str, environment: Mapping[str, str], folder: Path) -> tuple[str, Reference]:
    """The service and the address of a route; the address's own prefix or host names a service that is not said."""
    if keys.service and keys.service not in SERVICES:
        raise AlertConfigError(f"{where}: service is {keys.service!r}, must be one of {', '.join(sorted(SERVICES))}")
    try:
        reference = resolve(keys.url, environment, base=folder)
        service, url = _split(keys.service, reference.secret.reveal())
        checked_receiver(service, url)
    except (SecretError, WebhookError) as error:
        raise AlertConfigError(f"{where}: url: {error}") from None
    source = reference.source if reference.source == keys.url else shown_address(url)
    return service, Reference(source=source, secret=Secret(url))


def _split(service: str, text: str) -> tuple[str, str]:
    if service == "apprise":
        return service, text.removeprefix("apprise+")
    guessed, url = split_webhook(text)
    return service or guessed, url


def _environment_route(variables: Mapping[str, str]) -> Route | None:
    text = variables.get(WEBHOOK_VARIABLE, "").strip()
    if not text:
        return None
    try:
        service, url = split_webhook(text)
        secret = resolve(f"env:{SECRET_VARIABLE}", variables) if variables.get(SECRET_VARIABLE) else None
    except (WebhookError, SecretError) as error:
        raise AlertConfigError(f"${WEBHOOK_VARIABLE}: {error}") from None
    return Route(
        name=ENVIRONMENT_ROUTE,
        service_name=service,
        url=Reference(source=f"env:{WEBHOOK_VARIABLE}", secret=Secret(url)),
        secret=secret if SERVICES[service].takes_secret else None,
    )


def _link_secret(variables: Mapping[str, str]) -> Secret | None:
    """What signs the links that act: the variable's value, or the file that it names."""
    text = variables.get(LINK_SECRET_VARIABLE, "").strip()
    if not text:
        return None
    try:
        secret = resolve(text, variables).secret if text.startswith("file:") else Secret(text)
    except SecretError as error:
        raise AlertConfigError(f"${LINK_SECRET_VARIABLE}: {error}") from None
    if len(secret.reveal()) < LEAST_SECRET:
        raise AlertConfigError(
            f"${LINK_SECRET_VARIABLE}: the secret is too short, must have {LEAST_SECRET} characters or more"
        )
    return secret


def _team(row: Mapping[str, Any], where: str) -> Team:
    keys = _convert(row, TeamKeys, where)
    if not keys.name.strip():
        raise AlertConfigError(f"{where}: name is empty")
    return Team(name=keys.name, operators=tuple(keys.operators), devices=tuple(keys.devices), owner=keys.owner)


def _check_teams(routes: list[Route], teams: list[Team], path: Path) -> None:
    known = {team.name for team in teams}
    for route in routes:
        for name in route.teams:
            if name not in known and not any(mark in name for mark in "*?["):
                listed = ", ".join(sorted(known)) or "none is defined"
                raise AlertConfigError(f"{path}: route {route.name!r}: team {name!r} has no [[team]] ({listed})")


def _convert(tree: object, shape: type[Keys], where: str) -> Keys:
    try:
        return msgspec.convert(tree, type=shape)
    except msgspec.ValidationError as error:
        text = str(error).replace("Object contains unknown field", "unknown key").replace("Object missing", "missing")
        known = ", ".join(shape.__struct_fields__)
        raise AlertConfigError(f"{where}: {text}{f'; known are {known}' if 'unknown key' in text else ''}") from None


def _base_url(text: str, where: str) -> str:
    if not text:
        return ""
    try:
        address = checked_address(text)
    except WebhookError:
        raise AlertConfigError(f"{where} is {text!r}, must be an http(s) address such as https://host/path") from None
    if address.query or address.fragment or address.username:
        raise AlertConfigError(f"{where} is not usable: it must have no query, fragment or user name")
    return text.rstrip("/")


def _zone(name: str, path: Path) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        raise AlertConfigError(
            f'{path}: timezone is {name!r}, must be a name such as "Europe/Berlin" or "UTC"'
        ) from None


Choice = TypeVar("Choice", MessageKind, Severity)


def _choice(kind: type[Choice], text: str, where: str) -> Choice:
    try:
        return kind(text)
    except ValueError:
        raise AlertConfigError(f"{where} is {text!r}, must be one of {', '.join(kind)}") from None
