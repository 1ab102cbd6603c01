"""Bus bandwidth as nccl-tests prints it, and the latency-bandwidth line through such times."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_suite.contract import DType, Phase
from bench_suite.contracts import contract
from bench_suite.link_model import LinkFitError, fit_link
from bench_suite.roofline import algbw_bytes_per_s, busbw_bytes_per_s

# nccl-tests, src/*.cu: baseBw = count * typesize / seconds with the count of the WHOLE buffer, times this factor.
FACTORS = {
    "all_reduce": {1: 0.0, 2: 1.0, 8: 1.75},  # all_reduce.cu: 2 (n - 1) / n
    "all_gather": {1: 0.0, 2: 0.5, 8: 0.875},  # all_gather.cu: (n - 1) / n
    "reduce_scatter": {1: 0.0, 2: 0.5, 8: 0.875},  # reduce_scatter.cu: (n - 1) / n
    "all_to_all": {1: 0.0, 2: 0.5, 8: 0.875},  # alltoall.cu: (n - 1) / n
    "send_recv": {1: 1.0, 2: 1.0, 8: 1.0},  # sendrecv.cu: 1
}


@pytest.mark.parametrize("dtype", [DType.FP32, DType.BF16])
@pytest.mark.parametrize("ranks", [1, 2, 8])
@pytest.mark.parametrize("name", FACTORS)
def test_busbw_of_a_known_time_is_nccl_tests(name: str, ranks: int, dtype: DType) -> None:
    """64 Mi elements in 10 ms: algbw is bytes over time, busbw that times the factor of nccl-tests."""
    elements, seconds = 64 << 20, 0.010
    case = contract(name).case({"ranks": ranks, "elements": elements}, dtype, Phase.TRAINING)
    algbw = elements * dtype.size_bytes / seconds
    assert algbw_bytes_per_s(case, seconds) == pytest.approx(algbw, rel=1e-12)
    assert busbw_bytes_per_s(case, seconds) == pytest.approx(algbw * FACTORS[name][ranks], rel=1e-12)


@given(
    st.floats(1e-7, 1e-3),
    st.floats(1e8, 1e12),
    st.lists(st.integers(1, 1 << 30), min_size=2, max_size=12, unique=True),
)
def test_a_line_is_found_again(alpha_s: float, beta: float, sizes: list[int]) -> None:
    """Times made by alpha + s / beta give times of the same line, whatever the sizes."""
    points = [(float(size), alpha_s + size / beta) for size in sizes]
    fit = fit_link(points)
    assert fit.worst_relative_error < 1e-4
    assert all(math.isclose(fit.time_s(size), seconds, rel_tol=1e-4) for size, seconds in points)


def test_noise_moves_the_line_little() -> None:
    """5 % of noise at 16 KiB to 1 GiB: alpha and beta within 5 %, and the half size is their product."""
    sizes = [1 << power for power in range(14, 31, 2)]
    noisy = [(float(s), (20e-6 + s / 100e9) * (1.05 if i % 2 else 0.95)) for i, s in enumerate(sizes)]
    fit = fit_link(noisy)
    assert fit.alpha_s == pytest.approx(20e-6, rel=0.05) and fit.bytes_per_s == pytest.approx(100e9, rel=0.05)
    assert fit.half_size_bytes == fit.alpha_s * fit.bytes_per_s


def test_neither_part_is_negative() -> None:
    """Times that grow faster than a line have no latency; times that shrink have no bandwidth."""
    assert fit_link([(1.0, 1.0), (2.0, 4.0)]).alpha_s == 0.0
    assert math.isinf(fit_link([(1.0, 2.0), (2.0, 1.0)]).bytes_per_s)


@pytest.mark.parametrize("points", [[], [(8.0, 1.0)], [(8.0, 1.0), (8.0, 2.0)], [(1.0, 0.0), (2.0, 1.0)]])
def test_what_no_line_fits_is_refused(points: list[tuple[float, float]]) -> None:
    """One line: what was given, and the rule."""
    with pytest.raises(LinkFitError) as caught:
        fit_link(points)
    assert "\n" not in str(caught.value)
