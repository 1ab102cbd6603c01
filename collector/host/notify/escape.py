"""Makes names that other people chose come out as text: hidden characters shown, markup and mentions inert.

Every string of a message goes through `visible` first, then through the one escape of the chat's dialect. Nothing here
guesses whether a name is hostile: a harmless `gemm_a*b` takes the same way.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

Escape = Callable[[str], str]

_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_DISCORD_SPECIAL = re.compile(r"([\\`*_~|>#\[\]()<:]|^[-+])")
_MATTERMOST_SPECIAL = re.compile(r"([\\`*_~|>#\[\]()!{}]|^[-+])")
_LARK_SPECIAL = re.compile(r"[!#$&*:<>@\[\\\]_`~|]|^[-+]")
_LOOKALIKES = str.maketrans({"*": "\u2217", "~": "\u223c", "`": "\u02cb", "<": "\uff1c", ">": "\uff1e", "|": "\uff5c"})
ZERO_WIDTH = "\u200b"
_SLACK_LOOKALIKES = str.maketrans({"*": "\u2217", "~": "\u223c", "`": "\u02cb"})
_EDGE_UNDERSCORE = re.compile(r"(?<![A-Za-z0-9_])_|_(?![A-Za-z0-9_])")


def visible(text: str) -> str:
    """The text on one line, each control, direction, zero-width or unassigned character written as its code point.

    A right-to-left override turned into `[U+202E]` can no longer reorder what stands after it, and a reader sees that
    it was there. White space of any kind becomes one space.
    """
    return re.sub(" {2,}", " ", "".join(_shown(character) for character in text)).strip(" ")


def _shown(character: str) -> str:
    if character in "\t\n\r\v\f" or character.isspace():
        return character if character in "\u00a0\u202f" else " "
    if unicodedata.category(character) in _HIDDEN_CATEGORIES:
        return f"[U+{ord(character):04X}]"
    return character


def slack(text: str) -> str:
    """Slack mrkdwn: `&`, `<`, `>` as entities (Slack: "Escaping text"); Slack knows no escape for its format marks.

    So `*`, `~` and the backtick are replaced by look-alikes, and `_` only where it could open or close italics: inside
    a word it formats nothing, and identifiers stay searchable.
    """
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _EDGE_UNDERSCORE.sub("\u02cd", text.translate(_SLACK_LOOKALIKES))


def slack_code(text: str) -> str:
    """Inside a Slack code block only entities and the closing backticks have a meaning."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("`", "\u02cb")


def discord(text: str) -> str:
    """Discord's Markdown: every mark behind a backslash; `@` is parted from its name, and `:` ends no scheme.

    The payload also allows no mention at all; this keeps the text from looking like one.
    """
    return _DISCORD_SPECIAL.sub(r"\\\1", text).replace("@", f"@{ZERO_WIDTH}")


def mattermost(text: str) -> str:
    """Mattermost's Markdown: marks behind a backslash; `@`, `<`, `:` and `/` lose their meaning to a zero-width space.

    HTML needs nothing: Mattermost shows it as text. Mentions, and Slack's `<!channel>` and `<address|words>` which its
    webhooks take too, are matched before Markdown, so a backslash does not help there.
    Hyphens within a text stay as they are everywhere: ids must be found by search.
    """
    text = _MATTERMOST_SPECIAL.sub(r"\\\1", text)
    text = text.replace("<", f"<{ZERO_WIDTH}")
    return text.replace("@", f"@{ZERO_WIDTH}").replace("://", f":{ZERO_WIDTH}//")


def lark(text: str) -> str:
    """Feishu and Lark: their card Markdown documents numeric entities for every character with a meaning."""
    return _LARK_SPECIAL.sub(lambda match: f"&#{ord(match[0])};", text)


def lookalike(text: str) -> str:
    """DingTalk and WeCom document no escape, so marks become look-alikes and links are parted.

    Brackets stay, since identifiers hold them: a link needs `](`, and that is parted by a zero-width space. A first
    character that would make a heading, quote or list is kept from the start of the line.
    """
    text = text.translate(_LOOKALIKES)
    text = _EDGE_UNDERSCORE.sub("\u02cd", text).replace("](", f"]{ZERO_WIDTH}(").replace("@", f"@{ZERO_WIDTH}")
    return f"{ZERO_WIDTH}{text}" if text[:1] in tuple("#>-+!0123456789") else text


def html(text: str) -> str:
    """Text for HTML and HTML-like card markup."""
    for mark, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;")):
        text = text.replace(mark, entity)
    return text


def plain(text: str) -> str:
    """Text for a field that is never parsed."""
    return text
