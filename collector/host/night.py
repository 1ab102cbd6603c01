"""The host's part of a run, as a process: `python -m collector.host.night VERB` answers with one JSON document.

A process of its own, so that the parent of a run stays small, and a node without the [host] extra still runs.
Verbs: open, make, judge, take, notify. An error is one line on stderr and an exit code of DESIGN's.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from collector.errors import report

if TYPE_CHECKING:
    from collector.host.judge_report import JudgeReport
    from collector.host.requests import ConfirmRequest
    from collector.host.verdict_rows import VerdictLine
    from detection.findings import Finding
    from detection.policy import Policy
    from store.lake.lake import Lake

CLOSED = ("refuted", "resolved", "expected")


def open_store(store: str, policy: str, *, make: bool) -> dict[str, Any]:
    """Find the store to be one, or `make` it, and read policy and alert routes: mistakes are said before measuring."""
    from collector.host.notify.config import load_alerts
    from collector.host.policies import load_policy
    from store.lake.lake import Lake

    load_policy(policy)
    routes = load_alerts().routes
    lake = Lake.create(store) if make else Lake.open(store)
    return {"store": lake.uri, "new": lake.latest_seq() == 0, "routes": len(routes)}


def judge_runs(lake: Lake, policy: Policy, *, run_id: str, device_unit: str) -> dict[str, Any]:
    """Ingest what waits, judge what is unjudged, and say what concerns this run and this device."""
    from collector.host.findings_store import fold_all, read_events, read_triage
    from collector.host.judge import judge
    from collector.host.requests import expire_requests, open_requests

    ingested = lake.ingest()
    report = judge(lake, policy=policy)
    now = datetime.now(UTC)
    expire_requests(lake, now=now, policy=policy)
    findings = fold_all(read_events(lake), read_triage(lake), now=now)
    requests = open_requests(lake, device_unit=device_unit, now=now, policy=policy)
    quarantined = [f"quarantined {name}: {reason}" for name, reason in ingested.quarantined]
    return {
        "verdicts": [line_document(line) for line in report.lines if line.run_id == run_id],
        "findings": [finding_document(f) for f in _of_interest(findings.values(), report, device_unit)],
        "requests": [request_document(r) for r in requests],
        "notices": [*quarantined, *report.notices],
    }


def _of_interest(findings: Iterable[Finding], report: JudgeReport, device_unit: str) -> list[Finding]:
    """Findings of this device that are open, and those that this judging closed; dearest first."""
    touched = set(report.findings)
    here = [f for f in findings if f.facts.device_unit == device_unit]
    chosen = [f for f in here if f.state.value not in CLOSED or f.finding_id in touched]
    return sorted(chosen, key=lambda f: -abs(f.facts.price or 0.0))


def line_document(line: VerdictLine) -> dict[str, Any]:
    return {
        "case_id": line.case_id,
        "arm": line.arm,
        "metric": line.metric,
        "tier": line.tier,
        "against": line.against,
        "status": line.status.value,
        "code": line.code.value,
        "sentence": line.sentence,
        "change": line.change,
    }


def finding_document(finding: Finding) -> dict[str, Any]:
    facts = finding.facts
    members = facts.evidence.members
    return {
        "finding_id": finding.finding_id,
        "state": finding.state.value,
        "finding_class": facts.finding_class.value,
        "metric": facts.metric.value,
        "direction": facts.direction,
        "title": facts.title,
        "shape": facts.shape,
        "change": facts.change,
        "change_low": facts.change_low,
        "change_high": facts.change_high,
        "price": facts.price,
        "cause": facts.cause,
        "sentence": " ".join(part for part in (facts.sentence, facts.evidence.confirm) if part),
        "case_ids": [facts.case_id, *(m.case_id for m in members)],
        "arms": sorted({facts.arm, *(m.arm for m in members)}),
    }


def request_document(request: ConfirmRequest) -> dict[str, Any]:
    return {
        "request_id": request.request_id,
        "finding_id": request.finding_id,
        "case_id": request.case_id,
        "suite": request.suite,
        "replicates": request.replicates,
        "reason": request.reason,
    }


def take(lake: Lake, policy: Policy, *, request_id: str, device_unit: str, actor: str) -> dict[str, Any]:
    """Mark a request as being measured by this node; `taken` is false where another was faster."""
    from collector.host.requests import open_requests, take_request

    now = datetime.now(UTC)
    found = [
        r for r in open_requests(lake, device_unit=device_unit, now=now, policy=policy) if r.request_id == request_id
    ]
    return {"taken": bool(found) and take_request(lake, found[0], actor=actor, now=now)}


def tell(lake: Lake) -> dict[str, Any]:
    """Send the alerts that wait; where nothing can be reached they wait on."""
    from collector.host.notify.config import load_alerts
    from collector.host.notify.sender import notify

    report = notify(lake, load_alerts())
    return {"sent": report.sent, "waiting": report.waiting, "dead": report.dead, "lines": list(report.lines)}


def answer(arguments: argparse.Namespace) -> dict[str, Any]:
    """The document of a verb."""
    if arguments.verb in ("open", "make"):
        return open_store(arguments.store, arguments.policy, make=arguments.verb == "make")
    from collector.host.policies import load_policy
    from store.lake.lake import Lake

    lake, policy = Lake.open(arguments.store), load_policy(arguments.policy)
    match arguments.verb:
        case "judge":
            return judge_runs(lake, policy, run_id=arguments.run_id, device_unit=arguments.device_unit)
        case "take":
            request, unit, actor = arguments.request_id, arguments.device_unit, arguments.actor
            return take(lake, policy, request_id=request, device_unit=unit, actor=actor)
        case _:
            return tell(lake)


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="collector.host.night", description=__doc__)
    parser.add_argument("verb", choices=["open", "make", "judge", "take", "notify"])
    parser.add_argument("--store", required=True)
    parser.add_argument("--policy", default="default")
    for name in ("--run-id", "--device-unit", "--request-id", "--actor"):
        parser.add_argument(name, default="")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    try:
        document = answer(parse(argv))
    except Exception as error:
        return report(error)
    sys.stdout.write(json.dumps(document, default=str) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
