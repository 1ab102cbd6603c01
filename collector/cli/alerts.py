"""`collector notify test`, `dead`, `revive`: looking after the routes and the outbox."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from collector.cli.options import Json, Store
from collector.cli.places import store_uri


def register(notify_app: typer.Typer) -> None:
    notify_app.command("test")(test_route)
    notify_app.command("routes")(routes)
    notify_app.command("dead")(dead)
    notify_app.command("revive")(revive)


def routes(as_json: Json = False) -> None:
    """List the routes that are configured, without their secrets.

    Example: collector notify routes
    """
    from collector.host.notify.config import load_alerts

    config = load_alerts()
    if as_json:
        rows = [{"name": r.name, "words": r.describe(), "kinds": list(r.kinds)} for r in config.routes]
        typer.echo(json.dumps({"source": config.source, "base_url": config.base_url, "routes": rows}))
        return
    typer.echo(f"{len(config.routes)} routes from {config.source}; base_url {config.base_url or 'is not set'}")
    for route in config.routes:
        typer.echo(f"  {route.describe()}; {', '.join(route.kinds)}")


def test_route(
    route: Annotated[str, typer.Argument(help="Name of the route; `environment` for $KERNEL_OBSERVATORY_WEBHOOK.")],
) -> None:
    """Send one message that says it is a test to a route, past filters, quiet hours and outbox.

    Example: collector notify test kernels
    """
    from collector.errors import UsageError
    from collector.host.notify.config import load_alerts
    from collector.host.notify.sender import send_test

    config = load_alerts()
    chosen = config.route(route)
    if chosen is None:
        known = ", ".join(known.name for known in config.routes) or "there is none"
        raise UsageError(f"route {route!r} is not in {config.source}; known: {known}")
    verdict = send_test(chosen, base_url=config.base_url)
    typer.echo(f"{chosen.describe()}: {verdict.outcome}, {verdict.words}")
    if verdict.outcome != "sent":
        raise typer.Exit(3)


def dead(store: Store = None, as_json: Json = False) -> None:
    """List the messages that were given up.

    Example: collector notify dead --store /srv/observatory
    """
    from collector.host.notify.outbox import Outbox
    from collector.host.notify.wording import headline
    from store.lake.lake import Lake

    letters = Outbox(Lake.open(store_uri(store))).dead()
    if as_json:
        rows = [
            {"route": x.route, "message_id": x.message.message_id, "finding_id": x.message.finding_id}
            | {"headline": headline(x.message), "response": x.response}
            for x in letters
        ]
        typer.echo(json.dumps(rows))
        return
    typer.echo(f"{len(letters)} dead letters" + ("; `collector notify revive` queues them again" if letters else ""))
    for letter in letters:
        name = letter.message.finding_id or letter.message.message_id
        typer.echo(f"{letter.route} {name}: {headline(letter.message)} (last answer: {letter.response})")


def revive(store: Store = None) -> None:
    """Queue every message that was given up again.

    Example: collector notify revive --store /srv/observatory
    """
    from datetime import UTC, datetime

    from collector.host.notify.outbox import Outbox
    from store.lake.lake import Lake

    outbox = Outbox(Lake.open(store_uri(store)))
    letters = outbox.dead()
    outbox.revive(letters, datetime.now(UTC))
    typer.echo(f"{len(letters)} queued again")
