"""Confirm requests: what a node is asked to measure again, and what became of it. A request is the fold of its
events."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from collector.host.segments import WHOLE_RUN
from detection.findings import EventKind, FindingEvent
from detection.policy import Policy
from detection.price import request_priority
from store.lake.lake import Lake


class RequestEvent(StrEnum):
    """The life of a request."""

    OPEN = "open"
    TAKEN = "taken"
    DONE = "done"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmRequest:
    """One case to be measured again on one device unit."""

    request_id: str
    state: RequestEvent
    opened_at: datetime
    finding_id: str
    case_id: str
    arm: str
    suite: str
    host: str
    device_unit: str
    replicates: int
    priority: float
    run_id: str
    """The run that raised it."""
    reason: str


def request_row(
    event: FindingEvent, *, suite: str, device_kind: str, policy: Policy, attempt: int = 1
) -> dict[str, Any]:
    """The row that opens a request for the dearest member of a finding."""
    facts = event.facts
    name = "R-" + _digest(event.finding_id, event.run_id, str(attempt))[:8]
    top = facts.evidence.members[0] if facts.evidence.members else None
    weight = top.weight if top else None
    return {
        "event_id": _digest(name, RequestEvent.OPEN.value)[:16],
        "request_id": name,
        "event": RequestEvent.OPEN.value,
        "at": event.at,
        "finding_id": event.finding_id,
        "case_id": facts.case_id,
        "arm": top.arm if top else facts.arm,
        "suite": suite,
        "host": facts.host,
        "device_unit": facts.device_unit,
        "replicates": policy.confirm_replicates(device_kind),
        "priority": request_priority(weight, facts.change, facts.change_low, facts.change_high),
        "run_id": event.run_id,
        "reason": facts.sentence,
    }


def requests_for(
    events: Sequence[FindingEvent], *, suite: str, device_kind: str, policy: Policy
) -> list[dict[str, Any]]:
    """The rows that open requests for what a night suspects, dearest doubt first, up to the night's budget."""
    asked = [
        event
        for event in events
        if event.event in (EventKind.SUSPECTED, EventKind.REOPENED) and not event.facts.group.endswith(WHOLE_RUN)
    ]
    asked.sort(key=_priority, reverse=True)
    budget = policy.confirm.requests_a_night
    return [request_row(event, suite=suite, device_kind=device_kind, policy=policy) for event in asked[:budget]]


def _priority(event: FindingEvent) -> float:
    facts = event.facts
    weights = {member.case_id: member.weight or 0.0 for member in facts.evidence.members}
    return request_priority(sum(weights.values()) or None, facts.change, facts.change_low, facts.change_high)


def read_requests(lake: Lake) -> list[ConfirmRequest]:
    """All requests in their present state, the most urgent first."""
    rows = lake.sql('SELECT * FROM requests ORDER BY "at", event_id').to_pylist()
    opened = {row["request_id"]: row for row in rows if row["event"] == RequestEvent.OPEN}
    state = dict.fromkeys(opened, RequestEvent.OPEN)
    for row in rows:
        event = row["event"]
        if row["request_id"] in state and event != RequestEvent.OPEN and state[row["request_id"]] != RequestEvent.DONE:
            state[row["request_id"]] = RequestEvent(event)
    requests = [_request(row, state[name]) for name, row in opened.items()]
    return sorted(requests, key=lambda r: (-r.priority, r.opened_at, r.request_id))


def _request(row: Mapping[str, Any], state: RequestEvent) -> ConfirmRequest:
    return ConfirmRequest(
        request_id=row["request_id"],
        state=state,
        opened_at=row["at"],
        finding_id=row["finding_id"],
        case_id=row["case_id"],
        arm=row["arm"] or "",
        suite=row["suite"] or "",
        host=row["host"] or "",
        device_unit=row["device_unit"] or "",
        replicates=row["replicates"] or 0,
        priority=row["priority"] or 0.0,
        run_id=row["run_id"] or "",
        reason=row["reason"] or "",
    )


def open_requests(lake: Lake, *, device_unit: str, now: datetime, policy: Policy) -> list[ConfirmRequest]:
    """The requests that a device unit can take now, the most urgent first; those that are too old are left out."""
    oldest = now - timedelta(hours=policy.confirm.expires_h)
    return [
        r
        for r in read_requests(lake)
        if r.state is RequestEvent.OPEN and r.device_unit == device_unit and r.opened_at >= oldest
    ]


def take_request(lake: Lake, request: ConfirmRequest, *, actor: str, now: datetime) -> bool:
    """Marks a request as being measured; False where another node was faster."""
    row = _follow_up(request, RequestEvent.TAKEN, now=now, run_id="", reason=f"taken by {actor}")
    return lake.append("requests", [row], key=f"request-{request.request_id}-taken")


def done_row(request: ConfirmRequest, *, run_id: str, now: datetime, reason: str) -> dict[str, Any]:
    """The row that ends a request with its confirm run."""
    return _follow_up(request, RequestEvent.DONE, now=now, run_id=run_id, reason=reason)


def expire_requests(lake: Lake, *, now: datetime, policy: Policy) -> int:
    """Ends the requests that nobody took, or finished, in time; how many they were."""
    oldest = now - timedelta(hours=policy.confirm.expires_h)
    live = (RequestEvent.OPEN, RequestEvent.TAKEN)
    stale = [r for r in read_requests(lake) if r.state in live and r.opened_at < oldest]
    reason = f"not measured within {policy.confirm.expires_h:g} h"
    rows = [_follow_up(r, RequestEvent.EXPIRED, now=now, run_id="", reason=reason) for r in stale]
    append_requests(lake, rows)
    return len(rows)


def append_requests(lake: Lake, rows: Sequence[Mapping[str, Any]]) -> None:
    """Appends request events; the same events twice are appended once."""
    if rows:
        key = "requests-" + _digest(*sorted(str(row["event_id"]) for row in rows))[:32]
        lake.append("requests", [dict(row) for row in rows], key=key)


def _follow_up(
    request: ConfirmRequest, event: RequestEvent, *, now: datetime, run_id: str, reason: str
) -> dict[str, Any]:
    return {
        "event_id": _digest(request.request_id, event.value, run_id)[:16],
        "request_id": request.request_id,
        "event": event.value,
        "at": now,
        "finding_id": request.finding_id,
        "case_id": request.case_id,
        "arm": request.arm,
        "suite": request.suite,
        "host": request.host,
        "device_unit": request.device_unit,
        "replicates": request.replicates,
        "priority": request.priority,
        "run_id": run_id,
        "reason": reason,
    }


def _digest(*parts: str) -> str:
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()
