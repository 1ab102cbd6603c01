"""Discord webhook: embeds.

Limits (discord.com/developers/docs/resources/message, "Embed Limits", and resources/webhook, "Execute Webhook"): title
256, description 4,096, 25 fields of 256 and 1,024, footer 2,048, 6,000 over all embeds of a message. `allowed_mentions`
with an empty `parse` pings nobody whatever the text holds. Rate limits come as 429 with `retry_after`.
"""

from __future__ import annotations

from collections.abc import Sequence

from collector.host.notify.clip import fit, utf16_units
from collector.host.notify.document import Detail, Dialect, blocks, body, first_that_fits, identity, links, title
from collector.host.notify.escape import discord as escape
from collector.host.notify.escape import plain, visible
from collector.host.notify.message import Message
from collector.host.notify.services.service import Answer, JsonObject, Service, json_request
from collector.host.notify.wording import gravest_first, plain_lines

TITLE, DESCRIPTION, FIELD_VALUE, FOOTER, TOTAL = 256, 4096, 1024, 2048, 6000
BATCH = 10
_ORANGE, _BLUE, _GREY = 0xA8460B, 0x1D5FA5, 0x566270


def _code(command: str) -> str:
    return f"```\n{visible(command).replace('`', 'ˋ')}\n```"


DIALECT = Dialect(
    escape=escape,
    bold=lambda text: f"**{text}**",
    link=lambda words, address: f"[{words}](<{address.replace('>', '%3E').replace(')', '%29')}>)",
    code=_code,
)


def render(messages: Sequence[Message]) -> JsonObject:
    """One embed: a finding with its facts as fields, or several findings as its description."""
    embed = first_that_fits(lambda detail: _embed(messages, detail), _size, TOTAL)
    return {"embeds": [embed], "allowed_mentions": {"parse": []}}


def _embed(messages: Sequence[Message], detail: Detail) -> JsonObject:
    ordered = gravest_first(messages)
    head: JsonObject = {"title": title(ordered, TITLE, escape), "color": _color(ordered[0])}
    if len(ordered) > 1:
        return head | {"description": body(ordered, DIALECT, detail, batch=BATCH)}
    message = ordered[0]
    fields: list[JsonObject] = []
    for block in blocks(message, detail, escape):
        value = "\n".join(block.lines)
        fields.append({"name": block.label, "value": value, "inline": len(block.lines) == 1 and len(value) < 60})
    if message.repro and detail.items:
        fields.append({"name": "Measure it alone", "value": _code(message.repro[: min(detail.text, 900)])})
    shown = " · ".join(DIALECT.link(words, address) for words, address in links(message, detail))
    sentence = fit(message.sentence, detail.text, escape)
    made = head | {"description": f"{sentence}\n{shown}" if shown else sentence}
    if message.links.finding and detail.links:
        made |= {"url": message.links.finding}
    return made | {"fields": fields[:25], "footer": {"text": fit(identity(message), FOOTER, plain)}}


def _color(message: Message) -> int:
    if message.kind in ("regressed", "escalated", "reopened", "host_shifted"):
        return _ORANGE
    return _BLUE if message.kind in ("recovered", "improved") else _GREY


def _size(embed: JsonObject) -> int:
    """Characters as Discord adds them up; beyond every limit where the description or a field alone is too long."""
    description = utf16_units(str(embed.get("description", "")))
    fields = embed.get("fields", [])
    footer = embed.get("footer", {})
    values = [utf16_units(str(field["value"])) for field in fields] if isinstance(fields, list) else []
    names = [utf16_units(str(field["name"])) for field in fields] if isinstance(fields, list) else []
    end = utf16_units(str(footer["text"])) if isinstance(footer, dict) and footer else 0
    total = utf16_units(str(embed["title"])) + description + sum(names) + sum(values) + end
    within = description <= DESCRIPTION and max(values, default=0) <= FIELD_VALUE
    return total if within else TOTAL + total


def plain_form(messages: Sequence[Message]) -> JsonObject:
    """Lines of text without an embed (content is limited to 2,000)."""
    lines = plain_lines(messages, escape)
    return {"content": "\n".join(lines)[:1900], "allowed_mentions": {"parse": []}}


def refusal(answer: Answer) -> str:
    """A 2xx is a yes; errors have their status."""
    return ""


SERVICE = Service(
    name="discord",
    title="Discord",
    render=render,
    plain=plain_form,
    sign=json_request,
    refusal=refusal,
    batch=BATCH,
    pause_s=2.0,
)
