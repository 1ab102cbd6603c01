"""Mattermost incoming webhook: a message attachment.

Limits (docs.mattermost.com, message attachments; a post holds 16,383 characters since 5.0): we keep the whole payload
within that. Attachment text is Markdown and obeys mentions, hence the escaping. Accepted: HTTP 200 and "ok".
"""

from __future__ import annotations

from collections.abc import Sequence

from collector.host.notify.clip import fit, utf16_units
from collector.host.notify.document import Detail, Dialect, blocks, body, first_that_fits, identity, links, title
from collector.host.notify.escape import mattermost as escape
from collector.host.notify.escape import plain, visible
from collector.host.notify.message import Message
from collector.host.notify.services.service import Answer, JsonObject, Service, encode, json_request
from collector.host.notify.wording import NO_LINKS, gravest_first, plain_lines

POST = 16383
BATCH = 20


def _code(command: str) -> str:
    return f"```\n{visible(command).replace('`', 'ˋ')}\n```"


DIALECT = Dialect(
    escape=escape,
    bold=lambda text: f"**{text}**",
    link=lambda words, address: f"[{words}]({address.replace(')', '%29')})",
    code=_code,
)


def render(messages: Sequence[Message]) -> JsonObject:
    """One attachment; its fallback is the headline in plain text for notifications."""
    return first_that_fits(lambda detail: _payload(messages, detail), lambda p: utf16_units(encode(p).decode()), POST)


def _payload(messages: Sequence[Message], detail: Detail) -> JsonObject:
    ordered = gravest_first(messages)
    attachment: JsonObject = {
        "fallback": title(ordered, 300, escape),
        "color": "#A8460B" if ordered[0].kind in ("regressed", "escalated", "reopened", "host_shifted") else "#566270",
        "title": title(ordered, 300, escape),
    }
    if len(ordered) > 1:
        return {"attachments": [attachment | {"text": body(ordered, DIALECT, detail, batch=BATCH)}]}
    message = ordered[0]
    shown = " · ".join(DIALECT.link(words, address) for words, address in links(message, detail)) or escape(NO_LINKS)
    text = [fit(message.sentence, detail.text, escape)]
    if message.repro and detail.items:
        text.append(_code(message.repro[: detail.text]))
    fields = [
        {"title": block.label, "value": "\n".join(block.lines), "short": len("".join(block.lines)) < 60}
        for block in blocks(message, detail, escape)
    ]
    attachment |= {"text": "\n".join([*text, shown]), "fields": fields, "footer": fit(identity(message), 160, plain)}
    if message.links.finding and detail.links:
        attachment |= {"title_link": message.links.finding}
    return {"attachments": [attachment]}


def plain_form(messages: Sequence[Message]) -> JsonObject:
    """Lines of text without an attachment."""
    return {"text": "\n".join(plain_lines(messages, escape))[: POST - 100]}


def refusal(answer: Answer) -> str:
    """Mattermost says "ok"; a proxy's sign-in page is no yes."""
    return (
        ""
        if answer.body.strip() == "ok"
        else str(answer.object().get("message") or answer.body.strip()[:120] or "empty")
    )


SERVICE = Service(
    name="mattermost",
    title="Mattermost",
    render=render,
    plain=plain_form,
    sign=json_request,
    refusal=refusal,
    batch=BATCH,
    pause_s=1.0,
)
