"""Samples of a throttled device are kept, marked, and no evidence."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_suite.contract import Role
from bench_suite.suite import load_suite
from collector.node.devices.base import DeviceIdentity
from collector.node.ledger import ArmRecord, CaseRecord
from collector.node.marks import HeldBack, clocks, contended, held_back, mark, median_while, seen_by, words_for
from collector.node.protocol import Arm, PassSamples
from collector.node.readings import Reading, TimedReading
from collector.node.rows import RunFacts, result_rows
from store.bundle.schemas import InvalidReason


def at(moment_s: float, *, reasons: int | None = None, clock_hz: float | None = None) -> list[TimedReading]:
    found = []
    for metric, unit, value in (("clocks_event_reasons", "bits", reasons), ("sm_clock", "Hz", clock_hz)):
        if value is not None:
            reading = Reading(metric=metric, unit=unit, value=float(value))
            found.append(TimedReading(monotonic_s=moment_s, unix_s=0.0, reading=reading))
    return found


def samples(starts: list[float], *, arm: str = "optimized", wall_s: float = 1e-3, calls: int = 10) -> PassSamples:
    count = len(starts)
    return PassSamples(
        arm=arm,
        passed="rounds",
        calls_per_sample=calls,
        wall_s=[wall_s] * count,
        thread_s=[],
        device_s=[wall_s] * count,
        monotonic_s=starts,
        round=list(range(count)),
        position=[0] * count,
        mark=[""] * count,
        rank_spread=[1.0] * count,
        straggler=[0] * count,
    )


@pytest.mark.parametrize("bit", [0x8, 0x20, 0x40, 0x80])
def test_a_bad_reading_speaks_from_the_one_before_to_the_one_after(bit: int) -> None:
    """What lies between a good and a bad reading is unknown, so it is no evidence; the rest is."""
    spans = held_back([*at(1, reasons=0), *at(2, reasons=bit | 0x4), *at(3, reasons=0)])
    marked = mark(samples([0.5, 0.995, 1.5, 2.5, 3.5]), spans)

    assert [(s.start_s, s.end_s) for s in spans] == [(1, 3)]
    assert marked.mark == ["", "throttled", "throttled", "throttled", ""]


@pytest.mark.parametrize("reasons", [0x0, 0x1, 0x2, 0x4, 0x10, 0x100])
def test_other_reasons_mark_nothing(reasons: int) -> None:
    """Idle, application clocks, a power cap, sync boost and display clocks are noted, not held against a sample."""
    assert held_back([*at(1, reasons=reasons, clock_hz=1.5e9), *at(2, reasons=0, clock_hz=1.5e9)]) == ()


def test_a_low_clock_marks_unless_the_device_was_idle() -> None:
    """Below 90 % of the median of loaded readings is held back; the low clock of an idle device is not."""
    busy = [reading for i in range(5) for reading in at(i, reasons=0, clock_hz=1.5e9)]
    idle = [reading for i in range(5, 9) for reading in at(i, reasons=0x1, clock_hz=0.3e9)]
    low = at(9, reasons=0, clock_hz=1.34e9)

    assert held_back([*busy, *idle]) == ()
    spans = held_back([*busy, *idle, *low])
    assert [(s.start_s, s.words) for s in spans] == [(8, "SM clock 1340 MHz, below 90% of the run's median 1500")]


def test_no_readings_mark_nothing() -> None:
    """On a device that tells neither reasons nor clock no sample is marked."""
    unknown = Reading(metric="sm_clock", unit="Hz", value=None, reason="Not Supported")

    assert held_back([TimedReading(monotonic_s=1.0, unix_s=0.0, reading=unknown)]) == ()
    assert mark(samples([1.0, 2.0]), ()).mark == ["", ""]


@given(
    st.lists(st.tuples(st.booleans(), st.integers(1, 20)), max_size=12),
    st.lists(st.integers(0, 200), max_size=20),
    st.integers(0, 30),
)
def test_marks_equal_the_slow_definition(steps: list[tuple[bool, int]], starts: list[int], lasted: int) -> None:
    """A sample is marked if and only if its time shares a moment with any stretch."""
    readings, moment = [], 0
    for bad, wait in steps:
        moment += wait
        readings += at(moment, reasons=0x40 if bad else 0)
    spans = held_back(readings)
    one_pass = samples([float(s) for s in starts], wall_s=float(lasted), calls=1)
    expected = [any(s.start_s <= start + lasted and start <= s.end_s for s in spans) for start in starts]

    assert [bool(m) for m in mark(one_pass, spans).mark] == expected


def test_a_mark_that_was_there_stays() -> None:
    """Marks of others are not overwritten."""
    before = samples([1.0])
    span = HeldBack(start_s=0.0, end_s=2.0, words="power brake")
    kept = mark(PassSamples(**{f: getattr(before, f) for f in before.__struct_fields__} | {"mark": ["other"]}), [span])

    assert kept.mark == ["other"]
    assert words_for([kept], [span]) == ""


def test_the_clock_of_a_pass_is_that_of_its_time() -> None:
    """Only readings between the first and the last sample count, those of an idle device never."""
    readings = [*at(0, clock_hz=9e8), *at(2, clock_hz=1.5e9), *at(3, clock_hz=1.4e9), *at(4, clock_hz=1.3e9)]
    known = clocks([*readings, *at(2.5, reasons=0x1, clock_hz=3e8)])

    assert median_while([samples([1.0, 2.0, 4.0])], known) == 1.4e9
    assert median_while([samples([1.0, 1.5])], known) is None
    assert median_while([samples([])], ()) is None


def rows_with(
    spans: tuple[HeldBack, ...],
    *,
    count: int = 10,
    marks: list[str] | None = None,
    others: tuple[HeldBack, ...] = (),
) -> dict[str, dict[str, object]]:
    """Rows of a case with samples at seconds 0 to 9, optimized 1 ms; candidate 2 ms in even seconds and 4 ms in odd."""
    suite = load_suite("smoke", "cuda")
    planned = next(p for p in suite.cases if p.case.operator == "rms_norm")
    record = CaseRecord(planned=planned, ratio_timer="device_event", unsettled=["0.9 to 2 GHz"])
    starts = [float(i) for i in range(count)]
    for label, role in (("optimized", Role.OPTIMIZED), ("candidate", Role.CANDIDATE)):
        arm = ArmRecord(arm=Arm(label=label, role=role, implementation="x"))
        given = samples(starts, arm=label)
        if label == "candidate":
            given.device_s[:] = [2e-3 if i % 2 == 0 else 4e-3 for i in range(count)]
        given.mark[:] = marks or given.mark
        arm.passes = [(0, mark(given, spans))]
        record.arms[label] = arm
    facts = RunFacts(
        run_id="r",
        measured_at=datetime(2026, 1, 1, tzinfo=UTC),
        host="h",
        identity=DeviceIdentity(kind="cuda", model="Stub", unit="GPU-0", cache_bytes=1),
        suite=suite,
        ceilings=None,
        threads=1,
        held_back=spans,
        contended=others,
    )
    return {row["arm"]: row for row in result_rows(record, facts)}


def test_marked_samples_are_out_of_every_number() -> None:
    """With every odd second throttled the row is that of the even seconds alone."""
    odd = tuple(HeldBack(start_s=i - 0.1, end_s=i + 0.1, words="power brake") for i in range(1, 10, 2))
    row = rows_with(odd)["candidate"]

    assert (row["status"], row["ratio_optimized"], row["latency_p99_s"]) == ("measured", pytest.approx(2.0), 2e-3)
    assert row["latency_n"] == 5


def test_all_marked_is_invalid_with_the_figures() -> None:
    """A row whose every sample is marked is `invalid: throttled`, says how many and why, and has no ratio."""
    always = (HeldBack(start_s=-1.0, end_s=100.0, words="hardware thermal slowdown"),)
    row = rows_with(always)["candidate"]

    assert (row["status"], row["status_kind"]) == ("invalid", "throttled")
    assert row["status_reason"] == (
        "all 10 samples were taken while the device was held back: hardware thermal slowdown"
    )
    assert (row["ratio_optimized"], row["latency_p50_s"]) == (None, None)


def share(metric: str, *values: float) -> list[TimedReading]:
    """Readings of a share at seconds 0, 1, 2, ..."""
    return [
        TimedReading(monotonic_s=float(i), unix_s=0.0, reading=Reading(metric=metric, unit="share", value=value))
        for i, value in enumerate(values)
    ]


def test_a_burst_of_others_marks_the_time_that_it_is_about() -> None:
    """A share far above its usual speaks for the time since the reading before it, and for wall time only."""
    spans = contended(share("core_wait", 0.1, 0.1, 0.8, 0.1, 0.1))
    wall, thread = (mark_all(samples([0.5, 1.5, 2.5]), seen_by(spans, timer)) for timer in ("wall", "thread_time"))

    assert wall.mark == ["", "contended", ""]
    assert thread.mark == ["", "", ""]
    assert spans[0].words == "the run's processes waited for a core 80% of the time"


@given(st.floats(0, 1), st.integers(1, 30))
def test_a_machine_that_is_equally_busy_marks_nothing(level: float, count: int) -> None:
    """Whatever the level: what all samples share is in both sides of a ratio."""
    assert contended([*share("core_wait", *[level] * count), *share("steal", *[level] * count)]) == ()


def test_stolen_time_counts_for_both_clocks_of_a_cpu() -> None:
    """A hypervisor's theft is in thread time too; a device's own clock does not see it."""
    spans = contended(share("steal", 0.0, 0.0, 0.3, 0.0))

    counts = [sum(len(found) for found in seen_by(spans, timer)) for timer in ("wall", "thread_time", "device_event")]
    assert counts == [1, 1, 0]


def test_another_process_on_the_device_marks_until_it_is_seen_gone() -> None:
    """A count speaks from the reading before it to the reading after it, for every clock that waits for the device."""
    spans = contended(share("foreign_processes", 0, 2, 0, 0))
    marked = mark_all(samples([0.5, 1.5, 2.5]), seen_by(spans, "device_event"))

    assert marked.mark == ["contended", "contended", ""]
    assert spans[0].words == "2 other processes on the device"


def mark_all(given_samples: PassSamples, kinds: tuple[tuple[HeldBack, ...], ...]) -> PassSamples:
    for spans in kinds:
        given_samples = mark(given_samples, spans)
    return given_samples


@pytest.mark.parametrize(
    ("marks", "kind", "words"),
    [
        (["contended"] * 10, "contended", "all 10 samples were taken while others used the device: 1 other process"),
        (
            ["clock_unsettled"] * 10,
            "clock_unsettled",
            "all 10 samples were taken while the clock still moved: 0.9 to 2",
        ),
        (["throttled"] * 4 + ["contended"] * 6, "contended", "6 of 10 samples were taken while others"),
    ],
)
def test_every_reason_makes_a_row_invalid_by_its_name(marks: list[str], kind: str, words: str) -> None:
    """All samples marked: the row is `invalid` by the most frequent reason, in words with the figures."""
    other = HeldBack(
        start_s=-1, end_s=99, words="1 other process", reason=InvalidReason.CONTENDED, metric="foreign_processes"
    )
    row = rows_with((), marks=marks, others=(other,))["candidate"]

    assert (row["status"], row["status_kind"]) == ("invalid", kind)
    assert str(row["status_reason"]).startswith(words)


def test_two_levels_in_the_samples_are_called_bimodal() -> None:
    """A kernel at 2 ms and at 4 ms has no one latency: the row says both levels and how often each."""
    notes = json.loads(str(rows_with((), count=40)["candidate"]["null_reasons"]))

    assert notes["latency_p50_s.modes"] == "bimodal: 50% near 2000 us, 50% near 4000 us"
    assert "latency_p50_s.modes" not in json.loads(str(rows_with((), count=40)["optimized"]["null_reasons"]))
