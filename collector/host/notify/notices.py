"""Messages about what is no finding: a bundle that was set aside in quarantine."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from collector.host.notify.message import Links, Message, MessageKind, Severity
from store.lake.ingest import QuarantineReason
from store.lake.lake import Lake

REASON_ENDING = ".reason.json"
RECENT = timedelta(days=7)


def set_aside(lake: Lake, now: datetime, *, base_url: str = "") -> list[Message]:
    """A message for each bundle that came into the store's quarantine within the last week."""
    found = []
    for entry in lake.place.list("quarantine/"):
        if entry.path.endswith(REASON_ENDING) and now - entry.modified_at < RECENT:
            name = entry.path.removeprefix("quarantine/").removesuffix(REASON_ENDING)
            found.append((name, _reason(lake.place.read(entry.path) or b"")))
    return quarantine_messages(found, now, base_url=base_url)


def _reason(record: bytes) -> str:
    try:
        return msgspec.json.decode(record, type=QuarantineReason).reason
    except msgspec.MsgspecError:
        return "the reason beside it cannot be read"


def quarantine_messages(set_aside: Iterable[tuple[str, str]], now: datetime, *, base_url: str = "") -> list[Message]:
    """A message for each (bundle name, reason) that an ingest set aside."""
    return [
        Message(
            message_id=f"quarantine-{hashlib.sha256(name.encode()).hexdigest()[:16]}",
            finding_id="",
            kind=MessageKind.QUARANTINE,
            severity=Severity.MEDIUM,
            at=now,
            title=f"bundle {name}",
            sentence=f"Bundle {name} was set aside and is in no table: {reason}",
            links=Links(overview=f"{base_url}/" if base_url else ""),
        )
        for name, reason in set_aside
    ]
