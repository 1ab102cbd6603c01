"""Options that many commands share, and who is typing."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

Store = Annotated[
    str | None,
    typer.Option(help="Folder or s3:// of the store.", show_default="$KERNEL_OBSERVATORY_STORE or ./observatory-data"),
]
Json = Annotated[bool, typer.Option("--json", help="As JSON.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done; change nothing.")]


def user_name() -> str:
    """Who acts, where nobody says: the login's name, or `unknown` (a container's user may have none)."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
