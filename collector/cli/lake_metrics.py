"""`collector store metrics`: the figures of a store for Prometheus."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from collector.cli.options import Store
from collector.cli.places import store_uri


def register(store_app: typer.Typer) -> None:
    """Adds the command to `collector store`."""
    store_app.command("metrics")(metrics)


def metrics(
    store: Store = None,
    textfile: Annotated[
        Path | None, typer.Option(help="Write them to this .prom file, for node_exporter's textfile collector.")
    ] = None,
    serve: Annotated[str | None, typer.Option(help="Answer GET /metrics at HOST:PORT until interrupted.")] = None,
) -> None:
    """Say a store's figures in Prometheus' text format.

    Runs, series that fail, open findings, age of each device's latest run, what waits in inbox and outbox.

    Examples:

      collector store metrics --textfile /var/lib/node_exporter/kernel_observatory.prom

      collector store metrics --serve 0.0.0.0:9464
    """
    from collector.errors import UsageError
    from collector.host.metrics import metrics_text, write_textfile
    from collector.host.metrics import serve as start_serving
    from store.lake.lake import Lake

    lake = Lake.open(store_uri(store))
    if textfile is not None:
        try:
            write_textfile(lake, textfile)
        except OSError as error:
            raise UsageError(f"--textfile {textfile}: cannot be written: {error.strerror}") from error
    elif serve is None:
        typer.echo(metrics_text(lake), nl=False)
    if serve is None:
        return
    host, port = _address(serve)
    try:
        server, thread = start_serving(lake, host, port)
    except OSError as error:
        raise UsageError(f"--serve {serve}: cannot listen there: {error.strerror}") from error
    typer.echo(f"http://{host}:{server.server_address[1]}/metrics")
    thread.join()


def _address(text: str) -> tuple[str, int]:
    from collector.errors import UsageError

    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"--serve is {text!r}, must be HOST:PORT, as 127.0.0.1:9464")
    return host.strip("[]"), int(port)
