"""Two levels are told from one wide level, from outliers and from a real step."""

from __future__ import annotations

import numpy as np
import pytest

from detection.modes import only_shares_moved, two_modes


def mixture(
    rng: np.random.Generator, share: float, n: int = 200, levels: tuple[float, float] = (415.0, 866.0)
) -> np.ndarray:
    high = rng.random(n) < share
    return np.log(np.where(high, levels[1], levels[0])) + rng.normal(0, 0.01, n)


@pytest.mark.parametrize("share", [0.15, 0.3, 0.6, 0.85])
def test_two_levels_are_found_where_they_are(share: float) -> None:
    """Places within 1 %, share within sampling error."""
    modes = two_modes(mixture(np.random.default_rng(1), share))
    assert modes is not None
    assert np.exp([modes.low, modes.high]) == pytest.approx([415, 866], rel=0.01)
    assert modes.share_high == pytest.approx(share, abs=0.1)


@pytest.mark.parametrize("n", [20, 60, 300])
@pytest.mark.parametrize("shape", ["normal", "uniform", "heavy", "outliers"])
def test_one_level_is_not_two(shape: str, n: int) -> None:
    """Of 1,000 normal, uniform, heavy-tailed or outlying samples of one level at most two look like two."""
    mistaken = sum(two_modes(one_level(seed, shape, n)) is not None for seed in range(1000))
    assert mistaken <= 2


def one_level(seed: int, shape: str, n: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return {
        "normal": rng.normal(0, 0.05, n),
        "uniform": rng.uniform(0, 0.3, n),
        "heavy": rng.exponential(0.1, n),
        "outliers": np.concatenate([rng.normal(0, 0.02, n - 1), [1.0]]),
    }[shape]


def test_more_often_slow_is_not_slower() -> None:
    """Share 30 to 60 %, levels unmoved: the modes come back; both levels 10 % up, or a new level: they do not."""
    rng = np.random.default_rng(2)
    before, drifted = mixture(rng, 0.3), mixture(rng, 0.6)
    assert only_shares_moved(before, drifted, 0.03) is not None
    assert only_shares_moved(before, drifted + np.log(1.1), 0.03) is None
    assert only_shares_moved(before, np.log(600) + rng.normal(0, 0.01, 50), 0.03) is None
    assert only_shares_moved(rng.normal(0, 0.01, 100), rng.normal(0.1, 0.01, 100), 0.03) is None
