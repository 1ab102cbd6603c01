"""The addresses in a message: pages of the dashboard, and signed links that say one thing of the finding.

A page only shows. A signed link opens a page with a button, so fetching one (chats do) changes nothing. It is made when
the message is sent, never kept: a link is a right, and the lake holds none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote, urlencode

from collector.host.notify.message import Links, Message, MessageKind
from collector.host.notify.secrets import Secret
from detection.act_links import LINK_ACTS, ActLink
from detection.findings import TriageKind

LINK_DAYS = 14
"""How long a signed link holds, from the try that sends it."""
ACTED_ON = frozenset(
    {
        MessageKind.REGRESSED,
        MessageKind.IMPROVED,
        MessageKind.ESCALATED,
        MessageKind.REOPENED,
        MessageKind.HOST_SHIFTED,
        MessageKind.SILENT_DEVICE,
    }
)


def links_of(state: Mapping[str, Any], finding_id: str, base_url: str) -> Links:
    """The pages that show the finding, its series, both sides of the change and its first bad run."""
    if not base_url:
        return Links()
    base = base_url.rstrip("/")
    subject, unit, bad, good = (
        _text(state, column) for column in ("subject_id", "device_unit", "since_run_id", "last_good_run_id")
    )
    before, after = _text(state, "revision_good"), _text(state, "revision_bad")
    sides = {"by": "revision", "a": before, "b": after} if before and after and before != after else {}
    if not sides and good and bad:
        sides = {"by": "run", "a": good, "b": bad}
    return Links(
        finding=f"{base}/findings?{_query(finding=finding_id)}",
        series=f"{base}/series?{_query(subject=subject, run=bad)}" if subject else "",
        compare=f"{base}/compare?{_query(device=unit, of=_text(state, 'arm'), **sides)}" if sides else "",
        run=f"{base}/runs?{_query(run=bad)}" if bad else "",
        overview=f"{base}/",
    )


def with_acts(message: Message, base_url: str, secret: Secret | None, now: datetime) -> Message:
    """The message with links that acknowledge, snooze or expect its finding, where there is a secret to sign with."""
    if secret is None or not base_url or not message.finding_id or message.kind not in ACTED_ON:
        return message
    ends_at = (now + timedelta(days=LINK_DAYS)).replace(microsecond=0)
    made = {}
    for act in LINK_ACTS:
        link = ActLink(finding_id=message.finding_id, act=act, ends_at=ends_at)
        made[act] = f"{base_url.rstrip('/')}/findings?{_query(**link.parameters(secret.reveal()))}"
    links = replace(
        message.links,
        acknowledge=made[TriageKind.ACKNOWLEDGED],
        snooze=made[TriageKind.SNOOZED],
        expected=made[TriageKind.EXPECTED],
    )
    return replace(message, links=links)


def rights(message: Message) -> tuple[Secret, ...]:
    """What an answer that echoes the message must not carry into a table or a log: the signed parts of its links."""
    signed = (message.links.acknowledge, message.links.snooze, message.links.expected)
    return tuple(Secret(address.rpartition("seal=")[2]) for address in signed if address)


def _query(**pairs: str) -> str:
    return urlencode({key: value for key, value in pairs.items() if value}, quote_via=quote)


def _text(state: Mapping[str, Any], column: str) -> str:
    value = state.get(column)
    return value if isinstance(value, str) else ""
