"""What each chat documents about a message, as checks of a payload; written from the documents, not from our renderers.

`violations(service, payload, own)` names every rule that a payload breaks; `own` is how the addresses begin that we may
link to. Sources, as read in November 2026:

    slack        docs.slack.dev/reference/block-kit/blocks (header, section, context),
                 docs.slack.dev/messaging/formatting-message-text
    discord      discord.com/developers/docs/resources/message (embed limits, allowed mentions), .../resources/webhook
    teams        learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/add-incoming-webhook,
                 adaptivecards.io/explorer (RichTextBlock, TextRun, Action.OpenUrl)
    mattermost   developers.mattermost.com/integrate/reference/message-attachments; 16,383 characters a post since 5.0
    google_chat  developers.google.com/workspace/chat/api/reference/rest/v1/cards, .../workspace/chat/format-messages
    feishu, lark open.feishu.cn/document (custom bots; card Markdown: special characters as entities)
    dingtalk     open.dingtalk.com/document/robots/custom-robot-access
    wecom        developer.work.weixin.qq.com/document/path/91770
    json         docs/alerts.md of this repository
    apprise      each plugin's own body_maxlen, applied at delivery
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

HIDDEN = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200c-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Control, direction and zero-width characters; U+200B is our own, a line feed the services'."""


class Checks:
    """Collects the rules that a payload breaks."""

    def __init__(self, own: str) -> None:
        self.own = own
        self.broken: list[str] = []

    def must(self, holds: object, rule: str) -> None:
        if not holds:
            self.broken.append(rule)

    def within(self, what: str, value: int, most: int, least: int = 1) -> None:
        self.must(least <= value <= most, f"{what} is {value:,}, must be {least:,} to {most:,}")

    def text(self, what: str, value: object, most: int) -> str:
        """A text of 1 to `most` UTF-16 units."""
        self.must(isinstance(value, str), f"{what} is no text")
        self.within(f"length of {what}", units(str(value)), most)
        return str(value)

    def address(self, url: object) -> None:
        fits = isinstance(url, str) and url.startswith(self.own) and not re.search(r"[\s<>\"\\|]", url)
        self.must(fits, f"links to {url!r}")


def violations(service: str, payload: Any, own: str) -> list[str]:
    """Every documented rule of the service that the payload breaks."""
    checks = Checks(own)
    for text in strings(payload):
        hidden = None if service == "json" else HIDDEN.search(text)
        checks.must(hidden is None, f"a hidden character in {text[:60]!r}")
    RULES[service](payload, checks)
    return checks.broken


def strings(value: object) -> Iterator[str]:
    """Every string value of a payload."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


def units(text: str) -> int:
    """Length as programs count it that keep text as UTF-16."""
    return len(text.encode("utf-16-le")) // 2


def size(payload: object) -> int:
    """Bytes of the request."""
    return len(json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode())


def slack(payload: Any, checks: Checks) -> None:
    """50 blocks; header 150, section 3,000, ten fields of 2,000, ten context elements; only `<own address|words>`."""
    checks.text("text", payload.get("text"), 40_000)
    checks.must(set(payload) <= {"text", "blocks"}, "keys beside text and blocks")
    blocks = payload.get("blocks", [])
    checks.within("blocks", len(blocks), 50)
    for block in blocks:
        match block["type"]:
            case "header":
                checks.must(block["text"]["type"] == "plain_text", "a header is not plain text")
                checks.text("header", block["text"]["text"], 150)
            case "section":
                texts = block["fields"] if "fields" in block else [block["text"]]
                checks.within("fields", len(texts), 10)
                for text in texts:
                    _mrkdwn(text, checks, 2000 if "fields" in block else 3000)
            case "context":
                checks.within("context elements", len(block["elements"]), 10)
                for text in block["elements"]:
                    _mrkdwn(text, checks, 3000)
            case kind:
                checks.must(holds=False, rule=f"a block of type {kind}")


def _mrkdwn(text: Any, checks: Checks, most: int) -> None:
    checks.must(text["type"] == "mrkdwn" and text.get("verbatim") is True, "text that Slack would link by itself")
    said = checks.text("text of a block", text["text"], most)
    for found in re.findall(r"<[^>]*>?", said):
        address, bar, _ = found[1:-1].partition("|")
        checks.must(bar and found.endswith(">"), f"an unescaped bracket: {found[:60]}")
        checks.address(address.replace("&amp;", "&"))
    checks.must(re.fullmatch(r"(?:[^&]|&(?:amp|lt|gt);)*", said), "an & that is no entity, or an entity that was cut")


def discord(payload: Any, checks: Checks) -> None:
    """Ten embeds, 6,000 characters over all; title 256, description 4,096, 25 fields of 256 and 1,024, footer 2,048."""
    checks.must(payload.get("allowed_mentions") == {"parse": []}, "mentions are not switched off")
    checks.within("length of content", units(payload.get("content", "")), 2000, 0)
    embeds = payload.get("embeds", [])
    checks.within("embeds", len(embeds), 10)
    total = 0
    for embed in embeds:
        checks.within("colour", embed.get("color", 0), 0xFFFFFF, 0)
        said = [checks.text("title", embed["title"], 256), checks.text("description", embed["description"], 4096)]
        fields = embed.get("fields", [])
        checks.within("fields", len(fields), 25, 0)
        names = [checks.text("name of a field", field["name"], 256) for field in fields]
        said += [checks.text("value of a field", field["value"], 1024) for field in fields]
        footer = embed.get("footer", {}).get("text", "")
        checks.within("length of footer", units(footer), 2048, 0)
        if "url" in embed:
            checks.address(embed["url"])
        total += sum(units(text) for text in (*said, *names, footer))
        for text in said:
            _markdown(text, checks, link=r"\]\(<([^<>()]*)>\)")
    checks.within("characters of all embeds", total, 6000)


def _markdown(text: str, checks: Checks, *, link: str) -> None:
    """Markdown with backslash escapes: our links and fences, and nothing else that is alive."""
    text = re.sub(r"(?s)```\n[^`]*?\n```", "", text)
    text = re.sub(r"\\.", "", text)
    for address in re.findall(link, text):
        checks.address(address)
    rest = re.sub(link, "", text)
    checks.must("](" not in rest, f"a link of somebody else: {rest[:80]!r}")
    checks.must(not re.search(r"@(?!\u200b)", rest), f"a mention: {rest[:80]!r}")
    checks.must(not re.search(r"[`~|]|<(?!\u200b)", rest), f"live markup: {rest[:80]!r}")
    checks.must(not re.search(r"(?m)^\s*[#>]", rest), f"a heading or a quote: {rest[:80]!r}")


def mattermost(payload: Any, checks: Checks) -> None:
    """16,383 characters; an attachment needs a fallback; fields have title, value and short."""
    checks.within("characters", units(json.dumps(payload, ensure_ascii=False)), 16_383)
    for attachment in payload["attachments"]:
        checks.text("fallback", attachment["fallback"], 16_383)
        checks.must(re.fullmatch(r"#[0-9A-Fa-f]{6}", attachment["color"]), "a colour that is none")
        if "title_link" in attachment:
            checks.address(attachment["title_link"])
        fields = attachment.get("fields", [])
        checks.must(all(set(field) == {"title", "value", "short"} for field in fields), "a field with other keys")
        for text in (attachment["title"], attachment["text"], *(field["value"] for field in fields)):
            _markdown(text, checks, link=r"\]\(([^()<>]*)\)")


def teams(payload: Any, checks: Checks) -> None:
    """28 KB a message, with which others were refused from 21 KB on; Adaptive Card 1.4; six primary actions."""
    checks.within("bytes", size(payload), 21_000)
    checks.must(payload["type"] == "message" and len(payload["attachments"]) == 1, "not one card in a message")
    (attachment,) = payload["attachments"]
    card = attachment["content"]
    checks.must(attachment["contentType"] == "application/vnd.microsoft.card.adaptive", "not an adaptive card")
    checks.must(card["type"] == "AdaptiveCard" and card["version"] in ("1.0", "1.2", "1.3", "1.4"), "card version")
    checks.must("entities" not in card.get("msteams", {}), "mentions")
    checks.within("elements", len(card["body"]), 1000, 2)
    runs = [run for block in card["body"] for run in block["inlines"]]
    checks.must(all(block["type"] == "RichTextBlock" for block in card["body"]), "text that is read as Markdown")
    checks.must(all(run["type"] == "TextRun" and run["text"] for run in runs), "an empty run")
    checks.within("actions", len(card.get("actions", [])), 6, 0)
    for action in [*card.get("actions", []), *(run["selectAction"] for run in runs if "selectAction" in run)]:
        checks.must(action["type"] == "Action.OpenUrl", f"an action {action['type']}")
        checks.address(action["url"])


CHAT_TAGS = ("<b>", "</b>", "<i>", "</i>", "<u>", "</u>", "<s>", "</s>", "<br>", "</a>")


def google_chat(payload: Any, checks: Checks) -> None:
    """32,000 bytes, 100 widgets a card, a header with a title; of HTML only what card text documents."""
    checks.within("bytes", size(payload), 32_000)
    checks.must("<" not in checks.text("fallbackText", payload["fallbackText"], 4096), "a tag in the fallback")
    for card in payload["cardsV2"]:
        checks.text("cardId", card["cardId"], 63)
        checks.must("<" not in checks.text("title", card["card"]["header"]["title"], 300), "a tag in the title")
        widgets = [widget for section in card["card"]["sections"] for widget in section["widgets"]]
        checks.within("widgets", len(widgets), 100)
        for widget in widgets:
            (kind,) = widget
            checks.must(kind in ("textParagraph", "decoratedText", "buttonList"), f"a widget {kind}")
            for button in widget[kind].get("buttons", []):
                checks.text("text of a button", button["text"], 100)
                checks.address(button["onClick"]["openLink"]["url"])
            if kind != "buttonList":
                _card_text(checks.text("text of a widget", widget[kind]["text"], 20_000), checks)


def _card_text(text: str, checks: Checks) -> None:
    for tag in re.findall(r"<[^>]*>?", text):
        link = re.fullmatch(r'<a href="([^"<>]*)">', tag)
        checks.must(link or tag in CHAT_TAGS, f"a tag {tag[:60]}")
        if link:
            checks.address(link[1].replace("&amp;", "&"))
    checks.must(re.fullmatch(r"(?:[^&]|&(?:amp|lt|gt|quot|#39);)*", text), "an & that is no entity")


LARK_COLOURS = ("blue", "wathet", "turquoise", "green", "yellow", "orange", "red", "carmine", "violet", "grey")


def feishu(payload: Any, checks: Checks) -> None:
    """20 KB with the signature; a plain header; in card Markdown every special character of a name is an entity."""
    checks.within("bytes", size(payload), 20_000 - 120)
    card = payload["card"]
    checks.must(payload["msg_type"] == "interactive", "not a card")
    checks.must(card["header"]["template"] in LARK_COLOURS, "a header colour that is none")
    checks.must(card["header"]["title"]["tag"] == "plain_text", "a header with markup")
    checks.text("header", card["header"]["title"]["content"], 1000)
    for element in card["elements"]:
        checks.must(element["tag"] == "markdown", f"an element {element['tag']}")
        text = checks.text("content", element["content"], 20_000)
        checks.must("<" not in text and "@" not in text, "a tag or a mention")
        for address in re.findall(r"\]\(([^)]*)\)", text):
            checks.address(address)


def dingtalk(payload: Any, checks: Checks) -> None:
    """20,000 bytes; a title for the list of chats and a text; nobody is called."""
    checks.within("bytes", size(payload), 20_000)
    checks.must(payload["msgtype"] == "markdown" and payload["at"] == {"isAtAll": False}, "not Markdown, or a mention")
    checks.text("title", payload["markdown"]["title"], 500)
    _lookalikes(checks.text("text", payload["markdown"]["text"], 20_000), checks)


def wecom(payload: Any, checks: Checks) -> None:
    """4,096 bytes of UTF-8; `<@id>` calls somebody, so no bracket."""
    content = payload["markdown"]["content"]
    checks.must(payload["msgtype"] == "markdown", "not Markdown")
    checks.within("bytes of content", len(content.encode()), 4096)
    _lookalikes(content, checks)


def _lookalikes(text: str, checks: Checks) -> None:
    """No tag, no mention, no link but our own, and no heading but the first line: these two document no escape."""
    checks.must("<" not in text and not re.search(r"@(?!\u200b)", text), "a tag or a mention")
    for address in re.findall(r"\]\(([^)]*)", text):
        checks.address(address)
    checks.must(not re.search(r"(?m)^[#>]", text.partition("\n")[2]), "a heading or a quote")


SCHEMA_KEYS = {"schema", "summary", "messages", "more"}
RECORD_KEYS = {"message_id", "finding_id", "kind", "severity", "at", "title", "sentence", "headline", "links"}


def generic(payload: Any, checks: Checks) -> None:
    """The schema of docs/alerts.md; text is raw there, and says so."""
    checks.must(set(payload) == SCHEMA_KEYS, f"keys {sorted(payload)}")
    checks.must(payload["schema"] == "kernel-observatory/alert/1" and payload["messages"], "schema or no message")
    for record in payload["messages"]:
        checks.must(set(record) >= RECORD_KEYS, f"missing {sorted(RECORD_KEYS - set(record))}")
        checks.must(record["headline"] and record["message_id"] and record["kind"], "an empty headline, id or kind")
        for address in filter(None, record["links"].values()):
            checks.address(address)
    checks.within("bytes", size(payload), 1_000_000)


def apprise(payload: Any, checks: Checks) -> None:
    """Something to say; the plugin's limit is applied when it is known."""
    checks.text("title", payload["title"], 250)
    checks.text("body", payload["body"], 32_768)


RULES: dict[str, Callable[[Any, Checks], None]] = {
    "slack": slack,
    "discord": discord,
    "teams": teams,
    "mattermost": mattermost,
    "google_chat": google_chat,
    "feishu": feishu,
    "lark": feishu,
    "dingtalk": dingtalk,
    "wecom": wecom,
    "json": generic,
    "apprise": apprise,
}
