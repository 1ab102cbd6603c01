"""The kinds of the reported cases with other amounts, units, series and hosts: all of them in one import."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from judged_files import H100, Judged, Line, judge_lines

from detection.classify import FindingClass
from detection.findings import EventKind
from detection.verdict import Metric, ReasonCode

SUSPECTED, CONFIRMED, REFUTED, RESOLVED = (
    EventKind.SUSPECTED, EventKind.CONFIRMED, EventKind.REFUTED, EventKind.RESOLVED,
)  # fmt: skip
Level = Callable[[int, int], float]


def steady(
    host: str, runs: int, *, cases: int = 1, samples: int = 4, noise: float = 0.008, level: Level = lambda r, c: 1.0,
    gpu: str = H100, settings: str = "",
) -> list[Line]:  # fmt: skip
    """Cases of a host around 1 ms; `level` of (run, case) scales them."""
    rng = np.random.default_rng([*host.encode()])
    return [
        Line(
            run=run, case=f"{host}_{case}", sample=sample, host=host, gpu=gpu, settings=settings,
            value=float((1 + case / 10) * level(run, case) * np.exp(rng.normal(0, noise))),
        )
        for run in range(runs)
        for case in range(cases)
        for sample in range(samples)
    ]  # fmt: skip


def readings(host: str, values: list[float], metric: str, unit: str, **fields: str) -> list[Line]:
    """One reading a run."""
    return [
        Line(run=i, case=f"{host}_0", host=host, metric=metric, unit=unit, value=v, **fields)
        for i, v in enumerate(values)
    ]


def rates(host: str) -> list[Line]:
    """A rate of 14 TFLOP/s that falls by a tenth at run 14."""
    rng = np.random.default_rng(8)
    return [
        Line(run=r, case=f"{host}_0", host=host, metric="throughput", unit="TFLOPS", sample=s, value=float(v))
        for r in range(18)
        for s, v in enumerate((12.6 if r >= 14 else 14.0) * np.exp(rng.normal(0, 0.004, 3)))
    ]


def two_levels(host: str) -> list[Line]:
    """A dozen samples a run at 400 or 900 us, the share of the slow ones growing from a fifth to two thirds."""
    rng = np.random.default_rng(3)
    return [
        Line(
            run=r, case=f"{host}_0", host=host, unit="us", sample=s,
            value=float((900 if rng.random() < 0.2 + 0.02 * r else 400) * rng.normal(1, 0.015)),
        )
        for r in range(24)
        for s in range(12)
    ]  # fmt: skip


def clocked(host: str) -> list[Line]:
    """Six runs at full clock, the last with a third of its samples at 70 % of it and the times to show for it."""
    lines = []
    for run in range(7):
        for s in range(12):
            slow = run == 6 and s >= 8
            place = {"run": run, "case": f"{host}_0", "host": host, "sample": s}
            lines.append(Line(**place, value=(1.4 if slow else 1.0) * (1 + 0.002 * (s % 3))))
            lines.append(Line(**place, metric="sm_clock", unit="MHz", value=1400.0 if slow else 1980.0))
    return lines


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """All variations, judged."""
    gone = [line for line in steady("gone", 12, cases=3) if not (line.case == "gone_1" and 6 <= line.run < 10)]
    lines = [
        *steady("slow", 14, cases=8, level=lambda r, c: 0.92 if r == 10 else 1.0),
        *steady("stays", 16, cases=7, level=lambda r, c: 1.06 if r >= 10 else 1.0),
        *steady("gain", 14, level=lambda r, c: 0.8 if r >= 9 else 1.0),
        *steady("one", 16, cases=3, level=lambda r, c: 1.09 if r >= 11 and c == 1 else 1.0),
        *steady("cpu", 44, gpu="CPU", level=lambda r, c: 1.005**r),
        *steady("early", 14, gpu="CPU", level=lambda r, c: 1.2 if r >= 4 else 1.0),
        *gone,
        *[line for line in steady("off", 14) if not 8 <= line.run < 11],
        *steady("param", 7, settings="number=10"),
        *[replace(li, run=li.run + 7, value=2 * li.value) for li in steady("param", 7, settings="number=10 repeat=3")],
        *readings("exact", [0, 0, 0, 0, 0.5, 0.5, 0.5], "error_margin", "1"),
        *readings("freed", [64, 64, 64, 64, 0, 64], "peak_mem", "MiB"),
        *[replace(li, value=li.value / 1000 if li.run >= 9 else li.value) for li in steady("unit", 12)],
        *rates("rate"),
        *two_levels("modes"),
        *clocked("clock"),
    ]  # fmt: skip
    return judge_lines(tmp_path_factory.mktemp("variations"), lines)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("slow", [(SUSPECTED, 10), (REFUTED, 11)]),
        ("stays", [(SUSPECTED, 10), (CONFIRMED, 12)]),
        ("gain", [(SUSPECTED, 9), (CONFIRMED, 11)]),
        ("one", [(SUSPECTED, 11), (CONFIRMED, 13)]),
        ("rate", [(SUSPECTED, 14), (CONFIRMED, 16)]),
        ("gone", [(CONFIRMED, 8), (RESOLVED, 10)]),
        ("off", [(CONFIRMED, 7), (RESOLVED, 11)]),
        ("param", []),
        ("exact", [(SUSPECTED, 4), (CONFIRMED, 6)]),
        ("modes", []),
        ("clock", []),
    ],
)
def test_what_is_said_and_when(judged: Judged, host: str, expected: list[tuple[EventKind, int]]) -> None:
    """The events of a variation, each at its run, and no others."""
    assert [(e.event, int(e.run_id.split("@")[0][1:])) for e in judged.events(host)] == expected


def test_a_host_that_moved_is_of_class_host(judged: Judged) -> None:
    """Faster for a night or slower for good: all series of the run are one finding of the host."""
    for host in ("slow", "stays"):
        assert {e.facts.finding_class for e in judged.events(host)} == {FindingClass.HOST}
        assert {e.facts.group for e in judged.events(host)} == {f"{host} · whole run"}


def test_drifts_and_early_steps_of_a_loud_host_are_found(judged: Judged) -> None:
    """On a CPU, whose unpaired times are believed to be loud: half a percent a run is found within forty runs, and a
    step before there was history once there are twelve."""
    drifting, early = judged.events("cpu"), judged.events("early")
    assert [e.event for e in drifting[:2]] == [SUSPECTED, CONFIRMED]
    assert drifting[0].facts.direction == 1
    assert [e.event for e in early[:2]] == [SUSPECTED, CONFIRMED]
    assert early[0].facts.since_run_id.startswith("r0004")
    assert early[0].facts.change == pytest.approx(0.2, abs=0.03)


def test_a_rate_is_told_in_its_own_unit(judged: Judged) -> None:
    """A throughput that fell by a tenth is 11 % slower, in TFLOP/s."""
    facts = judged.events("rate")[0].facts
    assert (facts.metric, facts.direction) == (Metric.FLOP_RATE, 1)
    assert facts.change == pytest.approx(14 / 12.6 - 1, abs=0.01)
    assert "TFLOP/s" in facts.sentence


def test_a_factor_of_a_thousand_is_a_unit(judged: Judged) -> None:
    """Numbers a thousandth of what they were, under the same name of a unit: class method, not a kernel."""
    (facts, *_) = (e.facts for e in judged.events("unit"))
    assert facts.finding_class is FindingClass.METHOD
    assert "1,000 times as little" in facts.cause


def test_zero_and_back_has_no_ratio(judged: Judged) -> None:
    """64 MiB to zero and back: no ratio, and nothing confirmed."""
    events = judged.events("freed")
    assert CONFIRMED not in {e.event for e in events}
    assert {e.facts.change for e in events} == {None}


def test_a_throttled_third_is_left_out(judged: Judged) -> None:
    """The run whose clock fell is not judged, with the words; its samples are there."""
    assert ReasonCode.THROTTLED in judged.codes("clock", "r0006")
    (row,) = judged.lake.sql("SELECT status_reason FROM results WHERE run_id = 'r0006@clock'").to_pylist()
    assert row["status_reason"].startswith("4 of 12 samples were throttled")
