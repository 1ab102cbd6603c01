"""Devices behind one protocol: cpu, what torch.accelerator drives, and the entry points of other packages.

A package adds a device by an entry point in the group `kernel_observatory.devices`: its name is the kind, its value a
callable `(index: int) -> collector.node.devices.base.Device`.
"""

from __future__ import annotations

from importlib.metadata import entry_points

from collector.node.devices.base import Device

ENTRY_POINT_GROUP = "kernel_observatory.devices"


class DeviceError(RuntimeError):
    """The device that was asked for is not there; the message is one line. Exit code 3."""


def open_device(kind: str, index: int = 0) -> Device:
    """The device of this kind. `auto` is the accelerator that torch sees, else the CPU. Raises DeviceError."""
    for entry in entry_points(group=ENTRY_POINT_GROUP, name=kind):
        try:
            device: Device = entry.load()(index)
        except Exception as error:
            raise DeviceError(f"device {kind}:{index}: {entry.value} failed: {error}") from error
        return device
    from collector.node.devices.accelerator import Accelerator, NoAcceleratorError, current_accelerator

    if kind == "auto":
        found = current_accelerator()
        kind = "cpu" if found is None else found.type
    if kind == "cpu":
        from collector.node.devices.cpu import Cpu

        return Cpu()
    try:
        return Accelerator(kind, index)
    except NoAcceleratorError as error:
        raise DeviceError(f"{error}. Use --device auto or cpu") from None
