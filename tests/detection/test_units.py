"""One unit of many: the slow one is named, the others are not, and scatter goes to where it comes from."""

from __future__ import annotations

import numpy as np
import pytest

from detection.classify import FindingClass, unit_step
from detection.units import compare_units, variance_shares

UNITS = tuple(f"u{i}" for i in range(8))


def latencies(slow: float = 1.0, units: int = 8, cases: int = 20, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    level = np.exp(rng.uniform(-10, -6, cases))
    table = level * np.exp(rng.normal(0, 0.01, (units, 1)) + rng.normal(0, 0.01, (units, cases)))
    table[2] *= slow
    return np.asarray(table)


def test_a_slow_unit_is_named_and_only_that() -> None:
    """12 % slower on every case: u2 is slow, by about 12 %; nobody else is."""
    effects = compare_units(UNITS, latencies(1.12), floor=0.03)
    assert [e.unit for e in effects if e.slow] == ["u2"]
    assert next(e for e in effects if e.unit == "u2").effect == pytest.approx(0.12, abs=0.03)
    assert not any(e.fast for e in effects)


@pytest.mark.parametrize("seed", range(20))
def test_alike_units_are_not_odd(seed: int) -> None:
    """Units that differ by one percent are alike."""
    assert not any(e.slow or e.fast for e in compare_units(UNITS, latencies(seed=seed), floor=0.03))


def test_two_units_and_few_cases_are_not_compared() -> None:
    """Of two units nobody knows which is wrong; four cases are no fleet."""
    assert compare_units(UNITS[:2], latencies(1.5)[:2], floor=0.03) == ()
    assert compare_units(UNITS, latencies(1.5, cases=4), floor=0.03) == ()


def test_missing_cases_are_not_zero() -> None:
    """A unit that measured half of the cases is compared on those."""
    table = latencies(1.12)
    table[2, ::2] = np.nan
    effects = compare_units(UNITS, table, floor=0.03)
    assert [(e.unit, e.cases) for e in effects if e.slow] == [("u2", 10)]


def test_scatter_goes_to_where_it_comes_from() -> None:
    """Units 3 %, runs 1 %, processes .5 % in: about that out."""
    rng = np.random.default_rng(2)
    x = rng.normal(0, 0.03, (200, 1)) + rng.normal(0, 0.01, (200, 30)) + rng.normal(0, 0.005, (200, 30))
    shares = variance_shares(x, np.full(x.shape, 0.005**2))
    assert shares.between_units == pytest.approx(0.03, rel=0.15)
    assert shares.between_runs == pytest.approx(0.01, rel=0.1)
    assert shares.between_processes == pytest.approx(0.005)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (999.0, "1,000 times as much"),
        (-0.999, "1,000 times as little"),
        (1.02e6 - 1, "1,000,000 times as much"),
        (-0.5, None),
        (7.0, None),
        (1199.0, None),
        (0.0, None),
        (None, None),
        (-1.0, None),
    ],
)
def test_a_power_of_a_thousand_is_a_unit(change: float | None, words: str | None) -> None:
    """Within 5 % of a power of a thousand, either way: the class is method; anything else is no change of unit."""
    cause = unit_step(change)
    assert (cause is None) == (words is None)
    if cause is not None and words is not None:
        assert cause.finding_class is FindingClass.METHOD
        assert words in cause.sentence
