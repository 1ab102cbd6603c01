"""Anything else (Telegram, email, ...) by an apprise address: apprise renders, escapes and delivers.

Its text limit is the plugin's own `body_maxlen`; longer text is cut here, since apprise would send it whole. Services
that we speak ourselves are refused: through apprise an error inside HTTP 200 of DingTalk or WeCom counts as a success.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from collector.host.notify.clip import fit, fit_items
from collector.host.notify.document import Detail, Dialect, body, title
from collector.host.notify.errors import WebhookError
from collector.host.notify.escape import plain as escape
from collector.host.notify.message import Message
from collector.host.notify.secrets import MASK, Secret
from collector.host.notify.services.service import (
    Answer,
    JsonObject,
    Outcome,
    Request,
    Service,
    Verdict,
    json_request,
)
from collector.host.notify.wording import gravest_first

BATCH = 10
_OURS = {
    "slack": "slack",
    "discord": "discord",
    "workflow": "teams",
    "workflows": "teams",
    "msteams": "teams",
    "mmost": "mattermost",
    "mmosts": "mattermost",
    "gchat": "google_chat",
    "feishu": "feishu",
    "lark": "lark",
    "dingtalk": "dingtalk",
    "wecombot": "wecom",
    "json": "json",
    "jsons": "json",
}

DIALECT = Dialect(
    escape=escape, bold=lambda text: text, link=lambda words, address: f"{words}: {address}", code=lambda text: text
)


def checked(url: str) -> None:
    """Raises WebhookError unless apprise has a plugin for the address and we have none."""
    scheme = url.split("://", 1)[0].lower()
    if scheme in _OURS:
        raise WebhookError(
            f"apprise scheme {scheme!r}: is spoken natively; use service = {_OURS[scheme]!r} with its webhook"
        )
    if _plugin(url) is None:
        raise WebhookError(
            f"apprise address {scheme}://{MASK}: apprise knows no such address; see its list of services"
        )


def render(messages: Sequence[Message]) -> JsonObject:
    """Title and text; the plugin's own limit is applied when it is known, at delivery."""
    ordered = gravest_first(messages)
    detail = Detail(items=12, text=500)
    return {"title": title(ordered, 200, escape), "body": body(ordered, DIALECT, detail, batch=BATCH)}


def deliver(payload: JsonObject, url: Secret) -> Verdict:
    """Hands the text to apprise's plugin; it says only whether that worked."""
    plugin = _plugin(url.reveal())
    if plugin is None:
        return Verdict(outcome=Outcome.REFUSED, words="apprise does not know this address any more")
    head, text = str(payload["title"]), str(payload["body"])
    room = int(plugin.body_maxlen)
    if not int(plugin.title_maxlen):
        head, text = "", f"{head}\n{text}"
    lines = text.split("\n")
    cut = fit_items(lines, room, separator="\n", total=len(lines)) or fit(text, room, escape)
    worked = bool(plugin.notify(body=cut, title=head, body_format="text"))
    return Verdict(
        outcome=Outcome.SENT if worked else Outcome.PASSING,
        words="apprise delivered it" if worked else f"apprise could not deliver to {plugin.service_name}",
    )


def _plugin(url: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its many plugins' imports; cron would mail them
        import apprise

        apprise.Apprise.instantiate("xml://localhost")  # plugins are loaded at the first use
    logging.getLogger("apprise").setLevel(logging.CRITICAL)  # it logs what it sends
    return apprise.Apprise.instantiate(url, suppress_exceptions=True)


def sign(payload: JsonObject, url: Secret, secret: Secret | None, at: datetime) -> Request:
    return json_request(payload, url, secret, at)


def refusal(answer: Answer) -> str:
    return ""


SERVICE = Service(
    name="apprise",
    title="apprise",
    render=render,
    sign=sign,
    refusal=refusal,
    batch=BATCH,
    pause_s=1.0,
    deliver=deliver,
)
