"""`collector dashboard`: serve the pages of a store."""

from __future__ import annotations

from typing import Annotated

import typer

from collector.cli.places import store_uri


def register(app: typer.Typer) -> None:
    app.command("dashboard")(dashboard)


def dashboard(
    store: Annotated[str | None, typer.Option(help="Folder or s3:// of the store.")] = None,
    port: Annotated[int, typer.Option(help="TCP port.")] = 8501,
    address: Annotated[str, typer.Option(help="Address to listen on; other machines reach 0.0.0.0.")] = "127.0.0.1",
) -> None:
    """Serve the dashboard of a store, on this machine only unless an address is given.

    Example: collector dashboard --store /srv/observatory --port 8501
    """
    from dashboard.launch import serve

    raise typer.Exit(serve(store_uri(store), port=port, address=address))
