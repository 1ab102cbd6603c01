"""The pure parts behind the analysis pages: comparing, laying out shapes, fitting lines, pairing rounds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.comparison import Measured, compare
from dashboard.data.latest import parse_roofs
from dashboard.data.overview import nightly_moves
from dashboard.data.series import Samples
from dashboard.figures.finding import density, paired_rounds
from dashboard.figures.telemetry import readable_unit
from dashboard.fits import fit_alpha_beta
from dashboard.people import may_triage
from dashboard.shapespace import axis_text, plane
from dashboard.views.triage import is_web_address


def measured(case: str, level: float, *, spread: float = 0.001, **given: Any) -> Measured:
    logs = tuple(math.log(level) + spread * d for d in (-1.0, 0.0, 1.0))
    values: dict[str, Any] = {
        "case_id": case,
        "settings": "{}",
        "name": case,
        "shape": "",
        "subject_id": case,
        "weight": 0.5,
        "status": "measured",
        "status_kind": "",
        "timer": "wall",
        "log_ratios": logs,
        "log_times": logs,
        "run_id": "r",
    }
    return Measured(**(values | given))


def test_planted_change_is_found_with_its_sign_and_price() -> None:
    """A case that is 10 % slower in B is said to be so, priced by its weight, and carries the weighted geomean."""
    found = compare(
        [measured("a", 1.0), measured("b", 2.0)], [measured("a", 1.1), measured("b", 2.0)], measure="time", floor=0.02
    )
    first = found.rows[0]
    assert (first.case_id, first.verdict) == ("a", "slower")
    assert first.change == pytest.approx(0.1)
    assert first.price == pytest.approx(0.05)
    assert found.rows[1].verdict == "unchanged"
    assert found.total is not None
    assert math.exp(found.total.estimate) == pytest.approx(1.1**0.5)


def test_comparison_the_other_way_round_is_the_inverse() -> None:
    """A against B and B against A are inverse: slower becomes faster, and the geomean its reciprocal."""
    a, b = [measured("a", 1.0), measured("b", 3.0)], [measured("a", 1.3), measured("b", 2.5)]
    one, other = (compare(x, y, measure="time", floor=0.01) for x, y in ((a, b), (b, a)))
    assert one.total is not None
    assert other.total is not None
    assert one.total.estimate == pytest.approx(-other.total.estimate)
    assert {r.case_id: r.verdict for r in one.rows} == {"a": "slower", "b": "faster"}
    assert {r.case_id: r.verdict for r in other.rows} == {"a": "faster", "b": "slower"}


@pytest.mark.parametrize(
    ("a", "b", "reason"),
    [
        ([], [measured("a", 1.0)], "not in A"),
        ([measured("a", 1.0)], [], "not in B"),
        (
            [measured("a", 1.0)],
            [measured("a", 1.0, status="failed", status_kind="out_of_memory")],
            "out of memory in B",
        ),
        ([measured("a", 1.0)], [measured("a", 1.0, timer="device_event")], "timed by another clock"),
        ([measured("a", 1.0, log_times=())], [measured("a", 1.0)], "no value of this measure"),
    ],
)
def test_what_cannot_be_compared_is_counted_with_its_reason(a: list[Measured], b: list[Measured], reason: str) -> None:
    """A case without a pair is left out, and the reason is said."""
    found = compare(a, b, measure="time", floor=0.02)
    assert found.rows == ()
    assert found.left_out == {reason: 1}
    assert found.total is None


def test_other_settings_are_another_case() -> None:
    """A case in another cache mode is not paired with it."""
    found = compare([measured("a", 1.0)], [measured("a", 2.0, settings='{"cache":"warm"}')], measure="time", floor=0.02)
    assert found.left_out == {"not in A": 1, "not in B": 1}


def test_arms_of_one_run_are_paired_by_process() -> None:
    """Two arms of one run whose processes drift together have the narrow interval of their differences."""
    drift = (0.0, 0.3, 0.6)
    a = measured("a", 1.0, log_times=drift)
    b = measured("a", 1.0, log_times=tuple(x + 0.1 for x in drift))
    paired = compare([a], [b], measure="time", floor=0.02, paired=True).rows[0]
    unpaired = compare([a], [b], measure="time", floor=0.02).rows[0]
    assert paired.high - paired.low < 1e-9
    assert unpaired.high - unpaired.low > 0.5


def test_one_process_is_no_evidence() -> None:
    """With a single value a side there is no interval, so the case is inconclusive."""
    one = compare(
        [measured("a", 1.0, log_times=(0.0,))], [measured("a", 1.0, log_times=(0.2,))], measure="time", floor=0.02
    )
    assert one.rows[0].verdict == "inconclusive"


@given(st.lists(st.tuples(st.floats(0.5, 2.0), st.one_of(st.none(), st.floats(0.01, 1))), min_size=1, max_size=12))
def test_geomean_lies_between_its_cases(cases: list[tuple[float, float | None]]) -> None:
    """The weighted geomean is never outside the changes it is made of."""
    a = [measured(str(i), 1.0, weight=weight) for i, (_, weight) in enumerate(cases)]
    b = [measured(str(i), ratio, weight=weight) for i, (ratio, weight) in enumerate(cases)]
    found = compare(a, b, measure="time", floor=0.02)
    used = [r for r, w in cases if w] or [r for r, _ in cases]
    assert found.total is not None
    assert min(used) - 1e-9 <= math.exp(found.total.estimate) <= max(used) + 1e-9
    assert len(found.rows) == len(cases)


def test_plane_has_the_changing_axis_across() -> None:
    """M goes across and (N, K) name the lines, in the order of their sizes; each case has a place of its own."""
    cases = [{"M": m, "N": n, "K": k} for m in (64, 1, 4096) for n, k in ((4096, 14336), (4096, 4096))]
    found = plane(cases)
    assert found is not None
    assert (found.across, found.columns) == ("M", ("1", "64", "4,096"))
    assert found.lines == ("K 4,096", "K 14,336")
    assert len(set(found.places.values())) == len(cases)


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["M", "N", "kv"]), st.one_of(st.integers(1, 9), st.lists(st.integers(1, 9), max_size=3))
        ),
        max_size=10,
    )
)
def test_plane_places_every_case(cases: list[dict[str, Any]]) -> None:
    """Whatever axes cases have, each stands at a line and a column that exist."""
    found = plane(cases)
    if found is None:
        assert not any(cases)
        return
    assert sorted(found.places) == list(range(len(cases)))
    assert all(0 <= line < len(found.lines) for line, _ in found.places.values())
    assert all(0 <= column < len(found.columns) for _, column in found.places.values())


def test_ragged_axis_is_its_ends() -> None:
    """A ragged axis is written by its smallest and its largest size."""
    assert axis_text([1595, 488, 900]) == "488 to 1,595"
    assert axis_text([7]) == "7"
    assert axis_text(4096) == "4,096"


@given(st.floats(1e-6, 1e-3), st.floats(1e8, 1e12))
def test_alpha_and_beta_are_recovered(alpha: float, beta: float) -> None:
    """Times that lie on a line give that line back."""
    sizes = [2.0**k for k in range(10, 27, 2)]
    found = fit_alpha_beta(sizes, [alpha + s / beta for s in sizes])
    assert found is not None
    assert found.alpha_s == pytest.approx(alpha, rel=1e-3, abs=1e-9)
    assert found.worst_error < 1e-3


def test_line_needs_three_sizes_and_falls_with_no_negative_latency() -> None:
    """Two sizes give no line, and a latency below zero is held at zero."""
    assert fit_alpha_beta([1.0, 2.0], [1.0, 2.0]) is None
    found = fit_alpha_beta([1.0, 2.0, 4.0], [0.5, 2.2, 8.0])
    assert found is not None
    assert found.alpha_s == 0.0


def sample(arm: str, values: list[float], rounds: list[int], mark: list[str] | None = None) -> Samples:
    return Samples(
        arm=arm,
        replicate=0,
        phase="rounds",
        calls_per_sample=1,
        wall_s=values,
        thread_s=[],
        device_s=[],
        mark=mark or [""] * len(values),
        round=rounds,
    )


def test_rounds_are_paired_by_their_number_and_marked_ones_left_out() -> None:
    """A ratio is of two arms in the same round; a marked or a lonely round gives none."""
    found = paired_rounds(
        [
            sample("optimized", [1.0, 2.0, 4.0], [0, 1, 2]),
            sample("candidate", [9.0, 3.0, 2.0, 5.0], [3, 2, 0, 1], mark=["", "", "", "contended"]),
        ],
        "candidate",
        None,
    )
    assert sorted(found) == [0.75, 2.0]


def test_density_has_its_peak_at_the_values() -> None:
    """The estimate is highest where the values are, and never above 1."""
    xs, ys = density(np.array([0.9, 0.91, 0.92, 1.2]), 0.5, 1.5)
    assert 0.88 < xs[int(np.argmax(ys))] < 0.94
    assert float(ys.max()) == pytest.approx(1.0)


@pytest.mark.parametrize("text", [None, "", "null", "[]", "{", "7", '{"flop_per_s": 3}'])
def test_unreadable_roofs_are_no_error(text: str | None) -> None:
    """Ceilings that are missing or not what they should be give no roof, not a traceback."""
    found = parse_roofs(text)
    assert found is None or found.flop_per_s == {}


@pytest.mark.parametrize(
    ("unit", "value", "expected"),
    [("Hz", 2.6e9, "GHz"), ("Hz", 9e8, "MHz"), ("bytes", 2**34, "GiB"), ("share", 0.4, "%"), ("W", 600.0, "W")],
)
def test_telemetry_is_read_in_the_units_of_the_field(unit: str, value: float, expected: str) -> None:
    """SI base units of the table become those a person reads."""
    assert readable_unit(unit, value)[0] == expected


@pytest.mark.parametrize(
    ("address", "configured", "triagers", "may"),
    [
        (None, False, "", True),
        (None, True, "*@example.com", False),
        ("Ana@Example.com", True, "ana@example.com", True),
        ("bo@example.com", True, "ana@example.com, *@example.org", False),
        ("bo@example.org", True, "ana@example.com, *@example.org", True),
        ("bo@example.org", True, "", False),
    ],
)
def test_roles_follow_the_list_of_triagers(address: str | None, configured: bool, triagers: str, may: bool) -> None:
    """Without sign-in whoever reaches the page may triage; with it only those that are named."""
    assert may_triage(address, configured=configured, triagers=triagers) is may


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("https://example.com/issues/7", True),
        ("http://tracker.local/1", True),
        ("javascript:alert(1)", False),
        ("//example.com", False),
        ("https://", False),
        ("ftp://example.com", False),
        ("http://[::1", False),
    ],
)
def test_only_web_addresses_are_links(text: str, good: bool) -> None:
    """What a person gives as a link is one only where it is http or https with a host."""
    assert is_web_address(text) is good


def test_score_moves_by_the_weighted_mean_of_its_series() -> None:
    """A night moves the score by the weighted mean of its series; several runs in it add up and weigh once."""
    owner = np.array([0, 0, 0, 1])
    nights = np.array([1, 1, 2, 1])
    steps = np.array([0.1, 0.2, -0.1, 0.0])
    weights = np.array([1.0, 1.0, 1.0, 2.0])
    assert nightly_moves(owner, nights, steps, weights) == pytest.approx([0.3 / 3, -0.1])
    assert nightly_moves(owner, nights, steps, np.zeros(4)) == pytest.approx([0.3 / 2, -0.1])
