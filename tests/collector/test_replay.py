"""Short calls are recorded for every input set and replayed, through the protocol of any device."""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_suite.contract import Phase, parse_case_id
from bench_suite.suite import Method, UserCandidate
from collector.node.devices.base import Clocked, DeviceIdentity, Replaying
from collector.node.protocol import ArmFailed, ArmPrepared, CaseDone, Hello, Measure, Message, PassSamples, Prepare
from collector.node.replay import MOST_GRAPHS, ReplaySets, can_replay, is_short, replays

CASE = "rms_norm[fp32,rows=64,hidden=256]"
CANDIDATES = Path(__file__).parent / "planted" / "streams.py"
METHOD = Method(min_rounds=4, max_rounds=4, case_budget_s=1.0, single_calls=5)
H100 = DeviceIdentity(kind="cuda", model="NVIDIA H100 80GB HBM3", unit="GPU-0", cache_bytes=2**20)


@pytest.fixture
def toy() -> Iterator[Any]:
    """The device of the package in tests/support, as an entry point would give it."""
    folder = str(Path(__file__).parents[1] / "support" / "device_package")
    sys.path.insert(0, folder)
    try:
        yield importlib.import_module("toy_device.device").ToyDevice(0)
    finally:
        sys.path.remove(folder)


def bench(device: Any, tmp_path: Path, *names: str) -> tuple[Any, list[Message]]:
    """A bench with these candidates, and the list of what it will say."""
    from collector.node.bench import Bench
    from collector.node.blackbox import Blackbox
    from collector.node.harness import Solo

    said: list[Message] = []
    users = [UserCandidate(operator="rms_norm", name=n, file=str(CANDIDATES), function=n) for n in names]
    return Bench(device, users, said.append, Blackbox(tmp_path / "box"), Solo(), rank=0), said


def prepare(exclude: list[str] | None = None) -> Prepare:
    return Prepare(case_id=CASE, phase=Phase.DECODE, seed=1, exclude=["candidate", *(exclude or [])], replay=True)


def measure(exclude: list[str] | None = None, *, replay: bool = True) -> Measure:
    left_out = ["candidate", "naive", *(exclude or [])]
    return Measure(
        case_id=CASE,
        phase=Phase.DECODE,
        seed=1,
        replicate=0,
        exclude=left_out,
        method=METHOD,
        recheck=True,
        replay=replay,
    )


@given(st.integers(1, 5000), st.integers(1, 100))
def test_groups_are_whole_and_few(count: int, most: int) -> None:
    """Groups of equal size, in order, no set twice, no more graphs than allowed, at most one group's sets left out."""
    sets = ReplaySets([(i,) for i in range(count)], most)
    flat = [inputs for group in sets.groups for inputs in group]

    assert flat == [(i,) for i in range(len(flat))]
    assert 1 <= len(sets.groups) <= most
    assert {len(group) for group in sets.groups} == {sets.calls_each}
    assert 0 <= count - len(flat) < sets.calls_each


def test_all_arms_share_one_cursor(toy: Any) -> None:
    """Whoever replays moves on to the next set, so that every arm meets every set equally often and none twice."""
    met: dict[str, Counter[int]] = {"a": Counter(), "b": Counter()}
    sets = ReplaySets([(i,) for i in range(7)])
    replayed = {name: sets.capture(lambda i, name=name: met[name].update([i]), toy) for name in met}
    for seen in met.values():
        seen.clear()
    for _ in range(7):
        for call in replayed.values():
            call()

    assert set(met["a"].values()) == set(met["b"].values()) == {1}


def test_replayed_arms_are_right_and_timed_by_the_device(toy: Any, tmp_path: Path) -> None:
    """Every arm is captured, checked as replayed, and timed; a value is still the time of one call."""
    runner, said = bench(toy, tmp_path, "honest")
    runner.prepare(prepare())
    runner.measure(measure())
    prepared = {m.arm: m for m in said if isinstance(m, ArmPrepared)}
    rounds = {m.arm: m for m in said if isinstance(m, PassSamples) and m.passed == "rounds"}

    assert {m.no_replay for m in prepared.values()} == {""} and len(prepared) == 3
    assert set(rounds) == {"optimized", "aa", "candidate:honest"}
    assert not [m for m in said if isinstance(m, ArmFailed)]
    sets = next(m.arena_sets for m in said if isinstance(m, CaseDone) and m.arena_sets)
    each = -(-sets // MOST_GRAPHS)
    for one in rounds.values():
        assert one.calls_per_sample % each == 0
        assert all(d == pytest.approx(w / 2) for w, d in zip(one.wall_s, one.device_s, strict=True))
        assert max(one.wall_s) < 5e-2  # of one call, not of a graph of many


def test_what_cannot_be_captured_says_why(toy: Any, tmp_path: Path) -> None:
    """An arm that waits for its own result is right and no failure; it cannot be replayed, and its words are kept."""
    runner, said = bench(toy, tmp_path, "asks_for_its_result")
    runner.prepare(prepare(["naive"]))
    prepared = {m.arm: m for m in said if isinstance(m, ArmPrepared)}

    assert prepared["optimized"].no_replay == ""
    assert prepared["candidate:asks_for_its_result"].ok
    words = "RuntimeError: operation not permitted when stream is capturing"
    assert prepared["candidate:asks_for_its_result"].no_replay == words


def test_work_on_a_side_stream_is_wrong(toy: Any, tmp_path: Path) -> None:
    """An arm whose result is right but whose clock saw little of the work has no speed; the others keep theirs."""
    runner, said = bench(toy, tmp_path, "honest", "side_stream")
    runner.measure(measure(replay=False))
    failed = [m for m in said if isinstance(m, ArmFailed)]

    assert [(m.arm, m.kind) for m in failed] == [("candidate:side_stream", "wrong")]
    assert "on a stream that the clock does not see" in failed[0].message


@pytest.mark.parametrize(
    ("case_id", "short"),
    [
        ("rms_norm[bf16,rows=64,hidden=4096]", True),
        ("gemm[bf16,M=16,N=1024,K=4096]", True),
        ("gemm[bf16,M=4096,N=4096,K=4096]", False),
        ("gemm[bf16,M=16,N=128256,K=4096]", False),
        ("all_reduce[bf16,ranks=2,elements=16]", False),
    ],
)
@pytest.mark.parametrize("model", [H100.model, "a device without a datasheet"])
def test_short_cases_are_known_before_anything_is_measured(case_id: str, short: bool, model: str) -> None:
    """From the datasheet and the case alone: nothing that was measured can change a series' way of timing."""
    identity = DeviceIdentity(kind="cuda", model=model, unit="GPU-0", cache_bytes=1)
    assert is_short(parse_case_id(case_id, Phase.DECODE), identity) is short


def test_a_device_without_graphs_is_timed_by_events(toy: Any) -> None:
    """The door is open to devices that have no such method, and to those whose graphs do not work."""
    from collector.node.devices.cpu import Cpu

    case = parse_case_id("rms_norm[bf16,rows=64,hidden=4096]", Phase.DECODE)
    without = Hello(pid=1, device={}, versions={}, timer="device_event", replays=can_replay(Cpu()))

    assert not replays(case, without, H100)
    assert can_replay(toy) and isinstance(toy, Replaying) and not isinstance(toy, Clocked)
