"""Rooflines and datasheets by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_suite.contract import DType, Phase
from bench_suite.contracts import contract
from bench_suite.datasheets import datasheet, datasheets
from bench_suite.roofline import (
    Bound,
    CeilingKind,
    Ceilings,
    algbw_bytes_per_s,
    busbw_bytes_per_s,
    least_possible_s,
    roofline,
)

CEILINGS = Ceilings(flop_per_s={"fp32": 1e9}, bandwidth_bytes_per_s=1e9, link_bytes_per_s=1e6)


def test_compute_and_memory_bound_by_hand() -> None:
    """The roof is the larger of work over peak and traffic over bandwidth, and says which."""
    square = contract("gemm").case({"M": 100, "N": 100, "K": 100}, DType.FP32, Phase.PREFILL)
    assert roofline(square, CEILINGS).latency_s == 2e6 / 1e9
    assert roofline(square, CEILINGS).bound is Bound.COMPUTE
    vector = contract("gemm").case({"M": 1, "N": 100, "K": 100}, DType.FP32, Phase.DECODE)
    assert roofline(vector, CEILINGS).latency_s == 4 * (100 + 10_000 + 100) / 1e9
    assert roofline(vector, CEILINGS).bound is Bound.MEMORY


def test_warm_cases_have_no_memory_bound() -> None:
    """A warm case is bounded by compute alone: its data come from the cache."""
    warm = contract("gemm").case({"M": 1, "N": 100, "K": 100}, DType.FP32, Phase.DECODE, cache="warm")
    found = roofline(warm, CEILINGS)
    assert found.latency_s == 2e4 / 1e9 and found.bound is Bound.COMPUTE


def test_what_is_not_known_is_unknown() -> None:
    """Without ceilings, a peak of the dtype or a link, the roof is unknown and never guessed."""
    case = contract("gemm").case({"M": 1, "N": 1, "K": 1}, DType.BF16, Phase.DECODE)
    reduce = contract("all_reduce").case({"ranks": 2, "elements": 10}, DType.FP32, Phase.DECODE)
    without_link = Ceilings(flop_per_s={"fp32": 1e9}, bandwidth_bytes_per_s=1e9)
    for found in (roofline(case, None), roofline(case, CEILINGS), roofline(reduce, without_link)):
        assert found.latency_s is None and found.bound is Bound.UNKNOWN


@pytest.mark.parametrize(
    ("operator", "ranks", "busbw"),
    [
        ("all_reduce", 1, 0.0),
        ("all_reduce", 2, 4e3),
        ("all_reduce", 8, 7e3),
        ("all_gather", 2, 2e3),
        ("all_to_all", 8, 3.5e3),
    ],
)
def test_bandwidths_of_collectives(operator: str, ranks: int, busbw: float) -> None:
    """4,000 bytes in one second: algbw 4 kB/s, busbw as nccl-tests counts it; the roof is bus bytes over the link."""
    case = contract(operator).case({"ranks": ranks, "elements": 1000}, DType.FP32, Phase.DECODE)
    assert algbw_bytes_per_s(case, 1.0) == 4e3
    assert busbw_bytes_per_s(case, 1.0) == busbw
    found = roofline(case, CEILINGS)
    if ranks == 1:
        assert found.bound is Bound.MEMORY
    else:
        assert found.bound is Bound.LINK and found.latency_s == pytest.approx(busbw / 1e6)


def test_bandwidths_belong_to_collectives() -> None:
    """Asking for the bus bandwidth of a GEMM is an error."""
    case = contract("gemm").case({"M": 1, "N": 1, "K": 1}, DType.FP32, Phase.DECODE)
    with pytest.raises(ValueError, match="is no collective"):
        busbw_bytes_per_s(case, 1.0)


def test_only_datasheets_bound_physics() -> None:
    """A measured ceiling makes nothing impossible; a datasheet does, and an all-reduce in the switch is allowed for."""
    sheet = Ceilings(
        flop_per_s={"fp32": 1e9}, bandwidth_bytes_per_s=1e9, link_bytes_per_s=1e6, kind=CeilingKind.DATASHEET
    )
    gemm = contract("gemm").case({"M": 1, "N": 100, "K": 100}, DType.FP32, Phase.DECODE)
    reduce = contract("all_reduce").case({"ranks": 4, "elements": 1000}, DType.FP32, Phase.DECODE)
    assert least_possible_s(gemm, CEILINGS) is None and least_possible_s(gemm, None) is None
    assert least_possible_s(gemm, sheet) == (100 + 100 * 100) * 4 / 1e9  # its result may stay in the cache
    least = least_possible_s(reduce, sheet)
    assert least == pytest.approx(4000 * 3 / 4 / 1e6) and least < (roofline(reduce, sheet).latency_s or 0.0)


rates = st.floats(min_value=1e3, max_value=1e18)


@given(
    st.dictionaries(st.sampled_from([d.value for d in DType]), rates, max_size=4),
    rates,
    st.none() | rates,
    st.sampled_from(CeilingKind),
    st.none() | st.integers(1, 128),
    st.dictionaries(st.text(max_size=5), st.lists(rates, max_size=3).map(tuple), max_size=2),
)
def test_ceilings_round_trip_through_json(
    flop_per_s: dict[str, float],
    bandwidth: float,
    link: float | None,
    kind: CeilingKind,
    threads: int | None,
    samples: dict[str, tuple[float, ...]],
) -> None:
    """Ceilings written as JSON and read again are equal, and keys of a later version are ignored."""
    ceilings = Ceilings(
        flop_per_s=flop_per_s,
        bandwidth_bytes_per_s=bandwidth,
        link_bytes_per_s=link,
        kind=kind,
        source="here",
        measured_at="2026-11-30T03:10:00+00:00",
        threads=threads,
        samples=samples,
    )
    text = ceilings.to_json()
    assert Ceilings.from_json(text) == ceilings
    assert Ceilings.from_json('{"later": 1, ' + text[1:]) == ceilings


def test_rates_must_be_positive() -> None:
    """A ceiling of zero is refused where it is made."""
    with pytest.raises(ValueError, match="every rate must be > 0"):
        Ceilings(flop_per_s={"fp32": 0.0}, bandwidth_bytes_per_s=1e9)


def test_variants_of_a_chip_differ() -> None:
    """SXM and PCIe cards of one chip have their own figures; a name nobody listed has none."""
    sxm, pcie = datasheet("NVIDIA H100 80GB HBM3"), datasheet("NVIDIA H100 PCIe")
    assert sxm is not None and pcie is not None
    assert sxm.bandwidth_bytes_per_s == 3.35e12 and pcie.bandwidth_bytes_per_s == 2.0e12
    assert sxm.ceilings().flop_per_s["bf16"] == 989.4e12
    assert datasheet("NVIDIA H100") is None and datasheet("AMD EPYC 9654") is None


def test_narrow_accumulators_are_no_roof() -> None:
    """The roof of fp16 on a GeForce card is its binary32-accumulate rate, half of the advertised one."""
    card = datasheet("NVIDIA GeForce RTX 4090")
    assert card is not None and card.ceilings().flop_per_s["fp16"] == 165.2e12


def test_every_datasheet_states_its_source_once() -> None:
    """Each device has a source, plausible positive rates, and a name that no other device claims."""
    sheets = {id(sheet): sheet for sheet in datasheets().values()}.values()
    names = [model for sheet in sheets for model in sheet.models]
    assert len(names) == len(set(names)) == len(datasheets())
    for sheet in sheets:
        assert sheet.source and sheet.variant
        assert 1e11 < sheet.bandwidth_bytes_per_s < 1e13
        roofs = sheet.ceilings()
        assert roofs.kind is CeilingKind.DATASHEET and roofs.flop_per_s
        assert all(1e12 < rate < 1e16 for rate in roofs.flop_per_s.values())
