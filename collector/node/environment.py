"""The fingerprint of a run: every fact that may explain why its numbers differ from another run's.

Two halves: what the parent can tell without torch, and what a worker tells of torch and its libraries.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path

METHOD_VERSION = "2"
"""Of the harness. Raise it when the same kernel would read differently. History: 1 the first; 2 samples of 1 ms instead
of 2, ratios over neighbouring rounds instead of inside one."""

REVISION_VARIABLE = "KERNEL_OBSERVATORY_REVISION"
PACKAGES = ("torch", "triton", "numpy", "nvidia-ml-py")
VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "MKL_NUM_THREADS",
    "NCCL_ALGO",
    "NCCL_PROTO",
    "OMP_NUM_THREADS",
    "OPENBLAS_CORETYPE",
    "PYTORCH_CUDA_ALLOC_CONF",
    "TORCHINDUCTOR_MAX_AUTOTUNE",
    "TRITON_INTERPRET",
)


def versions() -> dict[str, str]:
    """In a worker: versions of torch, what it was built with, and what it runs on."""
    import torch

    facts = {f"version.{name}": found for name in PACKAGES if (found := _version(name))}
    facts["python"] = platform.python_version()
    if compiler := _compiler():
        facts["compiler"] = compiler
    facts["torch.cuda"] = str(torch.version.cuda)
    facts["torch.hip"] = str(torch.version.hip)
    facts["torch.git"] = str(torch.version.git_version)
    facts["torch.threads"] = str(torch.get_num_threads())
    facts["torch.cpu_capability"] = torch.backends.cpu.get_cpu_capability()
    facts["torch.mkldnn"] = str(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]
    for key, value in torch.cpu.get_capabilities().items():
        facts[f"cpu.{key}"] = str(value)
    return facts


def installed_packages() -> dict[str, str]:
    """In a worker: one hash over the names and versions of all that is installed in its environment."""
    found = sorted({f"{d.metadata['Name']}=={d.version}" for d in distributions()})
    return {"packages": hashlib.sha256("\n".join(found).encode()).hexdigest()[:12]}


def _compiler() -> str:
    """The first line that the C++ compiler says of itself, the one that torch.compile would take; empty for none."""
    chosen = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if not chosen:
        return ""
    try:
        done = subprocess.run([chosen, "--version"], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return (done.stdout.splitlines() or [""])[0].strip()


def host_facts() -> dict[str, str]:
    """What the parent knows: machine, kernel, governor, container, variables that change kernels."""
    facts = {
        "host": platform.node(),
        "os": _os_name(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": str(len(os.sched_getaffinity(0))),
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "boost": _read("/sys/devices/system/cpu/cpufreq/boost"),
        "transparent_hugepage": _read("/sys/kernel/mm/transparent_hugepage/enabled"),
        "microcode": _microcode(),
        "container": "docker" if Path("/.dockerenv").exists() else "",
        "package": _version("kernel-observatory") or "",
        "method": METHOD_VERSION,
    }
    facts.update({f"env.{name}": os.environ[name] for name in VARIABLES if name in os.environ})
    return {key: value for key, value in facts.items() if value}


def revision_under_test(given: str | None, folder: Path) -> str | None:
    """The revision of the code under test: what was given, else the variable, else git of `folder`; None if unknown.

    A working tree with changes is marked `-dirty`: two such runs may differ under one name.
    """
    if given:
        return given
    if os.environ.get(REVISION_VARIABLE):
        return os.environ[REVISION_VARIABLE]
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.system()


def _microcode() -> str:
    for line in _read("/proc/cpuinfo").splitlines():
        if line.startswith("microcode"):
            return line.partition(":")[2].strip()
    return ""
