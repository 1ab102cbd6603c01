"""The stub NVML built once a session, and fresh processes that meet it in place of a driver's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("nvml_stub.c")

READ = """
import dataclasses, json, sys
from collector.node.nvml import NvmlProbe
print(json.dumps([dataclasses.asdict(r) for r in NvmlProbe(sys.argv[1]).read()]))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlStub:
    """A folder with libnvidia-ml.so.1, and the file of its answers."""

    folder: Path
    answers: Path

    @property
    def environment(self) -> dict[str, str]:
        """Variables under which a fresh process loads this library."""
        return {"LD_LIBRARY_PATH": str(self.folder), "NVML_STUB": str(self.answers)}

    def say(self, **answers: int) -> None:
        """Replace all answers; a dot in a key is written as two underscores."""
        lines = [f"{key.replace('__', '.')} {value}\n" for key, value in answers.items()]
        staged = self.answers.with_suffix(".staged")
        staged.write_text("".join(lines))
        staged.replace(self.answers)

    def calls(self) -> list[str]:
        """What was set, in order: `lock CARD LOW HIGH`, `reset CARD 0 0`."""
        log = Path(f"{self.answers}.log")
        return log.read_text().splitlines() if log.exists() else []

    def python(self, program: str, *arguments: str, **variables: str) -> str:
        """What a fresh Python prints that runs this program, warnings being errors."""
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", program, *arguments],
            env=os.environ | self.environment | variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def read(self, unit: str, **variables: str) -> dict[str, dict[str, Any]]:
        """All readings of one device by metric."""
        return {r["metric"]: r for r in json.loads(self.python(READ, unit, **variables))}


def build(folder: Path, *flags: str) -> NvmlStub:
    """Compile the stub into this folder."""
    library = folder / "libnvidia-ml.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-Wall", "-Werror", *flags, "-o", library, SOURCE], check=True)
    answers = folder / "answers"
    answers.write_text("")
    return NvmlStub(folder=folder, answers=answers)
