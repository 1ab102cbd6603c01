"""The figures, as plotly gets them."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.data.series import (
    Change,
    EnvironmentChange,
    Point,
    RunEnvironment,
    Samples,
    baseline,
    environment_changes,
)
from dashboard.figures.run_axis import SeriesView
from dashboard.figures.samples import samples_figure
from dashboard.figures.series import series_figure
from dashboard.figures.template import MOST_POINTS, linear_ticks, log_ticks, spread, thin
from dashboard.palette import Mode

START = datetime(2026, 10, 1, 3, 0, tzinfo=UTC)
HOSTILE = "<img src=x onerror=alert(1)>"


def point(night: int, arm: str = "candidate", **given: object) -> Point:
    values: dict[str, object] = {
        "at": START + timedelta(days=night),
        "run_id": f"run-{night}",
        "arm": arm,
        "role": arm,
        "kind": "night",
        "status": "measured",
        "status_kind": None,
        "status_reason": None,
        "latency_p50_s": 104e-6,
        "latency_p95_s": 110e-6,
        "latency_p99_s": 115e-6,
        "latency_n": 300,
        "latency_basis": "single",
        "ratio": None if arm == "optimized" else 0.912,
        "ratio_low": 0.905,
        "ratio_high": 0.919,
        "rounds": 90,
        "replicates": 3,
        "ratio_timer": "device_event",
        "roofline_latency_s": 71e-6,
        "revision": "4be1c07",
    }
    return Point(**(values | given))  # type: ignore[arg-type]


def view(points: list[Point], **given: object) -> SeriesView:
    return SeriesView(points=points, focus="candidate", zone=UTC, **given)  # type: ignore[arg-type]


def lines(figure: Any, axis: str) -> list[Any]:
    return [t for t in figure.data if t.mode and "lines" in t.mode and not t.fill and (t.yaxis or "y") == axis]


def words_of(figure: Any) -> str:
    texts = [a.text or "" for a in figure.layout.annotations]
    for trace in figure.data:
        texts += [t or "" for t in (trace.text if trace.text is not None else ())]
        texts.append(trace.name or "")
    return " ".join(texts)


def test_missing_nights_break_the_line() -> None:
    """Between runs that are far apart the line has a gap, and a long stretch without a run says so in words."""
    figure = series_figure(view([point(n) for n in (0, 1, 2, 12, 13)]))
    (line, *_) = [t for t in lines(figure, "y") if t.name == "candidate"]
    assert list(line.y).count(None) == 1
    assert "no data for 10 days" in words_of(figure)


def test_excluded_run_is_hollow_and_joined_to_nothing() -> None:
    """A run that does not count stands at its value as a hollow circle, and is on no line."""
    points = [point(0), point(1, status="invalid", status_kind="throttled", latency_p50_s=150e-6), point(2)]
    figure = series_figure(view(points))
    hollow = [t for t in figure.data if t.mode == "markers" and t.marker.symbol == "circle-open"]
    assert [list(t.y) for t in hollow if t.yaxis == "y"] == [[pytest.approx(150.0)]]
    assert all(150.0 not in [pytest.approx(v) for v in t.y if v] for t in lines(figure, "y"))
    assert "throttled" in words_of(figure)


def test_all_arms_and_the_roof_stand_on_one_axis_with_their_values() -> None:
    """Naive, optimized, candidate and roofline share the upper axis, and each is named with its number at its end."""
    points = [p for n in range(3) for p in (point(n), point(n, "optimized"), point(n, "naive", latency_p50_s=392e-6))]
    figure = series_figure(view(points))
    said = words_of(figure)
    for text in ("<b>naive</b> 392\u202fµs", "<b>optimized</b> 104\u202fµs", "roofline 71.0\u202fµs"):
        assert text in said
    assert figure.layout.yaxis.type == "log"
    assert figure.layout.yaxis.title.text == "latency, µs (log)"


@pytest.mark.parametrize("by_revision", [False, True])
@pytest.mark.parametrize(
    "points",
    [
        [],
        [point(0)],
        [point(0, status="failed", status_kind="out_of_memory", latency_p50_s=None, ratio=None)],
        [point(0, latency_p50_s=None, latency_p99_s=None, roofline_latency_s=None, ratio=None, revision=None)],
        [point(0, ratio_low=-math.inf, ratio_high=math.inf), point(1, ratio_low=None, ratio_high=None)],
        [point(n, "optimized") for n in range(3)],
    ],
    ids=["nothing", "one run", "failed", "all null", "no interval", "no candidate"],
)
def test_figure_of_little_is_still_a_figure(points: list[Point], by_revision: bool) -> None:
    """Nothing, one run, a failed run, nulls, infinite intervals: a figure without an error and without NaN labels."""
    figure = series_figure(view(points, by_revision=by_revision, smallest_visible_change=0.02))
    assert "nan" not in words_of(figure).lower()
    assert figure.to_json()


def test_hostile_names_are_text_in_the_figure() -> None:
    """A name from outside reaches plotly escaped: in hover texts, labels and marks."""
    points = [
        point(0, run_id=HOSTILE, revision=HOSTILE[:12]),
        point(1, "candidate:" + HOSTILE, status="invalid", status_reason=HOSTILE, status_kind=HOSTILE),
        point(1, run_id="b"),
    ]
    marks = [EnvironmentChange(at=START + timedelta(days=1), run_id="b", name=HOSTILE, before=HOSTILE, after="b")]
    figure = series_figure(view(points, environment=marks))
    assert "<img" not in words_of(figure)
    samples = [
        Samples(
            arm=HOSTILE,
            replicate=0,
            phase="rounds",
            calls_per_sample=1,
            wall_s=[1e-3],
            thread_s=[],
            device_s=[],
            mark=[HOSTILE],
        )
    ]
    assert "<img" not in words_of(samples_figure(samples, None, Mode.DARK))


def test_change_has_its_colour_and_its_word() -> None:
    """A confirmed slow-down is a solid line with its word; a suspected one is dashed and said to be suspected."""
    found = {
        state: Change(
            finding_id="F-1",
            state=state,
            finding_class="code",
            direction=1,
            metric="latency_ratio",
            arm="candidate",
            since_at=START + timedelta(days=2),
            change=0.074,
            change_low=0.065,
            change_high=0.083,
        )
        for state in ("confirmed", "suspected")
    }
    points = [point(n) for n in range(4)]
    confirmed = series_figure(view(points, changes=[found["confirmed"]]))
    suspected = series_figure(view(points, changes=[found["suspected"]]))
    assert "<b>slower +7.4\u202f%</b>" in words_of(confirmed)
    assert "suspected: slower" in words_of(suspected)
    assert {s.line.dash for s in confirmed.layout.shapes if s.line.width == 1.5} == {"solid"}
    assert {s.line.dash for s in suspected.layout.shapes if s.line.width == 1.5} == {"dash"}


def test_more_than_six_environment_marks_are_numbered() -> None:
    """Where their words would overlap, environment marks have numbers."""
    marks = [
        EnvironmentChange(
            at=START + timedelta(days=n), run_id=f"run-{n}", name="driver", before=str(n), after=str(n + 1)
        )
        for n in range(1, 9)
    ]
    figure = series_figure(view([point(n) for n in range(10)], environment=marks))
    assert [a.text for a in figure.layout.annotations if (a.text or "").isdigit()] == [str(n) for n in range(1, 9)]


def environment(night: int, **fields: str) -> RunEnvironment:
    import json

    driver = fields.pop("driver", "1")
    return RunEnvironment(
        at=START + timedelta(days=night),
        run_id=f"run-{night}",
        environment=json.dumps(fields),
        driver=driver,
        torch="2",
        triton=None,
        method_version="1",
        clocks_policy=None,
        host_image=None,
    )


def test_environment_marks_are_differences_to_the_run_before() -> None:
    """A mark is a field that differs from the run before; a field that always differs, and the revision, are none."""
    runs = [
        environment(n, driver="1" if n < 5 else "2", load=str(n), revision=str(n), image="a" if n != 7 else "b")
        for n in range(12)
    ]
    found = [(c.name, c.before, c.after, c.run_id) for c in environment_changes(runs)]
    assert found == [
        ("driver", "1", "2", "run-5"),
        ("image", "a", "b", "run-7"),
        ("image", "b", "a", "run-8"),
    ]


def test_unreadable_environment_is_no_error() -> None:
    """An environment that is no JSON object says nothing and breaks nothing."""
    broken = [
        RunEnvironment(
            at=START,
            run_id=str(n),
            environment=text,
            driver=None,
            torch=None,
            triton=None,
            method_version=None,
            clocks_policy=None,
            host_image=None,
        )
        for n, text in enumerate((None, "{", "[1]", "7"))
    ]
    assert environment_changes(broken) == []


def test_baseline_is_the_level_before_the_open_change() -> None:
    """The level is the median between the change before and the newest change."""
    levels = [1.0] * 5 + [0.9] * 5 + [0.97] * 2
    points = [point(n, ratio=level) for n, level in enumerate(levels)]
    changes = [
        Change(
            finding_id=str(n),
            state="confirmed",
            finding_class=None,
            direction=1,
            metric="latency_ratio",
            arm=None,
            since_at=START + timedelta(days=n),
            change=None,
            change_low=None,
            change_high=None,
        )
        for n in (5, 10)
    ]
    found = baseline(points, changes, "candidate")
    assert found is not None
    assert (found.level, found.n) == (0.9, 5)


@given(st.floats(1e-3, 1e6), st.floats(1.02, 1e4))
def test_log_ticks_are_few_round_and_inside(low: float, factor: float) -> None:
    """A log axis has at least one and at most eight ticks, all between its ends, in order."""
    ticks = log_ticks(low, low * factor)
    assert 1 <= len(ticks) <= 8
    assert all(low <= t * (1 + 1e-9) and t <= low * factor * (1 + 1e-9) for t in ticks)
    assert ticks == sorted(ticks)


@given(st.floats(-1e3, 1e3), st.floats(1e-3, 1e3))
def test_linear_ticks_are_few_and_inside(low: float, span: float) -> None:
    """A linear axis has at most a handful of ticks, all between its ends."""
    ticks = linear_ticks(low, low + span)
    assert len(ticks) <= 8
    assert all(low - span * 1e-6 <= t <= low + span * (1 + 1e-6) for t in ticks)


@given(st.lists(st.floats(0, 300), max_size=8), st.floats(1, 30))
def test_labels_keep_their_order_and_their_distance(places: list[float], gap: float) -> None:
    """Labels that would overlap are moved apart; their order stays."""
    moved = spread(places, gap)
    order = sorted(range(len(places)), key=lambda i: places[i])
    for one, other in pairwise(order):
        assert moved[other] - moved[one] >= gap * (1 - 1e-9)
    if all(abs(a - b) >= gap for i, a in enumerate(places) for b in places[:i]):
        assert moved == pytest.approx(places)


@given(st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=1, max_size=300), st.integers(12, 60))
def test_thinning_keeps_extremes_and_gaps(values: list[float | None], most: int) -> None:
    """Of a long trace the least, the greatest and the missing stay, at most as many points as asked."""
    kept = thin(values, most)
    assert len(kept) <= most + 2
    assert kept == sorted(set(kept))
    known = [v for v in values if v is not None]
    left = [values[i] for i in kept]
    if known:
        assert min(known) in left
        assert max(known) in left
    assert (None in values) == (None in left)


def test_every_trace_is_short() -> None:
    """Ten years of nights are at most 2,000 points a trace."""
    figure = series_figure(view([point(n, latency_p50_s=1e-4 * (1 + n % 7)) for n in range(3650)]))
    assert max(len(t.x) for t in figure.data) <= 2 * MOST_POINTS
    assert max(len(t.x) for t in lines(figure, "y")) <= MOST_POINTS * 1.5


def test_samples_are_all_there_and_marked_ones_hollow() -> None:
    """Each sample is one point in its unit; those left out of verdicts are hollow."""
    samples = [
        Samples(
            arm="candidate",
            replicate=r,
            phase="rounds",
            calls_per_sample=2,
            wall_s=[2e-3, 3e-3],
            thread_s=[1e-3, 1.5e-3],
            device_s=[],
            mark=["", "contended"],
        )
        for r in range(3)
    ]
    (trace,) = samples_figure(samples, "thread_time", Mode.LIGHT).data
    assert list(trace.y) == [1.0, 1.5] * 3
    assert list(trace.marker.symbol) == ["circle", "circle-open"] * 3
