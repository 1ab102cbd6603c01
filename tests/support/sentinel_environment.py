"""A second Python environment, made in a moment: its own interpreter and library, our packages behind its own."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

LIBRARY = "observatory_test_toolchain"


def make_environment(folder: Path, *, with_packages: bool = True) -> Path:
    """The interpreter of a new virtual environment, which sees our packages behind its own, or none."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=120)
    if with_packages:
        (site_packages(folder) / "behind.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n")
    return folder / "bin" / "python"


def site_packages(folder: Path) -> Path:
    """Where the environment has its packages."""
    return next(folder.glob("lib/python3*/site-packages"))


def put_library(folder: Path, *, times: int, version: str) -> Path:
    """The library that `beside.py` asks, with its metadata, in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{LIBRARY}.py").write_text(f"TIMES = {times}\n")
    described = folder / f"{LIBRARY}-{version}.dist-info"
    described.mkdir()
    (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {LIBRARY}\nVersion: {version}\n")
    return folder


def put_compiler(folder: Path, version: str) -> Path:
    """A C++ compiler that is the system's under another version."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "newer-c++"
    program.write_text(
        f'#!/bin/sh\nif [ "$1" = --version ]; then echo "newer-c++ {version}"; exit 0; fi\nexec g++ "$@"\n'
    )
    program.chmod(0o755)
    return program
