"""Which service an address belongs to, and whether it is one that may be posted to at all."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit

from collector.host.notify.errors import WebhookError
from collector.host.notify.secrets import MASK
from collector.host.notify.services import apprise
from collector.host.notify.services.registry import SERVICES

_PREFIXED = re.compile(r"^(?P<service>[a-z_]+)\+(?P<url>[a-z][a-z0-9]*://.*)$", re.DOTALL)
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]{0,30}):")

_HOSTS = {
    "hooks.slack.com": "slack",
    "hooks.slack-gov.com": "slack",
    "discord.com": "discord",
    "discordapp.com": "discord",
    "chat.googleapis.com": "google_chat",
    "open.feishu.cn": "feishu",
    "open.larksuite.com": "lark",
    "oapi.dingtalk.com": "dingtalk",
    "qyapi.weixin.qq.com": "wecom",
}
_HOST_ENDINGS = {".logic.azure.com": "teams", ".powerplatform.com": "teams", ".webhook.office.com": "teams"}


def split_webhook(text: str) -> tuple[str, str]:
    """(service, address) of `slack+https://...`, or of a plain http(s) address by its host, else `json`.

    Raises WebhookError for any other scheme and for a service that is not known.
    """
    match = _PREFIXED.match(text)
    if match is None:
        address = checked_address(text)
        return _service_of_host(address.hostname or ""), text
    service = match["service"]
    if service not in SERVICES:
        known = ", ".join(sorted(SERVICES))
        raise WebhookError(f"webhook scheme {service}+: no such service, must be one of {known}")
    checked_receiver(service, match["url"])
    return service, match["url"]


def checked_receiver(service: str, url: str) -> None:
    """Refuses an address that the service cannot post to. Raises WebhookError."""
    if service == "apprise":
        apprise.checked(url)
    else:
        checked_address(url)


def checked_address(url: str) -> SplitResult:
    """The parts of an http(s) address with a host. Raises WebhookError."""
    if re.search(r"[\x00-\x20\x7f]", url):
        raise WebhookError("webhook address: holds a space or a control character; it must be one http(s) address")
    try:
        address = urlsplit(url)
        port = address.port
    except ValueError:
        raise WebhookError("webhook address: cannot be read; it must look like https://host/path") from None
    scheme = _SCHEME.match(url)
    if address.scheme not in ("http", "https"):
        known = "http:// or https://, or one with its service in front such as slack+https://"
        raise WebhookError(f"webhook scheme {scheme.group(1) if scheme else MASK!r}: unknown, must be {known}")
    if not address.hostname or port == 0:
        raise WebhookError(
            f"webhook address {address.scheme}://{MASK}: has no host; it must look like https://host/path"
        )
    return address


def _service_of_host(host: str) -> str:
    named = _HOSTS.get(host) or next((name for end, name in _HOST_ENDINGS.items() if host.endswith(end)), "json")
    return named if named in SERVICES else "json"
