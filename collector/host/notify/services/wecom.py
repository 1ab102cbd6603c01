"""WeCom group robot: Markdown.

Limits (developer.work.weixin.qq.com/document/path/91770): Markdown content 4,096 bytes of UTF-8, text 2,048; 20
messages a minute. Errors come inside HTTP 200 as `errcode`. `<@userid>` and `<font>` are its markup: `<` is replaced.
"""

from __future__ import annotations

from collections.abc import Sequence

from collector.host.notify.clip import fit, utf8_bytes
from collector.host.notify.document import Detail, Dialect, body, first_that_fits, title
from collector.host.notify.escape import lookalike as escape
from collector.host.notify.escape import visible
from collector.host.notify.message import Message
from collector.host.notify.services.service import Answer, JsonObject, Service, errcode_refusal, json_request
from collector.host.notify.wording import gravest_first, plain_lines

MARKDOWN_BYTES, TEXT_BYTES = 4096, 2048
BATCH = 5
_PASSING = frozenset({-1, 45009, 45033})

DIALECT = Dialect(
    escape=escape,
    bold=lambda text: f"**{text}**",
    link=lambda words, address: f"[{words}]({address.replace(')', '%29')})",
    code=lambda command: f"`{visible(command).translate({ord('`'): 'ˋ', ord('<'): '＜', ord('>'): '＞'})}`",
)


def render(messages: Sequence[Message]) -> JsonObject:
    """Markdown under a heading."""
    content = first_that_fits(lambda detail: _content(messages, detail), utf8_bytes, MARKDOWN_BYTES)
    return {"msgtype": "markdown", "markdown": {"content": content}}


def _content(messages: Sequence[Message], detail: Detail) -> str:
    ordered = gravest_first(messages)
    return f"### {title(ordered, min(detail.text, 200), escape)}\n{body(ordered, DIALECT, detail, batch=BATCH)}"


def plain_form(messages: Sequence[Message]) -> JsonObject:
    """Text; it mentions nobody, since no list of names is given."""
    content = fit("\n".join(plain_lines(messages, escape)), TEXT_BYTES, escape, utf8_bytes)
    return {"msgtype": "text", "text": {"content": content}}


def passing(answer: Answer) -> bool:
    """Busy, or too many messages."""
    return answer.object().get("errcode") in _PASSING


SERVICE = Service(
    name="wecom",
    title="WeCom",
    render=render,
    plain=plain_form,
    sign=json_request,
    refusal=errcode_refusal,
    passing=passing,
    batch=BATCH,
    pause_s=3.1,
)
