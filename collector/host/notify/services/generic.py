"""Generic JSON for programs: the schema below, signed with HMAC-SHA256 where the route has a secret.

Body: {"schema": "kernel-observatory/alert/1", "summary": words, "messages": [record, ...], "more": 0}. A record has the
fields of `collector.host.notify.message.Message` plus "headline". Signature: header X-Kernel-Observatory-Signature is
"v1=" and the hex HMAC-SHA256 of b"v1:" + timestamp + b":" + body, X-Kernel-Observatory-Timestamp the Unix seconds.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Sequence
from datetime import datetime

from collector.host.notify.message import Message
from collector.host.notify.secrets import Secret
from collector.host.notify.services.service import Answer, JsonObject, Request, Service, encode
from collector.host.notify.wording import gravest_first, headline, summary

SCHEMA = "kernel-observatory/alert/1"
TIMESTAMP_HEADER = "X-Kernel-Observatory-Timestamp"
SIGNATURE_HEADER = "X-Kernel-Observatory-Signature"
BATCH = 50


def render(messages: Sequence[Message]) -> JsonObject:
    """The documented body; strings are raw, since JSON carries data and no markup."""
    ordered = gravest_first(messages)
    kept = ordered[:BATCH]
    return {
        "schema": SCHEMA,
        "summary": summary(messages),
        "messages": [{**json.loads(message.to_json()), "headline": headline(message)} for message in kept],
        "more": len(ordered) - len(kept),
    }


def signature(secret: Secret, timestamp: str, body: bytes) -> str:
    """ "v1=" and the hex digest over version, timestamp and body, so that an old body cannot be sent again later."""
    signed = b"v1:" + timestamp.encode() + b":" + body
    return "v1=" + hmac.new(secret.reveal().encode(), signed, hashlib.sha256).hexdigest()


def sign(payload: JsonObject, url: Secret, secret: Secret | None, at: datetime) -> Request:
    body = encode(payload)
    timestamp = str(int(at.timestamp()))
    headers = {"Content-Type": "application/json; charset=utf-8", TIMESTAMP_HEADER: timestamp}
    if secret is not None:
        headers[SIGNATURE_HEADER] = signature(secret, timestamp, body)
    return Request(url=url, body=body, headers=headers)


def refusal(answer: Answer) -> str:
    """A body that says {"ok": false} is a no; every other 2xx is a yes."""
    said = answer.object()
    return f"ok: false, {said.get('error', 'no reason given')}" if said.get("ok") is False else ""


SERVICE = Service(
    name="json",
    title="generic JSON",
    render=render,
    sign=sign,
    refusal=refusal,
    batch=BATCH,
    pause_s=0.0,
    takes_secret=True,
)
