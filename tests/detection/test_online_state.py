"""Laws of a stored detector: it goes on bit for bit where it stopped, is small, and refuses what it cannot read."""

from __future__ import annotations

import hashlib
import math
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detection import DetectorError, OnlineDetector, online_kernel, online_scores

Fed = list[float | None]


def series(seed: int, n: int) -> Fed:
    """Noise with steps, bursts, gaps and now and then a value of zero."""
    rng = np.random.default_rng(seed)
    values = np.exp(rng.standard_t(3, n) * 0.03)
    for _ in range(rng.integers(0, 4)):
        values[rng.integers(0, n) :] *= rng.uniform(0.8, 1.25)
    start = rng.integers(0, n)
    values[start : start + 6] *= 1.3
    fed: Fed = [None if rng.random() < 0.03 else float(value) for value in values]
    if rng.random() < 0.2:
        fed[rng.integers(0, n)] = 0.0
    return fed


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 330))
def test_a_restored_detector_goes_on_bit_for_bit(seed: int, cut: int) -> None:
    """Stored and restored at any value, it raises the same alerts and ends in the same bytes."""
    fed = series(seed, 340)
    through = OnlineDetector(strictness=0.8)
    expected = [through.update(value) for value in fed]
    first = OnlineDetector(strictness=0.8)
    found = [first.update(value) for value in fed[:cut]]
    second = OnlineDetector.from_state(first.to_state())
    assert second.fed == cut
    found += [second.update(value) for value in fed[cut:]]
    assert found == expected
    assert second.to_state() == through.to_state()


def test_a_state_stored_after_each_value_changes_nothing() -> None:
    """A night is one value: a detector that is stored between all of them equals one that lives on."""
    fed = series(17, 200)
    through = OnlineDetector()
    stored = OnlineDetector().to_state()
    for value in fed:
        detector = OnlineDetector.from_state(stored)
        assert detector.update(value) == through.update(value)
        stored = detector.to_state()
    assert stored == through.to_state()


def test_a_state_is_small() -> None:
    """Under 8 kB after any number of values, under 300 bytes before the first."""
    detector = OnlineDetector()
    assert len(detector.to_state()) < 300
    rng = np.random.default_rng(0)
    largest = 0
    for level in range(8):
        for value in rng.normal(100 + 20 * level, 1.0, 300):
            detector.update(float(value))
        largest = max(largest, len(detector.to_state()))
    assert largest < 8_000


def test_a_stored_state_has_one_byte_order() -> None:
    """Numbers are little-endian everywhere: a state written on one machine is read on another."""
    detector = OnlineDetector()
    detector.update(math.e)
    assert struct.pack("<d", 1.0) in detector.to_state()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is 0 bytes"),
        (b"KODS", "is 4 bytes"),
        (b"not a detector at all", "has version"),
        (OnlineDetector().to_state()[:-8], "must be"),
        (OnlineDetector().to_state() + b"\0" * 8, "must be"),
        (b"KODS" + struct.pack("<HHH", 60_000, 0, 0), "has version 60000"),
    ],
)
def test_what_is_no_state_is_refused_in_one_line(data: bytes, said: str) -> None:
    """A short, long, foreign or older state says so and names the way out."""
    with pytest.raises(DetectorError, match=said) as refused:
        OnlineDetector.from_state(data)
    assert "\n" not in str(refused.value)
    assert "start afresh" in str(refused.value) or "replay the series" in str(refused.value)


def test_compiled_code_follows_its_source() -> None:
    """The loop that is cached on disk names the version of the statistics compiled into it."""
    source = Path(online_scores.__file__).read_bytes()
    digest = hashlib.sha256(source).hexdigest()[:12]
    assert digest == online_kernel.SCORES_DIGEST, "put the new digest into detection/online_kernel.py"


def test_without_a_place_for_compiled_code_it_still_works() -> None:
    """A read-only installation without a home directory compiles in memory."""
    code = (
        "import numba.core.caching as caching; caching.CacheImpl._locator_classes = []\n"
        "from detection import OnlineDetector; detector = OnlineDetector()\n"
        "print(sum(detector.update(v) is not None for v in [1.0] * 30 + [2.0] * 10))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"
