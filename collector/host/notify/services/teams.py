"""Microsoft Teams through a Workflows webhook: an Adaptive Card 1.4.

Limits (learn.microsoft.com, Incoming Webhooks and the Teams connector): 28 KB a message, four requests a second; others
have been refused from 21 KB on, so we stay below 20,000 bytes. Names stand in text runs, which take no Markdown and no
mention; links are actions of the card.
"""

from __future__ import annotations

from collections.abc import Sequence

from collector.host.notify.clip import fit
from collector.host.notify.document import Detail, blocks, first_that_fits, identity, links, title
from collector.host.notify.escape import plain as escape
from collector.host.notify.message import Message
from collector.host.notify.services.service import Answer, JsonObject, Service, encode, json_request
from collector.host.notify.wording import NO_LINKS, about, gravest_first, headline, mover_text

MESSAGE_BYTES = 20_000
BATCH = 15
ACTIONS = 6
"""Primary actions of a card that Teams shows."""


def render(messages: Sequence[Message]) -> JsonObject:
    """A card in the envelope that the workflow "post to a channel when a webhook request is received" expects."""
    card = first_that_fits(lambda detail: _card(messages, detail), lambda c: len(encode(c)), MESSAGE_BYTES - 400)
    return {
        "type": "message",
        "attachments": [
            {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
        ],
    }


def _card(messages: Sequence[Message], detail: Detail) -> JsonObject:
    ordered = gravest_first(messages)
    head = _text(_run(title(ordered, 300, escape), weight="Bolder", size="Medium"))
    if len(ordered) == 1:
        elements, actions = _full(ordered[0], detail)
    else:
        elements, actions = _list(ordered, detail)
    card: JsonObject = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "msteams": {"width": "Full"},
        "body": [head, *elements],
    }
    return card | {"actions": actions} if actions else card


def _full(message: Message, detail: Detail) -> tuple[list[JsonObject], list[JsonObject]]:
    elements = [_text(_run(fit(message.sentence, detail.text, escape)))]
    for block in blocks(message, detail, escape):
        if len(block.lines) == 1:
            elements.append(_text(_run(f"{block.label}: ", weight="Bolder"), _run(block.lines[0])))
        else:
            elements.append(_text(_run(block.label, weight="Bolder")))
            elements += [_text(_run(f"• {line}"), spacing="None") for line in block.lines]
    if message.repro and detail.items:
        elements.append(_text(_run(fit(message.repro, detail.text, escape), font="Monospace")))
    shown = links(message, detail)[:ACTIONS]
    if not shown:
        elements.append(_text(_run(NO_LINKS, subtle=True)))
    elements.append(_text(_run(fit(identity(message), 160, escape), subtle=True)))
    return elements, [_open(words, address) for words, address in shown]


def _list(messages: Sequence[Message], detail: Detail) -> tuple[list[JsonObject], list[JsonObject]]:
    elements = []
    kept = messages[:BATCH]
    for message in kept:
        name = fit(message.finding_id or message.message_id, 70, escape)
        elements.append(_text(_run(fit(headline(message), detail.text, escape), weight="Bolder")))
        if detail.items:
            said = [fit(text, detail.text, escape) for text in (message.sentence, about(message)) if text]
            elements += [_text(_run(text), spacing="None") for text in said]
        if message.member_count > 1 and detail.items:
            names = [fit(mover_text(mover), detail.text, escape) for mover in message.members[: detail.items]]
            rest = message.member_count - len(names)
            text = ", ".join([*names, f"and {rest:,} more"] if rest else names)
            elements.append(_text(_run(text), spacing="None"))
        elements.append(
            _text(_run(name, subtle=True, address=message.links.finding if detail.links else ""), spacing="None")
        )
    rest = len(messages) - len(kept)
    overview = next((message.links.overview for message in messages if message.links.overview), "")
    tail = [f"and {rest:,} more"] if rest else []
    tail += [] if overview else [NO_LINKS]
    if tail:
        elements.append(_text(_run(" · ".join(tail), subtle=True)))
    return elements, [_open("All findings", overview)] if overview else []


def _text(*runs: JsonObject, spacing: str = "Default") -> JsonObject:
    return {"type": "RichTextBlock", "inlines": list(runs), "spacing": spacing}


def _run(
    text: str, *, weight: str = "", size: str = "", font: str = "", subtle: bool = False, address: str = ""
) -> JsonObject:
    """Text that is shown as it is, and may lead somewhere: Adaptive Cards parse no Markdown in a TextRun."""
    run: JsonObject = {"type": "TextRun", "text": text}
    chosen = {"weight": weight, "size": size, "fontType": font}
    run |= {name: value for name, value in chosen.items() if value}
    if address:
        run |= {"selectAction": {"type": "Action.OpenUrl", "url": address}}
    return run | {"isSubtle": True} if subtle else run


def _open(words: str, address: str) -> JsonObject:
    return {"type": "Action.OpenUrl", "title": words, "url": address}


def refusal(answer: Answer) -> str:
    """Workflows answer 202; the older connectors put their error into a 200."""
    body = answer.body.strip()
    bad = "error" in body.lower() and not answer.object()
    return body[:120] if bad else ""


def passing(answer: Answer) -> bool:
    return "429" in answer.body


SERVICE = Service(
    name="teams",
    title="Microsoft Teams",
    render=render,
    sign=json_request,
    refusal=refusal,
    passing=passing,
    batch=BATCH,
    pause_s=1.0,
)
