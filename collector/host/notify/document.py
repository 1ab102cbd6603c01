"""A message laid out for services that take Markdown-like text, at as much detail as their limit leaves room for.

Each service tries the levels of detail from the fullest down and takes the first that fits; the last is so short that
it always does. So a limit never cuts through a sentence's markup, and what matters most goes last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from collector.host.notify.clip import fit
from collector.host.notify.escape import Escape, plain
from collector.host.notify.message import Message, MessageKind
from collector.host.notify.wording import (
    NO_LINKS,
    about,
    differences,
    facts,
    gravest_first,
    headline,
    link_list,
    mover_text,
    summary,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """How much is said: items of a list, characters of one text, links of a message."""

    items: int
    text: int
    links: int = 8
    facts: int = 10


LEVELS = (
    Detail(items=20, text=900),
    Detail(items=12, text=500),
    Detail(items=8, text=300),
    Detail(items=4, text=160, links=6),
    Detail(items=2, text=100, links=4),
    Detail(items=1, text=70, links=1, facts=6),
    Detail(items=0, text=60, links=1, facts=3),
    Detail(items=0, text=48, links=0, facts=0),
)

Rendered = TypeVar("Rendered")


def first_that_fits(build: Callable[[Detail], Rendered], size: Callable[[Rendered], int], limit: int) -> Rendered:
    """What `build` makes at the fullest level whose size is within `limit`; the shortest level where none is."""
    rendered = build(LEVELS[0])
    for level in LEVELS[1:]:
        if size(rendered) <= limit:
            break
        rendered = build(level)
    return rendered


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The markup of a service: escapes what others wrote, and writes what we mean."""

    escape: Escape
    bold: Callable[[str], str]
    link: Callable[[str, str], str]
    """Words and address; the words are escaped already."""
    code: Callable[[str], str]
    """A command, raw."""
    bullet: str = "- "
    gap: str = "\n"
    """Between lines; some services need two breaks to show one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A label with a text or with lines, all escaped."""

    label: str
    lines: tuple[str, ...]


def blocks(message: Message, detail: Detail, escape: Escape) -> tuple[Block, ...]:
    """The facts and lists of a message, escaped and cut; a list says how many more there are."""
    found = [Block(label=f.label, lines=(fit(f.value, detail.text, escape),)) for f in facts(message)[: detail.facts]]
    if message.kind is MessageKind.DIGEST:
        entries = [f"{entry.headline} ({entry.finding_id})" for entry in message.entries]
        found += _list_block("Findings", entries, len(entries), detail, escape, least=1)
    found += _list_block("Differs", differences(message), len(message.differing), detail, escape)
    if message.member_count > 1:
        members = [mover_text(mover) for mover in message.members]
        found += _list_block("Series", members, message.member_count, detail, escape)
    movers = [mover_text(mover) for mover in message.co_movers]
    found += _list_block("Also moved", movers, message.co_mover_count, detail, escape)
    return tuple(found)


def _list_block(
    label: str, items: Sequence[str], total: int, detail: Detail, escape: Escape, *, least: int = 0
) -> list[Block]:
    count = max(detail.items, least)
    if not total or not count:
        return []
    shown = [fit(item, detail.text, escape) for item in items[:count]]
    rest = total - len(shown)
    return [Block(label=label, lines=(*shown, f"and {rest:,} more") if rest else tuple(shown))]


def links(message: Message, detail: Detail) -> tuple[tuple[str, str], ...]:
    return link_list(message)[: detail.links]


def identity(message: Message) -> str:
    return f"{message.finding_id or message.message_id} · {message.severity} · {message.kind}"


def body(messages: Sequence[Message], dialect: Dialect, detail: Detail, *, batch: int) -> str:
    """One message in full, or several as entries, without the headline that the service shows as a title."""
    ordered = gravest_first(messages)
    lines = _full(ordered[0], dialect, detail) if len(ordered) == 1 else _entries(ordered, dialect, detail, batch)
    return dialect.gap.join(lines)


def title(messages: Sequence[Message], limit: int, escape: Escape) -> str:
    return fit(summary(gravest_first(messages)), limit, escape)


def _full(message: Message, dialect: Dialect, detail: Detail) -> Iterator[str]:
    yield fit(message.sentence, detail.text, dialect.escape)
    for block in blocks(message, detail, dialect.escape):
        if len(block.lines) == 1:
            yield f"{dialect.bold(block.label)}: {block.lines[0]}"
        else:
            yield dialect.bold(block.label)
            yield from (f"{dialect.bullet}{line}" for line in block.lines)
    if message.repro and detail.items:
        yield dialect.code(fit(message.repro, detail.text, plain))
    shown = [dialect.link(words, address) for words, address in links(message, detail)]
    if shown or detail.links:
        yield " · ".join(shown) or dialect.escape(NO_LINKS)
    yield fit(identity(message), 160, dialect.escape)


def _entries(messages: Sequence[Message], dialect: Dialect, detail: Detail, batch: int) -> Iterator[str]:
    kept = messages[:batch]
    for message in kept:
        yield dialect.bold(fit(headline(message), detail.text, dialect.escape))
        if detail.items:
            yield fit(message.sentence, detail.text, dialect.escape)
            yield from filter(None, [fit(about(message), detail.text, dialect.escape)])
        if message.member_count > 1 and detail.items:
            names = [fit(mover_text(mover), detail.text, dialect.escape) for mover in message.members[: detail.items]]
            rest = message.member_count - len(names)
            yield ", ".join([*names, f"and {rest:,} more"] if rest else names)
        shown = [dialect.link(words, address) for words, address in link_list(message)[: min(detail.links, 1)]]
        yield " · ".join([fit(message.finding_id or message.message_id, 70, dialect.escape), *shown])
    rest = len(messages) - len(kept)
    overview = next((message.links.overview for message in messages if message.links.overview), "")
    more = [f"and {rest:,} more"] if rest else []
    yield " · ".join([*more, dialect.link("All findings", overview) if overview else dialect.escape(NO_LINKS)])
