"""Google Chat incoming webhook: cards.

Limits (developers.google.com/workspace/chat, spaces.messages.create and cards): 32,000 bytes a message with its cards,
100 widgets a card; one request a second for a space's webhooks. Card text knows a little HTML (format-messages: b, i,
u, strike, font, a, br), so names are escaped.
"""

from __future__ import annotations

from collections.abc import Sequence

from collector.host.notify.clip import fit
from collector.host.notify.document import Detail, blocks, first_that_fits, identity, links, title
from collector.host.notify.escape import html as escape
from collector.host.notify.escape import lookalike
from collector.host.notify.message import Message
from collector.host.notify.services.service import Answer, JsonObject, Service, encode, json_request
from collector.host.notify.wording import NO_LINKS, about, gravest_first, headline, mover_text, plain_lines

MESSAGE_BYTES = 32_000
BATCH = 20


def render(messages: Sequence[Message]) -> JsonObject:
    """A card, and its headline as the text of notifications."""
    return first_that_fits(lambda detail: _payload(messages, detail), lambda p: len(encode(p)), MESSAGE_BYTES)


def _payload(messages: Sequence[Message], detail: Detail) -> JsonObject:
    ordered = gravest_first(messages)
    widgets = _full(ordered[0], detail) if len(ordered) == 1 else _list(ordered, detail)
    card: JsonObject = {
        "header": {"title": title(ordered, 200, lookalike), "subtitle": "Kernel Observatory"},
        "sections": [{"widgets": widgets}],
    }
    name = ordered[0].finding_id or ordered[0].message_id
    return {
        "fallbackText": title(ordered, 400, lookalike),
        "cardsV2": [{"cardId": fit(name, 60, lookalike), "card": card}],
    }


def _full(message: Message, detail: Detail) -> list[JsonObject]:
    widgets = [_paragraph(fit(message.sentence, detail.text, escape))]
    for block in blocks(message, detail, escape):
        widgets.append({"decoratedText": {"topLabel": block.label, "text": "<br>".join(block.lines), "wrapText": True}})
    if message.repro and detail.items:
        command = fit(message.repro, detail.text, escape)
        widgets.append({"decoratedText": {"topLabel": "Measure it alone", "text": command, "wrapText": True}})
    shown = links(message, detail)
    widgets.append(_buttons(shown) if shown else _paragraph(escape(NO_LINKS)))
    widgets.append(_paragraph(fit(identity(message), 160, escape)))
    return widgets


def _list(messages: Sequence[Message], detail: Detail) -> list[JsonObject]:
    widgets = []
    kept = messages[:BATCH]
    for message in kept:
        lines = [f"<b>{fit(headline(message), detail.text, escape)}</b>"]
        if detail.items:
            lines.append(fit(message.sentence, detail.text, escape))
            lines += filter(None, [fit(about(message), detail.text, escape)])
        if message.member_count > 1 and detail.items:
            names = [fit(mover_text(mover), detail.text, escape) for mover in message.members[: detail.items]]
            rest = message.member_count - len(names)
            lines.append(", ".join([*names, f"and {rest:,} more"] if rest else names))
        identity_line = fit(message.finding_id or message.message_id, 70, escape)
        if message.links.finding and detail.links:
            identity_line += f' · <a href="{escape(message.links.finding)}">Finding</a>'
        widgets.append(_paragraph("<br>".join([*lines, identity_line])))
    rest = len(messages) - len(kept)
    if rest:
        widgets.append(_paragraph(f"and {rest:,} more"))
    overview = next((message.links.overview for message in messages if message.links.overview), "")
    widgets.append(_buttons((("All findings", overview),)) if overview else _paragraph(escape(NO_LINKS)))
    return widgets


def _paragraph(text: str) -> JsonObject:
    return {"textParagraph": {"text": text}}


def _buttons(links: Sequence[tuple[str, str]]) -> JsonObject:
    made = [{"text": words, "onClick": {"openLink": {"url": address}}} for words, address in links]
    return {"buttonList": {"buttons": made}}


def plain_form(messages: Sequence[Message]) -> JsonObject:
    """Lines of text (4,096 characters)."""
    return {"text": "\n".join(plain_lines(messages, lookalike))[:4000]}


def refusal(answer: Answer) -> str:
    """A 2xx holds the created message; an error object inside it is a no."""
    error = answer.object().get("error")
    return str(error.get("message", "error")) if isinstance(error, dict) else ""


SERVICE = Service(
    name="google_chat",
    title="Google Chat",
    render=render,
    plain=plain_form,
    sign=json_request,
    refusal=refusal,
    batch=BATCH,
    pause_s=1.0,
)
