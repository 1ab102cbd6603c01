"""Draws the golden payloads of the chats as their public layout rules say, into docs/images/alerts.

    python docs/message_pictures.py            # needs Chromium and Playwright

Two pictures a service: a regression, and below it in the other one its recovery, five groups at once, a digest and
hostile names, each cut where it is long. We draw them ourselves, from the files that the tests hold
(tests/collector/golden/notify): what is bold, a link, a button or a column follows the service's documents; colours and
spacing are near to its own, not its own.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
GOLDEN = ROOT / "tests" / "collector" / "golden" / "notify"
IMAGES = Path(__file__).with_name("images") / "alerts"
PICTURES = {"": ("one_regression",), "_more": ("recovery", "200_in_5_groups", "digest", "hostile_names")}
TALLEST_PX = 330
"""Of a message among others; what is longer fades out."""
WIDTH = 620
MOST_BYTES = 60_000
Draw = Callable[[Any], str]

STYLE = """
body { margin: 0; padding: 14px; width: 592px; color: #1d1c1d; font: 14px/1.42 "Noto Sans", "DejaVu Sans", sans-serif; }
.message { margin: 0 0 18px; overflow-wrap: anywhere; overflow: hidden; }
.message p { margin: 2px 0; }
h3 { font-size: 16px; margin: 2px 0 6px; }
.from { font-weight: 700; margin-bottom: 3px; font-size: 13px; }
.from small { font-weight: 400; opacity: .65; }
a { color: #1264a3; text-decoration: none; }
code, pre { font: 12px/1.4 "DejaVu Sans Mono", monospace; white-space: pre-wrap; }
pre { margin: 4px 0; padding: 6px 8px; background: #0000000d; border: 1px solid #0002; border-radius: 4px; }
.grid { display: grid; grid-template-columns: 1fr 1fr; gap: 4px 16px; margin: 6px 0; }
.wide { grid-column: 1 / -1; }
.bar { border-left: 4px solid; padding: 4px 12px; border-radius: 4px; }
.small { font-size: 12px; opacity: .7; }
.card { border: 1px solid #0003; border-radius: 8px; padding: 12px 14px; background: #fff; }
.button { display: inline-block; border: 1px solid #0004; border-radius: 4px; padding: 3px 10px; margin: 4px 6px 0 0; }
.label { font-size: 12px; opacity: .7; margin-top: 6px; }
body.discord { background: #313338; color: #dbdee1; }
.discord a { color: #00a8fc; }
.discord .bar { background: #2b2d31; }
.discord .grid { grid-template-columns: 1fr 1fr 1fr; }
.discord pre { background: #1e1f22; border-color: #0000; }
body.teams, body.feishu, body.lark, body.dingtalk, body.wecom { background: #f3f3f3; }
.head { margin: -12px -14px 8px; padding: 8px 14px; border-radius: 8px 8px 0 0; font-weight: 700; }
.orange { background: #ffe5c9; }
.grey { background: #e3e5e8; }
"""


def slack(payload: Any) -> str:
    """Header, sections with fields in two columns, context; mrkdwn knows *bold*, <address|words> and ```code```."""
    parts = []
    for block in payload["blocks"]:
        if block["type"] == "header":
            parts.append(f"<h3>{mrkdwn(block['text']['text'])}</h3>")
        elif "fields" in block:
            cells = "".join(f"<div>{mrkdwn(field['text'])}</div>" for field in block["fields"])
            parts.append(f'<div class="grid">{cells}</div>')
        elif block["type"] == "section":
            parts.append(f"<p>{mrkdwn(block['text']['text'])}</p>")
        else:
            parts += [f'<p class="small">{mrkdwn(element["text"])}</p>' for element in block["elements"]]
    return "".join(parts)


def mrkdwn(text: str) -> str:
    """Slack's entities are those of HTML; what stands between brackets is a link."""
    linked = re.sub(r"<([^|>]*)\|([^>]*)>", r'<a href="\1">\2</a>', text)
    coded = re.sub(r"(?s)```(.*?)```", r"<pre>\1</pre>", linked)
    return re.sub(r"(?m)\*([^*\n]+)\*", r"<b>\1</b>", coded).replace("\n", "<br>")


def markdown(text: str, *, entities: bool = False) -> str:
    """The part of Markdown that these chats share: headings, bold, links, lists, code; a backslash escapes."""
    kept: list[str] = []

    def keep(made: str) -> str:
        kept.append(made)
        return f"\x00{len(kept) - 1}\x00"

    text = re.sub(r"(?s)```\n(.*?)\n```", lambda m: keep(f"<pre>{html.escape(m[1])}</pre>"), text)
    text = re.sub(r"\\(.)", lambda m: keep(html.escape(m[1])), text)
    text = re.sub(r"`([^`\n]+)`", lambda m: keep(f"<code>{html.escape(m[1])}</code>"), text)
    text = re.sub(
        r"\[([^\]]*)\]\(<?(https?://[^)>]*)>?\)",
        lambda m: keep(f'<a href="{html.escape(m[2])}">{html.escape(m[1])}</a>'),
        text,
    )
    text = text if entities else html.escape(text)
    text = re.sub(r"\*\*([^*\n]+)\*\*", r"<b>\1</b>", text)
    text = re.sub(r"(?m)^#{1,6} (.*)$", r"<h3>\1</h3>", text)
    text = re.sub(r"(?m)^- (.*)$", r"• \1", text)
    text = (
        re.sub(r"\n{2,}", "\n", text)
        .replace("\n", "<br>")
        .replace("</h3><br>", "</h3>")
        .replace("</pre><br>", "</pre>")
    )
    while "\x00" in text:
        text = re.sub(r"\x00(\d+)\x00", lambda m: kept[int(m[1])], text)
    return text


def cell(label: str, value: str, *, wide: bool) -> str:
    return f'<div class="{"wide" if wide else ""}"><b>{label}</b><br>{value}</div>'


def discord(payload: Any) -> str:
    """An embed: coloured bar, linked title, description, up to three inline fields in a row, footer."""
    (embed,) = payload["embeds"]
    fields = "".join(
        cell(markdown(field["name"]), markdown(field["value"]), wide=not field.get("inline"))
        for field in embed.get("fields", [])
    )
    title = f"<h3>{markdown(embed['title'])}</h3>"
    title = f'<a href="{embed["url"]}">{title}</a>' if "url" in embed else title
    footer = html.escape(embed.get("footer", {}).get("text", ""))
    return (
        f'<div class="bar" style="border-color:#{embed["color"]:06x}">{title}<p>{markdown(embed["description"])}</p>'
        f'<div class="grid">{fields}</div><p class="small">{footer}</p></div>'
    )


def mattermost(payload: Any) -> str:
    """A message attachment: coloured bar, linked title, text, short fields in two columns, footer."""
    (attachment,) = payload["attachments"]
    fields = "".join(
        cell(html.escape(field["title"]), markdown(field["value"]), wide=not field["short"])
        for field in attachment.get("fields", [])
    )
    title = f"<h3>{markdown(attachment['title'])}</h3>"
    title = f'<a href="{attachment["title_link"]}">{title}</a>' if "title_link" in attachment else title
    return (
        f'<div class="bar" style="border-color:{attachment["color"]}">{title}{markdown(attachment["text"])}'
        f'<div class="grid">{fields}</div><p class="small">{html.escape(attachment.get("footer", ""))}</p></div>'
    )


def teams(payload: Any) -> str:
    """An Adaptive Card: rich text blocks one under the other, then its actions as buttons."""
    card = payload["attachments"][0]["content"]
    blocks = "".join(f"<p>{''.join(text_run(run) for run in block['inlines'])}</p>" for block in card["body"])
    buttons = "".join(f'<span class="button">{html.escape(a["title"])}</span>' for a in card.get("actions", []))
    return f'<div class="card">{blocks}{buttons}</div>'


def text_run(run: Any) -> str:
    size = "font-size:17px;" if run.get("size") == "Medium" else ""
    weight = "font-weight:700;" if run.get("weight") == "Bolder" else ""
    tone = "opacity:.65;" if run.get("isSubtle") else ""
    face = "font-family:'DejaVu Sans Mono';font-size:12px;" if run.get("fontType") == "Monospace" else ""
    text = html.escape(run["text"])
    text = f"<a>{text}</a>" if "selectAction" in run else text
    return f'<span style="{size}{weight}{tone}{face}">{text}</span>'


def google_chat(payload: Any) -> str:
    """A card: header, then widgets; text has a little HTML, decorated text a label above it."""
    card = payload["cardsV2"][0]["card"]
    header = card["header"]
    parts = [f"<h3>{html.escape(header['title'])}</h3><p class='small'>{html.escape(header['subtitle'])}</p><hr>"]
    for widget in (widget for section in card["sections"] for widget in section["widgets"]):
        ((kind, body),) = widget.items()
        if kind == "buttonList":
            parts += [f'<span class="button">{html.escape(b["text"])}</span>' for b in body["buttons"]]
        elif kind == "decoratedText":
            parts.append(f'<div class="label">{html.escape(body["topLabel"])}</div>{body["text"]}')
        else:
            parts.append(f"<p>{body['text']}</p>")
    return f'<div class="card">{"".join(parts)}</div>'


def feishu(payload: Any) -> str:
    """A card with a coloured header in plain text and Markdown whose entities stand for themselves."""
    card = payload["card"]
    head = html.escape(card["header"]["title"]["content"])
    body = "".join(markdown(element["content"], entities=True) for element in card["elements"])
    return f'<div class="card"><div class="head {card["header"]["template"]}">{head}</div>{body}</div>'


def dingtalk(payload: Any) -> str:
    return f'<div class="card">{markdown(payload["markdown"]["text"])}</div>'


def wecom(payload: Any) -> str:
    return f'<div class="card">{markdown(payload["markdown"]["content"])}</div>'


DRAW: dict[str, Draw] = {
    "slack": slack,
    "discord": discord,
    "teams": teams,
    "mattermost": mattermost,
    "google_chat": google_chat,
    "feishu": feishu,
    "dingtalk": dingtalk,
    "wecom": wecom,
}


def page(service: str, situations: Sequence[str]) -> str:
    """The messages of a service, one under the other."""
    messages = []
    limit = f' style="max-height:{TALLEST_PX}px"' if len(situations) > 1 else ""
    for situation in situations:
        payload = json.loads((GOLDEN / service / f"{situation}.json").read_text(encoding="utf-8"))
        messages.append(
            f'<div class="message"{limit}><div class="from">Kernel Observatory <small>app · 03:42</small></div>'
            f"{DRAW[service](payload)}</div>"
        )
    return f'<meta charset="utf-8"><style>{STYLE}</style><body class="{service}">{"".join(messages)}</body>'


def smallest(picture: bytes) -> bytes:
    """The same picture in as many colours as fit the limit."""
    from PIL import Image

    image = Image.open(BytesIO(picture)).convert("RGB")
    for colours in (32, 16, 8, 4):
        made = BytesIO()
        image.quantize(colours).save(made, "PNG", optimize=True)
        if made.tell() <= MOST_BYTES:
            break
    return made.getvalue()


def main() -> None:
    from playwright.sync_api import sync_playwright

    IMAGES.mkdir(parents=True, exist_ok=True)
    chosen = sys.argv[1:] or list(DRAW)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": WIDTH, "height": 400})
        for service in chosen:
            for ending, situations in PICTURES.items():
                tab.set_content(page(service, situations))
                picture = smallest(tab.screenshot(full_page=True))
                (IMAGES / f"{service}{ending}.png").write_bytes(picture)
                sys.stdout.write(f"{service}{ending}: {len(picture):,} bytes\n")
        browser.close()


if __name__ == "__main__":
    main()
