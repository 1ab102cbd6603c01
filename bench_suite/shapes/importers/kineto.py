"""torch.profiler's Chrome traces (Kineto), recorded with record_shapes=True.

Device time joins an operator through its launch: a kernel has the correlation of the runtime call that launched it, and
that call lies inside the operator on the same thread. Traces without runtime calls carry the operator's own External id
on the kernel instead. A call replayed from a CUDA graph has neither operator nor sizes, so that decoding under graphs
does not show in these traces: derive its shapes from request lengths.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from bench_suite.shapes.errors import ShapeError
from bench_suite.shapes.importers.recording import Recording, Tally, message_axes
from bench_suite.shapes.importers.torch_names import (
    ATTENTION,
    COLLECTIVES,
    TYPES,
    attention_of,
    axes_of,
    dtype_of,
    elements_of,
    is_attention,
    operator_of,
)

MICROSECOND_S = 1e-6


class _Args(msgspec.Struct, rename={
    "dims": "Input Dims", "types": "Input type", "values": "Concrete Inputs", "external": "External id",
    "collective": "Collective name",
    "sent": "In msg nelems", "received": "Out msg nelems", "dtype": "dtype", "ranks": "Group size",
}):  # fmt: skip
    """The few arguments that are read; raw, since their types differ among versions."""

    dims: msgspec.Raw = msgspec.Raw(b"null")
    types: msgspec.Raw = msgspec.Raw(b"null")
    values: msgspec.Raw = msgspec.Raw(b"null")
    external: msgspec.Raw = msgspec.Raw(b"null")
    correlation: msgspec.Raw = msgspec.Raw(b"null")
    collective: msgspec.Raw = msgspec.Raw(b"null")
    sent: msgspec.Raw = msgspec.Raw(b"null")
    received: msgspec.Raw = msgspec.Raw(b"null")
    dtype: msgspec.Raw = msgspec.Raw(b"null")
    ranks: msgspec.Raw = msgspec.Raw(b"null")


class _Event(msgspec.Struct):
    name: str = ""
    cat: str | None = None
    tid: int | str | None = None
    ts: float | str = 0.0
    dur: float = 0.0
    args: _Args | None = None


class _Distributed(msgspec.Struct):
    world_size: int = 0


class _Trace(msgspec.Struct, rename={"events": "traceEvents", "distributed": "distributedInfo"}):
    events: list[_Event]
    distributed: _Distributed | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """A leaf operator on a thread, in microseconds."""

    name: str
    start: float
    end: float
    external: object
    args: _Args


def read(content: bytes, sha256: str, *, ranks: int | None = None, partial: bool = False) -> Recording:
    """The shapes of a trace. `ranks` is the group size where the trace has none.

    Raises ShapeError where operators were recorded without sizes, unless `partial` asks for what there is.
    """
    try:
        trace = msgspec.json.decode(content, type=_Trace)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ShapeError(f"kineto trace: {error}") from None
    tally = Tally()
    calls = _leaf_calls(trace.events)
    bare = [call for thread in calls.values() for call in thread if not _decode(call.args.dims)]
    total = sum(len(thread) for thread in calls.values())
    if bare and not partial:
        raise ShapeError(
            f"kineto trace: {len(bare)} of {total} operator calls have no sizes; "
            "record with torch.profiler.profile(record_shapes=True)"
        )
    times = _device_times(trace.events, calls)
    for thread in calls.values():
        for call in thread:
            _add_call(tally, call, times.get(id(call)))
    _add_collectives(trace, tally, ranks)
    recording = tally.recording("kineto", sha256)
    if not recording.shapes:
        raise ShapeError("kineto trace: no operator of known shape in it; record a run that calls the model")
    return recording


def _add_call(tally: Tally, call: _Call, time_s: float | None) -> None:
    sizes, types = _decode(call.args.dims) or [], _decode(call.args.types) or []
    if is_attention(call.name):
        operator, axes = attention_of(call.name, sizes, _decode(call.args.values) or [])
    else:
        operator, axes = operator_of(call.name) or call.name, axes_of(call.name, sizes)
    tally.add(operator, dtype_of(types, call.name) or _unknown(sizes), axes, 1, time_s)


def _unknown(sizes: Sequence[object]) -> str | None:
    """Without sizes the missing type is not the reason to name."""
    return None if sizes else "fp32"


def _decode(raw: msgspec.Raw) -> Any:
    return msgspec.json.decode(raw)


def _leaf_calls(events: Iterable[_Event]) -> dict[object, list[_Call]]:
    """Leaf operators by thread, by start; an attention kernel inside the call that chose it is not counted again."""
    threads: dict[object, list[_Call]] = defaultdict(list)
    for event in events:
        if event.cat in ("cpu_op", "Operator") and event.args is not None and operator_of(event.name):
            start = float(event.ts)
            external = _decode(event.args.external)
            threads[event.tid].append(
                _Call(name=event.name, start=start, end=start + event.dur, external=external, args=event.args)
            )
    for thread in threads.values():
        thread.sort(key=lambda call: (call.start, -call.end))
        outermost: list[_Call] = []
        for call in thread:
            inside = outermost and outermost[-1].name == ATTENTION and call.end <= outermost[-1].end
            if not inside:
                outermost.append(call)
        thread[:] = outermost
    return threads


def _device_times(events: Iterable[_Event], calls: Mapping[object, Sequence[_Call]]) -> dict[int, float]:
    """Seconds of the kernels that each call launched, by the call's id()."""
    launches: dict[object, tuple[object, float]] = {}  # correlation -> thread, time
    kernels: list[tuple[object, object, float]] = []  # correlation, External id, microseconds
    for event in events:
        if event.args is None:
            continue
        if event.cat in ("cuda_runtime", "cuda_driver", "hip_runtime", "Runtime"):
            launches[_decode(event.args.correlation)] = (event.tid, float(event.ts))
        elif event.cat in ("kernel", "Kernel"):
            kernels.append((_decode(event.args.correlation), _decode(event.args.external), event.dur))
    starts = {thread: [call.start for call in of_thread] for thread, of_thread in calls.items()}
    by_external = {call.external: call for thread in calls.values() for call in thread if call.external is not None}
    times: dict[int, float] = defaultdict(float)
    for correlation, external, duration in kernels:
        call = _enclosing(calls, starts, launches.get(correlation)) if launches else by_external.get(external)
        if call is not None:
            times[id(call)] += duration * MICROSECOND_S
    return times


def _enclosing(
    calls: Mapping[object, Sequence[_Call]],
    starts: Mapping[object, Sequence[float]],
    launch: tuple[object, float] | None,
) -> _Call | None:
    """The call inside which a launch lies, on its thread."""
    if launch is None or launch[0] not in calls:
        return None
    thread, time = launch
    position = bisect.bisect_right(starts[thread], time) - 1
    if position < 0:
        return None
    call = calls[thread][position]
    return call if time <= call.end else None


def _add_collectives(trace: _Trace, tally: Tally, ranks: int | None) -> None:
    """From record_param_comms where it carries sizes (since 2024), else from the ranges of the backend."""
    world = ranks or (trace.distributed.world_size if trace.distributed else 0)
    described = [
        event.args
        for event in trace.events
        if event.name == "record_param_comms" and event.args is not None and _decode(event.args.sent) is not None
    ]
    for args in described:
        name = str(_decode(args.collective)).lower()
        operator, sent, received = COLLECTIVES.get(name), int(_decode(args.sent)), int(_decode(args.received) or 0)
        group = int(_decode(args.ranks) or world)
        if operator and sent:
            _add_message(tally, operator, TYPES.get(str(_decode(args.dtype)).lower()), sent, received, group)
    if described:
        return
    for event in trace.events:
        backend, _, name = event.name.partition(":")
        if backend not in ("nccl", "gloo", "rccl", "hccl", "xccl") or event.cat == "gpu_user_annotation":
            continue
        operator = COLLECTIVES.get(name.lower())
        if operator is None or event.args is None:
            continue
        sent, types = elements_of(_decode(event.args.dims)), _decode(event.args.types) or []
        dtype = TYPES.get(str(types[0]).lower()) if types else None
        _add_message(tally, operator, dtype, sent, sent * max(1, world), world)


def _add_message(tally: Tally, operator: str, dtype: str | None, sent: int, received: int, ranks: int) -> None:
    if not ranks:
        tally.skip(f"{operator}: number of ranks not recorded, give it")
    elif ranks == 1:
        tally.skip(f"{operator}: one rank, nothing is sent")
    else:
        tally.add(operator, dtype, message_axes(operator, sent, received, ranks) if sent else None)
