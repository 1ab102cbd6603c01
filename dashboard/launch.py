"""Starts the dashboard as a process of its own; what `collector dashboard` calls. Imports no Streamlit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

APP = Path(__file__).with_name("app.py")
DEFAULT_PORT = 8501
DEFAULT_ADDRESS = "127.0.0.1"


class DashboardError(ValueError):
    """The dashboard cannot be started; the message is one line."""


def command(store: str | Path, *, port: int = DEFAULT_PORT, address: str = DEFAULT_ADDRESS) -> list[str]:
    """The command line that serves `store`. The look and the rest of the settings lie beside app.py.

    Raises:
        DashboardError: the port is out of range.
    """
    if not 0 < port < 65536:
        raise DashboardError(f"port is {port}, must be in 1..65535; another one with --port")
    return [
        sys.executable, "-m", "streamlit", "run", str(APP),
        "--server.port", str(port), "--server.address", address, "--server.headless", "true",
        "--browser.gatherUsageStats", "false", "--browser.serverAddress", address,
        "--server.fileWatcherType", "none",
        "--", "--store", str(store),
    ]  # fmt: skip


def start(store: str | Path, *, port: int = DEFAULT_PORT, address: str = DEFAULT_ADDRESS) -> subprocess.Popen[bytes]:
    """The server as a child process, not waited for. Close it with `terminate()`."""
    # Streamlit reads ~/.streamlit/credentials.toml and asks for an e-mail address where there is a terminal.
    environment = os.environ | {"STREAMLIT_SERVER_SHOW_EMAIL_PROMPT": "false"}
    return subprocess.Popen(command(store, port=port, address=address), env=environment)


def serve(store: str | Path, port: int = DEFAULT_PORT, address: str = DEFAULT_ADDRESS) -> int:
    """Serves `store` until it is interrupted; returns the exit status.

    The address is this machine alone unless another is asked for: anyone who reaches it sees the store and can triage,
    unless sign-in is configured (docs/dashboard.md).
    """
    child = start(store, port=port, address=address)
    try:
        return child.wait()
    except KeyboardInterrupt:
        child.terminate()
        child.wait(timeout=10)
        return 0
