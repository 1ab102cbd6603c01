"""What an implementation promises beside its result: it leaves its inputs alone, returns something of its own, and has
done its work, where its clock sees it, when it returns."""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch

from bench_suite.contract import Case
from bench_suite.operators.base import Inputs, Operator
from bench_suite.operators.compare import Comparison
from bench_suite.operators.result import Result
from collector.node.arms import Function
from collector.node.devices.base import Device
from collector.node.failures import BrokenPromiseError
from collector.node.harness import Samples

HIDDEN_SHARE = 0.5
"""More of a call's work than this outside its clock is no accident of scheduling."""
HIDDEN_S = 1e-4
"""Work below this is not told from what the runtime itself does beside a call."""
LOOKS, LOOK_S = 2, 2e-3
"""Stretches of calls that all have to hide their work before an arm is accused, and how long each lasts at least."""


def compare_once(
    function: Function, case: Case, op: Operator, device: Device, inputs: Inputs, reference: Result
) -> Comparison:
    """One call against the reference. Raises BrokenPromiseError for what no comparison of values would see."""
    given = op.private(inputs)
    kept = op.kept(given)
    before = [checksum(t) for t in kept]
    output = function(*given)
    device.synchronize()
    if [checksum(t) for t in kept] != before:
        raise BrokenPromiseError("it changes its inputs; an implementation must leave them as they are")
    if any(_shares_memory(result, t) for result in _parts(output) for t in kept):
        raise BrokenPromiseError("it returns one of its inputs; an implementation must return a result of its own")
    return op.check(case, inputs, output, reference)


def seen_by_one_thread(function: Function, inputs: Inputs) -> None:
    """Raises BrokenPromiseError where a call computes in other threads: the clock of one thread does not see them."""
    for _ in range(LOOKS):
        process, thread, begun = time.process_time(), time.thread_time(), time.monotonic()
        function(*inputs)
        while time.monotonic() - begun < LOOK_S:
            function(*inputs)
        whole = time.process_time() - process
        outside = whole - (time.thread_time() - thread)
        if not _hides(outside, whole):
            return
    words = f"{outside:.3g} of {whole:.3g} s of its work are done in other threads, which its clock does not see"
    raise BrokenPromiseError(f"{words}; compute in the calling thread, or measure the suite with more threads")


def seen_by_the_stream(label: str, rounds: dict[str, Samples], base: str) -> None:
    """Raises BrokenPromiseError where an arm works on a stream that its events do not see.

    The wall time of a sample ends when the device is idle, the events' when the stream is. What lies between is the
    runtime's own, and of the order of the base arm's; an arm with much more of it has work elsewhere.
    """
    arm, optimized = rounds.get(label), rounds.get(base)
    if arm is None or optimized is None or label == base:
        return
    outside, whole = _outside(arm)
    usual, usual_whole = _outside(optimized)
    seen, usually_seen = 1 - outside / whole, 1 - usual / usual_whole
    if outside - usual > HIDDEN_S and seen < (1 - HIDDEN_SHARE) * usually_seen:
        words = f"{outside:.3g} of {whole:.3g} s of a sample are spent on a stream that the clock does not see"
        raise BrokenPromiseError(f"{words}; a call must wait, on the current stream, for what it starts elsewhere")


def _outside(samples: Samples) -> tuple[float, float]:
    """Medians over samples of the seconds between the two clocks' ends, and of the wall time."""
    gaps = sorted(s.wall_s - s.device_s for s in samples.samples if s.device_s is not None)
    walls = sorted(s.wall_s for s in samples.samples)
    return (gaps[len(gaps) // 2] if gaps else 0.0), max(walls[len(walls) // 2] if walls else 0.0, 1e-12)


def _hides(outside_s: float, whole_s: float) -> bool:
    return outside_s > max(HIDDEN_S, HIDDEN_SHARE * whole_s)


def _parts(output: Result) -> Iterator[torch.Tensor]:
    yield from output if isinstance(output, tuple) else (output,)


def _shares_memory(result: torch.Tensor, given: torch.Tensor) -> bool:
    if result is given:
        return True
    storage = result.untyped_storage()
    return storage.nbytes() > 0 and storage.data_ptr() == given.untyped_storage().data_ptr()


def worst(comparisons: list[Comparison]) -> Comparison:
    """The comparison that failed, else the one with the largest margin."""
    failed = [c for c in comparisons if not c.ok]
    return failed[0] if failed else max(comparisons, key=lambda c: c.margin)


def checksum(tensor: torch.Tensor) -> int:
    """A sum of the tensor's bits: tells whether anything in it was changed."""
    flat = tensor.detach().contiguous().view(-1)
    width = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[flat.element_size()]
    return int(flat.view(width).sum(dtype=torch.int64))
