"""DingTalk custom robot: Markdown, signed where the robot asks for it.

Limits (open.dingtalk.com, "Custom robot access"): 20 messages a minute, else ten minutes of silence; a body of 20,000
bytes. Signature: base64 of HMAC-SHA256 with the secret as the key over timestamp, line break and secret; timestamp in
milliseconds, both in the address. Errors come inside HTTP 200 as `errcode`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime
from urllib.parse import quote_plus

from collector.host.notify.clip import fit
from collector.host.notify.document import Detail, Dialect, body, first_that_fits, title
from collector.host.notify.escape import lookalike as escape
from collector.host.notify.message import Message
from collector.host.notify.secrets import Secret
from collector.host.notify.services.service import (
    Answer,
    JsonObject,
    Request,
    Service,
    encode,
    errcode_refusal,
    json_request,
)
from collector.host.notify.wording import gravest_first, plain_lines

BODY_BYTES = 20_000
BATCH = 15
_PASSING = frozenset({-1, 130101, 430101, 90018, 90030})

DIALECT = Dialect(
    escape=escape,
    bold=lambda text: f"**{text}**",
    link=lambda words, address: f"[{words}]({address.replace(')', '%29')})",
    code=lambda command: fit(command, 2000, escape),
    gap="\n\n",
)


def render(messages: Sequence[Message]) -> JsonObject:
    """Markdown under a heading; nobody is mentioned."""
    return first_that_fits(lambda detail: _payload(messages, detail), lambda p: len(encode(p)), BODY_BYTES)


def _payload(messages: Sequence[Message], detail: Detail) -> JsonObject:
    ordered = gravest_first(messages)
    head = title(ordered, 200, escape)
    text = f"### {head}\n\n{body(ordered, DIALECT, detail, batch=BATCH)}"
    return {"msgtype": "markdown", "markdown": {"title": head, "text": text}, "at": {"isAtAll": False}}


def plain_form(messages: Sequence[Message]) -> JsonObject:
    """Text, without any mention."""
    content = "\n".join(plain_lines(messages, escape))[:4000]
    return {"msgtype": "text", "text": {"content": content}, "at": {"isAtAll": False}}


def signature(secret: Secret, timestamp: str) -> str:
    key = secret.reveal().encode()
    digest = hmac.new(key, f"{timestamp}\n{secret.reveal()}".encode(), hashlib.sha256).digest()
    return base64.b64encode(digest).decode()


def sign(payload: JsonObject, url: Secret, secret: Secret | None, at: datetime) -> Request:
    if secret is None:
        return json_request(payload, url, secret, at)
    timestamp = str(int(at.timestamp() * 1000))
    address = url.reveal()
    joint = "&" if "?" in address else "?"
    signed = f"{address}{joint}timestamp={timestamp}&sign={quote_plus(signature(secret, timestamp))}"
    return json_request(payload, Secret(signed), secret, at)


def passing(answer: Answer) -> bool:
    """Busy, or too many messages."""
    return answer.object().get("errcode") in _PASSING


SERVICE = Service(
    name="dingtalk",
    title="DingTalk",
    render=render,
    plain=plain_form,
    sign=sign,
    refusal=errcode_refusal,
    passing=passing,
    batch=BATCH,
    pause_s=3.1,
    takes_secret=True,
)
