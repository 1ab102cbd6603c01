"""HTML by construction: a plain `str` is a name and is escaped, only `Html` passes as it is.

Names come from suites, kernels, hosts and people; whatever they hold, they are shown as text.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Html(str):
    """Markup that this package built."""

    __slots__ = ()


def escape(value: object) -> Html:
    """`value` as text inside an element or a quoted attribute; Html unchanged."""
    return value if isinstance(value, Html) else Html(html.escape(str(value), quote=True))


def join(parts: Sequence[object], separator: object = "") -> Html:
    return Html(escape(separator).join(escape(part) for part in parts))


def element(tag: str, content: object = "", *, css: str = "", attributes: Mapping[str, str] | None = None) -> Html:
    """`<tag class=css ...>content</tag>`, everything but `tag` and the attribute names escaped."""
    given = {"class": css} if css else {}
    given |= attributes or {}
    written = "".join(f' {name}="{escape(value)}"' for name, value in given.items())
    return Html(f"<{tag}{written}>{escape(content)}</{tag}>")


def link(text: object, href: str) -> Html:
    """A link in the same tab; `href` is made by dashboard.address, or is an http(s) address that a person gave."""
    if href.partition(":")[0].lower() in ("javascript", "data", "vbscript"):
        return escape(text)
    return element("a", text, attributes={"href": href, "target": "_self"})


class Tone(StrEnum):
    """The judgement that a word, a chip or a number carries; PLAIN is none."""

    PLAIN = "plain"
    SLOWER = "slower"
    FASTER = "faster"
    UNSURE = "unsure"
    MUTED = "muted"
    OUTLINE = "outline"


def toned(text: object, tone: Tone) -> Html:
    return escape(text) if tone is Tone.PLAIN else element("span", text, css=f"ko-{tone.value}")


def chip(text: object, tone: Tone = Tone.PLAIN) -> Html:
    """A small box round a word: grey for a kind, coloured for a judgement, outlined for a state that asks nothing."""
    return element("span", text, css=f"ko-chip ko-chip-{tone.value}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of a sentence: its words, the judgement they carry, where they lead."""

    text: str
    tone: Tone = Tone.PLAIN
    href: str = ""


Sentence = tuple[Piece, ...]


def say(*parts: str | Piece) -> Sentence:
    """A sentence from words and marked pieces."""
    return tuple(Piece(text=part) if isinstance(part, str) else part for part in parts)


def plain(sentence: Sentence) -> str:
    """The words alone."""
    return "".join(piece.text for piece in sentence)


def sentence_html(sentence: Sentence) -> Html:
    return join([link(p.text, p.href) if p.href else toned(p.text, p.tone) for p in sentence])


def headline(sentence: Sentence, second: object = "", *, above: object = "") -> Html:
    """The page's first sentence and one muted line under it: what, how, when."""
    parts = [element("div", above, css="ko-above")] if above else []
    parts.append(element("h1", sentence_html(sentence), css="ko-h1"))
    if second:
        parts.append(element("p", second, css="ko-second"))
    return element("header", join(parts), css="ko-headline")


def heading(text: str, small: str = "") -> Html:
    inner = join([text, " ", element("small", small)]) if small else escape(text)
    return element("h2", inner, css="ko-h2")


def note(text: object) -> Html:
    """A muted paragraph."""
    return element("p", text, css="ko-note")


def empty(text: object, way_out: object = "") -> Html:
    """What stands where there is nothing to show: why, and what would bring it."""
    return element(
        "p", join([text, " ", element("span", way_out, css="ko-wayout")] if way_out else [text]), css="ko-empty"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One number of the first row: what it is, the number, its qualifier, one muted line."""

    label: str
    value: object
    qualifier: object = ""
    line: object = ""


def tiles(items: Sequence[Tile]) -> Html:
    blocks = [
        element(
            "div",
            join(
                [
                    element("div", tile.label, css="ko-tile-label"),
                    element(
                        "div",
                        join([element("b", tile.value), " ", element("span", tile.qualifier)]),
                        css="ko-tile-value",
                    ),
                    element("div", tile.line, css="ko-tile-line"),
                ]
            ),
            css="ko-tile",
        )
        for tile in items
    ]
    return element("div", join(blocks), css="ko-tiles")
