"""What every service offers, and how its answers are read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from collector.host.notify.message import Message
from collector.host.notify.secrets import Secret

JsonObject = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A POST ready to be sent."""

    url: Secret
    body: bytes
    headers: Mapping[str, str]

    def with_header(self, name: str, value: str) -> Request:
        return replace(self, headers={**self.headers, name: value})


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a service answered, before it is known whether that means yes."""

    status: int
    body: str
    headers: Mapping[str, str]

    def object(self) -> Mapping[str, object]:
        """The body as a JSON object; empty where it is none."""
        try:
            value = json.loads(self.body)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}


class Outcome(StrEnum):
    """What became of a try."""

    SENT = "sent"
    PASSING = "passing"
    """A fault that may pass by itself: no network, a busy or broken service."""
    REFUSED = "refused"
    """The service does not want this request; trying again for ever would be hammering."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The meaning of one try; the words hold no secret."""

    outcome: Outcome
    words: str
    wait_s: float | None = None
    """What the service asked for before the next try."""


Render = Callable[[Sequence[Message]], JsonObject]
Sign = Callable[[JsonObject, Secret, Secret | None, datetime], Request]
Refusal = Callable[[Answer], str]
"""Why an answer with a 2xx status is an error all the same; "" where it is a yes."""
Deliver = Callable[[JsonObject, Secret], Verdict]
"""Sends the payload itself, for a service that is not one POST of ours."""
Passing = Callable[[Answer], bool]
"""Whether the error inside a 2xx may pass by itself, such as a rate limit."""


def errcode_refusal(answer: Answer) -> str:
    """For services that answer 200 and say in `errcode` whether it is a yes."""
    said = answer.object()
    code = said.get("errcode")
    return "" if code == 0 else f"errcode {code}: {said.get('errmsg') or 'no reason given'}"


def never_passes(answer: Answer) -> bool:
    """For services that report rate limits by status."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One kind of receiver. `render` never returns an empty payload and keeps within the limits its module states."""

    name: str
    title: str
    render: Render
    sign: Sign
    refusal: Refusal
    batch: int
    """Messages that one payload holds with all their ids, so that a batch loses none."""
    pause_s: float
    """Least time between two requests to one route, from the service's stated rate."""
    passing: Passing = never_passes
    deliver: Deliver | None = None
    plain: Render | None = None
    """The least that can be said, for a service that refuses the full form; ids and one link stay."""
    takes_secret: bool = False
    """Whether a signing secret has a meaning for it."""


def json_request(payload: JsonObject, url: Secret, secret: Secret | None, at: datetime) -> Request:
    """An unsigned JSON POST."""
    return Request(url=url, body=encode(payload), headers={"Content-Type": "application/json; charset=utf-8"})


def encode(payload: JsonObject) -> bytes:
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()
