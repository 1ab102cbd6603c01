"""Builds the message of a finding event from the finding's state: pure, the same rows give the same message."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from collector.host.notify.links import links_of
from collector.host.notify.message import Difference, Message, MessageKind, Mover, Severity
from collector.host.notify.wording import change_text

Row = Mapping[str, Any]
"""One row of a lake table, column -> value; the columns are those of `store.lake.tables`."""

MEMBERS_KEPT = 50
"""Series named in one message record; the number of all of them stands beside."""

HIGH_PRICE, MEDIUM_PRICE = 0.01, 0.001
HIGH_CHANGE, MEDIUM_CHANGE = 0.20, 0.05

_KIND_OF_EVENT = {
    "confirmed": MessageKind.REGRESSED,
    "reopened": MessageKind.REOPENED,
    "resolved": MessageKind.RECOVERED,
    "refuted": MessageKind.REFUTED,
    "moved": MessageKind.ESCALATED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingEvent:
    """An event of the `findings` table, as far as a message needs it."""

    event_id: str
    finding_id: str
    event: str
    at: datetime
    run_id: str = ""
    payload: str = ""


def kind_of(event: str, state: Row) -> MessageKind | None:
    """The kind of message for a finding's event, or None where the event is not told (suspected)."""
    kind = _KIND_OF_EVENT.get(event)
    if kind is MessageKind.REGRESSED:
        if _text(state, "metric") == "silence":
            return MessageKind.SILENT_DEVICE
        if _text(state, "finding_class") == "host":
            return MessageKind.HOST_SHIFTED
        return MessageKind.IMPROVED if _whole(state, "direction") < 0 else MessageKind.REGRESSED
    return kind


def severity_of(kind: MessageKind, metric: str, change: float | None, price: float | None) -> Severity:
    """How grave: by price where a weight is known, else by the size of the change; good news is low.

    High from 1 % of production time (or a change of 20 %), medium from 0.1 % (or 5 %). A result that became less exact
    or a case that fails is high; a shifted host or a silent device is at least medium.
    """
    if kind in (MessageKind.RECOVERED, MessageKind.IMPROVED, MessageKind.REFUTED, MessageKind.DIGEST, MessageKind.TEST):
        return Severity.LOW
    if metric in ("error", "status"):
        return Severity.HIGH
    if price is not None:
        level = _level(abs(price), MEDIUM_PRICE, HIGH_PRICE)
    else:
        level = _level(abs(change or 0.0), MEDIUM_CHANGE, HIGH_CHANGE)
    floor = kind in (MessageKind.HOST_SHIFTED, MessageKind.SILENT_DEVICE, MessageKind.QUARANTINE)
    return Severity.MEDIUM if floor and level is Severity.LOW else level


def _level(value: float, medium: float, high: float) -> Severity:
    if value >= high:
        return Severity.HIGH
    return Severity.MEDIUM if value >= medium else Severity.LOW


def finding_message(
    state: Row, event: FindingEvent, *, base_url: str = "", labels: Mapping[str, str] | None = None
) -> Message:
    """The message that tells `event` of the finding whose folded state is `state` (a row of `findings_state`).

    `labels` gives the words for subject ids ("Attention decode · M 16"); an id without words stands for itself.
    Raises ValueError where the event is of a kind that is not told.
    """
    kind = kind_of(event.event, state)
    if kind is None:
        raise ValueError(f"finding event {event.event_id}: {event.event} is not told")
    evidence = _object(state.get("evidence"))
    change, price = _number(state, "change"), _number(state, "price")
    metric = _text(state, "metric")
    members = _members(state, evidence, labels or {})
    movers = _movers(evidence.get("co_movers"), labels or {})
    return Message(
        message_id=event.event_id,
        finding_id=event.finding_id,
        kind=kind,
        severity=severity_of(kind, metric, change, price),
        at=_utc(event.at),
        title=_text(state, "title") or _text(state, "operator") or "finding",
        sentence=_sentence(kind, state, event),
        shape=_text(state, "shape"),
        operator=_text(state, "operator"),
        metric=metric,
        direction=_whole(state, "direction"),
        device_model=_text(state, "device_model"),
        device_unit=_text(state, "device_unit"),
        host=_text(state, "host"),
        change=change,
        change_low=_number(state, "change_low"),
        change_high=_number(state, "change_high"),
        price=price,
        baseline=_baseline(state, evidence),
        since_run_id=_text(state, "since_run_id"),
        since_at=_moment(state, "since_at"),
        last_good_run_id=_text(state, "last_good_run_id"),
        revision_good=_text(state, "revision_good"),
        revision_bad=_text(state, "revision_bad"),
        finding_class=_text(state, "finding_class"),
        cause=_text(state, "cause"),
        differing=_differing(_object(state.get("differing"))),
        members=members[:MEMBERS_KEPT],
        member_count=len(members),
        co_movers=movers[:MEMBERS_KEPT],
        co_mover_count=len(movers),
        confirm=_confirm(state, evidence),
        repro=_text(state, "repro"),
        owner=_text(state, "owner"),
        links=links_of(state, event.finding_id, base_url),
        trend=_trend(evidence.get("trend")),
    )


def _sentence(kind: MessageKind, state: Row, event: FindingEvent) -> str:
    told = _text(_object(event.payload), "sentence") or _text(state, "sentence")
    if told and _text(state, "metric") == "silence":
        return told
    what = " ".join(part for part in (_text(state, "title"), _text(state, "shape")) if part)
    where = _text(state, "device_model") or _text(state, "host")
    change = _number(state, "change")
    size = "" if change is None else change_text(change, _number(state, "change_low"), _number(state, "change_high"))
    side = "above" if _whole(state, "direction") >= 0 else "below"
    if kind is MessageKind.RECOVERED and told == _text(state, "sentence"):
        had = f" It had been {size} {side} it." if size else ""
        return f"{what} on {where} is back within its earlier range.{had}"
    if kind is MessageKind.REFUTED and told == _text(state, "sentence"):
        was = f" It was told as {size} {side} its baseline." if size else ""
        return f"The change told for {what} on {where} did not stand a second look.{was}"
    return told or f"{what} on {where} changed by {size or 'an unknown amount'}."


def _baseline(state: Row, evidence: Row) -> str:
    said = _text(evidence, "baseline")
    if said:
        return said
    good = _text(state, "last_good_run_id")
    return f"its own history up to run {good}" if good else ""


def _confirm(state: Row, evidence: Row) -> str:
    said = _text(evidence, "confirm")
    run = _text(state, "confirm_run_id")
    if said:
        return said if not run or run in said else f"{said} (run {run})"
    return f"run {run}" if run else ""


def _differing(fields: Row) -> tuple[Difference, ...]:
    found = []
    for name, pair in fields.items():
        good, bad = pair if isinstance(pair, list | tuple) and len(pair) == 2 else ("", pair)
        found.append(Difference(field=str(name), good=_shown(good), bad=_shown(bad)))
    return tuple(found)


def _members(state: Row, evidence: Row, labels: Mapping[str, str]) -> tuple[Mover, ...]:
    stated = _movers(evidence.get("members"), labels)
    if stated:
        return tuple(sorted(stated, key=lambda mover: -abs(mover.change or 0.0)))
    subjects = state.get("subject_ids")
    ids = [str(subject) for subject in subjects] if subjects is not None else []
    return tuple(Mover(label=labels.get(subject, subject)) for subject in ids)


def _movers(stated: object, labels: Mapping[str, str]) -> tuple[Mover, ...]:
    """Movers from evidence: a list of ids, of {"label" or "subject_id", "change"}, or an object id -> change."""
    items: Iterable[object]
    if isinstance(stated, Mapping):
        items = [{"label": label, "change": change} for label, change in stated.items()]
    else:
        items = stated if isinstance(stated, list | tuple) else ()
    movers = []
    for item in items:
        if isinstance(item, Mapping):
            name = str(item.get("label") or item.get("subject_id") or "")
            movers.append(Mover(label=labels.get(name, name), change=_number(item, "change")))
        else:
            movers.append(Mover(label=labels.get(str(item), str(item))))
    return tuple(movers)


def _trend(values: object) -> tuple[float, ...]:
    if not isinstance(values, list | tuple):
        return ()
    return tuple(float(value) for value in values if isinstance(value, int | float) and math.isfinite(value))


def _object(text: object) -> Row:
    """A JSON object from its text; empty where there is none. A broken one is no reason to stay silent."""
    if isinstance(text, Mapping):
        return text
    try:
        value = json.loads(text) if isinstance(text, str) and text else {}
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _text(row: Row, column: str) -> str:
    value = row.get(column)
    return value if isinstance(value, str) else ""


def _number(row: Row, column: str) -> float | None:
    value = row.get(column)
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    return None


def _whole(row: Row, column: str) -> int:
    value = _number(row, column)
    return 0 if value is None else int(value)


def _moment(row: Row, column: str) -> datetime | None:
    value = row.get(column)
    return _utc(value) if isinstance(value, datetime) and value == value else None


def _utc(at: datetime) -> datetime:
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def _shown(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
