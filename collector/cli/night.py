"""The host's part of a run, in a process of its own: the parent stays small, and a node without [host] still runs.

`python -m collector.host.night VERB` answers with one JSON document on stdout; an error is one line on stderr and an
exit code of DESIGN's.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from collector.errors import ENVIRONMENT, USAGE, HostFailedError, UsageError

if TYPE_CHECKING:
    from collector.node.run import Reporter, RunOptions, RunOutcome

HOST_LIMIT_S = 1800.0
CONFIRM_REPLICATES = 5
"""Of a confirm run whose request names none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What the judge said of a run."""

    verdicts: list[dict[str, Any]] = field(default_factory=list)
    """One a judged series: case_id, arm, metric, tier, against, status, code, sentence, change."""
    findings: list[dict[str, Any]] = field(default_factory=list)
    """Open findings: finding_id, state, finding_class, title, shape, change, sentence, case_ids."""
    requests: list[dict[str, Any]] = field(default_factory=list)
    """Confirm requests for this device that wait: request_id, case_id."""
    notices: list[str] = field(default_factory=list)
    confirm_run_ids: list[str] = field(default_factory=list)
    reason: str = ""
    """Why there is no judgement."""

    @property
    def confirmed(self) -> list[dict[str, Any]]:
        """Confirmed slow-downs that nobody has accepted."""
        return [f for f in self.findings if f["state"] in ("confirmed", "reopened") and f["direction"] > 0]


class HostProcess:
    """Calls the host's verbs for one store and policy."""

    def __init__(self, store: str, policy: str) -> None:
        self.store = store
        self.policy = policy
        self.missing = ""
        """Why there is no host here; empty where there is one."""

    def open_store(self) -> None:
        """Find the store to be one; raises UsageError where it is something else."""
        self.call("open")

    def make_store(self) -> bool:
        """Find the store to be one, or make it; raises UsageError where it is something else.

        Returns whether it has no run yet: whoever meant another store must be told.
        """
        return bool(self.call("make").get("new"))

    def call(self, verb: str, **arguments: str) -> dict[str, Any]:
        """The document that a verb answers with; empty where the host's packages are not installed."""
        if self.missing:
            return {}
        command = [sys.executable, "-m", "collector.host.night", verb, "--store", self.store, "--policy", self.policy]
        for name, value in arguments.items():
            command += [f"--{name.replace('_', '-')}", value]
        done = subprocess.run(command, capture_output=True, text=True, timeout=HOST_LIMIT_S, check=False)
        if done.returncode == 0:
            document: dict[str, Any] = json.loads(done.stdout)
            return document
        line = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        if done.returncode == ENVIRONMENT:
            self.missing = line
            return {}
        if done.returncode == USAGE:
            raise UsageError(line)
        raise HostFailedError(f"judging failed with exit code {done.returncode}: {line}; the run is safe in the store")


def judge_run(host: HostProcess, outcome: RunOutcome) -> Judgement:
    """Ingest and judge; the run itself is in the inbox already."""
    document = host.call("judge", run_id=outcome.run_id, device_unit=outcome.identity.unit)
    if not document:
        return Judgement(reason=f"not judged: {host.missing}")
    return Judgement(**document)


class Confirmation:
    """Answers open requests for a device: fresh processes, more of them, the suspected case only."""

    def __init__(self, host: HostProcess, options: RunOptions, unit: str, reporter: Reporter) -> None:
        self.host = host
        self.options = options
        self.unit = unit
        self.reporter = reporter

    def answer_all(self, judgement: Judgement, *, only: set[str] | None = None) -> Judgement:
        """Take one request after the other, those of the cases in `only` where it is given, until none waits."""
        asked: set[str] = set()
        while True:
            waiting = [r for r in judgement.requests if r["request_id"] not in asked]
            waiting = [r for r in waiting if only is None or r["case_id"] in only]
            if not waiting:
                return judgement
            asked.add(waiting[0]["request_id"])
            judgement = self._answer(judgement, waiting[0])

    def _answer(self, judgement: Judgement, request: dict[str, Any]) -> Judgement:
        from collector.cli.run import keep
        from collector.node.run import run_suite
        from store.bundle.schemas import RunKind

        name, actor = request["request_id"], platform.node()
        if not self.host.call("take", request_id=name, device_unit=self.unit, actor=actor).get("taken"):
            return judgement
        again = replace(
            self.options,
            suite=self._suite_of(request),
            cases=(request["case_id"],),
            kind=RunKind.CONFIRM,
            confirms=name,
            replicates=request["replicates"] or CONFIRM_REPLICATES,
        )
        second = run_suite(again, self.reporter)
        if waits := keep(second, self.host.store):
            return replace(judgement, notices=[*judgement.notices, waits])
        document = self.host.call("judge", run_id=second.run_id, device_unit=self.unit)
        return replace(
            judgement,
            findings=merged(judgement.findings, document["findings"]),
            requests=document["requests"],
            notices=[*judgement.notices, *document["notices"]],
            confirm_run_ids=[*judgement.confirm_run_ids, second.run_id],
        )

    def _suite_of(self, request: dict[str, Any]) -> str:
        """The shipped suite that the request names; a suite of the user's own is the one this command was given."""
        from bench_suite.suite import suite_names

        name: str = request["suite"]
        return name if name in suite_names() else self.options.suite


def merged(before: list[dict[str, Any]], now: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The findings as they are now, with those that have been closed since."""
    newest = {f["finding_id"]: f for f in [*before, *now]}
    return list(newest.values())


def tell(host: HostProcess) -> dict[str, Any]:
    """Send the alerts that wait, where a route is configured."""
    return host.call("notify")
