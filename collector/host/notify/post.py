"""One POST to one webhook, and what its answer means: the only part that opens a connection.

A redirect is followed nowhere: a webhook that moved is for a person to look at, and its secret must not travel to
another host. An answer is read up to 64 KiB and within a total time, since a peer may drip bytes for ever.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import httpx

from collector.host.notify.escape import visible
from collector.host.notify.secrets import Secret, mask
from collector.host.notify.services.service import Answer, Outcome, Request, Service, Verdict

ANSWER_BYTES = 65536
WORDS_KEPT = 160
PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Limits of one POST, in seconds."""

    connect_s: float = 5.0
    read_s: float = 10.0
    total_s: float = 20.0


def client(patience: Patience) -> httpx.Client:
    """A client that follows no redirect and says nothing in logs: httpx logs whole addresses, secrets and all."""
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)
    timeout = httpx.Timeout(patience.read_s, connect=patience.connect_s)
    return httpx.Client(timeout=timeout, follow_redirects=False, headers={"User-Agent": "kernel-observatory"})


def post(
    http: httpx.Client, service: Service, request: Request, secrets: Iterable[Secret | None], patience: Patience
) -> Verdict:
    """Sends the request once and says what the answer means."""
    known = tuple(secrets)
    try:
        answer = _answer(http, request, patience)
    except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError) as error:
        words = f"{type(error).__name__}: {visible(str(error))}"
        return Verdict(outcome=Outcome.PASSING, words=mask(words, known)[:WORDS_KEPT])
    # Masked before anything is cut: half of an echoed secret would be found by nobody who looks for the whole.
    verdict = judge(service, replace(answer, body=mask(answer.body, known)), request.url)
    return replace(verdict, words=mask(verdict.words, known)[:WORDS_KEPT])


def judge(service: Service, answer: Answer, url: Secret) -> Verdict:
    """What an answer means: pure."""
    said = visible(answer.body)[:120]
    status = f"{answer.status} {said}".strip()
    if 200 <= answer.status < 300:
        refusal = service.refusal(answer)
        if not refusal:
            return Verdict(outcome=Outcome.SENT, words=status)
        outcome = Outcome.PASSING if service.passing(answer) else Outcome.REFUSED
        return Verdict(
            outcome=outcome, words=f"{answer.status} with an error inside: {visible(refusal)}", wait_s=_wait_s(answer)
        )
    if 300 <= answer.status < 400:
        return Verdict(outcome=Outcome.REFUSED, words=_redirect_words(answer, url))
    outcome = Outcome.PASSING if answer.status in PASSING else Outcome.REFUSED
    return Verdict(outcome=outcome, words=status, wait_s=_wait_s(answer))


def _answer(http: httpx.Client, request: Request, patience: Patience) -> Answer:
    started = time.monotonic()
    body = b""
    with http.stream("POST", request.url.reveal(), content=request.body, headers=dict(request.headers)) as response:
        for chunk in response.iter_bytes():
            body += chunk
            if len(body) > ANSWER_BYTES:
                break
            if time.monotonic() - started > patience.total_s:
                raise httpx.ReadTimeout(f"no whole answer within {patience.total_s:g} s")
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Answer(status=response.status_code, body=body[:ANSWER_BYTES].decode("utf-8", "replace"), headers=headers)


def _wait_s(answer: Answer) -> float | None:
    """Retry-After in seconds or as a date (RFC 9110, 10.2.3); else `retry_after` of a JSON body."""
    text = answer.headers.get("retry-after", "").strip()
    if text:
        try:
            return max(0.0, float(text))
        except ValueError:
            pass
        try:
            return max(0.0, (parsedate_to_datetime(text).astimezone(UTC) - datetime.now(UTC)).total_seconds())
        except (ValueError, TypeError):
            return None
    asked = answer.object().get("retry_after")
    return max(0.0, float(asked)) if isinstance(asked, int | float) and not isinstance(asked, bool) else None


def _redirect_words(answer: Answer, url: Secret) -> str:
    target = urlsplit(answer.headers.get("location", "")).hostname
    own = urlsplit(url.reveal()).hostname
    where = "to another host" if target and target != own else "on the same host"
    return f"{answer.status} redirect {where}, not followed: set the route's url to where it lives now"
