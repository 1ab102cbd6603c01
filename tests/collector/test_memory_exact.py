"""Known allocations are read to within 1 %, whatever was measured before them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from bench_suite.contract import Phase
from collector.node.bench import Bench
from collector.node.blackbox import Blackbox
from collector.node.devices.cpu import Cpu
from collector.node.harness import Solo
from collector.node.protocol import ArmPrepared, Message, Prepare

MIB = 2**20
CASES = ("rms_norm[fp32,rows=64,hidden=1024]", "softmax[fp32,rows=16,columns=4096]", "gemm[fp32,M=8,N=512,K=512]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A call whose allocations are known: the most at once, and of that what it does not return."""

    call: Callable[[], object]
    peak_bytes: int
    workspace_bytes: int


def touched(mib: int) -> Known:
    """One result, written."""
    return Known(call=lambda: bytes_of(mib).fill_(1), peak_bytes=mib * MIB, workspace_bytes=0)


def bytes_of(mib: int) -> torch.Tensor:
    return torch.empty(mib * MIB, dtype=torch.uint8)


def temporaries() -> torch.Tensor:
    """Two at once, one after the other, and a smaller result: 48 MiB at most, of which 40 are gone after it."""
    for _ in range(3):
        a = bytes_of(24)
        b = bytes_of(16)
        del a, b
    kept, a, b = bytes_of(8), bytes_of(24), bytes_of(16)
    del a, b
    return kept


KNOWN = {
    "24 MiB": touched(24),
    "192 MiB": touched(192),
    "768 MiB": touched(768),
    "many small": Known(
        call=lambda: [torch.ones(64 * 1024, dtype=torch.uint8) for _ in range(800)],
        peak_bytes=50 * MIB,
        workspace_bytes=0,
    ),
    "untouched": Known(call=lambda: bytes_of(256), peak_bytes=256 * MIB, workspace_bytes=0),
    "temporaries": Known(call=temporaries, peak_bytes=48 * MIB, workspace_bytes=40 * MIB),
    "none": Known(call=lambda: None, peak_bytes=0, workspace_bytes=0),
}


@pytest.mark.parametrize("seed", range(3))
def test_known_allocations_in_any_order(seed: int) -> None:
    """One process, the calls in a drawn order: each is read within 1 % of what it allocates, touched or not."""
    device, order = Cpu(), list(KNOWN)
    random.Random(seed).shuffle(order)
    for name in order:
        known, found = KNOWN[name], device.measure_memory(KNOWN[name].call)

        assert found.peak_bytes == pytest.approx(known.peak_bytes, rel=0.01), (name, order)
        assert found.workspace_bytes == pytest.approx(known.workspace_bytes, rel=0.01), (name, order)


def test_the_order_of_cases_changes_no_byte(tmp_path: Path) -> None:
    """What a worker reads of every arm of three cases is the same in every order of the cases."""

    def peaks(order: tuple[str, ...]) -> dict[tuple[str, str], int | None]:
        said: list[Message] = []
        runner = Bench(Cpu(), [], said.append, Blackbox(tmp_path / "box"), Solo(), rank=0)
        found: dict[tuple[str, str], int | None] = {}
        for case_id in order:
            said.clear()
            runner.prepare(Prepare(case_id=case_id, phase=Phase.DECODE, seed=1, exclude=["candidate"]))
            found |= {(case_id, m.arm): m.peak_memory_bytes for m in said if isinstance(m, ArmPrepared)}
        return found

    forward = peaks(CASES)
    assert len(forward) >= 6 and all(forward.values())
    assert peaks(CASES[::-1]) == peaks((CASES[1], CASES[2], CASES[0])) == forward
