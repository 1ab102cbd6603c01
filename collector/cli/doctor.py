"""`collector doctor`: what this machine can measure and tell, what will be missing, and why."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from collector.cli.options import Json, Store
from collector.cli.places import store_uri

if TYPE_CHECKING:
    from collector.node.doctor.fact import Fact

SIGNS = {"good": " ", "note": "~", "missing": "–", "bad": "!"}
MEANINGS = "~ works, noisier · – will be missing · ! a run fails or measures something else"
HISTORY_DAYS = 7


def register(app: typer.Typer) -> None:
    app.command("doctor")(doctor)


def doctor(
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, xpu ...; KIND:INDEX for one of several.")] = "auto",
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Look at device, driver, permissions, clocks, software, disks, clock, alerts and schedule; change nothing.

    Exits with 0 whatever it finds: what is missing is in the table, with the reason and what to do.

    Example: collector doctor --device cuda:0
    """
    from collector.cli.run import parse_device
    from collector.node.doctor.examine import examine, whole

    kind, index = parse_device(device)
    place = store_uri(store)
    facts = examine(kind, index, place)
    for section, check in (("alerts", lambda: _alerts(place)), ("schedule", _schedule)):
        facts += whole(section, check)
    if as_json:
        typer.echo(json.dumps({"facts": [_document(fact) for fact in facts]}, indent=1, ensure_ascii=False))
        return
    _print(facts)


def _document(fact: Fact) -> dict[str, str | None]:
    return {
        "section": fact.section,
        "name": fact.name,
        "value": fact.value,
        "health": fact.health.value,
        "words": fact.words,
        "way_out": fact.way_out,
    }


def _print(facts: list[Fact]) -> None:
    """A section a paragraph; words and ways out under what they belong to."""
    width = max(len(fact.name) for fact in facts)
    section = ""
    for fact in facts:
        if fact.section != section:
            section = fact.section
            typer.echo(f"\n{section}")
        value = fact.value if fact.value is not None else "–"
        typer.echo(f" {SIGNS[fact.health]} {fact.name:<{width}}  {value}")
        for prefix, words in (("", fact.words), ("→ ", fact.way_out)):
            if words:
                typer.echo(f"   {'':<{width}}  {prefix}{words}")
    counted = {health: sum(fact.health == health for fact in facts) for health in SIGNS}
    typer.echo(f"\n{MEANINGS}")
    typer.echo(f"{counted['bad']} bad, {counted['missing']} missing, {counted['note']} notes")


def _alerts(place: str) -> list[Fact]:
    """Routes that are configured, messages that wait, and those that were given up."""
    from collector.node.doctor.fact import Fact, Health, guarded

    section = "alerts"

    def routes() -> Fact:
        from collector.host.notify.config import load_alerts
        from collector.host.notify.errors import AlertConfigError

        try:
            config = load_alerts()
        except AlertConfigError as error:
            return Fact(section=section, name="routes", value=None, health=Health.BAD, words=str(error))
        if not config.routes:
            words, way_out = "nobody is told of a finding", "write alerts.toml, or set $KERNEL_OBSERVATORY_WEBHOOK"
            return Fact(section=section, name="routes", value="none", health=Health.NOTE, words=words, way_out=way_out)
        value = "; ".join(route.describe() for route in config.routes)
        words = f"from {config.source}; messages link to {config.base_url or 'nothing: base_url is not set'}"
        return Fact(section=section, name="routes", value=value, words=words, way_out="collector notify test ROUTE")

    def outbox() -> Fact:
        from collector.host.notify.outbox import Outbox
        from store.lake.errors import StoreError
        from store.lake.lake import Lake

        try:
            lake = Lake.open(place)
        except StoreError as error:
            return Fact(section=section, name="outbox", value=None, words=str(error))
        try:
            waiting, dead = Outbox(lake).waiting(), Outbox(lake).dead()
        finally:
            lake.close()
        value = f"{len(waiting)} wait, {len(dead)} dead letters"
        if not dead:
            return Fact(section=section, name="outbox", value=value)
        words = f"given up, the last on route {dead[-1].route}: {dead[-1].response or 'no answer'}"
        way_out = "collector notify dead; collector notify revive"
        return Fact(section=section, name="outbox", value=value, health=Health.BAD, words=words, way_out=way_out)

    return [guarded(section, "routes", routes), guarded(section, "outbox", outbox)]


def _schedule() -> list[Fact]:
    """What became of the last week's jobs of `collector schedule`."""
    from datetime import UTC, datetime, timedelta

    from collector.cli.schedule import schedule_folder
    from collector.host.schedule.history import History, ScheduleOutcome
    from collector.node.doctor.fact import Fact, Health

    section = "schedule"
    since = datetime.now(UTC) - timedelta(days=HISTORY_DAYS)
    folder = schedule_folder(None)
    written = History(folder).read() if folder.is_dir() else []
    events = [event for event in written if event.at >= since]
    fine = {ScheduleOutcome.STARTED, ScheduleOutcome.DONE, ScheduleOutcome.YIELDED}
    wrong = [event for event in events if event.outcome not in fine]
    done = sum(event.outcome is ScheduleOutcome.DONE for event in events)
    if not events:
        words = "no job ran here by `collector schedule` in a week; cron and systemd keep records of their own"
        return [Fact(section=section, name="history", value=None, words=words)]
    value = f"{done} done, {len(wrong)} not, in {HISTORY_DAYS} days"
    if not wrong:
        return [Fact(section=section, name="history", value=value)]
    last = wrong[-1]
    words = f"last: {last.job or 'scheduler'} {last.outcome} at {last.at:%Y-%m-%d %H:%M} UTC {last.words}".rstrip()
    way_out = "collector schedule history"
    return [Fact(section=section, name="history", value=value, health=Health.NOTE, words=words, way_out=way_out)]
