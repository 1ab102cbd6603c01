"""An AMD device through AMD SMI (the package `amdsmi` of a ROCm installation), where it is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from collector.node.readings import Reading, one

DRIVER = Path("/sys/module/amdgpu")

METRICS = (
    ("sm_clock", "Hz"),
    ("memory_clock", "Hz"),
    ("throttle_status", "bits"),
    ("power", "W"),
    ("energy", "J"),
    ("temperature", "C"),
    ("sm_utilization", "share"),
    ("memory_used", "bytes"),
    ("processes", "count"),
    ("ecc_uncorrected", "count"),
)
"""Every metric of the probe with its unit; where NVIDIA has the same, under the same name."""


class AmdProbe:
    """Telemetry of one AMD device."""

    def __init__(self, unit: str) -> None:
        self._failure = ""
        try:
            import amdsmi  # type: ignore[import-not-found]

            amdsmi.amdsmi_init()
            self._smi: Any = amdsmi
            self._handle = find(amdsmi, unit)
        except ImportError:
            self._failure = "the package amdsmi is not installed; it comes with ROCm"
        except Exception as error:  # AMD SMI has a class of its own for each code
            self._failure = str(error) or type(error).__name__

    def read(self) -> list[Reading]:
        if self._failure:
            return [Reading(metric=m, unit=u, value=None, reason=f"AMD SMI: {self._failure}") for m, u in METRICS]
        readers = dict(self._readers(self._smi, self._handle))
        return [one(metric, unit, readers[metric], "AMD SMI") for metric, unit in METRICS]

    @staticmethod
    def _readers(smi: Any, handle: Any) -> Iterator[tuple[str, Callable[[], float]]]:
        yield "sm_clock", lambda: smi.amdsmi_get_clock_info(handle, smi.AmdSmiClkType.GFX)["clk"] * 1e6
        yield "memory_clock", lambda: smi.amdsmi_get_clock_info(handle, smi.AmdSmiClkType.MEM)["clk"] * 1e6
        yield "throttle_status", lambda: smi.amdsmi_get_gpu_metrics_info(handle)["throttle_status"]
        yield "power", lambda: smi.amdsmi_get_power_info(handle)["current_socket_power"]
        yield "energy", lambda: _energy_j(smi.amdsmi_get_energy_count(handle))
        yield (
            "temperature",
            lambda: smi.amdsmi_get_temp_metric(
                handle, smi.AmdSmiTemperatureType.HOTSPOT, smi.AmdSmiTemperatureMetric.CURRENT
            ),
        )
        yield "sm_utilization", lambda: smi.amdsmi_get_gpu_activity(handle)["gfx_activity"] / 100
        yield "memory_used", lambda: smi.amdsmi_get_gpu_memory_usage(handle, smi.AmdSmiMemoryType.VRAM)
        yield "processes", lambda: len(smi.amdsmi_get_gpu_process_list(handle))
        yield "ecc_uncorrected", lambda: smi.amdsmi_get_gpu_total_ecc_count(handle)["uncorrectable_count"]


def find(smi: Any, unit: str) -> Any:
    """The handle of the device whose UUID or serial number this unit holds; the only one where there is one.

    Raises LookupError where several are there and none matches: an index would be a guess.
    """
    handles = smi.amdsmi_get_processor_handles()
    if len(handles) == 1:
        return handles[0]
    wanted = serials(unit)
    for handle in handles:
        names = {str(smi.amdsmi_get_gpu_device_uuid(handle)).lower()}
        names.add(str(smi.amdsmi_get_gpu_asic_info(handle)["asic_serial"]).lower().removeprefix("0x"))
        if names & wanted:
            return handle
    raise LookupError(f"none of {len(handles)} devices has the identity {unit}")


def serials(unit: str) -> set[str]:
    """The forms in which a unit may be known: as it is, and its bytes read as text, as HIP packs a serial number."""
    bare = unit.lower().removeprefix("gpu-")
    forms = {bare}
    try:
        forms.add(bytes.fromhex(bare.replace("-", "")).decode("ascii").strip("\0").lower())
    except ValueError:
        return forms
    return forms


def _energy_j(count: Any) -> float:
    """Counter times its resolution in microjoules."""
    ticks = count.get("energy_accumulator", count.get("power"))
    return float(ticks) * float(count["counter_resolution"]) / 1e6
