"""A slow-down of known size, made by extra work: the arm on which the alarms' power is measured.

The arm is the optimized implementation with a small elementwise operation behind it. How large that is follows from
what a call and the operation cost on this device by the clock of the ratios, so that the extra work is a stated share
of the call; behind a call so short that the share would be below the operation's fixed cost, it runs every j-th time
only. The device does the work: throttling, load and drift meet it like the call itself.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from collector.node.devices.base import Call, Device
from collector.node.harness import calls_per_sample, clock_seconds

SHARES = (0.01, 0.02, 0.05)
MOST_ELEMENTS = 1 << 20
"""Of one operation, 4 MiB of fp32; more work is more of them."""
PROBE_ELEMENTS = (1 << 10, 1 << 18)
"""Sizes from whose times the fixed cost and the cost of an element follow."""
FIXED_SHARE = 0.5
"""At most so much of the extra time is the operations' fixed cost: the rest can be sized."""
PROBES, PROBES_OF_LONG, LONG_CALL_S = 7, 3, 0.05
"""Samples behind a time; fewer of a call that takes long."""


SHORT_EXTRA_S = 5e-5
"""Extra work shorter than this is looked at in its place: longer one does not notice a few microseconds."""
PAIRS, CYCLES, CORRECTIONS = 25, 4, 3
TOLERATED = 1.25
"""Times the share, beyond which the extra work is made rarer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraWork:
    """`repeats` operations of `elements` each, behind every `every`-th call."""

    every: int
    repeats: int
    elements: int


def plan_extra_work(share: float, *, call_s: float, fixed_s: float, element_s: float) -> ExtraWork:
    """Extra work that takes share x call_s on the average of calls; an operation takes fixed_s + n element_s."""
    every = max(1, math.ceil(fixed_s / FIXED_SHARE / (share * call_s)))
    wanted_s = every * share * call_s
    repeats = max(1, math.ceil(wanted_s / (fixed_s + MOST_ELEMENTS * element_s)))
    elements = round((wanted_s / repeats - fixed_s) / element_s)
    return ExtraWork(every=every, repeats=repeats, elements=min(MOST_ELEMENTS, max(1, elements)))


def slowed(
    function: Callable[..., Any], call: Call, device: Device, timer: str, share: float, filler: Filler
) -> Callable[..., Any]:
    """`function` with extra work of `share` of the time of `call`, which calls it as it will be timed."""
    call_s = _seconds(call, device, timer)
    small, large = (_seconds(filler(n), device, timer) for n in PROBE_ELEMENTS)
    element_s = max((large - small) / (PROBE_ELEMENTS[1] - PROBE_ELEMENTS[0]), 1e-13)
    fixed_s = max(small - PROBE_ELEMENTS[0] * element_s, 1e-9)
    work = plan_extra_work(share, call_s=call_s, fixed_s=fixed_s, element_s=element_s)
    if work.every * share * call_s < SHORT_EXTRA_S:
        work = _in_its_place(work, call, device, timer, share, filler)
    extra, calls = filler(work.elements), 0

    def with_extra_work(*given: Any) -> Any:
        nonlocal calls
        result = function(*given)
        calls += 1
        if calls % work.every == 0:
            for _ in range(work.repeats):
                extra()
        return result

    return with_extra_work


Filler = Callable[[int], Call]
"""From a number of elements to an operation on so many, without arguments."""


def _in_its_place(work: ExtraWork, call: Call, device: Device, timer: str, share: float, filler: Filler) -> ExtraWork:
    """The plan, its extra work made rarer where it costs more behind the call than it did when it was sized alone.

    Alone an operation finds its code and its buffer in the caches; behind a call that filled them it does not, and a
    microsecond becomes five. Calls with and without are sampled in turn; what is beyond doubt too much is corrected.
    """
    extra = filler(work.elements)
    for _ in range(CORRECTIONS):
        with_extra, calls = _every(call, extra, work), max(CYCLES * work.every, 1)
        ratios = []
        for _ in range(PAIRS):
            plain, more = (clock_seconds(device.sample(c, calls), timer) for c in (call, with_extra))
            if plain > 0 and more > 0:
                ratios.append(math.log(more / plain))
        if not ratios:
            break
        measured = statistics.median(ratios)
        error = 1.4826 * statistics.median([abs(r - measured) for r in ratios]) * 1.2533 / math.sqrt(len(ratios))
        if measured - 2 * error <= TOLERATED * share:
            break
        work = replace(work, every=math.ceil(work.every * measured / share))
    return work


def _every(call: Call, extra: Call, work: ExtraWork) -> Call:
    """The call with the extra work of the plan behind it."""
    calls = 0

    def both() -> Any:
        nonlocal calls
        result = call()
        calls += 1
        if calls % work.every == 0:
            for _ in range(work.repeats):
                extra()
        return result

    return both


def torch_filler(device: Any) -> Filler:
    """An elementwise operation in place, on a buffer of the device."""
    import torch

    buffer = torch.zeros(MOST_ELEMENTS, device=device)

    def filler(elements: int) -> Call:
        part = buffer[:elements]
        return lambda: part.mul_(0.5)

    return filler


def _seconds(call: Call, device: Device, timer: str) -> float:
    """The median of a few samples, each long enough for the clock."""
    call()
    first = max(clock_seconds(device.sample(call, 1), timer), 1e-9)
    probes, calls = PROBES if first < LONG_CALL_S else PROBES_OF_LONG, calls_per_sample(first, timer)
    times = sorted(clock_seconds(device.sample(call, calls), timer) / calls for _ in range(probes))
    return max(times[probes // 2], 1e-9)


def choose_planted(run_id: str, case_ids: Sequence[str]) -> dict[str, float]:
    """The case of a run that gets a planted arm, and its size: each run another, the same when it is resumed."""
    if not case_ids:
        return {}
    lot = random.Random(f"planted {run_id}")
    return {lot.choice(sorted(case_ids)): lot.choice(SHARES)}
