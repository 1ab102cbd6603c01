"""Events and triage as rows of the store, and back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from detection.classify import FindingClass
from detection.finding_rows import event_of_row, event_row, note_of_row, triage_payload
from detection.findings import EventKind, Facts, TriageKind, make_event
from detection.verdict import Metric

AT = datetime(2026, 11, 1, 3, 0, tzinfo=UTC)
FACTS = Facts(
    group="H200 · gemm · candidate", finding_class=FindingClass.CODE, direction=1, metric=Metric.LATENCY_RATIO,
    operator="gemm", family="GEMM", title="GEMM", shape="M=16", case_id="gemm[bf16]", arm="candidate",
    subject_id="s1", subject_ids=("s1",), device_model="H200", device_unit="u2", host="c17", change=0.07,
    change_low=None, change_high=0.08, price=None, since_run_id="r5", since_at=AT, last_good_run_id="r4",
)  # fmt: skip


def note(**fields: Any) -> dict[str, Any]:
    """A row of `triage`."""
    return {
        "event_id": "n1",
        "finding_id": "F-1",
        "event": "snoozed",
        "at": AT,
        "actor": None,
        "payload": None,
    } | fields


def test_an_event_comes_back_as_it_went() -> None:
    """Through a row, nothing of an event is lost; the word of a newer version is passed over."""
    event = make_event(EventKind.SUSPECTED, FACTS, at=AT, as_of_seq=7, run_id="r5")
    assert event_of_row(event_row(event)) == event
    assert event_of_row(event_row(event) | {"event": "merged"}) is None


def test_a_note_is_read_with_its_payload() -> None:
    """Until, owner and text are of the payload; an actor that is not named is empty, a newer word passed over."""
    read = note_of_row(note(payload='{"until": "2026-11-05T00:00:00+00:00", "owner": "ada", "text": "known"}'))
    assert read is not None
    assert (read.event, read.owner, read.text, read.actor) == (TriageKind.SNOOZED, "ada", "known", "")
    assert read.until == datetime(2026, 11, 5, tzinfo=UTC)
    assert note_of_row(note(event="praised")) is None


@pytest.mark.parametrize("payload", [None, "", "{", "[1]", "null"])
def test_a_payload_that_cannot_be_read_says_nothing(payload: str | None) -> None:
    """What was said stands without its details, rather than hiding all findings."""
    assert triage_payload(note(payload=payload)) == {}
    read = note_of_row(note(payload=payload))
    assert read is not None and read.until is None
