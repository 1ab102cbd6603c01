"""The code behind a finding's first series in its last good and its first bad run.

The runs keep a hash of a candidate's sources. Where `collector suite static --store` compiled both revisions ahead of
time, the binaries themselves speak first: another source may well be the same machine code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace

from collector.host.run_verdicts import RunVerdicts
from detection.classify import Cause, CodeIdentity, alternatives, reconsider
from detection.findings import EventKind, Facts, FindingEvent, make_event
from store.lake.lake import Lake

_CODE = """
    SELECT run_id, code_sha256, configuration FROM results
    WHERE subject_id = $subject AND run_id IN (SELECT unnest($runs))
"""
_BINARIES = """
    SELECT revision, r.case_id, r.device_model AS chip, r.static_binary_sha256 AS sha256
    FROM results r JOIN runs USING (run_id)
    WHERE r.device_kind = 'static' AND r.operator = $operator AND revision IN (SELECT unnest($revisions))
      AND r.static_binary_sha256 IS NOT NULL
    QUALIFY row_number() OVER (PARTITION BY revision, r.case_id, chip ORDER BY r.measured_at DESC) = 1
"""


def with_code(lake: Lake, event: FindingEvent, judged: RunVerdicts) -> FindingEvent:
    """The event with its cause reconsidered, and what else could have been it. Only where the finding begins."""
    facts = event.facts
    if event.event not in (EventKind.SUSPECTED, EventKind.REOPENED) or not facts.case_id:
        return event
    cause = Cause(finding_class=facts.finding_class, sentence=facts.cause)
    differing = facts.differing
    if facts.last_good_run_id is not None and facts.arm.startswith("candidate"):
        runs = [facts.last_good_run_id, facts.since_run_id]
        rows = lake.sql(_CODE, {"subject": facts.subject_id, "runs": runs}).to_pylist()
        known = {r["run_id"]: CodeIdentity(sources=r["code_sha256"], configuration=r["configuration"]) for r in rows}
        good, bad = (known.get(run, CodeIdentity()) for run in runs)
        good, bad = _compiled(lake, facts, judged, good, bad)
        cause, differing = reconsider(cause, differing, good, bad, metric=facts.metric)
    same = [v for v in judged.verdicts if v.metric is facts.metric]
    others = alternatives(
        cause,
        differing,
        moved=len({v.subject.operator for v in same if v.moved}),
        measured=len({v.subject.operator for v in same}),
    )
    changed = replace(
        facts,
        finding_class=cause.finding_class,
        cause=cause.sentence,
        differing=differing,
        evidence=replace(facts.evidence, other_causes=others),
    )
    return (
        event
        if changed == facts
        else make_event(
            event.event, changed, at=event.at, as_of_seq=event.as_of_seq, run_id=event.run_id, actor=event.actor
        )
    )


def _compiled(
    lake: Lake, facts: Facts, judged: RunVerdicts, good: CodeIdentity, bad: CodeIdentity
) -> tuple[CodeIdentity, CodeIdentity]:
    """With the binaries of both revisions, where both were compiled."""
    revisions = [facts.revision_good, facts.revision_bad]
    own = facts.arm == "candidate" and judged.run.device_kind != "cpu"
    if not own or None in revisions or revisions[0] == revisions[1]:
        return good, bad
    rows = lake.sql(_BINARIES, {"operator": facts.operator, "revisions": revisions}).to_pylist()
    binaries = [{(r["case_id"], r["chip"]): r["sha256"] for r in rows if r["revision"] == rev} for rev in revisions]
    codes = common_binaries(*binaries)
    if codes is None:
        return good, bad
    return replace(good, binary=codes[0]), replace(bad, binary=codes[1])


def common_binaries(good: Mapping[tuple[str, str], str], bad: Mapping[tuple[str, str], str]) -> tuple[str, str] | None:
    """One hash for each side over the kernels and chips that both have: equal where every binary is. None where they
    share none."""
    shared = sorted(good.keys() & bad.keys())
    if not shared:
        return None
    first, second = (hashlib.sha256("".join(side[k] for k in shared).encode()).hexdigest() for side in (good, bad))
    return first, second
