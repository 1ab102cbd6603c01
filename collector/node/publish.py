"""Writes a run's bundle and puts it into an inbox, in a process of its own: Parquet and object storage cost the memory
of two parents.

    python -m collector.node.publish write REQUEST      the path of the published bundle on stdout
    python -m collector.node.publish put STORE BUNDLE

An error is one line on stderr and exit code 2.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collector.errors import ENVIRONMENT
from store.bundle.errors import BundleError, FullPlaceError

LIMIT_S = 1800.0

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is to be published, and where: it travels between two processes of one run."""

    spool: Path
    run_id: str
    tables: Mapping[str, Rows]
    manifest: Mapping[str, str]


def publish(request: Request) -> Path:
    """Write the bundle by a child process; it appears under its name whole or not at all. Raises BundleError."""
    with tempfile.TemporaryDirectory(prefix="kernel-observatory-") as folder:
        file = Path(folder) / "request.pickle"
        with file.open("wb") as out:
            pickle.dump(request, out, protocol=pickle.HIGHEST_PROTOCOL)
        return Path(_child("write", str(file)))


def put(store: str, bundle: Path) -> None:
    """Put a bundle into a store's inbox by a child process. Raises BundleError."""
    _child("put", store, str(bundle))


def _child(*arguments: str) -> str:
    command = [sys.executable, "-m", "collector.node.publish", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode == 0:
        return done.stdout.strip()
    lines = done.stderr.strip().splitlines() or [f"publishing ended with exit code {done.returncode}"]
    raise (FullPlaceError if done.returncode == ENVIRONMENT else BundleError)(lines[-1])


def write(file: Path) -> Path:
    """The child's part: what was left by killed writers is removed, then the bundle is written."""
    from store.bundle.writer import BundleWriter, remove_stale_staging

    with file.open("rb") as source:
        request: Request = pickle.load(source)
    remove_stale_staging(request.spool)
    with BundleWriter(request.spool, request.run_id) as writer:
        for name, rows in request.tables.items():
            writer.add(name, rows)
        return writer.publish(request.manifest)


def main(arguments: list[str]) -> int:
    from collector.errors import report

    try:
        if arguments[0] == "write":
            sys.stdout.write(f"{write(Path(arguments[1]))}\n")
        else:
            from store.bundle.inbox import Inbox

            Inbox.of_store(arguments[1]).put(arguments[2])
    except Exception as error:
        return report(error)
    return 0


if __name__ == "__main__":
    # Under its importable name, so that what was pickled there is found here.
    from collector.node import publish as this

    sys.exit(this.main(sys.argv[1:]))
