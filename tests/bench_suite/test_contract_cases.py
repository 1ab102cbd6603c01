"""Contracts without torch: case identity, checks, work and traffic by hand, ragged lengths, words."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_suite.contract import AxisValue, Case, Contract, ContractError, DType, Phase, parse_case_id
from bench_suite.contracts import CONTRACTS, contract
from bench_suite.contracts.attention_decode import context_lengths
from bench_suite.contracts.collectives import binary_bytes

DECODE = {"heads": 32, "kv_heads": 8, "head_dim": 128}


def make(name: str, dtype: DType = DType.BF16, **axes: AxisValue) -> Case:
    return contract(name).case(axes, dtype, Phase.DECODE)


sizes = st.integers(min_value=1, max_value=10**7)
axis_values = st.one_of(sizes, st.lists(sizes, min_size=2, max_size=7).map(tuple))
cases = st.builds(
    Case,
    operator=st.sampled_from(sorted(CONTRACTS)),
    dtype=st.sampled_from(DType),
    axes=st.dictionaries(
        st.from_regex(r"[A-Za-z][A-Za-z_0-9]*", fullmatch=True).filter(lambda name: name != "cache"),
        axis_values,
        min_size=1,
        max_size=5,
    ).map(lambda axes: tuple(axes.items())),
    phase=st.sampled_from(Phase),
    cache=st.sampled_from(["cold", "warm"]),
)


@given(cases)
def test_case_id_round_trips(case: Case) -> None:
    """A case is exactly what its case_id says, apart from its phase."""
    assert parse_case_id(case.case_id, case.phase) == case


@pytest.mark.parametrize(
    "text",
    [
        "",
        "gemm",
        "gemm[]",
        "gemm[fp31,M=1]",
        "gemm[fp32,M=x]",
        "Gemm[fp32,M=1]",
        "gemm[fp32,M]",
        "gemm[fp32,M=1,cache=hot]",
    ],
)
def test_broken_case_ids_are_refused(text: str) -> None:
    """What is no case_id raises ContractError with one line."""
    with pytest.raises(ContractError) as caught:
        parse_case_id(text, Phase.DECODE)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "axes", "message"),
    [
        ("gemm", {"M": 1, "N": 2}, "gemm[bf16]: axis K is missing (input features, fixed by the model)"),
        ("gemm", {"M": 1, "N": 2, "K": 3, "L": 4}, "gemm[bf16]: unknown axis 'L', must be one of M, N, K"),
        ("gemm", {"M": 0, "N": 2, "K": 3}, "gemm[bf16]: axis M is 0, must be a whole number >= 1"),
        ("gemm", {"M": -4, "N": 2, "K": 3}, "gemm[bf16]: axis M is -4, must be a whole number >= 1"),
        ("gemm", {"M": (1, 2), "N": 2, "K": 3}, "gemm[bf16]: axis M is (1, 2), must be one whole number"),
        (
            "attention_prefill",
            {"q": 9, "kv": 8, **DECODE},
            "attention_prefill[bf16,q=9,kv=8,heads=32,kv_heads=8,head_dim=128]: kv is 8, must be at least q, 9",
        ),
        (
            "attention_decode",
            {"batch": 2, "kv": 8, "heads": 3, "kv_heads": 2, "head_dim": 64},
            "attention_decode[bf16,batch=2,kv=8,heads=3,kv_heads=2,head_dim=64]: "
            "heads is 3, must be a multiple of kv_heads, 2",
        ),
        (
            "attention_decode",
            {"batch": 2, "kv": (), **DECODE},
            "attention_decode[bf16]: axis kv is empty, must have at least one size",
        ),
        (
            "all_gather",
            {"ranks": 4, "elements": 6},
            "all_gather[bf16,ranks=4,elements=6]: elements is 6, must be a multiple of ranks, 4",
        ),
    ],
)
def test_broken_cases_are_refused(name: str, axes: dict[str, AxisValue], message: str) -> None:
    """Each broken case has one line: what, value, rule."""
    with pytest.raises(ContractError) as caught:
        make(name, **axes)
    assert str(caught.value) == message


def test_a_ragged_axis_of_one_length_is_that_length() -> None:
    """One length in a list is the same case as the plain number."""
    assert make("attention_decode", batch=1, kv=(8,), **DECODE) == make("attention_decode", batch=1, kv=8, **DECODE)


def test_unknown_operator_lists_the_known() -> None:
    """An unknown operator's line names all known ones."""
    with pytest.raises(ContractError, match=r"operator 'conv' is unknown, must be one of gemm, .*all_to_all"):
        contract("conv")


def test_work_and_traffic_by_hand() -> None:
    """Flops and bytes are the textbook's, counted by hand for small shapes."""
    gemm = make("gemm", M=2, N=3, K=5)
    assert contract("gemm").flops(gemm) == 60
    assert contract("gemm").traffic_bytes(gemm) == 2 * (10 + 15 + 6)
    chunk = make("attention_prefill", q=2, kv=3, heads=4, kv_heads=2, head_dim=8)
    assert contract("attention_prefill").flops(chunk) == 4 * 4 * 8 * (2 + 3)  # the queries see 2 and 3 keys
    assert contract("attention_prefill").traffic_bytes(chunk) == 2 * 8 * (2 * 2 * 4 + 2 * 3 * 2)
    step = make("attention_decode", batch=2, kv=(3, 5), heads=4, kv_heads=2, head_dim=8)
    assert contract("attention_decode").flops(step) == 4 * 4 * 8 * 8
    assert contract("attention_decode").traffic_bytes(step) == 2 * (2 * 2 * 4 * 8 + 2 * 8 * 2 * 8) + 4 * 2
    assert contract("attention_decode").input_bytes(step) == 2 * (2 * 4 * 8 + 2 * 2 * 5 * 2 * 8) + 4 * 2
    norm = make("rms_norm", rows=3, hidden=8)
    assert contract("rms_norm").traffic_bytes(norm) == 2 * (24 + 24 + 8)


@pytest.mark.parametrize(
    ("name", "ranks", "factor"),
    [
        ("all_reduce", 1, 0.0),
        ("all_reduce", 2, 1.0),
        ("all_reduce", 8, 1.75),
        ("all_gather", 1, 0.0),
        ("all_gather", 2, 0.5),
        ("reduce_scatter", 8, 0.875),
        ("all_to_all", 8, 0.875),
    ],
)
def test_bus_factors_are_those_of_nccl_tests(name: str, ranks: int, factor: float) -> None:
    """busbw / algbw is 2(n-1)/n for an all-reduce and (n-1)/n for the others; the message is the total buffer."""
    case = make(name, DType.FP32, ranks=ranks, elements=8 * ranks)
    promise = contract(name)
    assert promise.bus_factor is not None and promise.message_bytes is not None
    assert promise.bus_factor(case) == factor
    assert promise.message_bytes(case) == 32 * ranks


def test_six_lengths_are_quantiles_unless_the_batch_is_six() -> None:
    """Quantiles expand to the batch with exact ends and mixed order; six lengths for a batch of six are the lengths."""
    given = (100, 200, 300, 400, 500, 900)
    spread = context_lengths(make("attention_decode", batch=41, kv=given, **DECODE))
    assert len(spread) == 41
    ordered = sorted(spread)
    assert [ordered[0], ordered[10], ordered[20], ordered[30], ordered[36], ordered[40]] == list(given)
    assert spread != tuple(ordered) and spread[-1] != 900
    assert context_lengths(make("attention_decode", batch=6, kv=given[::-1], **DECODE)) == given[::-1]
    assert context_lengths(make("attention_decode", batch=3, kv=7, **DECODE)) == (7, 7, 7)


@given(st.integers(2, 300), st.lists(st.integers(1, 10**5), min_size=6, max_size=6).map(sorted).map(tuple))
def test_expanded_lengths_stay_between_the_quantiles(batch: int, quantiles: tuple[int, ...]) -> None:
    """Every expanded length lies between the least and the largest, and expansion is a function of the case alone."""
    case = make("attention_decode", batch=batch, kv=quantiles, **DECODE)
    lengths = context_lengths(case)
    assert len(lengths) == batch
    assert quantiles[0] <= min(lengths) and max(lengths) <= quantiles[-1]
    assert lengths == context_lengths(case)


def test_shapes_in_words() -> None:
    """Words have thousands commas, middle dots and the dtype; a message is in binary units."""
    assert contract("gemm").describe(make("gemm", M=16, N=28672, K=4096)) == "M 16 · N 28,672 · K 4,096, bf16"
    ragged = make("attention_decode", batch=2, kv=(96, 4096), **DECODE)
    assert (
        contract("attention_decode").describe(ragged)
        == "batch 2 · kv 96 to 4,096, mean 2,096 · heads 32 · kv_heads 8 · head_dim 128, bf16"
    )
    assert contract("all_reduce").describe(make("all_reduce", ranks=2, elements=8192)) == "ranks 2 · 16 KiB, bf16"
    warm = contract("rms_norm").case({"rows": 1, "hidden": 8}, DType.FP32, Phase.DECODE, cache="warm")
    assert contract("rms_norm").describe(warm) == "rows 1 · hidden 8, fp32, warm cache"
    assert [binary_bytes(n) for n in (1023, 1536, 3 << 20)] == ["1,023 B", "1.5 KiB", "3 MiB"]


@pytest.mark.parametrize("promise", CONTRACTS.values(), ids=lambda promise: promise.operator)
def test_every_contract_is_whole(promise: Contract) -> None:
    """Each contract accepts its edge cases, allows more to coarser dtypes, and has a dynamic axis."""
    assert promise.edge_cases and any(axis.dynamic for axis in promise.axes)
    for axes in promise.edge_cases:
        by_dtype = [promise.results_allow(promise.case(axes, dtype, Phase.DECODE)) for dtype in promise.dtypes[:2]]
        for tight, loose in zip(by_dtype[0], by_dtype[-1], strict=True):
            assert tight.relative <= loose.relative and tight.absolute <= loose.absolute
        case = promise.case(axes, promise.dtypes[0], Phase.DECODE)
        assert promise.traffic_bytes(case) > 0 and promise.input_bytes(case) > 0
        assert math.isfinite(promise.flops(case)) and case.case_id.startswith(promise.operator)


def test_contracts_and_suites_need_no_torch() -> None:
    """Loading a suite, its roofline and the datasheets imports neither torch nor numpy."""
    code = (
        "import sys; from bench_suite.suite import load_suite; import bench_suite.datasheets; load_suite('smoke');"
        "assert not {'torch', 'numpy', 'triton'} & set(sys.modules), 'heavy'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
