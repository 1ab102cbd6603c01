"""Packages and compilers: who owns a module, what torch was built for, what torch.compile needs."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Mapping
from functools import partial
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path

from collector.node.doctor.fact import Fact, Health, guarded
from collector.node.doctor.machine import pci_accelerators

SECTION = "software"
NVML_OWNER = "nvidia-ml-py"
SHOWN = ("torch", "triton", "numpy", NVML_OWNER, "amdsmi")
MISSING_WORDS = {
    "torch": "nothing can be measured",
    "triton": "no Triton candidates and no torch.compile on an accelerator",
    "numpy": "nothing can be measured",
    NVML_OWNER: "no clocks, power, energy and throttling of NVIDIA devices",
    "amdsmi": "no clocks, power and energy of AMD devices",
}


def software(worker: Mapping[str, str]) -> list[Fact]:
    """Facts of the section `software`; `worker` is what a worker said of torch, empty where none started."""
    return [
        Fact(section=SECTION, name="python", value=f"{sys.version.split()[0]} ({sys.executable})"),
        *(guarded(SECTION, name, partial(_package, name)) for name in SHOWN),
        guarded(SECTION, "owner of pynvml", _owner),
        guarded(SECTION, "torch build", lambda: _build(worker, list(pci_accelerators()))),
        guarded(SECTION, "compiler", _compiler),
        guarded(SECTION, "Python headers", _headers),
    ]


def _package(name: str) -> Fact:
    try:
        return Fact(section=SECTION, name=name, value=version(name))
    except PackageNotFoundError:
        needed = name in ("torch", "numpy") or (name in (NVML_OWNER, "triton") and "NVIDIA" in pci_accelerators())
        needed = needed or (name == "amdsmi" and "AMD" in pci_accelerators())
        health = Health.BAD if name in ("torch", "numpy") else Health.MISSING if needed else Health.GOOD
        words = f"not installed: {MISSING_WORDS[name]}"
        way_out = "pip install 'kernel-observatory[node]'" if needed and name != "amdsmi" else ""
        return Fact(section=SECTION, name=name, value=None, health=health, words=words, way_out=way_out)


def _owner() -> Fact:
    """The distribution named pynvml is a deprecated shim over nvidia-ml-py that warns at every import of torch."""
    owners = packages_distributions().get("pynvml", [])
    return owner_fact(sorted(set(owners)), shim=_installed("pynvml"))


def owner_fact(owners: list[str], *, shim: bool) -> Fact:
    """What follows from who owns the module pynvml, and whether the deprecated distribution is installed."""
    name, value = "owner of pynvml", ", ".join([*owners, *(["pynvml (deprecated)"] if shim else [])]) or None
    if value is None:
        return Fact(section=SECTION, name=name, value=None, words=f"no package has it; {NVML_OWNER} does")
    if not shim and owners == [NVML_OWNER]:
        return Fact(section=SECTION, name=name, value=value)
    words = "the distribution pynvml warns whenever torch is imported: lines in cron's mail, errors in strict tests"
    if not shim:
        words = "another package than nvidia-ml-py gives this module: calls may be missing"
    way_out = f"pip uninstall pynvml; pip install --force-reinstall {NVML_OWNER}"
    return Fact(section=SECTION, name=name, value=value, health=Health.NOTE, words=words, way_out=way_out)


def _installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True


def _build(worker: Mapping[str, str], vendors: list[str]) -> Fact:
    """A torch built for another device than the one that is there measures the CPU, quietly."""
    name = "torch build"
    if not worker:
        return Fact(section=SECTION, name=name, value=None, health=Health.MISSING, words="no worker started")
    built = {kind: worker.get(f"torch.{kind}", "None") for kind in ("cuda", "hip")}
    value = next((f"{kind} {text}" for kind, text in built.items() if text != "None"), "cpu")
    for vendor, kind in (("NVIDIA", "cuda"), ("AMD", "hip")):
        if vendor in vendors and built[kind] == "None":
            words = (
                f"an {vendor} device is on the PCI bus, but this torch is built for {value}: it will not be measured"
            )
            way_out = "install the torch build for it: https://pytorch.org/get-started/locally"
            return Fact(section=SECTION, name=name, value=value, health=Health.BAD, words=words, way_out=way_out)
    return Fact(section=SECTION, name=name, value=value)


def _compiler() -> Fact:
    """What torch.compile builds CPU kernels with, and Triton its launchers."""
    wanted = [os.environ["CXX"]] if os.environ.get("CXX") else ["g++", "clang++"]
    found = next((path for name in wanted if (path := shutil.which(name))), None)
    if found:
        return Fact(section=SECTION, name="compiler", value=found)
    words = f"{' and '.join(wanted)} not found in PATH: candidates made by torch.compile will be `compile_error`"
    way_out = "apt-get install g++, or set CXX"
    return Fact(section=SECTION, name="compiler", value=None, health=Health.MISSING, words=words, way_out=way_out)


def _headers() -> Fact:
    path = Path(sysconfig.get_path("include")) / "Python.h"
    if path.exists():
        return Fact(section=SECTION, name="Python headers", value=str(path))
    words = f"no {path}: Triton cannot build its launchers"
    way_out = "apt-get install python3-dev"
    return Fact(section=SECTION, name="Python headers", value=None, health=Health.NOTE, words=words, way_out=way_out)
