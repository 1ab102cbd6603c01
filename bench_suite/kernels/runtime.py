"""What a launch has to know of where it runs."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
import triton


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceTraits:
    """What configurations are chosen by."""

    architecture: str
    """sm_80, sm_90, gfx942, ...; "interpreter" on a CPU."""
    processors: int
    """Streaming multiprocessors or compute units: programs that run at the same time, times a small number."""


def interpreted() -> bool:
    """Whether kernels run in Triton's interpreter, on CPU tensors (TRITON_INTERPRET=1 before the first import)."""
    return bool(triton.knobs.runtime.interpret)


def upcasts(dtype: torch.dtype) -> bool:
    """Whether operands of a dot must be widened first: the interpreter multiplies bf16 as bit patterns.

    https://github.com/triton-lang/triton/issues/11584; elsewhere widening would cost the matrix units.
    """
    return interpreted() and dtype == torch.bfloat16


def device_traits(device: torch.device) -> DeviceTraits:
    """Traits of the device a tensor lives on."""
    if interpreted() or device.type == "cpu":
        return DeviceTraits(architecture="interpreter", processors=4)
    return _query(device.type, device.index if device.index is not None else torch.cuda.current_device())


@functools.cache
def _query(device_type: str, index: int) -> DeviceTraits:
    properties = torch.get_device_module(device_type).get_device_properties(index)
    name = getattr(properties, "gcnArchName", "").split(":")[0]
    if not name:
        major, minor = getattr(properties, "major", 0), getattr(properties, "minor", 0)
        name = f"sm_{major}{minor}"
    return DeviceTraits(architecture=name, processors=int(getattr(properties, "multi_processor_count", 1)))
