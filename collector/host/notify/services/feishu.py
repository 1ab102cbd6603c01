"""Feishu and Lark custom bots: an interactive card, signed where the bot asks for it.

Limits (open.feishu.cn and open.larksuite.com, "Use custom bots in a group"): 20 KB a request, 100 requests a minute and
five a second. Signature: base64 of HMAC-SHA256 with timestamp, line break and secret as the key over nothing; timestamp
in seconds, both in the body. Errors come inside HTTP 200 as `code`. Card Markdown documents numeric entities as escape.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from collector.host.notify.clip import fit
from collector.host.notify.document import Detail, Dialect, body, first_that_fits, title
from collector.host.notify.escape import lark as escape
from collector.host.notify.escape import lookalike, plain
from collector.host.notify.message import Message
from collector.host.notify.secrets import Secret
from collector.host.notify.services.service import Answer, JsonObject, Request, Service, encode, json_request
from collector.host.notify.wording import gravest_first, plain_lines

REQUEST_BYTES = 20_000
BATCH = 15
_SIGNATURE_BYTES = 120
_PASSING = frozenset({9499, 11232, 11233, 19024})

DIALECT = Dialect(
    escape=escape,
    bold=lambda text: f"**{text}**",
    link=lambda words, address: f"[{words}]({address.replace(')', '%29')})",
    code=lambda command: fit(command, 2000, escape),
    bullet="• ",
)


def render(messages: Sequence[Message]) -> JsonObject:
    """A card with a coloured header and one Markdown element."""
    limit = REQUEST_BYTES - _SIGNATURE_BYTES
    return first_that_fits(lambda detail: _payload(messages, detail), lambda p: len(encode(p)), limit)


def _payload(messages: Sequence[Message], detail: Detail) -> JsonObject:
    ordered = gravest_first(messages)
    worse = ordered[0].kind in ("regressed", "escalated", "reopened", "host_shifted")
    card: JsonObject = {
        "config": {"wide_screen_mode": True},
        "header": {
            "template": "orange" if worse else "grey",
            "title": {"tag": "plain_text", "content": title(ordered, 200, plain)},
        },
        "elements": [{"tag": "markdown", "content": body(ordered, DIALECT, detail, batch=BATCH)}],
    }
    return {"msg_type": "interactive", "card": card}


def plain_form(messages: Sequence[Message]) -> JsonObject:
    """Text, in which `<at` would be a mention."""
    return {"msg_type": "text", "content": {"text": "\n".join(plain_lines(messages, lookalike))[:4000]}}


def signature(secret: Secret, timestamp: str) -> str:
    key = f"{timestamp}\n{secret.reveal()}".encode()
    return base64.b64encode(hmac.new(key, b"", hashlib.sha256).digest()).decode()


def sign(payload: JsonObject, url: Secret, secret: Secret | None, at: datetime) -> Request:
    if secret is None:
        return json_request(payload, url, secret, at)
    timestamp = str(int(at.timestamp()))
    return json_request({"timestamp": timestamp, "sign": signature(secret, timestamp)} | payload, url, secret, at)


def refusal(answer: Answer) -> str:
    """`code` 0 is a yes; an older form says StatusCode."""
    said = answer.object()
    code = said.get("code", said.get("StatusCode"))
    return "" if code == 0 else f"code {code}: {said.get('msg') or said.get('StatusMessage') or 'no reason given'}"


def passing(answer: Answer) -> bool:
    return answer.object().get("code") in _PASSING


FEISHU = Service(
    name="feishu",
    title="Feishu",
    render=render,
    plain=plain_form,
    sign=sign,
    refusal=refusal,
    passing=passing,
    batch=BATCH,
    pause_s=0.7,
    takes_secret=True,
)
LARK = replace(FEISHU, name="lark", title="Lark")
