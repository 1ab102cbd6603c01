"""Slack incoming webhook: Block Kit.

Limits (docs.slack.dev, reference/block-kit/blocks and messaging/sending-messages-using-incoming-webhooks): 50 blocks a
message, header 150, section text 3,000, 10 fields of 2,000, 10 context elements; one message a second. An accepted
message is answered by HTTP 200 and the text "ok".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from collector.host.notify.clip import fit, fit_items
from collector.host.notify.escape import slack as escape
from collector.host.notify.escape import slack_code
from collector.host.notify.message import Message, MessageKind
from collector.host.notify.services.service import Answer, JsonObject, Service, json_request
from collector.host.notify.wording import (
    NO_LINKS,
    about,
    differences,
    facts,
    gravest_first,
    headline,
    link_list,
    mover_text,
    plain_lines,
    summary,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Characters, and blocks a message."""

    blocks: int = 50
    header: int = 150
    section: int = 3000
    field: int = 2000
    fields: int = 10
    context: int = 2000
    text: int = 4000


LIMITS = Limits()
BATCH = 20
ENTRY_LINKS = 2
_SHORT = 280
"""Characters of one escaped name within a list: long enough for a case id, short enough to leave room for others."""


def render(messages: Sequence[Message], limits: Limits = LIMITS) -> JsonObject:
    """One message in full, or several as one section each, the gravest first."""
    ordered = gravest_first(messages)
    blocks = _full(ordered[0], limits) if len(ordered) == 1 else _list(ordered, limits)
    return {"text": fit(summary(ordered), limits.text, escape), "blocks": blocks}


def _full(message: Message, limits: Limits) -> list[JsonObject]:
    blocks = [_header(headline(message), limits), _section(fit(message.sentence, limits.section, escape))]
    pairs = [_field(fact.label, fact.value, limits) for fact in facts(message)][: limits.fields]
    if pairs:
        blocks.append({"type": "section", "fields": pairs})
    if message.kind is MessageKind.DIGEST:
        blocks += _digest(message, limits)
    blocks += _listed(
        "Differs between last good and first bad run", differences(message), len(message.differing), limits
    )
    if message.member_count > 1:
        blocks += _listed("Series", [mover_text(m) for m in message.members], message.member_count, limits)
    blocks += _listed("Also moved", [mover_text(m) for m in message.co_movers], message.co_mover_count, limits)
    if message.repro:
        blocks.append(_section(f"```{fit(message.repro, limits.section - 6, slack_code)}```"))
    blocks.append(_section(_links(message) or escape(NO_LINKS)))
    identity = f"{message.finding_id or message.message_id} · {message.severity} · {message.kind}"
    blocks.append(_context(fit(identity, limits.context, escape)))
    return blocks[: limits.blocks]


def _list(messages: Sequence[Message], limits: Limits) -> list[JsonObject]:
    kept = messages[: limits.blocks - 3]
    blocks = [_header(summary(messages), limits), *(_entry(message, limits) for message in kept)]
    rest = len(messages) - len(kept)
    overview = next((m.links.overview for m in messages if m.links.overview), "")
    more = f"and {rest:,} more" if rest else ""
    link = f"<{_address(overview)}|All findings>" if overview else escape(NO_LINKS)
    blocks.append(_section(" · ".join(part for part in (more, link) if part)))
    return blocks


def _entry(message: Message, limits: Limits) -> JsonObject:
    """A finding in a list: headline, sentence, price and since, members cut with "and N more", id and links."""
    head = f"*{fit(headline(message), _SHORT, escape)}*"
    sentence = fit(message.sentence, 600, escape)
    where = fit(about(message), 400, escape)
    cause = fit(message.cause, 400, escape)
    tail = " · ".join(
        part
        for part in (fit(message.finding_id or message.message_id, _SHORT, escape), _links(message, ENTRY_LINKS))
        if part
    )
    lines = [line for line in (head, sentence, where, cause) if line]
    if message.member_count > 1:
        room = limits.section - sum(len(line) + 1 for line in lines) - len(tail) - 16
        shown = [fit(mover_text(mover), _SHORT, escape) for mover in message.members]
        lines.append("Series: " + fit_items(shown, min(room, 600), separator=", ", total=message.member_count))
    return _section("\n".join([*lines, tail]))


def _digest(message: Message, limits: Limits) -> list[JsonObject]:
    lines = []
    for entry in message.entries:
        words = fit(entry.headline, _SHORT, escape)
        named = f"<{_address(entry.link)}|{words}>" if entry.link else words
        lines.append(f"• {named} ({fit(entry.finding_id, 80, escape)})")
    text = fit_items(lines, limits.section, separator="\n", total=len(message.entries))
    return [_section(text)] if text else []


def _listed(label: str, items: Sequence[str], total: int, limits: Limits) -> list[JsonObject]:
    if not total:
        return []
    head = f"*{escape(label)}*\n"
    shown = [fit(f"• {item}", _SHORT, escape) for item in items]
    return [_section(head + fit_items(shown, limits.section - len(head), separator="\n", total=total))]


def _links(message: Message, most: int = 8) -> str:
    return " · ".join(f"<{_address(address)}|{words}>" for words, address in link_list(message)[:most])


def _address(url: str) -> str:
    """An address inside `<...|...>`: neither bracket nor bar may end it early."""
    return url.replace("&", "&amp;").replace("<", "%3C").replace(">", "%3E").replace("|", "%7C")


def _header(text: str, limits: Limits) -> JsonObject:
    return {"type": "header", "text": {"type": "plain_text", "text": fit(text, limits.header, escape), "emoji": False}}


def _section(text: str) -> JsonObject:
    return {"type": "section", "text": _mrkdwn(text)}


def _context(text: str) -> JsonObject:
    return {"type": "context", "elements": [_mrkdwn(text)]}


def _field(label: str, value: str, limits: Limits) -> JsonObject:
    head = f"*{escape(label)}*\n"
    return _mrkdwn(head + fit(value, min(limits.field - len(head), 600), escape))


def _mrkdwn(text: str) -> JsonObject:
    """`verbatim`: Slack makes no link, channel or mention out of a bare name."""
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def refusal(answer: Answer) -> str:
    """Slack says "ok", or {"ok": true} through its Web API; any other body is an error."""
    if answer.body.strip() == "ok" or answer.object().get("ok") is True:
        return ""
    return str(answer.object().get("error") or answer.body.strip()[:120] or "an empty answer in place of ok")


def passing(answer: Answer) -> bool:
    """Slack's Web API reports its rate limit inside the body."""
    return answer.object().get("error") in ("ratelimited", "rate_limited", "internal_error", "service_unavailable")


def plain(messages: Sequence[Message]) -> JsonObject:
    """The same in few words and no blocks, for when Slack refuses the blocks."""
    return {"text": fit_items(plain_lines(messages, escape), LIMITS.text, separator="\n", total=len(messages))}


SERVICE = Service(
    name="slack",
    title="Slack",
    render=render,
    plain=plain,
    sign=json_request,
    refusal=refusal,
    passing=passing,
    batch=BATCH,
    pause_s=1.0,
)
