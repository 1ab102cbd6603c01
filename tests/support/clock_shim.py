"""A process whose wall clock a test sets, while its steady clock goes on: jumps, other days, clocks set back."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from datetime import UTC, datetime
from pathlib import Path

SOURCE = Path(__file__).with_name("clock_shim.c")


def compiler() -> str | None:
    """The C compiler of this machine."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


class SetClock:
    """The clock of the processes that are started with `environment`."""

    def __init__(self, folder: Path) -> None:
        program = compiler()
        assert program is not None
        self._library = folder / "clock_shim.so"
        self._file = folder / "clock"
        build = [program, "-shared", "-fPIC", "-O1", "-o", str(self._library), str(SOURCE), "-ldl", "-lm"]
        subprocess.run(build, check=True)
        self._file.write_bytes(struct.pack("d", 0.0))

    @property
    def environment(self) -> dict[str, str]:
        """This process's environment with the clock in it."""
        return os.environ | {"LD_PRELOAD": str(self._library), "CLOCK_SHIM_FILE": str(self._file)}

    def set(self, at: datetime) -> None:
        """Makes it `at` there, now."""
        self._write((at - datetime.now(UTC)).total_seconds())

    def move(self, seconds: float) -> None:
        """A jump."""
        self._write(struct.unpack("d", self._file.read_bytes())[0] + seconds)

    def _write(self, offset_s: float) -> None:
        with self._file.open("r+b") as file:  # written in place: it is mapped
            file.write(struct.pack("d", offset_s))
