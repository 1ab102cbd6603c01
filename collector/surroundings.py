"""What cron leaves out of an environment, put back: compilers are found by PATH, caches by HOME."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Mapping
from pathlib import Path

STANDARD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def whole_environment(given: Mapping[str, str]) -> dict[str, str]:
    """The environment with a PATH that holds this Python and the system's programs, a HOME and a UTF-8 locale.

    What is given stays as it is and in front.
    """
    environment = dict(given)
    here = str(Path(sys.executable).parent)
    parts = [part for part in environment.get("PATH", "").split(":") if part]
    wanted = [*parts, *(part for part in STANDARD_PATH.split(":") if part not in parts)]
    environment["PATH"] = ":".join(wanted if here in wanted else [here, *wanted])
    if not environment.get("HOME"):
        environment["HOME"] = pwd.getpwuid(os.getuid()).pw_dir
    if not environment.get("LC_ALL") and not environment.get("LANG"):
        environment["LANG"] = "C.UTF-8"
    return environment


def make_whole() -> None:
    """Puts it back for this process and all it starts."""
    os.environ.update(whole_environment(os.environ))
