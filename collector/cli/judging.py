"""`collector detect` and `collector notify`: judge what is in a store, and tell it."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from collector.cli.options import Json, Store
from collector.cli.places import store_uri

if TYPE_CHECKING:
    from collector.host.judge_report import JudgeReport
    from detection.findings import FindingEvent

notify_app = typer.Typer(rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    app.command("detect")(detect)
    app.add_typer(notify_app, name="notify")


def detect(
    store: Store = None,
    policy: Annotated[str, typer.Option(help="Policy to judge by: a shipped name or a .toml file.")] = "default",
    replay: Annotated[
        bool, typer.Option("--replay", help="Judge a history as if each run had just come in; say what was said when.")
    ] = False,
    fail_on_regression: Annotated[
        bool, typer.Option("--fail-on-regression", help="Exit 1 on a confirmed one.")
    ] = False,
    workers: Annotated[int, typer.Option(help="Processes that judge device units side by side.", min=1)] = 1,
    scheduler: Annotated[
        str | None, typer.Option(help="Dask scheduler whose workers do that instead, as tcp://head:8786.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Judge every run that was not judged yet.

    What waits in the inbox is ingested before, and the findings that are open are listed.

    With --replay each run is judged knowing only what came before it, and what is said bears the run's own time: for
    a history that was imported.

    Examples:

      collector detect --store /srv/observatory

      collector detect --replay --store imported
    """
    from datetime import UTC, datetime

    from collector.cli.words import counted
    from collector.host.findings_store import fold_all, read_events, read_triage
    from collector.host.judge import judge
    from collector.host.night import CLOSED, finding_document, line_document
    from collector.host.partitions import workers_of
    from collector.host.policies import load_policy
    from store.lake.lake import Lake

    rules = load_policy(policy)
    lake = Lake.open(store_uri(store))
    ingested = lake.ingest()
    judges = workers_of(processes=workers, scheduler=scheduler)
    report = judge(lake, policy=rules, at_run_time=replay, workers=judges)
    findings = fold_all(read_events(lake), read_triage(lake), now=datetime.now(UTC))
    chosen = [f for f in findings.values() if f.state.value not in CLOSED]
    documents = [finding_document(f) for f in sorted(chosen, key=lambda f: -abs(f.facts.price or 0.0))]
    if as_json:
        verdicts = [line_document(line) | {"run_id": line.run_id} for line in report.lines]
        answer: dict[str, Any] = {"runs": report.runs, "verdicts": verdicts, "findings": documents}
        if replay:
            answer["events"] = [event_document(event) for event in report.events]
        typer.echo(json.dumps(answer, default=str))
    else:
        for event in sorted(report.events, key=lambda e: e.at) if replay else ():
            typer.echo(event_line(event))
        runs, opened = counted(len(ingested.ingested), "run"), counted(len(documents), "finding")
        typer.echo(f"{runs} ingested, {len(report.runs)} judged, {opened} open")
        if counts := against_history(report):
            typer.echo(f"against history: {counts}")
        elif replay and not report.runs:
            typer.echo("nothing to replay: a run that was judged stays as it was judged; a new store replays all of it")
        for name, reason in ingested.quarantined:
            typer.echo(f"quarantined {name}: {reason}")
        told = {event.facts.sentence for event in report.events} if replay else set()
        for notice in report.notices:
            if notice not in told:
                typer.echo(notice)
        for finding in documents:
            words = f"{finding['finding_id']} {finding['state']} ({finding['finding_class']})"
            typer.echo(f"{words}: {finding['sentence']}")
    slower = [f for f in documents if f["state"] in ("confirmed", "reopened") and f["direction"] > 0]
    if fail_on_regression and slower:
        raise typer.Exit(1)


def against_history(report: JudgeReport) -> str:
    """How many verdicts of each status: `40 unchanged, 3 regressed, 19 not judged (short history)`."""
    lines = [line for line in report.lines if line.tier == "tonight" and line.against == "history"]
    whole = Counter(line.status.value for line in lines)
    why = Counter(line.code.value for line in lines if line.status == "not_judged")
    reasons = ", ".join(code.replace("_", " ") for code, _ in why.most_common())
    words = [f"{n} {status.replace('_', ' ')}" for status, n in whole.most_common()]
    return ", ".join(f"{word} ({reasons})" if word.endswith("not judged") else word for word in words)


_CHANGE = frozenset({"suspected", "moved", "reopened"})
"""Events that say what changed; the others say what has become of it."""


def event_document(event: FindingEvent) -> dict[str, Any]:
    """What was said of a finding in one moment."""
    facts = event.facts
    return {
        "at": event.at.isoformat(),
        "run_id": event.run_id,
        "finding_id": event.finding_id,
        "event": event.event.value,
        "finding_class": facts.finding_class.value,
        "metric": facts.metric.value,
        "direction": facts.direction,
        "title": facts.title,
        "change": facts.change,
        "sentence": facts.sentence if event.event in _CHANGE else facts.evidence.confirm or facts.sentence,
    }


def event_line(event: FindingEvent) -> str:
    """The same in one line: when, what, which, and why."""
    said = event_document(event)
    words = f"{event.at:%Y-%m-%d %H:%M} UTC {said['finding_id']} {said['event']} ({said['finding_class']})"
    return f"{words} {said['title']}: {said['sentence']}"


@notify_app.callback(invoke_without_command=True)
def send(
    context: typer.Context,
    store: Store = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would go where; send nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Tell what has been found to the configured chats.

    Sends the alerts that wait; where a service cannot be reached they wait on.

    Routes come from alerts.toml (or $KERNEL_OBSERVATORY_ALERTS), and from $KERNEL_OBSERVATORY_WEBHOOK.

    Example: KERNEL_OBSERVATORY_WEBHOOK='slack+https://hooks.slack.com/services/...' collector notify
    """
    if context.invoked_subcommand is not None:
        return
    from collector.host.notify.config import load_alerts
    from collector.host.notify.sender import notify
    from store.lake.lake import Lake

    report = notify(Lake.open(store_uri(store)), load_alerts(), dry_run=dry_run)
    if as_json:
        counts = {"queued": report.queued, "sent": report.sent, "waiting": report.waiting, "dead": report.dead}
        typer.echo(json.dumps(counts | {"lines": list(report.lines)}))
        return
    typer.echo(f"{report.sent} sent, {report.waiting} waiting, {report.dead} given up")
    for line in report.lines:
        typer.echo(line)
