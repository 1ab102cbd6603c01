"""PyTorch's ExecutionTraceObserver files, schema 1.0.x (flat) and 1.1.x (nested, Chakra's). They hold no times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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

_GROUP_SIZE_POSITION = 9
"""Of record_param_comms' inputs: tensors, sequence, group, rank, name, two splits, first rank, stride, group size."""


class _Tensors(msgspec.Struct):
    values: list[Any] = []
    shapes: list[Any] = []
    types: list[str] = []


class _Attribute(msgspec.Struct):
    name: str
    value: Any = None


class _Node(msgspec.Struct):
    name: str
    inputs: _Tensors | list[Any] = []
    input_shapes: list[Any] = []
    input_types: list[str] = []
    attrs: list[_Attribute] = []
    id: int = 0
    ctrl_deps: int = 0
    parent: int = 0

    @property
    def shapes(self) -> list[Any]:
        return self.inputs.shapes if isinstance(self.inputs, _Tensors) else self.input_shapes

    @property
    def types(self) -> list[str]:
        return self.inputs.types if isinstance(self.inputs, _Tensors) else self.input_types

    @property
    def values(self) -> list[Any]:
        return self.inputs.values if isinstance(self.inputs, _Tensors) else self.inputs

    @property
    def caller(self) -> int:
        return self.ctrl_deps or self.parent


class _Trace(msgspec.Struct):
    nodes: list[_Node]
    schema: str = ""


def read(content: bytes, sha256: str, *, ranks: int | None = None) -> Recording:
    """The shapes of a trace. `ranks` is the group size where the trace has none; ShapeError for another schema."""
    try:
        trace = msgspec.json.decode(content, type=_Trace)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ShapeError(f"execution trace: {error}") from None
    if not trace.schema.startswith(("1.0.", "1.1.")):
        raise ShapeError(f"execution trace: schema is {trace.schema!r}, must be 1.0.x or 1.1.x")
    tally = Tally()
    attention = {node.id for node in trace.nodes if node.name == ATTENTION}
    for node in trace.nodes:
        operator = operator_of(node.name)
        if operator is None or (is_attention(node.name) and node.caller in attention):
            continue
        axes = axes_of(node.name, node.shapes)
        if is_attention(node.name):
            operator, axes = attention_of(node.name, node.shapes, node.values)
        tally.add(operator, dtype_of(node.types, node.name), axes)
    _add_collectives(trace.nodes, tally, ranks)
    recording = tally.recording("execution_trace", sha256)
    if not recording.shapes and not recording.skipped:
        raise ShapeError("execution trace: no operator of known shape in it; record a run that calls the model")
    return recording


def _add_collectives(nodes: Iterable[_Node], tally: Tally, ranks: int | None) -> None:
    """From record_param_comms where its attributes have sizes, else from the backend's nodes."""
    nodes = list(nodes)
    described = False
    for node in nodes:
        attributes: Mapping[str, Any] = {attribute.name: attribute.value for attribute in node.attrs}
        if node.name != "record_param_comms" or "in_msg_nelems" not in attributes:
            continue
        described = True
        operator, sent = (
            COLLECTIVES.get(str(attributes.get("collective_name")).lower()),
            int(attributes["in_msg_nelems"]),
        )
        if operator is None or not sent:
            continue
        dtype = TYPES.get(str(attributes.get("dtype")).lower())
        received = int(attributes.get("out_msg_nelems", sent))
        _add_message(tally, operator, dtype, sent, received, ranks or _group_size(node, attributes))
    if described:
        return
    for node in nodes:
        backend, _, name = node.name.partition(":")
        operator = COLLECTIVES.get(name.lower())
        if backend in ("nccl", "gloo", "rccl", "hccl", "xccl") and operator is not None:
            sent = elements_of(node.shapes)
            dtype = (
                TYPES.get(str(node.types[0]).lower().removeprefix("tensor(").removesuffix(")")) if node.types else None
            )
            _add_message(tally, operator, dtype, sent, sent * (ranks or 1), ranks or 0)


def _group_size(node: _Node, attributes: Mapping[str, Any]) -> int:
    recorded = attributes.get("group_size")
    if recorded is None and len(node.values) > _GROUP_SIZE_POSITION:
        recorded = node.values[_GROUP_SIZE_POSITION]
    return int(recorded) if isinstance(recorded, int) else 0


def _add_message(tally: Tally, operator: str, dtype: str | None, sent: int, received: int, ranks: int) -> None:
    if not ranks:
        tally.skip(f"{operator}: number of ranks not recorded, give it")
    elif ranks == 1:
        tally.skip(f"{operator}: one rank, nothing is sent")
    else:
        tally.add(operator, dtype, message_axes(operator, sent, received, ranks) if sent else None)
