"""Findings: the fold of their events, their identity, their cause and their price."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detection.classify import (
    ArmsMoved,
    Difference,
    FindingClass,
    baseline_moved,
    classify,
    differences,
    volatile_fields,
)
from detection.findings import (
    EventKind,
    Evidence,
    Facts,
    FindingEvent,
    FindingState,
    Member,
    Tile,
    TriageKind,
    TriageNote,
    facts_from_json,
    facts_to_json,
    fold,
    make_event,
    part_to_json,
)
from detection.price import price, request_priority, total_price
from detection.verdict import Metric

START = datetime(2026, 11, 1, 3, 0, tzinfo=UTC)
FACTS = Facts(
    group="H200 · attention · candidate",
    finding_class=FindingClass.CODE,
    direction=1,
    metric=Metric.LATENCY_RATIO,
    operator="attention_decode",
    family="Attention",
    title="Attention decode",
    shape="64 requests, context 8,192, bf16",
    case_id="attention_decode[bf16]",
    arm="candidate",
    subject_id="s1",
    subject_ids=("s1", "s2"),
    device_model="H200",
    device_unit="u2",
    host="c17",
    change=0.074,
    change_low=0.065,
    change_high=0.083,
    price=0.0155,
    since_run_id="r5",
    since_at=START,
    last_good_run_id="r4",
    differing=(Difference(field="revision", good="a", bad="b"),),
    evidence=Evidence(
        tiles=(Tile(label="Tonight", change=0.07, low=0.06, high=0.08, words="3 processes"),),
        members=(
            Member(
                subject_id="s1", case_id="c", arm="candidate", label="t", change=None, low=None, high=None,
                weight=None,
            ),
        ),
    ),
)  # fmt: skip


def event(kind: EventKind, day: int, facts: Facts = FACTS) -> FindingEvent:
    return make_event(kind, facts, at=START + timedelta(days=day), as_of_seq=day, run_id=f"r{5 + day}")


def note(kind: TriageKind, day: float, until: float | None = None, owner: str | None = None) -> TriageNote:
    when = START + timedelta(days=day)
    finding = event(EventKind.SUSPECTED, 0).finding_id
    return TriageNote(
        event_id=f"{kind}{day}",
        finding_id=finding,
        event=kind,
        at=when,
        actor="ada",
        until=None if until is None else START + timedelta(days=until),
        owner=owner,
    )


def state(events: list[FindingEvent], notes: list[TriageNote] | None = None, day: float = 100) -> FindingState:
    return fold(events, notes or [], now=START + timedelta(days=day)).state


SUSPECTED, CONFIRMED = event(EventKind.SUSPECTED, 0), event(EventKind.CONFIRMED, 1)


def test_a_life_without_people() -> None:
    """Suspected, then confirmed or refuted, then resolved, then reopened: each by its event."""
    assert state([SUSPECTED]) is FindingState.SUSPECTED
    assert state([SUSPECTED, CONFIRMED]) is FindingState.CONFIRMED
    assert state([SUSPECTED, event(EventKind.REFUTED, 1)]) is FindingState.REFUTED
    resolved = event(EventKind.RESOLVED, 3)
    assert state([SUSPECTED, CONFIRMED, resolved]) is FindingState.RESOLVED
    assert state([SUSPECTED, CONFIRMED, resolved, event(EventKind.REOPENED, 4)]) is FindingState.REOPENED


def test_what_was_confirmed_is_not_refuted_but_resolved() -> None:
    """A confirmed change that a later confirm run does not see was there and is gone: it is not unsaid."""
    assert state([SUSPECTED, CONFIRMED, event(EventKind.REFUTED, 2)]) is FindingState.RESOLVED


def test_what_a_person_said_stands_while_the_change_stands() -> None:
    """A confirmation does not overrule an acknowledgement; a recovery ends it."""
    ack = note(TriageKind.ACKNOWLEDGED, 0.5)
    assert state([SUSPECTED, CONFIRMED], [ack]) is FindingState.ACKNOWLEDGED
    assert state([SUSPECTED, CONFIRMED, event(EventKind.RESOLVED, 3)], [ack]) is FindingState.RESOLVED
    assert state([SUSPECTED, CONFIRMED], [note(TriageKind.EXPECTED, 2)]) is FindingState.EXPECTED


def test_a_snooze_ends_by_itself() -> None:
    """Before its end a snoozed finding is snoozed, after it what it was before."""
    snooze = note(TriageKind.SNOOZED, 2, until=5)
    assert state([SUSPECTED, CONFIRMED], [snooze], day=4) is FindingState.SNOOZED
    assert state([SUSPECTED, CONFIRMED], [snooze], day=6) is FindingState.CONFIRMED


def test_notes_and_owners_change_no_state() -> None:
    """Assigning names an owner; the state is what it was."""
    finding = fold([SUSPECTED, CONFIRMED], [note(TriageKind.ASSIGNED, 2, owner="ada")], now=START)
    assert (finding.owner, finding.state) == ("ada", FindingState.CONFIRMED)


@settings(deadline=None)  # no test depends on a clock
@given(st.randoms(use_true_random=False), st.integers(1, 3))
def test_order_and_repetition_do_not_matter(rng: random.Random, times: int) -> None:
    """Events delivered in any order and any number of times fold to the same finding."""
    events = [
        SUSPECTED,
        CONFIRMED,
        event(EventKind.MOVED, 2, replace(FACTS, change=0.08)),
        event(EventKind.RESOLVED, 3),
        event(EventKind.REOPENED, 4),
    ]
    notes = [note(TriageKind.ACKNOWLEDGED, 1.5), note(TriageKind.SNOOZED, 4.5, until=6)]
    delivered, said = events * times, notes * times
    rng.shuffle(delivered)
    rng.shuffle(said)
    now = START + timedelta(days=5)
    assert fold(delivered, said, now=now) == fold(events, notes, now=now)


def test_identity_is_the_step_not_the_messenger() -> None:
    """Group, metric, direction and first bad run name a finding; who says it and how large it is do not."""
    assert event(EventKind.CONFIRMED, 9, replace(FACTS, change=0.2)).finding_id == SUSPECTED.finding_id
    assert event(EventKind.SUSPECTED, 0, replace(FACTS, since_run_id="r6")).finding_id != SUSPECTED.finding_id
    assert event(EventKind.SUSPECTED, 0, replace(FACTS, direction=-1)).finding_id != SUSPECTED.finding_id


def test_events_of_two_findings_do_not_mix() -> None:
    """Folding events of two findings is a bug of the caller and is said."""
    other = event(EventKind.SUSPECTED, 0, replace(FACTS, since_run_id="r6"))
    with pytest.raises(ValueError, match="one finding"):
        fold([SUSPECTED, other], [], now=START)


def test_facts_survive_their_payload() -> None:
    """Facts to JSON and back are the same facts."""
    assert facts_from_json(facts_to_json(FACTS)) == FACTS
    assert part_to_json(FACTS.differing) == '{"revision":["a","b"]}'


def test_fields_that_change_every_night_are_no_difference() -> None:
    """A build number that is new each night is volatile; a driver that changed once is a difference."""
    environments = [{"driver": "580", "build": str(i), "suite_hash": "x"} for i in range(8)]
    environments[-1] |= {"driver": "590", "suite_hash": "y"}
    volatile = volatile_fields(environments)
    assert volatile == {"build"}
    found = differences(environments[-2], environments[-1], volatile=volatile)
    assert found == (Difference(field="driver", good="580", bad="590"),)


def test_the_denominator_is_told_from_the_kernel() -> None:
    """Candidate and naive both 20 % up against optimized: optimized moved. Candidate alone: the candidate did."""
    assert baseline_moved(ArmsMoved(candidate_ratio=0.2, naive_ratio=0.21), 0.03)
    assert not baseline_moved(ArmsMoved(candidate_ratio=0.2, naive_ratio=0.01), 0.03)
    assert baseline_moved(ArmsMoved(candidate_ratio=0.2, optimized_latency=-0.17, candidate_latency=0.0), 0.03)
    assert not baseline_moved(ArmsMoved(candidate_ratio=0.2, optimized_latency=0.0, candidate_latency=0.2), 0.03)


REVISION = Difference(field="revision", good="a", bad="b")
DRIVER = Difference(field="driver", good="580", bad="590")
METHOD = Difference(field="method_version", good="1", bad="2")


@pytest.mark.parametrize(
    ("differing", "options", "expected"),
    [
        ([REVISION], {}, FindingClass.CODE),
        ([DRIVER], {}, FindingClass.ENVIRONMENT),
        ([REVISION, DRIVER], {"operators_moved": 5}, FindingClass.ENVIRONMENT),
        ([REVISION, DRIVER], {}, FindingClass.CODE),
        ([METHOD, REVISION], {}, FindingClass.METHOD),
        ([REVISION], {"denominator_moved": True}, FindingClass.BASELINE),
        ([], {"whole_run_moved": True}, FindingClass.HOST),
        ([DRIVER], {"whole_run_moved": True}, FindingClass.ENVIRONMENT),
        ([], {}, FindingClass.CODE),
    ],
)
def test_the_cause_follows_arms_reach_and_fields(
    differing: list[Difference], options: dict[str, bool | int], expected: FindingClass
) -> None:
    """Who moved, how far it reached and what differs give one class, with a sentence."""
    given_options = {
        "denominator_moved": False,
        "whole_run_moved": False,
        "operators_moved": 1,
        "operators_measured": 5,
    } | options
    cause = classify(differing, **given_options)  # type: ignore[arg-type]
    assert cause.finding_class is expected
    assert cause.sentence.endswith(".")


def test_price_is_share_times_change() -> None:
    """A case that is 20 % of production time and 10 % slower costs 2 % of it; without a weight there is no price."""
    assert price(0.2, 0.1) == pytest.approx(0.02)
    assert price(None, 0.1) is None
    assert total_price([(0.2, 0.1), (0.1, -0.1), (None, 1.0)]) == pytest.approx(0.01)
    assert total_price([(None, 0.1)]) is None


def test_dear_and_doubtful_goes_first() -> None:
    """Priority grows with the price and with the doubt; an improvement counts half."""
    base = request_priority(0.2, 0.1, 0.08, 0.12)
    assert request_priority(0.4, 0.1, 0.08, 0.12) > base
    assert request_priority(0.2, 0.1, 0.0, 0.2) > base
    assert request_priority(0.2, -0.1, -0.12, -0.08) == pytest.approx(base / 2)
