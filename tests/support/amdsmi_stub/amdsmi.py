"""Stands for ROCm's package: two devices, the second of which refuses its temperature."""

from __future__ import annotations

from enum import Enum
from typing import Any


class AmdSmiException(Exception):  # noqa: N818 - the real name
    """As the real package raises for every code."""


class AmdSmiClkType(Enum):
    GFX = 0
    MEM = 1


class AmdSmiTemperatureType(Enum):
    HOTSPOT = 1


class AmdSmiTemperatureMetric(Enum):
    CURRENT = 0


class AmdSmiMemoryType(Enum):
    VRAM = 0


def amdsmi_init() -> None: ...


def amdsmi_get_processor_handles() -> list[int]:
    return [0, 1]


def amdsmi_get_gpu_device_uuid(handle: int) -> str:
    return f"{handle}{handle}ff-0000"


def amdsmi_get_gpu_asic_info(handle: int) -> dict[str, Any]:
    return {"asic_serial": f"0x00112233445566{handle}{handle}"}


def amdsmi_get_clock_info(handle: int, kind: AmdSmiClkType) -> dict[str, int]:
    return {"clk": 2100 if kind is AmdSmiClkType.GFX else 1300}


def amdsmi_get_gpu_metrics_info(handle: int) -> dict[str, int]:
    return {"throttle_status": 0}


def amdsmi_get_power_info(handle: int) -> dict[str, int]:
    return {"current_socket_power": 300 + handle}


def amdsmi_get_energy_count(handle: int) -> dict[str, float]:
    return {"energy_accumulator": 1_000_000, "counter_resolution": 15.3}


def amdsmi_get_temp_metric(handle: int, sensor: object, metric: object) -> int:
    if handle == 1:
        raise AmdSmiException("AMDSMI_STATUS_NOT_SUPPORTED")
    return 55


def amdsmi_get_gpu_activity(handle: int) -> dict[str, int]:
    return {"gfx_activity": 98}


def amdsmi_get_gpu_memory_usage(handle: int, kind: object) -> int:
    return 2**30


def amdsmi_get_gpu_process_list(handle: int) -> list[int]:
    return [1, 2]


def amdsmi_get_gpu_total_ecc_count(handle: int) -> dict[str, int]:
    return {"uncorrectable_count": 0}
